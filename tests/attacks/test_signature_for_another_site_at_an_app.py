"""An agent signs for a site of the attacker's, who passes the request on to an app under that site's name."""

import http.client
from urllib.parse import urlsplit

from callgate.sdk import sign
from callgate.sdk.agent_keys import AgentKey
from support.registry import requirement
from support.signed_site import signed_site
from support.table import rows

EVIL = "http://evil.example/echo"


def passed_on(origin, headers, hosts, target="/echo"):
    """Status and answer of a request with these Host lines, as no honest client would send it."""
    connection = http.client.HTTPConnection(urlsplit(origin).netloc, timeout=20)
    try:
        connection.putrequest("POST", target, skip_host=True)
        for host in hosts:
            connection.putheader("Host", host)
        for name, value in {**headers, "Content-Length": "1"}.items():
            connection.putheader(name, value)
        connection.endheaders(b"x")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@requirement("WB-085")
@rows("more", [[], ["X-Forwarded-Host"], ["Forwarded"]])
@rows("hosts", [["evil.example"], ["EVIL.example"], ["evil.example:80"], ["OWN"]], ids=lambda hosts: hosts[0])
def test_a_name_in_the_request_is_not_believed(hosts, more):
    key = AgentKey.generate()
    with signed_site(key) as origin:
        own = urlsplit(origin).netloc
        made = sign.signed_headers(key.signer(), "POST", EVIL, b"x")
        made |= dict.fromkeys(more, "host=evil.example" if "Forwarded" in more else "evil.example")
        status, answer = passed_on(origin, made, [own if host == "OWN" else host for host in hosts])
        assert (status, "signature_invalid" in answer) == (401, True)
        # The same request in the app's own name is let in: it is the name that was wrong.
        made = sign.signed_headers(key.signer(), "POST", f"{origin}/echo", b"x")
        assert passed_on(origin, made, [own])[0] == 200


@requirement("WB-085")
def test_nor_is_a_whole_address_in_the_request_line():
    key = AgentKey.generate()
    with signed_site(key) as origin:
        made = sign.signed_headers(key.signer(), "POST", EVIL, b"x")
        status, _ = passed_on(origin, made, ["evil.example"], target=EVIL)
        assert status in (400, 401)

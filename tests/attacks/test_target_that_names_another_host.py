"""A request names one host in its target and another in Host, or hides one in a user or behind a fragment: whoever guards
or signs must not read another host than the one that is meant (RFC 9112 §3.2.2)."""

import json

from support.table import rows

BODY = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "arguments": {}}}
).encode()
PATH = "/servers/one/mcp"


def head(target, host):
    fields = [f"POST {target} HTTP/1.1", *([] if host is None else [f"Host: {host}"])]
    fields += ["Content-Type: application/json", "Accept: application/json, text/event-stream"]
    fields += [f"Content-Length: {len(BODY)}", "Connection: close"]
    return "\r\n".join([*fields, "", ""]).encode() + BODY


def sent(target, where, host):
    answer, bodies = target.raw(head(where, host))
    return int(answer.split(b" ", 2)[1]), answer, bodies


@rows(
    ("form", "host", "status", "reason"),
    [
        ("http://evil.example", "OWN", 403, "host_not_allowed"),
        ("https://evil.example:1", "OWN", 403, "host_not_allowed"),
        ("http://user@OWN", "OWN", 400, "invalid_request"),
        ("http://OWN@evil.example", "OWN", 400, "invalid_request"),
        ("ftp://OWN", "OWN", 400, "invalid_request"),
        ("http://", "OWN", 400, "invalid_request"),
    ],
)
def test_it_goes_by_the_host_of_the_target(target, form, host, status, reason):
    own = f"127.0.0.1:{target.port}"
    got, answer, bodies = sent(target, form.replace("OWN", own) + PATH, host.replace("OWN", own))
    assert (got, bodies) == (status, []), answer
    assert reason.encode() in answer


def test_a_fragment_is_never_sent(target):
    own = f"127.0.0.1:{target.port}"
    for where in (f"{PATH}#x", f"{PATH}?a#b", f"http://{own}{PATH}#x", f"http://{own}#{PATH}"):
        got, answer, bodies = sent(target, where, own)
        assert (got, bodies) == (400, []), answer


def test_an_honest_target_in_absolute_form_is_served(target):
    own = f"127.0.0.1:{target.port}"
    for host in (own, "evil.example", None):
        got, answer, bodies = sent(target, f"http://{own}{PATH}", host)
        assert (got, bodies) == (200, [BODY]), answer

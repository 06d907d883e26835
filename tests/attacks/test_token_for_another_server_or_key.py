"""An access token for one server is used at another, or one that is bound to a key by whoever stole it."""

import json
import time

import pytest

from support.agents_gate import INSIDE, call, reason, site, web
from support.callers import Clock, Issuer
from support.raw import ask

GATE = "https://gate.example"
PATH = "/.well-known/oauth-protected-resource"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    with web(folder) as pages:
        issuer = Issuer(pages.url, Clock(time.time()))
        pages.pages["/jwks"] = issuer.documents[f"{pages.url}/jwks"]
        section = {
            "mode": "required",
            "external_url": GATE,
            "oauth": {"issuers": {pages.url: f"{pages.url}/jwks"}},
            "signatures": {"allow_addresses": INSIDE, "enabled": True},
        }
        with site(folder, pages.env, agents=section) as gateway:
            yield gateway, issuer


def send(running, server="one", headers=None, **claims):
    gateway, issuer = running
    sent = {"Authorization": f"Bearer {issuer.access(**{'aud': GATE, **claims})}"} | (headers or {})
    return gateway.send(None, call("read"), server=server, headers=sent)


@pytest.mark.parametrize("bound", [{"jkt": "x" * 43}, {"x5t#S256": "x" * 43}, {"jwk": {}}, {}, "odd"])
def test_a_token_that_is_bound_to_a_key(running, bound):
    before = len(running[0].got())
    refused = send(running, cnf=bound)
    assert reason(refused) == (401, "credentials_invalid")
    # Nor with something that looks like its proof.
    assert reason(send(running, headers={"DPoP": "e30.e30.e30"}, cnf=bound)) == (401, "credentials_invalid")
    assert len(running[0].got()) == before
    assert reason(send(running)) == (200, "")


def test_a_token_for_one_server_at_another(running):
    for server in ("one", "two"):
        own = f"{GATE}/servers/{server}/mcp"
        assert reason(send(running, server, aud=own)) == (200, "")
        other = "two" if server == "one" else "one"
        assert reason(send(running, other, aud=own)) == (401, "credentials_invalid")


def test_each_server_says_how_to_get_in(running):
    gateway, issuer = running
    for server in ("one", "two"):
        nothing = gateway.send(None, call("read"), server=server)
        told = nothing.headers.get_all("WWW-Authenticate")
        assert f'resource_metadata="{GATE}{PATH}/servers/{server}/mcp"' in told[0]
        assert told[1:] == ['Signature realm="callgate"']
        assert nothing.header("Accept-Signature") == 'sig1=("@authority");created;expires;tag="web-bot-auth"'
        found = json.loads(ask(f"{gateway.gateway.address}{PATH}/servers/{server}/mcp", None, {}, "GET").body)
        assert found["resource"] == f"{GATE}/servers/{server}/mcp"
        assert found["authorization_servers"] == [issuer.url]
    # A path that nobody configured is not repeated.
    json_body = {"Content-Type": "application/json"}
    odd = ask(f"{gateway.gateway.address}/servers/x%0d%0aevil:1/mcp", call("read"), json_body)
    assert "evil" not in str(odd.headers)

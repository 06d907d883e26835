"""Callers that prove who they are by keys and tokens, for whom agents act, and a gateway that others can reach."""

import json
import time

import pytest

from callgate.agents.signing import Signer
from support.agents_gate import INSIDE, PLAIN, Site, call, known, reason, signer, site, web
from support.callers import Agent, Clock, Issuer
from support.everything import everything_argv
from support.fork_server import CALLGATE, run
from support.gateway import serving, write_config
from support.hostile import until
from support.raw import ask, json_answer
from support.records import ask as operator
from support.records import calls_of
from support.registry import requirement
from support.table import rows

SHARED = b"Mcp-Session-Id: everybody"


def get(running, path):
    return ask(f"{running.gateway.address}{path}", None, {}, "GET")


# ---- keys and tokens ----


def test_api_keys_name_agents_and_stay_with_the_gateway(tmp_path):
    section = {
        "mode": "required",
        "api_keys": {"enabled": True},
        "known": {"reports": {"allow_tools": ["read"]}},
    }
    with site(tmp_path, agents=section, behind={"forward_authorization": True}) as running:
        key = running.api_key("reports")
        sent = {"Authorization": f"Bearer {key}"}
        assert reason(running.send(None, call("read"), headers=sent)) == (200, "")
        got = running.got()[-1]
        assert got.header("authorization") == []
        assert got.header("callgate-agent") == [b"reports"]
        assert got.header("callgate-agent-source") == [b"api-key"]
        assert reason(running.send(None, call("write"), headers=sent)) == (403, "tool_denied")
        nothing = running.send(None, call("read"))
        assert reason(nothing) == (401, "credentials_required")
        assert nothing.header("WWW-Authenticate") == 'Bearer realm="callgate"'
        wrong = {"Authorization": f"Bearer {key[:-1]}{'A' if key[-1] != 'A' else 'B'}"}
        assert reason(running.send(None, call("read"), headers=wrong)) == (401, "credentials_invalid")
        other = {"Authorization": "Bearer eyJhbGciOiJub25lIn0.e30."}
        assert reason(running.send(None, call("read"), headers=other)) == (401, "credentials_invalid")
        # A signature is no way in here, though its key would be found.
        assert reason(running.send(signer(), call("read"))) == (401, "credentials_required")
        assert key not in "\n".join(running.gateway.lines)


def test_a_token_for_the_server_behind_is_not_taken_for_ours(tmp_path):
    with site(tmp_path, behind={"forward_authorization": True}) as running:
        sent = {"Authorization": "Bearer for-the-server"}
        assert reason(running.send(None, call("read"), headers=sent)) == (200, "")
        assert running.got()[-1].header("authorization") == [b"Bearer for-the-server"]
        wrong = {"Authorization": f"Bearer cgk_{'0' * 12}_{'A' * 43}"}
        assert reason(running.send(None, call("read"), headers=wrong)) == (401, "credentials_invalid")


def test_tokens_of_an_issuer_that_is_trusted(tmp_path):
    with web(tmp_path) as pages:
        issuer = Issuer(pages.url, Clock(time.time()))
        pages.pages["/jwks"] = issuer.documents[f"{pages.url}/jwks"]
        gate = "https://gate.example"
        section = {
            "mode": "required",
            "external_url": gate,
            "oauth": {"issuers": {pages.url: f"{pages.url}/jwks"}, "scopes": ["tools"]},
            "signatures": {"allow_addresses": INSIDE},
            "known": {"carol": {"subject": f"{pages.url}#carol", "allow_tools": ["read"]}},
        }
        with site(tmp_path, pages.env, agents=section) as running:

            def send(tool, **claims):
                token = issuer.access(**{"aud": gate, "scope": "tools", **claims})
                return running.send(None, call(tool), headers={"Authorization": f"Bearer {token}"})

            assert reason(send("read")) == (200, "")
            assert running.got()[-1].header("callgate-agent") == [b"carol"]
            assert running.got()[-1].header("callgate-agent-source") == [b"oauth"]
            assert reason(send("write")) == (403, "tool_denied")
            assert reason(send("write", sub="dave")) == (200, "")
            elsewhere = send("read", aud="https://other.example")
            assert reason(elsewhere) == (401, "credentials_invalid")
            assert 'error="invalid_token"' in (elsewhere.header("WWW-Authenticate") or "")
            assert reason(send("read", scope="other")) == (403, "credentials_invalid")
            nothing = running.send(None, call("read"))
            assert reason(nothing) == (401, "credentials_required")
            where = f'resource_metadata="{gate}/.well-known/oauth-protected-resource/servers/one/mcp"'
            assert where in (nothing.header("WWW-Authenticate") or "")
            found = get(running, "/.well-known/oauth-protected-resource")
            assert json.loads(found.body) == {
                "resource": gate,
                "authorization_servers": [pages.url],
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["tools"],
            }


# ---- on whose behalf ----


@requirement("WB-081", "WB-082", "WB-083")
def test_kya_tokens_that_are_required(tmp_path):
    with web(tmp_path) as pages:
        clock = Clock(time.time())
        agent = Agent(clock)
        by = Signer(agent.private)
        issuer = Issuer(pages.url, clock)
        section = {
            "mode": "required",
            "known": {"shopper": known(by, deny_tools=["never"])},
            "kya": {"mode": "required", "issuers": {pages.url: f"{pages.url}/jwks"}, "audience": "seller-1"},
            "signatures": {"allow_addresses": INSIDE},
        }
        with site(tmp_path, pages.env, agents=section) as running:
            assert reason(running.send(by, call("buy"))) == (401, "kya_required")
            assert reason(running.send(by, PLAIN)) == (401, "kya_required")
            assert reason(running.send(by, call("never"))) == (403, "tool_denied")
            foreign = {"KYAPay-Token": issuer.kya(agent, aud="seller-2")}
            assert reason(running.send(by, call("buy"), headers=foreign)) == (401, "kya_invalid")
            unfetched = {"KYAPay-Token": issuer.kya(agent, jti="early")}
            assert reason(running.send(by, call("buy"), headers=unfetched)) == (500, "kya_invalid")
            assert running.got() == []
        pages.pages["/jwks"] = issuer.documents[f"{pages.url}/jwks"]
        with site(tmp_path, pages.env, agents=section) as running:
            token = issuer.kya(agent)
            assert reason(running.send(by, call("buy", mark="for-whom"), headers={"KYAPay-Token": token})) == (200, "")
            assert running.got()[-1].header("kyapay-token") == []
            (found,) = [one["decision"] for one in calls_of(running.gateway) if "for-whom" in json.dumps(one)]
            assert found["caller"]["on behalf of"] == f"{pages.url}#buyer-7"
            assert token not in json.dumps(found) + "\n".join(running.gateway.lines)
            assert reason(running.send(by, call("buy"), headers={"KYAPay-Token": token})) == (401, "kya_invalid")


# ---- a gateway that others can reach ----

# RFC 8037, appendix A
PRINTED = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
OUTSIDE = {"listen": "0.0.0.0:0", "allowed_hosts": ["127.0.0.1"]}


@requirement("WB-027", "WB-036")
@rows(
    ("sections", "told"),
    [
        ({"gateway": OUTSIDE}, "nothing here tells who calls"),
        ({"gateway": OUTSIDE, "agents": {"signatures": {"max_window_seconds": 60}}}, "nothing here tells who calls"),
        (
            {"gateway": OUTSIDE, "agents": {"mode": "off", "api_keys": {"enabled": True}}},
            "which have to say who they are",
        ),
        (
            {"agents": {"default": {"allow_tools": ["a"]}, "signatures": {"content_digest": "optional"}}},
            "rules name tools",
        ),
        ({"agents": {"known": {"crm": {"allow_tools": ["a"]}}}}, "nobody can be recognised as this agent"),
        ({"agents": {"known": {"crm": {"jwk": PRINTED}}}}, "printed in a specification"),
        ({"agents": {"known": {"crm": {"jwk": PRINTED | {"x": "AA"}}}}}, "agent 'crm'"),
    ],
)
def test_a_gateway_that_would_be_open_does_not_start(tmp_path, sections, told):
    config = write_config(tmp_path, {"one": {"url": "http://127.0.0.1:1/mcp"}}, **sections)
    done = run([CALLGATE, "serve", "-c", str(config)])
    assert done.returncode != 0
    assert told in " ".join(done.stderr.split())


def test_beyond_loopback_everybody_says_who_they_are_whatever_a_new_configuration_says(tmp_path):
    section = {"api_keys": {"enabled": True}}
    with site(tmp_path, gateway=OUTSIDE, agents=section) as running:
        sent = {"Authorization": f"Bearer {running.api_key('reports')}"}
        running.gateway.address = f"http://127.0.0.1:{running.gateway.port}"
        assert reason(running.send(None, call("read"))) == (401, "credentials_required")
        assert reason(running.send(None, call("read"), headers=sent)) == (200, "")
        # Nobody is let in by a directory of their own, as on loopback.
        assert reason(running.send(signer(), call("read"))) == (401, "credentials_required")
        servers = {name: {"url": server.url} for name, server in running.servers.items()}
        write_config(running.gateway.config.parent, servers, agents={"mode": "off"})
        running.gateway.wait_for("restart needed")
        assert reason(running.send(None, call("read"))) == (401, "credentials_required")
        assert reason(running.send(None, call("read"), headers=sent)) == (200, "")


@requirement("WB-089")
def test_the_switch_is_first_whoever_calls_and_goes_off_again(tmp_path):
    by = signer()
    with site(tmp_path, agents={"mode": "required", "known": {"by": known(by)}}) as running:
        assert reason(running.send(by, call("read"))) == (200, "")
        operator(running.gateway, "block-all", "on")
        until(lambda: running.send(by, call("read")).status != 200, "the switch is on")
        before = len(running.got())
        for sender in (by, None, signer()):
            assert reason(running.send(sender, call("read"))) == (403, "blocked_by_policy")
        assert len(running.got()) == before


def test_rules_follow_the_configuration(tmp_path):
    by = signer()
    section = {"mode": "required", "known": {"by": known(by)}}
    with site(tmp_path, agents=section) as running:
        assert reason(running.send(by, call("read"))) == (200, "")
        servers = {name: {"url": server.url} for name, server in running.servers.items()}
        write_config(tmp_path, servers, agents={"mode": "required", "known": {"by": known(by, denied=True)}})
        running.gateway.wait_for("configuration reloaded")
        assert reason(running.send(by, call("read"))) == (403, "agent_denied")


OPENING = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}


@pytest.fixture(scope="module")
def owned(tmp_path_factory, everything):
    directory, owner, thief = tmp_path_factory.mktemp("owned"), signer(), signer()
    section = {"known": {"owner": known(owner), "thief": known(thief)}}
    servers = {"pipe": {"command": everything_argv("stdio", directory)}, "web": {"url": everything.url}}
    # Nobody calls a tool here.
    with serving(directory, servers, reviewed=False, agents=section) as gateway:
        yield Site(gateway, {}), owner, thief


@rows("server", ["pipe", "web"])
def test_a_session_is_its_agents_alone(owned, server):
    running, owner, thief = owned

    def send(by, body, method="POST", **headers):
        raw = None if body is None else json.dumps(body).encode()
        accepts = {"Accept": "text/event-stream"} if method == "GET" else {}
        return running.send(by, raw, server=server, method=method, headers={**headers, **accepts})

    session = {"Mcp-Session-Id": send(owner, OPENING).header("mcp-session-id")}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert send(owner, ping, **session).status == 200
    for by in (thief, None):
        assert reason(send(by, ping, **session)) == (404, "session_unknown")
        assert reason(send(by, None, "GET", **session)) == (404, "session_unknown")
        assert reason(send(by, None, "DELETE", **session)) == (404, "session_unknown")
    assert send(owner, ping, **session).status == 200
    own = {"Mcp-Session-Id": send(thief, OPENING).header("mcp-session-id")}
    assert own != session
    assert send(thief, ping, **own).status == 200


def test_a_session_that_a_server_gives_to_two_agents_is_both_of_theirs(tmp_path):
    one, two, three = signer(), signer(), signer()
    section = {"known": {"one": known(one), "two": known(two), "three": known(three)}}
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    named = {"Mcp-Session-Id": "everybody"}
    with site(tmp_path, agents=section) as running:
        running.servers["one"].script = json_answer(ping_reply := b'{"jsonrpc":"2.0","id":1,"result":{}}', SHARED)
        for by in (one, two):
            assert running.send(by, ping).header("mcp-session-id") == "everybody"
        running.servers["one"].script = json_answer(ping_reply)
        for by in (one, two):
            assert reason(running.send(by, ping, headers=named)) == (200, "")
        assert reason(running.send(three, ping, headers=named)) == (404, "session_unknown")


def test_a_session_named_by_an_agent_that_it_was_not_given_to_stays_whose_it_was(tmp_path):
    by, ping = signer(), b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    named = {"Mcp-Session-Id": "everybody"}
    with site(tmp_path, agents={"known": {"by": known(by)}}) as running:
        # A server that repeats the id of each request with its answer.
        running.servers["one"].script = json_answer(b'{"jsonrpc":"2.0","id":1,"result":{}}', SHARED)
        for sender in (None, by, None):
            assert reason(running.send(sender, ping, headers=named)) == (200, "")

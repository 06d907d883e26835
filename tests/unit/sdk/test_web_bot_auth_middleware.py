"""WebBotAuthMiddleware around an app of anybody's, without the gateway."""

import asyncio
import hashlib
import json

import httpx2
import pytest

from callgate.agents.stage import refusal
from callgate.errors import ConfigError, Reason, Refused
from callgate.sdk import sign
from callgate.sdk.agent_keys import AgentKey
from callgate.sdk.web_bot_auth import (
    AgentPolicy,
    MemoryLimiter,
    ToolPolicy,
    WebBotAuthMiddleware,
    by_environment,
)
from support.registry import requirement
from support.signed_site import application, authenticator, signed_site
from support.table import rows


def called(tool, **arguments):
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


@pytest.fixture(scope="module")
def key():
    return AgentKey.generate()


def post(origin, key, body, **options):
    path = options.pop("path", "/echo")
    with httpx2.Client(auth=sign.Auth(key.signer(), **options.pop("signing", {}))) as client:
        return client.post(origin + path, json=body, **options)


def why(answer):
    return answer.status_code, answer.json()["error"]["data"]["reason"]


@requirement("WB-056", "WB-084")
def test_who_does_not_sign_gets_a_reason_and_the_app_sees_nothing(key):
    with signed_site(key) as origin:
        answer = httpx2.post(f"{origin}/echo", json=called("search"))
        assert why(answer) == (401, "missing_signature_headers")
        assert answer.headers["content-type"] == "application/json"
        assert "sha256" not in answer.text
        # A key that nobody listed.
        assert why(post(origin, AgentKey.generate(), called("search"))) == (401, "unknown_keyid")


@requirement("WB-028", "WB-029")
def test_the_app_gets_the_verified_bytes_and_our_word_for_who_sent_them(key):
    claims = {
        "callgate-agent": "root",
        "Callgate-Agent-Key": "x",
        "callgate_agent": "root",
        "Callgate-Agent-Extra": "1",
    }
    body = b"\x00\xff" * 100_000
    with signed_site(key) as origin, httpx2.Client(auth=sign.Auth(key.signer())) as client:
        got = client.post(f"{origin}/echo", content=body, headers=claims).json()
    assert got["sha256"] == hashlib.sha256(body).hexdigest()
    ours = [pair for pair in got["headers"] if "callgate" in pair[0].replace("_", "-").lower()]
    assert ours == [
        ["callgate-agent", "alice"],
        ["callgate-agent-key", key.thumbprint],
        ["callgate-agent-directory", "static"],
        ["callgate-agent-source", "web-bot-auth"],
        ["callgate-body-verified", "true"],
    ]


@requirement("WB-041", "WB-088")
def test_rules_are_for_the_tool_that_the_body_calls(key):
    rules = {"agents": [AgentPolicy("alice", ToolPolicy(allow=("search", "get_*"), deny=("get_secret",)))]}
    with signed_site(key, **rules) as origin:
        assert post(origin, key, called("search")).json()["tools"] == ["search"]
        assert why(post(origin, key, called("get_secret"))) == (403, "tool_denied")
        assert why(post(origin, key, called("send"))) == (403, "tool_denied")
        assert why(post(origin, key, [called("search"), {**called("send"), "id": 2}])) == (403, "tool_denied")
        assert why(post(origin, key, called("search"), signing={"digest": False})) == (400, "content_digest_required")
        swapped = sign.signed_headers(key.signer(), "POST", f"{origin}/echo", json.dumps(called("search")).encode())
        answer = httpx2.post(f"{origin}/echo", content=json.dumps(called("send")), headers=swapped)
        assert why(answer) == (401, "content_digest_mismatch")


@requirement("WB-042")
def test_an_app_that_speaks_something_else_says_what_is_called(key):
    def first_word(body):
        return body.split(b" ")[0].decode()

    options = {"default_policy": ToolPolicy(allow=("look",)), "extract_tools": first_word}
    with signed_site(key, **options) as origin, httpx2.Client(auth=sign.Auth(key.signer())) as client:
        assert client.post(f"{origin}/echo", content=b"look here").json()["tools"] == ["look"]
        assert why(client.post(f"{origin}/echo", content=b"take it")) == (403, "tool_denied")


@requirement("WB-066", "WB-085", "WB-086")
def test_a_captured_request_is_good_for_nothing_else(key):
    with signed_site(key) as origin:
        made = sign.signed_headers(key.signer(), "POST", f"{origin}/echo", b"x")
        assert httpx2.post(f"{origin}/echo", content=b"x", headers=made).status_code == 200
        assert why(httpx2.post(f"{origin}/echo", content=b"x", headers=made)) == (401, "nonce_replay")
        for other in ("/admin", "/echo?a=1"):
            made = sign.signed_headers(key.signer(), "POST", f"{origin}/echo", b"x")
            assert why(httpx2.post(origin + other, content=b"x", headers=made)) == (401, "signature_invalid")
        # For another host, with that host's name in Host.
        made = sign.signed_headers(key.signer(), "POST", "http://other.example/echo", b"x")
        answer = httpx2.post(f"{origin}/echo", content=b"x", headers={**made, "Host": "other.example"})
        assert why(answer) == (401, "signature_invalid")


def test_several_names_of_one_app(key):
    origins = ["https://api.example", "https://www.example"]
    with signed_site(key, origins=origins) as origin:
        for name in ("api.example", "www.example"):
            made = sign.signed_headers(key.signer(), "GET", f"https://{name}/echo")
            answer = httpx2.get(f"{origin}/echo", headers={**made, "Host": name})
            assert (answer.status_code, answer.json()["agent"]) == (200, "alice")
            # A proxy in front may have put its own name there; the first one of ours is meant then.
            made = sign.signed_headers(key.signer(), "GET", f"https://{name}/echo")
            answer = httpx2.get(f"{origin}/echo", headers={**made, "Host": "inside"})
            assert (answer.status_code == 200) == (name == "api.example")


def test_open_paths_are_for_everybody_and_name_nobody(key):
    with signed_site(key, middleware={"open_paths": ["/healthz"]}) as origin:
        answer = httpx2.get(f"{origin}/healthz", headers={"Callgate-Agent": "root"})
        assert answer.status_code == 200
        assert not [name for name, _ in answer.json()["headers"] if name.startswith("callgate")]
        for path in ("/healthz/", "/healthz/../echo", "//healthz", "/healthz%00", "/echo?/healthz"):
            assert httpx2.get(origin + path).status_code == 401, path


@requirement("WB-089")
def test_the_switch_is_turned_without_a_restart(key):
    environ = {}
    with signed_site(key, block_all=by_environment(environ=environ)) as origin:
        assert post(origin, key, {}).status_code == 200
        environ["CALLGATE_BLOCK_ALL"] = "1"
        assert why(post(origin, key, {})) == (403, "blocked_by_policy")


@requirement("WB-080")
def test_a_budget_is_told_to_the_agent(key):
    policy = ToolPolicy(per_minute=1, burst=2)
    with signed_site(key, default_policy=policy, rate_limiter=MemoryLimiter()) as origin:
        answers = [post(origin, key, called("search")) for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert why(answers[2])[1] == "rate_limited"
    assert "retry-after" in answers[2].headers
    assert any(name.startswith("ratelimit") for name in answers[0].headers)


def test_bodies_are_bounded(key):
    with signed_site(key, middleware={"max_body": 1000}) as origin:
        assert httpx2.post(f"{origin}/echo", content=b"x" * 1001).status_code == 413
        assert httpx2.post(f"{origin}/echo", content=(b"x" * 600 for _ in range(2))).status_code == 413
        assert post(origin, key, "x" * 900).status_code == 200


# -- what no client of ours sends ----------------------------------------------------------------------------------


class Peer:
    """An ASGI server's side, by hand."""

    def __init__(self, *parts, kind="http", **scope):
        self.sent = []
        self.parts = list(parts)
        self.scope = {
            "type": kind,
            "method": "POST",
            "scheme": "http",
            "path": "/echo",
            "raw_path": b"/echo",
            "query_string": b"",
            "headers": [(b"host", b"api.example")],
            **scope,
        }

    async def receive(self):
        if not self.parts:
            await asyncio.Event().wait()
        return self.parts.pop(0)

    async def send(self, message):
        self.sent.append(message)


def part(body=b"", *, more=False):
    return {"type": "http.request", "body": body, "more_body": more}


def around(key, app=None, **options):
    return WebBotAuthMiddleware(
        app or application(), authenticator(key), **{"origins": "http://api.example", **options}
    )


async def never(scope, receive, send):
    raise AssertionError("the app was reached")


async def test_a_websocket_is_not_let_in(key):
    peer = Peer(kind="websocket")
    await around(key, never)(peer.scope, peer.receive, peer.send)
    assert peer.sent == [{"type": "websocket.close", "code": 1008}]


async def test_a_trickle_ends(key):
    peer = Peer(part(b"x", more=True))
    await around(key, never, body_seconds=0.01)(peer.scope, peer.receive, peer.send)
    assert peer.sent[0]["status"] == Reason.BODY_TIMEOUT.status


async def test_who_leaves_before_the_end_is_not_answered(key):
    peer = Peer(part(b"x", more=True), {"type": "http.disconnect"})
    await around(key, never)(peer.scope, peer.receive, peer.send)
    assert peer.sent == []


async def test_the_app_hears_when_the_client_leaves(key):
    heard = []

    async def app(scope, receive, send):
        heard.extend([await receive(), await receive()])
        assert scope["state"]["agent"].ok
        assert scope["state"]["kept"] == 1

    made = sign.signed_headers(key.signer(), "POST", "http://api.example/echo", b"one")
    headers = [(name.lower().encode(), value.encode()) for name, value in made.items()]
    peer = Peer(part(b"o", more=True), part(b"ne"), {"type": "http.disconnect"}, headers=headers, state={"kept": 1})
    await around(key, app)(peer.scope, peer.receive, peer.send)
    assert heard == [{"type": "http.request", "body": b"one", "more_body": False}, {"type": "http.disconnect"}]
    assert "agent" not in peer.scope["state"]


async def test_a_server_that_does_not_keep_the_raw_path(key):
    reached = []

    async def app(scope, receive, send):
        reached.append(scope["path"])

    made = sign.signed_headers(key.signer(), "POST", "http://api.example/a%20b", b"")
    headers = [(name.lower().encode(), value.encode()) for name, value in made.items()]
    peer = Peer(part(), headers=headers, path="/a b", raw_path=None)
    await around(key, app)(peer.scope, peer.receive, peer.send)
    assert reached == ["/a b"]


async def test_the_lifespan_is_the_apps_own(key):
    kinds = []

    async def app(scope, receive, send):
        kinds.append(scope["type"])

    peer = Peer(kind="lifespan")
    await around(key, app)(peer.scope, peer.receive, peer.send)
    assert kinds == ["lifespan"]


@rows("origins", [[], ["api.example"], ["https://api.example/path"], ["ftp://api.example"]])
def test_an_app_has_to_say_by_which_name_it_is_known(key, origins):
    with pytest.raises(ConfigError):
        around(key, origins=origins)


@requirement("WB-025")
def test_a_refusal_renders_its_own_answer():
    response = refusal(Refused(Reason.WRONG_TAG)).to_response()
    assert (response.status, json.loads(response.body)["error"]["data"]["reason"]) == (401, "wrong_tag")

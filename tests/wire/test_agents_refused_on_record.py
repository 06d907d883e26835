"""A call whose sender is turned away is on record: who it says it is, what it wanted, and why it was refused."""

import contextlib
import json
import socket
import sqlite3

import pytest

from support.agents_crafted import crafted, jwk
from support.agents_gate import PLAIN, call, known, reason, signer, site
from support.hostile import until
from support.records import calls_of
from support.table import rows

CLAIMED = "key (claimed, not verified)"


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    agent = signer()
    agents = {
        "mode": "required",
        "known": {"listed": {"jwk": jwk()}, "slow": known(agent, per_minute=1, burst=1)},
        "api_keys": {"enabled": True},
    }
    with site(tmp_path_factory.mktemp("refused"), agents=agents) as running:
        running.slow = agent
        yield running


def flipped(headers):
    text = headers["signature"]
    return headers | {"signature": text[:6] + ("A" if text[6] != "A" else "B") + text[7:]}


KINDS = {
    "unsigned": (lambda g, b: {}, 401, "missing_signature_headers", "none"),
    "forged": (lambda g, b: flipped(crafted(g, b)), 401, "signature_invalid", "signature"),
    "unknown key": (lambda g, b: crafted(g, b, which=7), 401, "unknown_keyid", "signature"),
    "expired": (lambda g, b: crafted(g, b, ago=61), 401, "signature_expired", "signature"),
    "no nonce": (lambda g, b: crafted(g, b, nonce=None), 400, "missing_required_param", "signature"),
    "garbage": (lambda g, b: crafted(g, b) | {"signature-input": "((("}, 400, "signature_input_malformed", "signature"),
    "a key that is none": (
        lambda g, b: {"Authorization": "Bearer cgk_0123456789ab_" + "a" * 43},
        401,
        "credentials_invalid",
        "API key",
    ),
    "no bearer": (lambda g, b: {"Authorization": "Basic YTpi"}, 401, "credentials_required", "token"),
}


@rows("kind", list(KINDS))
def test_each_kind_of_refusal_is_on_record(gate, kind):
    make, status, why, proof = KINDS[kind]
    # A tool of its own for each, so that its record is found: what is not called is not looked up.
    tool = f"never-{kind.replace(' ', '-')}"
    body = call(tool, password="hunter2", text="hello")
    assert reason(gate.send(None, body, headers=make(gate, body))) == (status, why)
    (found,) = until(lambda: calls_of(gate.gateway, tool), "it is on record")
    decision = found["decision"]
    assert (decision["verdict"], decision["reason"], decision["server"]) == ("refuse", why, "one")
    assert (decision["caller"]["peer"], decision["caller"]["proof"]) == ("127.0.0.1", proof)
    assert decision["detail"]
    assert [check["name"] for check in decision["checks"]] == ["agents"]
    # As the log is configured: what looks like a secret is not kept.
    assert decision["arguments"]["mode"] == "redacted"
    assert decision["arguments"]["value"]["text"] == "hello"
    assert "hunter2" not in json.dumps(found)
    assert "a" * 43 not in json.dumps(found)
    assert "agent" not in decision["caller"]
    assert gate.got() == []


def test_what_a_caller_says_of_itself_is_marked_as_that(gate):
    stranger = signer("https://stranger.example")
    body = call("never-claimed")
    assert gate.send(stranger, body, server="two").status in (401, 403, 502)
    (found,) = until(lambda: calls_of(gate.gateway, "never-claimed"), "it is on record")
    caller = found["decision"]["caller"]
    assert caller[CLAIMED] == stranger.keyid
    assert caller["directory (claimed, not verified)"] == "https://stranger.example"
    key = {"Authorization": "Bearer cgk_0123456789ab_" + "b" * 43}
    assert gate.send(None, call("never-key"), server="two", headers=key).status == 401
    (found,) = until(lambda: calls_of(gate.gateway, "never-key"), "it is on record")
    assert found["decision"]["caller"][CLAIMED] == "0123456789ab"


def test_every_call_of_a_refused_batch_counts(tmp_path):
    with site(tmp_path, agents={"mode": "required", "known": {"listed": {"jwk": jwk()}}}) as running:
        body = call("search", "read", "write")
        assert reason(running.send(None, body, headers=crafted(running, body, which=7)))[1] == "unknown_keyid"
        until(lambda: calls_of(running.gateway), "the first is on record at once")
    # The rest when the window ends, or the gateway.
    first, rest = [one["decision"] for one in calls_of(running.gateway)]
    assert (first["tool"], first.get("repeated")) == ("search", None)
    assert rest["repeated"]["count"] == 2
    assert rest["repeated"]["tools"] == ["read", "write"]


def test_what_is_no_call_leaves_no_record(tmp_path):
    with site(tmp_path, agents={"mode": "required", "known": {"listed": {"jwk": jwk()}}}) as running:
        for body in (PLAIN, b"no json", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'):
            assert running.send(None, body).status == 401
            assert running.send(None, body, headers=crafted(running, body, which=7)).status in (400, 401)
        assert running.send(None, None, method="GET").status == 401
        assert running.send(None, call("search"), server="nobody").status == 401
    assert calls_of(running.gateway) == []


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path):
    """Whoever brings nothing is refused all the same, and on record by what the headers say."""
    with site(tmp_path, agents={"mode": "required", "known": {"listed": {"jwk": jwk()}}}) as running:
        for number, more in enumerate(("Content-Length: 60", "Content-Length: 9000000", "Expect: 100-continue")):
            lines = (
                "POST /servers/one/mcp HTTP/1.1",
                f"Host: 127.0.0.1:{running.gateway.port}",
                "Content-Type: application/json",
                f"Mcp-Name: never-{number}",
                more,
            )
            if "Expect" in more:
                lines += ("Content-Length: 60",)
            with socket.create_connection(("127.0.0.1", running.gateway.port), 30) as sender:
                sender.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
                assert sender.recv(65536).startswith(b"HTTP/1.1 401")
    first, rest = [one["decision"] for one in calls_of(running.gateway)]
    assert (first["tool"], first["reason"]) == ("never-0", "missing_signature_headers")
    assert (rest["repeated"]["count"], rest["repeated"]["tools"]) == (2, ["never-1", "never-2"])


def test_no_answer_waits_for_a_store_that_cannot_be_written(tmp_path):
    with site(tmp_path, agents={"mode": "required", "known": {"listed": {"jwk": jwk()}}}) as running:
        with contextlib.closing(sqlite3.connect(running.gateway.store, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for number in range(20):
                body = call("search", number=number)
                assert reason(running.send(None, body))[1] == "missing_signature_headers"
                assert reason(running.send(None, body, headers=crafted(running, body, which=7)))[1] == "unknown_keyid"
            assert calls_of(running.gateway) == []
            other.execute("ROLLBACK")
        assert len(until(lambda: calls_of(running.gateway), "the first of each is on record")) == 2
        assert running.got() == []
    assert [(one["decision"].get("repeated") or {}).get("count", 1) for one in calls_of(running.gateway)] == [
        1,
        1,
        19,
        19,
    ]


def test_what_the_gate_refuses_is_on_record_call_by_call(gate):
    """A caller who is known and calls too often, and everybody while the kill switch is on."""
    assert reason(gate.send(gate.slow, call("search")))[0] == 200
    for _ in range(2):
        assert reason(gate.send(gate.slow, call("look")))[1] == "rate_limited"
    assert len(until(lambda: calls_of(gate.gateway, "look"), "it is on record")) == 2
    gate.gateway.command("block-all", "on")
    try:
        until(lambda: gate.send(None, call("never-open")).status == 403, "the switch is followed")
        assert reason(gate.send(None, call("never-blocked")))[1] == "blocked_by_policy"
        (found,) = calls_of(gate.gateway, "never-blocked")
        assert found["decision"]["reason"] == "blocked_by_policy"
    finally:
        gate.gateway.command("block-all", "off")

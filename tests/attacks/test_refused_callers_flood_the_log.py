"""Call and be refused, ten thousand times, under one name or under as many: to fill the log and the memory of the gateway,
or to have honest calls lost among the refusals."""

import contextlib
import json
import socket
import time

import pytest

from callgate.app.refusal_recorder import CALLERS_MOST
from support.agents_gate import call, known, reason, signer, site
from support.records import ask, calls_of

forged_calls = pytest.mark.parametrize("calls", [1_000, pytest.param(10_000, marks=pytest.mark.verify)])
HONEST = 20
# An overflow group for each reason and server that was met, and here that is one.
MOST_RECORDS = 2 * (CALLERS_MOST + 1)


@contextlib.contextmanager
def guarded(directory):
    """A gateway that lets in one agent; afterwards, what it has on record is in `records`."""
    agent = signer()
    with site(directory, agents={"mode": "required", "known": {"honest": known(agent)}}) as running:
        running.agent, running.records = agent, []
        yield running
    running.records += calls_of(running.gateway)
    ask(running.gateway, "audit", "verify")


def forged(running, number, keyid):
    """The bytes of a call with a signature that nobody made."""
    now = int(time.time())
    body = call("search", number=number)
    covered = '"@method" "@authority" "@path" "content-digest"'
    terms = f'created={now};expires={now + 60};keyid="{keyid}";nonce="n{number}";tag="web-bot-auth"'
    lines = (
        "POST /servers/one/mcp HTTP/1.1",
        f"Host: 127.0.0.1:{running.gateway.port}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Signature-Input: sig1=({covered});{terms}",
        "Signature: sig1=:" + "A" * 86 + "==:",
        "Content-Digest: sha-256=:" + "A" * 43 + "=:",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def flood(running, calls, keyid_of):
    """Send forged calls as fast as they are answered, honest ones in between."""
    with socket.create_connection(("127.0.0.1", running.gateway.port)) as sender:
        for number in range(calls):
            sender.sendall(forged(running, number, keyid_of(number)))
            answer = b""
            while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
                more = sender.recv(65536)
                assert more, answer
                answer += more
            assert answer.startswith(b"HTTP/1.1 401"), answer
            if number % (calls // HONEST) == 0:
                assert reason(running.send(running.agent, call("read", number=number))) == (200, "")


def check(running, calls):
    """Honest calls are on record one by one, with outcomes; refusals as few records that stand for all of them."""
    refused = [one["decision"] for one in running.records if one["decision"]["verdict"] == "refuse"]
    honest = [one for one in running.records if one["decision"]["verdict"] == "allow"]
    assert [one["decision"]["tool"] for one in honest] == ["read"] * HONEST
    assert all(one["outcome"]["outcome"] == "result" for one in honest)
    assert {one["reason"] for one in refused} == {"unknown_keyid"}
    assert sum(one["repeated"]["count"] if one.get("repeated") else 1 for one in refused) == calls
    # The gateway may have run longer than one window, on a busy machine.
    took = max(one["at"] for one in refused) - min(one["at"] for one in refused)
    return refused, 1 + took // 60_000


@forged_calls
def test_one_caller(tmp_path, calls):
    with guarded(tmp_path) as running:
        flood(running, calls, lambda _number: "somebody")
    refused, windows = check(running, calls)
    assert len(refused) <= 1 + windows
    assert refused[0].get("repeated") is None
    assert refused[0]["arguments"]["value"] == {"number": 0}
    last = refused[-1]["repeated"]
    assert last["first"] <= last["last"] <= refused[-1]["at"]
    assert last["tools"] == ["search"]


@forged_calls
def test_as_many_callers_as_calls(tmp_path, calls):
    with guarded(tmp_path) as running:
        flood(running, calls, lambda number: f"nobody-{number}")
    refused, windows = check(running, calls)
    assert len(refused) <= MOST_RECORDS * windows
    callers = [one["caller"] for one in refused]
    assert sum(one == {"peer": "several", "proof": "several"} for one in callers) >= 2
    assert {"peer": "127.0.0.1", "proof": "signature", "key (claimed, not verified)": "nobody-0"} in callers


@pytest.mark.parametrize("size", [60_000, 1_000_000])
def test_long_messages(tmp_path, size):
    """What a stranger writes takes little room, however much it is."""
    with guarded(tmp_path) as running:
        for number in range(10):
            body = call("s" * 2000, text="x" * size, number=number)
            signed = running.signed(signer(), body)
            assert reason(running.send(None, body, headers=signed)) == (401, "unknown_keyid")
            assert reason(running.send(None, body)) == (401, "missing_signature_headers")
    stored = [json.dumps(one) for one in running.records]
    assert len(stored) == 10 + 2
    assert max(map(len, stored)) < 10_000

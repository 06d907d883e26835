"""The switch is on, and the attacker looks for any message, method or way around it."""

import json
import re
import subprocess
import sys

import pytest

from support.fork_server import CALLGATE, Forked
from support.gateway import serving, write_config
from support.hostile import STDIO_SERVER, assert_works, call_message, hostile_server, post
from support.records import ask
from support.registry import requirement
from support.table import rows

CALL = call_message("rm")
SIGNED = {
    "signature-agent": '"https://agent.example"',
    "signature-input": 'sig1=("@authority");created=1;keyid="k";tag="web-bot-auth"',
    "signature": "sig1=:AAAA:",
}
MESSAGES = {
    "call": CALL,
    "list": b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    "initialize": b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}',
    "ping": b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
    "unknown": b'{"jsonrpc":"2.0","id":1,"method":"dev.example/run","params":{"name":"rm"}}',
    "notification": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    "answer": b'{"jsonrpc":"2.0","id":1,"result":{}}',
    "batch": b"[" + CALL + b"]",
    "batch_of_lists": b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]',
    "batch_of_notifications": b'[{"jsonrpc":"2.0","method":"notifications/initialized"}]',
}
WAYS = {
    **{name: ("POST", body, {}) for name, body in MESSAGES.items()},
    "signed_call": ("POST", CALL, SIGNED),
    "stream": ("GET", b"", {"accept": "text/event-stream"}),
    "resumed_stream": ("GET", b"", {"accept": "text/event-stream", "last-event-id": "1"}),
    "end_of_session": ("DELETE", b"", {"mcp-session-id": "s"}),
}


@pytest.fixture(scope="module")
def upstream():
    with hostile_server() as server:
        yield server


@pytest.fixture(scope="module")
def blocked(tmp_path_factory, upstream):
    """A gateway that let calls through until the switch was turned."""
    servers = {"one": {"url": upstream.url}}
    directory = tmp_path_factory.mktemp("blocked")
    with serving(directory, servers) as gateway:
        assert_works(gateway.port)
    upstream.requests.clear()
    with serving(directory, servers, reviewed=False, policy={"block_all": True}) as gateway:
        yield gateway


@requirement("WB-037", "WB-076")
@rows("way", WAYS)
def test_nothing_of_any_kind_passes_over_http(blocked, upstream, way):
    method, body, headers = WAYS[way]
    got = post(blocked.port, body, headers, method=method)
    assert got.status == 403
    errors = got.json if isinstance(got.json, list) else [got.json]
    assert [one["error"]["data"]["reason"] for one in errors] == ["blocked_by_policy"]
    assert upstream.requests == []


def test_the_store_cannot_turn_off_what_the_configuration_turned_on(blocked, upstream):
    ask(blocked, "block-all", "off")
    assert post(blocked.port, CALL).status == 403
    assert upstream.requests == []


def test_operators_still_see_in(blocked):
    for path in ("/healthz", "/readyz", "/metrics"):
        assert post(blocked.port, b"", method="GET", path=path).status == 200


# What has an answer, so that its end is known.
REQUESTS = [name for name, body in MESSAGES.items() if b'"id":1,"me' in body or b'"id": 1' in body]


def piped(config, script, *messages):
    """What a wrapped server's client reads, having written these."""
    argv = [CALLGATE, "wrap", "--alone", "-c", str(config), "plain", "--", sys.executable, "-I", "-S", "-c", script]
    with Forked(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        out, _ = process.communicate(b"".join(message + b"\n" for message in messages), timeout=60)
    return [json.loads(line) for line in out.splitlines()]


def test_no_request_passes_over_stdio(blocked, tmp_path):
    """The server leaves a mark for every line that reaches it; none does."""
    mark = tmp_path / "mark"
    script = f"import sys\nfor line in sys.stdin: open({str(mark)!r}, 'a').write(line)"
    # Each under an id of its own: they are under way at once.
    messages = [re.sub(rb'"id": ?1', b'"id":%d' % number, MESSAGES[way]) for number, way in enumerate(REQUESTS)]
    replies = piped(blocked.config, script, *messages)
    assert len(replies) == len(REQUESTS)
    for reply in replies:
        for one in reply if isinstance(reply, list) else [reply]:
            assert one["error"]["data"]["reason"] == "blocked_by_policy"
    assert not mark.exists()


def test_without_the_switch_requests_pass_over_stdio(tmp_path):
    """So that the test above can fail. A call would wait for its tool's review."""
    (reply,) = piped(write_config(tmp_path, {}), STDIO_SERVER, MESSAGES["unknown"])
    assert reply["result"]["content"][0]["text"] == "rm"

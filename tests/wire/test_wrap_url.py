"""`callgate wrap NAME --url URL`: a pipe's client is served as a careful HTTP client would serve itself."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Mapping
from typing import Any

import pytest

from support.gateway import approve_listed, wrap_argv
from support.raw import CLOSE, SECONDS, RawServer, Received, json_answer, piped, raw_server, stream_answer
from support.sessions import META, VERSION, call, message, until
from support.table import rows

MODERN = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("wrap")


@pytest.fixture
def behind():
    with raw_server() as server:
        yield server


@pytest.fixture
def wrap(place, behind):
    with piped(wrap_argv(place, "web", url=behind.url)) as process:
        begin(process, behind)
        yield process


@pytest.fixture(scope="module")
def lasting(place):
    """A server and a wrap for all the tests that need no session, one after the other."""
    with raw_server() as server, piped(wrap_argv(place, "web", url=server.url)) as process:
        begin(process, server)
        yield process, server


def request(rpc_id: int | str, meta: Mapping[str, Any] | None = None) -> bytes:
    """No call: what is behind has no tools to review, but where a test gives it one."""
    return message("dev.example/do", {"name": "t"} if meta is None else {"name": "t", "_meta": meta}, rpc_id)


def begin(wrap, behind: RawServer) -> None:
    """On a busy machine a wrap may have read its kill switch too long ago when it begins; it reads it again."""
    behind.script = json_answer(reply("begin", {}))

    def begun() -> bool:
        send(wrap, request("begin"))
        return "result" in heard(wrap)

    until(begun)
    behind.requests.clear()


def send(wrap, *bodies: bytes) -> None:
    wrap.stdin.write(b"".join(body + b"\n" for body in bodies))
    wrap.stdin.flush()


def heard(wrap) -> Any:
    return json.loads(wrap.stdout.readline())


def reply(rpc_id: int | str, result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "result": result}).encode()


def event(data: bytes, name: str = "") -> bytes:
    return (f"id: {name}\n".encode() if name else b"") + b"data: " + data + b"\n\n"


def refuse(status: bytes, body: bytes):
    def script(_request: Received, connection: socket.socket) -> None:
        head = b"HTTP/1.1 %b\r\n%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        connection.sendall(head % (status, CLOSE, len(body)) + body)

    return script


def start_session(wrap, behind: RawServer) -> None:
    """Shake hands; the server gives the session `s 1` and has no stream of its own."""
    behind.script = json_answer(reply(0, {"protocolVersion": "2025-11-25"}), b"Mcp-Session-Id: s 1")
    send(wrap, message("initialize", {"protocolVersion": "2025-11-25"}, 0))
    assert heard(wrap)["id"] == 0
    behind.script = refuse(b"405 Not Allowed", b"")


# ---- headers ----


def test_after_the_handshake_requests_carry_session_and_version(wrap, behind):
    start_session(wrap, behind)
    first = behind.requests[-1]
    assert (first.header("mcp-session-id"), first.header("mcp-protocol-version")) == ([], [])
    behind.script = json_answer(reply(1, {}))
    send(wrap, request(1))
    assert heard(wrap)["result"] == {}
    second = behind.requests[-1]
    assert (second.header("mcp-session-id"), second.header("mcp-protocol-version")) == ([b"s 1"], [b"2025-11-25"])
    wrap.stdin.close()
    assert wrap.wait(SECONDS) == 0
    assert behind.requests[-1].line.startswith(b"DELETE ")
    assert behind.requests[-1].header("mcp-session-id") == [b"s 1"]


def test_modern_requests_carry_the_headers_their_bodies_stand_for(lasting, place):
    wrap, behind = lasting
    schema = {"type": "object", "properties": {"where": {"type": "string", "x-mcp-header": "Region"}}}
    entry = {"name": "t", "description": "A tool.", "inputSchema": schema, "annotations": {"readOnlyHint": True}}
    tools = {"tools": [entry]}

    def script(received: Received, connection: socket.socket) -> None:
        asked = json.loads(received.body)
        result = tools if asked["method"] == "tools/list" else {"content": []}
        json_answer(reply(asked["id"], result))(received, connection)

    behind.script = script
    send(wrap, message("tools/list", {"_meta": MODERN}, 1))
    assert heard(wrap)["id"] == 1
    listed = behind.requests[-1]
    approve_listed(place / "callgate.toml")

    def called() -> bool:
        send(wrap, call("t", 2, MODERN, where="zürich"))
        return "result" in heard(wrap)

    until(called)
    sent = behind.requests[-1]
    assert (listed.header("mcp-method"), listed.header("mcp-name")) == ([b"tools/list"], [])
    assert sent.header("mcp-protocol-version") == [VERSION.encode()]
    assert (sent.header("mcp-method"), sent.header("mcp-name")) == ([b"tools/call"], [b"t"])
    assert sent.header("mcp-param-region") == [b"=?base64?esO8cmljaA==?="]


# ---- answers that are none ----


@rows(
    ("script", "reason"),
    [
        (refuse(b"500 Oops", b"<html>"), "upstream_garbage"),
        (refuse(b"302 Found", b""), "upstream_redirect"),
        (refuse(b"202 Accepted", b""), "upstream_garbage"),
        (json_answer(b"no JSON"), "upstream_garbage"),
        (json_answer(reply(99, {})), "upstream_garbage"),
        (json_answer(b'{"jsonrpc":"2.0","method":"n"}'), "upstream_garbage"),
        (stream_answer(event(reply(99, {}))), "upstream_closed"),
        (lambda _request, _connection: None, "upstream_closed"),
    ],
    ids=["status", "redirect", "nothing", "no JSON", "another's", "a notification", "another's event", "hangs up"],
)
def test_an_answer_that_is_none_becomes_an_error_with_the_requests_id(lasting, script, reason):
    wrap, behind = lasting
    behind.script = script
    send(wrap, request("my-id"))
    answers = [heard(wrap)]
    if reason == "upstream_closed" and "result" in answers[0]:
        answers = [heard(wrap)]
    assert (answers[0]["id"], answers[0]["error"]["data"]["reason"]) == ("my-id", reason)
    behind.script = json_answer(reply(2, {"fine": True}))
    send(wrap, request(2))
    assert heard(wrap)["result"] == {"fine": True}


@rows("identity", ['"id":null,', "", '"id":"server-error",'], ids=["null", "none", "another"])
def test_an_error_of_the_server_keeps_its_words_and_gets_the_requests_id(lasting, identity):
    wrap, behind = lasting
    error = '{"code":-32001,"message":"Sitzung?","data":{"x":1.50}}'
    behind.script = refuse(b"404 Not Found", f'{{{identity}"jsonrpc":"2.0","error":{error}}}'.encode())
    send(wrap, request(5))
    line = wrap.stdout.readline()
    assert json.loads(line)["id"] == 5
    assert error.encode() in line


def test_a_server_that_is_not_there_is_said_so(place):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with piped(wrap_argv(place, "web", url=f"http://127.0.0.1:{port}/mcp")) as wrap:
        send(wrap, request(1))
        assert heard(wrap)["error"]["data"]["reason"] == "upstream_unreachable"


# ---- batches ----


@rows("way", ["an array", "a stream"])
def test_every_request_of_a_batch_is_answered(lasting, way):
    wrap, behind = lasting
    replies = [reply(2, {"n": 2}), reply("one", {"n": 1})]
    behind.script = (
        json_answer(b"[%b , %b]" % (*replies,)) if way == "an array" else stream_answer(*map(event, replies))
    )
    batch = b"[%b,%b,%b]" % (request("one"), message("notifications/n", {}), request(2))
    send(wrap, batch)
    assert [heard(wrap), heard(wrap)] == [json.loads(line) for line in replies]
    assert behind.requests[-1].body == batch


def test_what_a_batch_leaves_unanswered_is_an_error(lasting):
    wrap, behind = lasting
    behind.script = json_answer(b"[%b]" % reply(1, {}))
    send(wrap, b"[%b,%b]" % (request(1), request(2)))
    assert heard(wrap)["result"] == {}
    missing = heard(wrap)
    assert (missing["id"], missing["error"]["data"]["reason"]) == (2, "upstream_garbage")


# ---- streams that are resumed ----


def test_a_server_may_hang_up_as_often_as_it_likes(wrap, behind):
    """2025-11-25: the client polls with Last-Event-ID, after the time that `retry` names, until the reply has come."""
    start_session(wrap, behind)
    visits: list[list[bytes]] = []

    def script(received: Received, connection: socket.socket) -> None:
        visits.append(received.header("last-event-id"))
        number = len(visits)
        last = event(reply(1, {"done": True}), "end")
        some = last if number == 9 else b"retry: 1\n" + event(b'{"jsonrpc":"2.0","method":"n"}', f"e{number}")
        stream_answer(some)(received, connection)

    behind.script = script
    send(wrap, request(1))
    said = [heard(wrap) for _ in range(9)]
    assert said[-1]["result"] == {"done": True}
    assert visits == [[]] + [[f"e{number}".encode()] for number in range(1, 9)]


# ---- cancellation and the end ----


def hang(received: Received, connection: socket.socket) -> None:
    """Begin a stream and wait for the client to leave it."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n")
    while connection.recv(1):
        pass
    left.append(json.loads(received.body)["id"])


left: list[Any] = []


def test_a_modern_cancellation_closes_the_stream_and_sends_nothing(wrap, behind):
    left.clear()
    behind.script = hang
    send(wrap, request(1, MODERN))
    until(lambda: behind.requests)
    send(wrap, message("notifications/cancelled", {"requestId": 1}))
    until(lambda: left == [1])
    assert len(behind.requests) == 1


def test_a_handshake_cancellation_is_sent_and_a_silent_stream_is_closed(wrap, behind):
    left.clear()
    start_session(wrap, behind)

    def script(received: Received, connection: socket.socket) -> None:
        if b"cancelled" in received.body or not received.body:
            refuse(b"202 Accepted", b"")(received, connection)
        else:
            hang(received, connection)

    behind.script = script
    send(wrap, request(1))
    until(lambda: len(behind.requests) == 2)
    cancel = message("notifications/cancelled", {"requestId": 1})
    send(wrap, cancel)
    wrap.stdin.close()
    assert wrap.wait(SECONDS) == 0
    assert cancel in [request.body for request in behind.requests]
    assert left == [1]


def test_an_open_subscription_does_not_hold_up_the_end(wrap, behind):
    left.clear()
    behind.script = hang
    send(wrap, message("subscriptions/listen", {"notifications": {}, "_meta": MODERN}, "listen-1"))
    until(lambda: behind.requests)
    wrap.stdin.close()
    assert wrap.wait(SECONDS) == 0
    until(lambda: left == ["listen-1"])


def test_what_was_asked_before_the_end_is_still_answered(wrap, behind):
    behind.script = json_answer(reply(1, {"late": True}))
    send(wrap, request(1))
    wrap.stdin.close()
    assert json.loads(wrap.stdout.read())["result"] == {"late": True}


def test_a_signal_ends_the_session_and_wrap(wrap, behind):
    start_session(wrap, behind)
    wrap.send_signal(signal.SIGTERM)
    assert wrap.wait(SECONDS) == -signal.SIGTERM
    assert behind.requests[-1].line.startswith(b"DELETE ")


# ---- text that is no header's, and what nobody thought of ----


def test_an_event_id_of_any_text_is_resumed_from(lasting):
    wrap, behind = lasting
    visits: list[list[bytes]] = []

    def script(received: Received, connection: socket.socket) -> None:
        visits.append(received.header("last-event-id"))
        some = event(reply(1, {})) if len(visits) == 2 else "retry: 1\nid: \u21921\ndata: \n\n".encode()
        stream_answer(some)(received, connection)

    behind.script = script
    send(wrap, request(1))
    assert heard(wrap)["result"] == {}
    assert visits == [[], ["\u21921".encode()]]


def test_an_event_id_that_no_header_can_carry_is_not_resumed_from(lasting):
    wrap, behind = lasting
    behind.script = stream_answer(b"retry: 1\nid: fine\ndata: \n\nid: a\x01b\ndata: \n\n")
    before = len(behind.requests)
    send(wrap, request(1))
    assert heard(wrap)["error"]["data"]["reason"] == "upstream_closed"
    assert len(behind.requests) == before + 1


@rows(
    ("version", "reason"),
    [("a\r\nx: y", "invalid_request"), ("a\x00", "invalid_request"), ("\x7f", "invalid_request")],
    ids=["line end", "zero", "delete"],
)
def test_a_version_that_no_header_can_carry_is_refused(lasting, version, reason):
    wrap, behind = lasting
    behind.script = json_answer(reply(2, {}))
    before = len(behind.requests)
    meta = {f"{META}protocolVersion": version}
    send(wrap, message("notifications/n", {"_meta": meta}), message("ping", {"_meta": meta}, 1))
    refused = heard(wrap)
    assert (refused["id"], refused["error"]["data"]["reason"]) == (1, reason)
    send(wrap, request(2))
    assert heard(wrap)["result"] == {}
    assert len(behind.requests) == before + 1


def test_a_version_of_any_text_is_sent_as_it_is(lasting):
    wrap, behind = lasting
    behind.script = json_answer(reply(1, {}))
    send(wrap, message("ping", {"_meta": {f"{META}protocolVersion": "2026\u20137"}}, 1))
    assert heard(wrap)["result"] == {}
    assert behind.requests[-1].header("mcp-protocol-version") == ["2026\u20137".encode()]


@rows("method", ["tools/list", "initialize"])
@rows("odd", ['"\\ud800"', "1e999"])
def test_a_reply_that_the_gateway_cannot_learn_from_passes(lasting, method, odd):
    wrap, behind = lasting
    # In a list, a member that nobody knows would be dropped.
    spot = f'"odd":{odd}' if method == "initialize" else f'"cacheScope":{odd}'
    body = f'{{"jsonrpc":"2.0","id":1,"result":{{"tools":[],{spot}}}}}'.encode()
    behind.script = json_answer(body)
    send(wrap, message(method, {}, 1))
    line = wrap.stdout.readline()
    if method == "initialize":
        assert line == body + b"\n"
    else:
        # The gateway adds which tools it checked.
        assert spot.encode() in line


@rows("way", ["JSON", "a stream"])
def test_a_negotiated_version_that_no_header_can_carry_is_not_repeated(lasting, way):
    wrap, behind = lasting
    body = reply(0, {"protocolVersion": "2025\r\nx: y"})
    behind.script = json_answer(body) if way == "JSON" else stream_answer(b"retry: 1\n" + event(body, "1"))
    send(wrap, message("initialize", {}, 0))
    assert heard(wrap)["error"]["data"]["reason"] == "upstream_garbage"
    behind.script = json_answer(reply(1, {}))
    send(wrap, request(1))
    assert heard(wrap)["result"] == {}
    assert behind.requests[-1].header("mcp-protocol-version") == []

"""A server started by a command, behind HTTP: a process for each handshake session, one for the modern era."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from support.gateway import Gateway, serving, write_config
from support.raw import ask, streaming
from support.sessions import (
    CONTENT,
    Session,
    call,
    events,
    gone,
    initialize,
    message,
    modern,
    teller_argv,
    until,
)
from support.table import rows

NOTE = '{"jsonrpc":"2.0","method":"notifications/note","params":{"n":%d}}'


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("teller")


@pytest.fixture(scope="module")
def gateway(directory, tmp_path_factory):
    servers = {
        "teller": {"command": teller_argv(directory)},
        "two": {"command": teller_argv(directory), "processes": 2},
        "brief": {"command": teller_argv(directory), "idle_seconds": 1},
        "missing": {"command": ["/nonesuch/server"]},
        "mute": {"command": ["true"]},
    }
    with serving(tmp_path_factory.mktemp("gateway"), servers, reviewed=False) as running:
        # The others have no list.
        running.review("teller", "two", "brief")
        yield running


@pytest.fixture
def session(gateway):
    session = Session.start(gateway.url("teller"))
    yield session
    session.delete()


def reason(reply) -> str:
    return json.loads(reply.body)["error"]["data"]["reason"]


# ---- one process a session ----


def test_each_session_has_a_process_and_a_memory_of_its_own(gateway):
    one, two = (Session.start(gateway.url("teller")) for _ in range(2))
    assert one.id != two.id
    assert one.pid != two.pid
    one.call("remember", text="of one")
    assert two.call("pid") == {"content": [], "pid": two.pid, "memory": []}
    assert one.call("pid") == {"content": [], "pid": one.pid, "memory": ["of one"]}
    one.delete()
    assert two.call("pid")["pid"] == two.pid
    two.delete()


def test_a_deleted_session_ends_its_process(gateway):
    session = Session.start(gateway.url("teller"))
    assert session.delete().status == 204
    assert gone(session.pid)
    again = session.post(call("pid"))
    assert (again.status, reason(again)) == (404, "session_unknown")
    assert session.delete().status == 404


def test_a_deleted_session_takes_down_what_its_process_started(gateway):
    session = Session.start(gateway.url("teller"))
    child = session.call("child")["child"]
    session.delete()
    until(lambda: gone(child))


def test_a_session_without_traffic_is_ended(gateway):
    session = Session.start(gateway.url("brief"))
    until(lambda: gone(session.pid))
    until(lambda: session.post(call("pid")).status == 404)


def test_a_session_over_the_limit_is_refused_until_another_ends(gateway):
    url = gateway.url("two")
    sessions = [Session.start(url) for _ in range(2)]
    refused = initialize(url)
    assert (refused.status, reason(refused)) == (503, "session_limit")
    assert refused.header("retry-after") is not None
    sessions[0].delete()
    sessions.append(Session.start(url))
    for session in sessions[1:]:
        session.delete()


def test_an_initialize_that_the_server_refuses_makes_no_session(gateway, directory):
    before = set(directory.glob("received-*"))
    reply = initialize(gateway.url("teller"), "wrong")
    assert json.loads(reply.body)["error"]["code"] == -32602
    (received,) = set(directory.glob("received-*")) - before
    until(lambda: gone(int(received.name.removeprefix("received-"))))


@rows(("server", "expected"), [("missing", "upstream_start_failed"), ("mute", "upstream_closed")])
def test_a_server_that_cannot_answer_is_said_so(gateway, server, expected):
    reply = initialize(gateway.url(server))
    assert (reply.status, reason(reply)) == (502, expected)
    assert json.loads(reply.body)["id"] == 0


def test_a_request_without_a_session_or_with_a_strange_one_is_refused(gateway):
    url = gateway.url("teller")
    assert ask(url, call("pid")).status == 400
    for strange in ("nonesuch", "", "../x", "ü"):
        reply = ask(url, call("pid"), CONTENT | {"Mcp-Session-Id": strange.encode().decode("latin-1")})
        assert reply.status in (400, 404)


def test_two_requests_of_one_id_at_once_are_refused(gateway, session, directory):
    with streaming(
        gateway.url("teller"), call("hold", 5, {"progressToken": 1}, text="first"), session.headers
    ) as first:
        until((directory / "held-first").exists)
        second = session.post(call("pid", 5))
        assert (second.status, reason(second)) == (400, "invalid_request")
        session.call("let_go", 6)
        assert events(first.read())[-1] == {"jsonrpc": "2.0", "id": 5, "result": {"text": "first"}}


# ---- a process that dies ----


def test_a_process_that_dies_in_a_call_is_an_error_and_its_session_is_over(gateway):
    session = Session.start(gateway.url("teller"))
    reply = session.post(call("die", "my-id"))
    assert (reply.status, reason(reply)) == (502, "upstream_closed")
    assert json.loads(reply.body)["id"] == "my-id"
    again = session.post(call("pid"))
    assert (again.status, reason(again)) == (404, "session_unknown")
    assert Session.start(gateway.url("teller")).delete().status == 204


def test_a_process_that_dies_in_a_stream_ends_it_with_an_error(gateway):
    session = Session.start(gateway.url("teller"))
    note, failure = events(session.post(call("die", 3, before=[NOTE % 1])).body)
    assert note == json.loads(NOTE % 1)
    assert (failure["id"], failure["error"]["data"]["reason"]) == (3, "upstream_closed")


def test_a_shared_process_that_dies_is_replaced(gateway):
    url = gateway.url("teller")
    first = json.loads(modern(url, "pid").body)["result"]["pid"]
    reply = modern(url, "die", "my-id")
    assert (reply.status, reason(reply)) == (502, "upstream_closed")
    assert json.loads(reply.body)["id"] == "my-id"
    assert json.loads(modern(url, "pid").body)["result"]["pid"] != first


# ---- what the server sends of its own accord ----


def read_events(response, count: int) -> list[tuple[str, int]]:
    """The id and number of so many notes of a stream."""
    found: list[tuple[str, int]] = []
    name = ""
    while len(found) < count:
        line = response.readline().decode().rstrip("\n")
        if line.startswith("id: "):
            name = line.removeprefix("id: ")
        elif line.startswith("data: "):
            found.append((name, json.loads(line.removeprefix("data: "))["params"]["n"]))
    return found


def test_what_comes_after_a_reply_waits_for_the_sessions_stream(gateway, session):
    """A client that has its reply has left that stream: what came later would be lost on it."""
    for number in range(20):
        reply = session.post(call("emit", number, after=[NOTE % number]))
        assert events(reply.body) == [{"jsonrpc": "2.0", "id": number, "result": {}}]
    with streaming(session.url, None, session.headers, "GET") as stream:
        assert stream.status == 200
        assert [number for _, number in read_events(stream, 20)] == list(range(20))


def test_a_stream_is_resumed_after_the_event_the_client_names(gateway, session):
    session.post(call("emit", 1, after=[NOTE % number for number in range(5)]))
    with streaming(session.url, None, session.headers, "GET") as stream:
        seen = read_events(stream, 5)
    with streaming(session.url, None, session.headers | {"Last-Event-ID": seen[1][0]}, "GET") as stream:
        assert read_events(stream, 3) == seen[2:]


def test_a_message_goes_on_one_stream_only(gateway, session):
    """2025-11-25: never the same message on two streams; the stream opened last has it."""
    with (
        streaming(session.url, None, session.headers, "GET") as first,
        streaming(session.url, None, session.headers, "GET") as second,
    ):
        assert first.read() == b""
        session.post(call("emit", 1, after=[NOTE % 7]))
        assert [number for _, number in read_events(second, 1)] == [7]


def test_streams_end_with_their_session(gateway):
    session = Session.start(gateway.url("teller"))
    with streaming(session.url, None, session.headers, "GET") as stream:
        session.delete()
        assert stream.read() == b""


def test_the_last_words_of_a_process_reach_its_sessions_stream(gateway):
    session = Session.start(gateway.url("teller"))
    session.post(call("emit", 1, after=[NOTE % 1, NOTE % 2]))
    with streaming(session.url, None, session.headers, "GET") as stream:
        assert session.post(call("die")).status == 502
        assert [event["params"]["n"] for event in events(stream.read())] == [1, 2]


def test_many_messages_nobody_reads_are_bounded_and_the_newest_kept(gateway, session):
    session.post(call("emit", 1, after=[NOTE % number for number in range(1000)]))
    with streaming(session.url, None, session.headers, "GET") as stream:
        kept = [number for _, number in read_events(stream, 256)]
    assert kept == list(range(744, 1000))


def test_garbage_of_a_process_is_dropped_and_the_session_goes_on(gateway, session, directory):
    garbage = ["starting...", "{", "[]", '"text"', "\xff\xfe", '{"jsonrpc":"2.0","params":{"progressToken":[1]}}']
    garbage += ['{"jsonrpc":"2.0","method":"n","params":{"progressToken":1,"progressToken":2}}', "null", "[1,2]"]
    (directory / "garbage").write_text("\n".join(garbage), encoding="latin-1")
    reply = session.post(call("emit", 1, file="garbage"))
    assert events(reply.body)[-1] == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert session.call("pid")["pid"] == session.pid


# ---- cancellation ----


def test_a_client_that_leaves_cancels_its_call(gateway, session, directory):
    with streaming(session.url, call("hold", 8, {"progressToken": 1}, text="left"), session.headers):
        until((directory / "held-left").exists)
    until((directory / "cancelled-left").exists)
    assert session.call("pid")["pid"] == session.pid


def test_a_cancelled_request_gets_no_reply_and_its_stream_ends(gateway, session, directory):
    with streaming(session.url, call("hold", 9, {"progressToken": 1}, text="given-up"), session.headers) as stream:
        until((directory / "held-given-up").exists)
        assert session.post(message("notifications/cancelled", {"requestId": 9})).status == 202
        assert [event["method"] for event in events(stream.read())] == ["notifications/progress"]
    assert (directory / "cancelled-given-up").exists()


# ---- nothing is left behind ----


@pytest.mark.parametrize("way", ["stopped", pytest.param("killed", marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent"))])  # fmt: skip
def test_a_gateway_that_ends_leaves_no_process_behind(tmp_path, way):
    gateway = Gateway(write_config(tmp_path, {"teller": {"command": teller_argv(tmp_path)}}))
    try:
        gateway.review("teller")
        url = gateway.url("teller")
        pids = [Session.start(url).pid, Session.start(url).pid, json.loads(modern(url, "pid").body)["result"]["pid"]]
        assert len(set(pids)) == 3
        if way == "stopped":
            pids.append(json.loads(modern(url, "child").body)["result"]["child"])
        assert not [pid for pid in pids if gone(pid)]
    finally:
        status = gateway.stop() if way == "stopped" else gateway.kill()
    assert status == (0 if way == "stopped" else -signal.SIGKILL)
    until(lambda: all(gone(pid) for pid in pids))


def test_a_process_that_ignores_everything_is_ended_all_the_same(tmp_path):
    stubborn = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); exec(open(sys.argv[1]).read())"
    argv = teller_argv(tmp_path)
    source = stubborn + "; import time; time.sleep(600)"
    command = [*argv[:3], "-c", source.replace("sys.argv[1]", repr(argv[3])), argv[4]]
    with serving(tmp_path, {"teller": {"command": command}}, reviewed=False) as gateway:
        session = Session.start(gateway.url("teller"))
        assert session.delete().status == 204
        assert gone(session.pid)
    assert os.getpid() != session.pid


def test_the_modern_era_has_no_stream_to_get(gateway):
    refused = ask(gateway.url("teller"), None, CONTENT | {"MCP-Protocol-Version": "2026-07-28"}, "GET")
    assert (refused.status, reason(refused)) == (405, "method_not_allowed")
    assert refused.header("allow") == "POST"
    assert json.loads(refused.body)["error"]["data"]["advice"] == "Use POST."

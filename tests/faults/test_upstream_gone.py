"""A server that is down, slow, or dies in the middle of an answer."""

import time

import pytest

from support.gateway import serving
from support.hostile import answer, assert_works, call, connect, head, hostile_server, read_until, reply, until
from support.records import calls_of
from support.table import rows

PATIENCE = 2.0
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
NOTE = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n\n'


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def dies_in_stream(peer, request):
    peer.send(STREAM + chunk(NOTE))
    peer.close()


def dies_in_event(peer, request):
    peer.send(STREAM + chunk(NOTE) + chunk(b'data: {"jsonrpc":"2.0","id":1,"resu'))
    peer.close()


def ends_too_early(peer, request):
    peer.send(STREAM + chunk(NOTE) + b"0\r\n\r\n")


def dies_resumable(peer, request):
    peer.send(STREAM + chunk(b"id: 7\n" + NOTE))
    peer.close()


BEHAVIOURS = {
    "dies_in_stream": dies_in_stream,
    "dies_in_event": dies_in_event,
    "ends_too_early": ends_too_early,
    "dies_resumable": dies_resumable,
}
TOOLS = (*BEHAVIOURS, "hanging", "takes_its_time", "dies_in_json", "refuses", "garbage")


@pytest.fixture(autouse=True)
def _behaviours(upstream):
    upstream.behaviours = dict(BEHAVIOURS)


@pytest.fixture(scope="module")
def hasty(tmp_path_factory, upstream):
    """A gateway that waits for an answer no longer than PATIENCE."""
    table = {"url": upstream.url, "timeout_seconds": PATIENCE}
    with serving(tmp_path_factory.mktemp("hasty"), {"one": table}) as running:
        yield running


def test_a_server_that_is_down_is_named_and_works_again_when_it_is_up(gateway, upstream):
    assert_works(gateway.port)
    upstream.down()
    got = until(lambda: (r := call(gateway.port, "good")).status != 200 and r, "the server is down")
    until(lambda: call(gateway.port, "good").reason == "upstream_unreachable", "connections are refused")
    assert got.status == 502
    upstream.up()
    assert_works(gateway.port)


def test_a_slow_server_times_out_and_its_call_is_given_up(hasty, upstream):
    asked = []

    def hangs(peer, request):
        asked.append(peer)
        peer.wait_gone()

    upstream.behaviours["hanging"] = hangs
    got = call(hasty.port, "hanging")
    assert (got.status, got.reason) == (504, "upstream_timeout")
    until(asked[0].gone.is_set, "the server's connection is closed")
    assert_works(hasty.port)


def test_the_patience_is_for_the_beginning_of_a_stream_not_for_its_length(hasty, upstream):
    def takes_its_time(peer, request):
        peer.send(STREAM + chunk(NOTE))
        time.sleep(PATIENCE + 0.2)
        peer.send(chunk(b"data: " + reply(request.id, "late") + b"\n\n") + b"0\r\n\r\n")

    upstream.behaviours["takes_its_time"] = takes_its_time
    got = call(hasty.port, "takes_its_time")
    assert got.events[-1]["result"]["content"][0]["text"] == "late"


@rows("fault", ["dies_in_stream", "dies_in_event", "ends_too_early"])
def test_a_stream_that_dies_ends_with_an_error_for_the_call(gateway, upstream, fault):
    got = call(gateway.port, fault)
    assert got.status == 200
    assert got.events[0]["method"] == "notifications/message"
    assert got.events[-1]["id"] == 1
    assert got.events[-1]["error"]["data"]["reason"] == "upstream_closed"
    assert b"resu" not in got.body.replace(b"result", b"")
    assert_works(gateway.port)
    assert [one["outcome"]["outcome"] for one in calls_of(gateway, fault)] == ["lost"]


def test_a_resumable_stream_that_dies_is_left_to_the_client_to_resume(gateway, upstream):
    """The reply may still come on the resumed stream, so no error is made up; the record waits for it."""

    def resumed(peer, request):
        peer.send(STREAM + chunk(b"id: 8\ndata: " + reply(41, "resumed") + b"\n\n") + b"0\r\n\r\n")

    upstream.behaviours["GET"] = resumed
    session = {"mcp-session-id": "s-1"}
    got = call(gateway.port, "dies_resumable", rpc_id=41, headers=session)
    assert [event.get("method") for event in got.events] == ["notifications/message"]
    with connect(gateway.port) as connection:
        connection.sendall(head(None, "mcp-session-id: s-1", "last-event-id: 7", method="GET"))
        assert b"resumed" in read_until(connection, b"0\r\n\r\n")
    done = until(lambda: [one for one in calls_of(gateway, "dies_resumable") if one["outcome"]], "its outcome")
    assert done[0]["outcome"]["outcome"] == "result"


def test_a_json_answer_that_dies_is_an_error(gateway, upstream):
    def dies(peer, request):
        peer.send(answer(reply(request.id))[:-5])
        peer.close()

    upstream.behaviours["dies_in_json"] = dies
    got = call(gateway.port, "dies_in_json")
    assert (got.status, got.reason) == (502, "upstream_closed")
    assert_works(gateway.port)


def test_faults_leak_no_descriptors(gateway, upstream):
    upstream.behaviours |= {
        "refuses": lambda peer, _: peer.close(),
        "garbage": lambda peer, _: peer.send(b"garbage\r\n\r\n"),
    }
    assert_works(gateway.port)
    faults = ("refuses", "garbage", "dies_in_stream", "ends_too_early")
    for number in range(8):
        call(gateway.port, faults[number % 4])
    before = len(descriptors(gateway))
    for number in range(40):
        call(gateway.port, faults[number % 4])
    assert_works(gateway.port)
    until(lambda: len(descriptors(gateway)) <= before + 2, f"no more than {before} descriptors, as before")


def test_a_server_that_cannot_be_resolved_or_reached(tmp_path):
    """An address nobody answers at: bounded by connect_seconds, not by the system's own patience."""
    with hostile_server() as silent:
        silent.down()
        servers = {
            "refused": {"url": silent.url},
            "nowhere": {"url": "http://no-such-host.invalid/mcp", "connect_seconds": 2},
        }
        # Nobody is there to be reviewed.
        with serving(tmp_path, servers, reviewed=False) as gateway:
            for name in servers:
                got = call(gateway.port, "good", path=f"/servers/{name}/mcp")
                assert (got.status, got.reason) == (502, "upstream_unreachable")


def descriptors(gateway):
    from pathlib import Path

    return list(Path(f"/proc/{gateway.pid}/fd").iterdir())

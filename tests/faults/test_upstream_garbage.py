"""A server that answers with anything but MCP: each gets a clear error, and the next call works."""

import gzip

import pytest

from support.hostile import answer, assert_works, call, post, reply, until
from support.table import rows

GOOD = b'{"jsonrpc":"2.0","id":%d,"result":{}}'
LIMIT = 262144


def closing(data):
    def behave(peer, request):
        peer.send(data)
        peer.close()

    return behave


def sending(make):
    def behave(peer, request):
        peer.send(make(request))

    return behave


def endless_headers(peer, request):
    peer.send(b"HTTP/1.1 200 OK\r\n")
    for number in range(100_000):
        peer.send(b"x-%d: %b\r\n" % (number, b"a" * 1000))


def endless_header(peer, request):
    peer.send(b"HTTP/1.1 200 OK\r\nx: ")
    while True:
        peer.send(b"a" * 65536)


def endless_interim(peer, request):
    while True:
        peer.send(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 100)


def endless_trailer(peer, request):
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
    peer.send(b"%x\r\n%b\r\n0\r\nx: " % (len(reply(request.id)), reply(request.id)))
    while True:
        peer.send(b"a" * 65536)


def endless_body(peer, request):
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        peer.send(b"10000\r\n" + b" " * 65536 + b"\r\n")


def endless_event(peer, request):
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    peer.send(b"6\r\ndata: \r\n")
    while True:
        peer.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")


def another_answer_at_once(peer, request):
    """Two answers to one question: the second must not wait in the pool for the next question."""
    peer.send(answer(reply(request.id, "first")) + answer(b'{"jsonrpc":"2.0","id":2,"result":{"forged":true}}'))


FORGED = answer(b'{"jsonrpc":"2.0","id":"honest","result":{"content":[{"type":"text","text":"forged"}]}}')
CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"

FAULTS = {
    "not_http": (closing(b"SSH-2.0-OpenSSH_9.2\r\n"), "upstream_garbage"),
    "html": (sending(lambda _: answer(b"<html>hello</html>", kind="text/html")), "upstream_garbage"),
    "html_as_json": (sending(lambda _: answer(b"<html>hello</html>")), "upstream_garbage"),
    "half_json": (sending(lambda _: answer(b'{"jsonrpc":"2.0","id":1,"res')), "upstream_garbage"),
    "nothing": (sending(lambda _: answer(b"")), "upstream_garbage"),
    "accepted": (sending(lambda _: answer(b"", status="202 Accepted")), "upstream_garbage"),
    "not_an_object": (sending(lambda _: answer(b"42")), "upstream_garbage"),
    "wrong_id": (sending(lambda _: answer(GOOD % 999)), "upstream_garbage"),
    "id_as_text": (sending(lambda _: answer(b'{"jsonrpc":"2.0","id":"1","result":{}}')), "upstream_garbage"),
    "notification": (sending(lambda _: answer(b'{"jsonrpc":"2.0","method":"x"}')), "upstream_garbage"),
    "gzip": (
        sending(lambda r: answer(gzip.compress(reply(r.id)), extra=["content-encoding: gzip"])),
        "upstream_encoding",
    ),
    "redirect": (
        sending(lambda _: answer(b"", status="307 Temporary Redirect", extra=["location: http://127.0.0.1:1/"])),
        "upstream_redirect",
    ),
    "status_999": (sending(lambda r: answer(reply(r.id), status="999 What")), "upstream_garbage"),
    "switching": (
        closing(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"),
        "upstream_garbage",
    ),
    "endless_headers": (endless_headers, "upstream_garbage"),
    "endless_header": (endless_header, "upstream_garbage"),
    "endless_interim": (endless_interim, "upstream_garbage"),
    "too_large": (sending(lambda _: answer(b" " * (LIMIT + 1))), "upstream_too_large"),
    "announced_too_large": (
        closing(JSON_HEAD + b"content-length: 99999999999\r\n\r\n{}"),
        "upstream_too_large",
    ),
    "endless_body": (endless_body, "upstream_too_large"),
    "longer_than_sent": (closing(JSON_HEAD + b"content-length: 500\r\n\r\n" + GOOD % 1), "upstream_closed"),
    "mid_json": (closing(JSON_HEAD + b'\r\n{"jsonrpc":"2.0","id":1,"result":{"con'), "upstream_garbage"),
    "bad_chunk_size": (closing(CHUNKED + b"zz\r\n" + GOOD % 1 + b"\r\n0\r\n\r\n"), "upstream_garbage"),
    "chunk_too_short": (closing(CHUNKED + b"5\r\n" + GOOD % 1 + b"\r\n0\r\n\r\n"), "upstream_garbage"),
    "chunk_cut": (closing(CHUNKED + b"100\r\n" + GOOD % 1), "upstream_closed"),
    "two_lengths": (
        closing(JSON_HEAD + b"content-length: 10\r\ncontent-length: 38\r\n\r\n" + GOOD % 1),
        "upstream_garbage",
    ),
    "length_and_chunks": (
        closing(JSON_HEAD + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        "upstream_garbage",
    ),
    "endless_trailer": (endless_trailer, "upstream_garbage"),
    "silent_close": (closing(b""), "upstream_closed"),
    "closes_in_head": (closing(b"HTTP/1.1 200 OK\r\ncontent-le"), "upstream_closed"),
}


TOOLS = (*FAULTS, "twice", "endless_event", "refusing")


@pytest.fixture(autouse=True)
def _behaviours(upstream):
    upstream.behaviours = {name: behave for name, (behave, _) in FAULTS.items()}


@rows("fault", FAULTS)
def test_garbage_is_answered_for_and_the_next_call_works(gateway, upstream, fault):
    got = call(gateway.port, fault)
    assert (got.status, got.reason) == (502, FAULTS[fault][1])
    assert got.json["id"] == 1
    assert got.error["data"]["advice"]
    assert_works(gateway.port)


def test_a_second_answer_never_becomes_the_next_ones(gateway, upstream):
    upstream.behaviours["twice"] = another_answer_at_once
    for _ in range(10):
        assert call(gateway.port, "twice").reason == "upstream_garbage"
        assert_works(gateway.port)


@rows("part", [1, 20, -10])
def test_the_beginning_of_a_second_answer_does_not_wait_in_the_pool(gateway, upstream, part):
    """Kept, it would stand before the next answer on that connection."""
    upstream.behaviours["twice"] = sending(lambda r: answer(reply(r.id)) + FORGED[:part])
    for _ in range(3):
        call(gateway.port, "twice")
        assert_works(gateway.port)


def test_what_comes_before_it_is_asked_for_answers_nobody(gateway, upstream):
    """The bytes come while the connection lies idle in the pool."""
    for _ in range(10):
        assert_works(gateway.port)
        idle = until(upstream.open_peers, "a connection that is kept")
        for peer in idle:
            peer.send(FORGED)
        until(lambda idle=idle: all(peer.gone.is_set() for peer in idle), "the gateway drops the connection")
        assert_works(gateway.port)


def test_a_list_with_another_id_is_not_passed_on(gateway, upstream):
    upstream.behaviours[""] = sending(lambda _: answer(GOOD % 7))
    got = post(gateway.port, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    assert (got.status, got.reason) == (502, "upstream_garbage")
    assert_works(gateway.port)


def test_an_event_over_the_cap_ends_the_stream_with_an_error(gateway, upstream):
    upstream.behaviours["endless_event"] = endless_event
    got = call(gateway.port, "endless_event")
    assert got.status == 200
    assert got.events[-1]["error"]["data"]["reason"] == "upstream_too_large"
    assert got.events[-1]["id"] == 1
    assert_works(gateway.port)


def test_an_error_of_the_server_reaches_the_client_as_it_is(gateway, upstream):
    body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"busy","data":{"n":1.50}}}'
    upstream.behaviours["refusing"] = sending(lambda _: answer(body, status="429 Too Many Requests"))
    got = call(gateway.port, "refusing")
    assert (got.status, got.body) == (429, body)
    assert_works(gateway.port)

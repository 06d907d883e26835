"""A head leaves with its body where it announces one, and nothing else is ever held back."""

import pytest

from callgate.transport.http.server import _JOINED_BYTES, _Joined
from support.table import rows

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Wire:
    def __init__(self):
        self.written = []
        self.closed = False

    def write(self, data):
        assert not self.closed
        self.written.append(bytes(data))

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed


@pytest.fixture
def wire():
    return Wire()


@pytest.fixture
def answer(wire):
    return _Joined(wire)


@rows("body", [b"{}", b"", bytearray(b"{}"), memoryview(b"{}")])
def test_head_and_body_are_one_piece(body):
    wire = Wire()
    answer = _Joined(wire)
    answer.write(HEAD)
    assert not wire.written
    answer.write(body)
    assert wire.written == [HEAD + bytes(body)]


def test_a_large_body_is_not_copied(wire, answer):
    body = bytes(_JOINED_BYTES + 1)
    answer.write(HEAD)
    answer.write(body)
    assert wire.written == [HEAD, body]


def test_a_streams_head_leaves_at_once(wire, answer):
    answer.write(STREAM)
    assert wire.written == [STREAM]


def test_an_invitation_to_go_on_is_no_head(wire, answer):
    answer.write(CONTINUE)
    assert wire.written == [CONTINUE]
    answer.write(HEAD)
    answer.write(b"{}")
    assert wire.written == [CONTINUE, HEAD + b"{}"]


@rows("first", [STREAM, HEAD])
def test_a_body_that_looks_like_a_head_is_not_held(first):
    wire = Wire()
    answer = _Joined(wire)
    answer.write(first)
    for piece in (HEAD, CONTINUE, b"data: \r\ncontent-length: 9\r\n\r\n"):
        answer.write(piece)
    assert b"".join(wire.written) == first + HEAD + CONTINUE + b"data: \r\ncontent-length: 9\r\n\r\n"


@rows("first", [STREAM, HEAD, CONTINUE])
def test_what_was_written_leaves_before_the_end(first):
    wire = Wire()
    answer = _Joined(wire)
    answer.write(first)
    answer.close()
    assert wire.written == [first]
    assert wire.closed
    assert answer.is_closing()

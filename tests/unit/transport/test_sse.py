"""Server-sent events: cut anywhere, the same events come out, as the bytes they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.errors import Reason, UpstreamError
from callgate.transport.sse import EventCutter, encode_event
from support.table import rows

STREAM = (
    b"id: 1\nretry: 200\ndata: \n\n"
    b": a comment\n\n"
    b'event: message\r\nid: 2\r\ndata: {"a":1}\r\n\r\n'
    b"data:first\ndata: second\n\n"
    b"data: old mac\r\r"
)


def cut(pieces: list[bytes]):
    cutter = EventCutter(10_000)
    return [event for piece in pieces for event in cutter.feed(piece)]


def test_whole():
    events = cut([STREAM])
    assert b"".join(event.raw for event in events) == STREAM
    assert [event.data for event in events] == [None, None, b'{"a":1}', b"first\nsecond", b"old mac"]
    assert [event.id for event in events] == ["1", None, "2", None, None]


@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=12, unique=True))
def test_cut_anywhere(places):
    edges = [0, *sorted(places), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    events = cut(pieces)
    assert b"".join(event.raw for event in events) == STREAM
    assert [event.data for event in events if event.data] == [b'{"a":1}', b"first\nsecond", b"old mac"]


def test_what_is_unfinished_is_held_back():
    cutter = EventCutter(1000)
    assert cutter.feed(b"data: half") == []
    assert cutter.feed(b" more\n") == []
    assert [event.data for event in cutter.feed(b"\n")] == [b"half more"]


def test_an_endless_event_is_refused():
    cutter = EventCutter(1000)
    with pytest.raises(UpstreamError) as caught:
        for _ in range(200):
            cutter.feed(b"data: xxxxxxxxxxxx")
    assert caught.value.reason is Reason.UPSTREAM_TOO_LARGE


def test_encoded_events_are_read_back():
    (event,) = cut([encode_event(b'{"x":"y"}', "7")])
    assert (event.data, event.id) == (b'{"x":"y"}', "7")


@rows("end", [b"\n\n", b"\r\r", b"\r\n\r\n", b"\r\n\r", b"\n\r", b"\n\r\n", b"\r\n\n", b"\r\r\n"])
def test_every_empty_line_ends_an_event_at_once(end):
    """A reply that waits for the next byte waits for ever where the server has no more to say."""
    cutter = EventCutter(1000)
    (event,) = cutter.feed(b"data: x" + end)
    assert (event.data, event.raw) == (b"x", b"data: x" + end)
    (event,) = cutter.feed(b"data: y" + end)
    assert event.data == b"y"


def test_a_byte_order_mark_opens_a_stream_and_nothing_else():
    first, second = cut([b"\xef", b"\xbb\xbfdata: x\n\n\xef\xbb\xbfdata: y\n\n"])
    assert (first.data, first.raw) == (b"x", b"\xef\xbb\xbfdata: x\n\n")
    assert second.data is None

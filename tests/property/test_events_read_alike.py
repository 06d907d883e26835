"""Server-sent events: the gateway sees the same events as a client that reads line by line (WHATWG HTML §9.2.5-6)."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from callgate.transport.sse import EventCutter

BOM = b"\xef\xbb\xbf"
PIECES = [
    b"\n", b"\r", b"\r\n", b"data: {}", b"data:x", b"data:  y", b"data", b"datax: z", b"id: 1", b"id:2", b"id", b":c",
    b"retry: 5", b"retry: no", b"event: message", b"", BOM,
]  # fmt: skip


def lines_of(stream: bytes) -> list[bytes]:
    """The lines that are ended, one byte after the other."""
    lines, line, position = [], b"", 0
    while position < len(stream):
        byte = stream[position : position + 1]
        position += 1
        if byte not in b"\r\n":
            line += byte
            continue
        if byte == b"\r" and stream[position : position + 1] == b"\n":
            position += 1
        lines.append(line)
        line = b""
    return lines


def reference(stream: bytes) -> list[tuple[bytes | None, str | None]]:
    """Data and id of each event that has one of them."""
    events: list[tuple[bytes | None, str | None]] = []
    data: list[bytes] = []
    event_id: str | None = None
    for line in lines_of(stream.removeprefix(BOM)):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"id":
            event_id = value.decode()
        elif not line:
            if any(data) or event_id is not None:
                events.append((b"\n".join(data) if any(data) else None, event_id))
            data, event_id = [], None
    return events


@given(st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join), st.lists(st.integers(0, 200), max_size=12))
@example(b"data: {}\r\n\rdata:x\r\n\r\n", [])
@example(b"data: {}\n\rdata:x\n\r", [9, 10])
@example(b"data: {}\r\ndata:x\r\n\r\n", [9, 20])
@example(BOM + b"data: {}\n\n", [1, 2])
def test_the_gateway_sees_what_a_client_sees(stream, places):
    edges = [0, *sorted(min(place, len(stream)) for place in places), len(stream)]
    cutter = EventCutter(10_000)
    events = [event for a, b in zip(edges, edges[1:], strict=False) for event in cutter.feed(stream[a:b])]
    seen = [(event.data, event.id) for event in events if event.data is not None or event.id is not None]
    assert seen == reference(stream)
    passed = b"".join(event.raw for event in events)
    assert stream.startswith(passed)
    assert reference(passed) == seen

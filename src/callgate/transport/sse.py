"""Server-sent events, cut into whole events and passed on as the bytes they came as (WHATWG HTML §9.2)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from callgate.errors import Reason, UpstreamError

# §9.2.5: a line ends with CRLF, LF or CR, and an event with an empty line. The first group is atomic: given a second
# choice, CRLF would be two line ends. An event that ends with CR is passed on at once; an LF after it stands before
# the next event, where it is an empty line more and changes nothing.
_END: Final = re.compile(rb"(?>\r\n|\n|\r)(?:\r\n|\n|\r)")
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
# How much of what is left can be the beginning of an end.
_UNFINISHED_END: Final = 2
_BOM: Final = b"\xef\xbb\xbf"
# A line that every reader takes for what we take it for: its name is plain, and no other spelling of one that counts.
# Some strip odd letters before the first line, and some end a line where only str.splitlines() does: beside the data,
# which is JSON, no line needs such a letter.
_KNOWN: Final = re.compile(rb"(?:data|event|id|retry|(?!(?i:data|event|id|retry)(?::|\Z))[A-Za-z0-9_-]*)(?::|\Z)")
_ODD: Final = re.compile(rb"[\x0b\x0c\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]")


class Event(msgspec.Struct, frozen=True):
    """One event: its own bytes, its data (None where it has none), the id to resume from and the wait before that."""

    raw: bytes
    data: bytes | None
    id: str | None = None
    retry: float | None = None
    # Whether a byte order mark opens it, which is no part of its first line.
    marked: bool = False
    # Whether each of its lines is to every reader what it is to us.
    plain: bool = True


class EventCutter:
    """Turns chunks into whole events; what is left at the end was never an event."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._buffer = bytearray()
        self._scanned = 0
        self._first = True

    def feed(self, chunk: bytes) -> list[Event]:
        buffer = self._buffer
        buffer += chunk
        events: list[Event] = []
        start = 0
        search_from = self._scanned
        while (end := _END.search(buffer, search_from)) is not None:
            events.append(self._event(bytes(buffer[start : end.end()])))
            start = search_from = end.end()
        if start:
            del buffer[:start]
        if len(buffer) > self._max:
            raise UpstreamError(Reason.UPSTREAM_TOO_LARGE)
        self._scanned = max(0, len(buffer) - _UNFINISHED_END)
        return events

    def _event(self, raw: bytes) -> Event:
        # §9.2.5: one byte order mark may open the stream, and is no part of its first line.
        marked = self._first and raw.startswith(_BOM)
        self._first = False
        return _event(raw, marked=marked)


def encode_event(data: bytes, event_id: str | None = None) -> bytes:
    """A message as an event; JSON of one line stays on one line, and a raw CR in it is a blank."""
    data = data.replace(b"\r", b" ") if b"\r" in data else data
    head = b"" if event_id is None else b"id: " + event_id.encode() + b"\n"
    return head + b"event: message\ndata: " + data + b"\n\n"


def replace_data(event: Event, data: bytes) -> bytes:
    """The event with other data; its id, its type and whatever else it has stay."""
    others = [line for line in _lines(event) if line.partition(b":")[0] != b"data"]
    lines = [*others, *(b"data: " + line for line in data.split(b"\n"))]
    return b"\n".join(lines) + b"\n\n"


def passed_on(event: Event) -> bytes:
    """The event as it came, without lines that another reader could take for data."""
    return event.raw if event.plain else b"".join(line + b"\n" for line in _lines(event)) + b"\n"


def _split(raw: bytes, *, marked: bool) -> list[bytes]:
    return [line for line in _LINE_END.split(raw.removeprefix(_BOM) if marked else raw) if line]


def _lines(event: Event) -> list[bytes]:
    return [line for line in _split(event.raw, marked=event.marked) if _is_plain(line)]


def _is_plain(line: bytes) -> bool:
    return _KNOWN.match(line) is not None and (line.startswith(b"data:") or _ODD.search(line) is None)


def _event(raw: bytes, *, marked: bool) -> Event:
    """§9.2.6: a field's name ends at the first colon, and one blank after that is not part of its value."""
    data: list[bytes] = []
    event_id: str | None = None
    retry: float | None = None
    lines = _split(raw, marked=marked)
    for line in lines:
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name == b"id" and b"\0" not in value:
            event_id = value.removeprefix(b" ").decode("utf-8", "replace")
        elif name == b"retry" and value.strip().isdigit():
            retry = int(value.strip()[:9]) / 1000
    whole = b"\n".join(data) if any(data) else None
    return Event(raw, whole, event_id, retry, marked, all(map(_is_plain, lines)))

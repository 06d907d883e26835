"""Server-sent events, cut into whole events and passed on as the bytes they came as (WHATWG HTML §9.2)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from callgate.errors import Reason, UpstreamError

# An event ends at an empty line. \r\n\r\n holds \n\r\n, so two alternatives see every mix of line ends.
_END: Final = re.compile(rb"\n\r?\n|\r\r")
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_LONGEST_END: Final = 3


class Event(msgspec.Struct, frozen=True):
    """One event: its own bytes, its data (None where it has none), the id to resume from and the wait before that."""

    raw: bytes
    data: bytes | None
    id: str | None = None
    retry: float | None = None


class EventCutter:
    """Turns chunks into whole events; what is left at the end was never an event."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._buffer = bytearray()
        self._scanned = 0

    def feed(self, chunk: bytes) -> list[Event]:
        buffer = self._buffer
        buffer += chunk
        events: list[Event] = []
        start = 0
        search_from = self._scanned
        while (end := _END.search(buffer, search_from)) is not None:
            events.append(_event(bytes(buffer[start : end.end()])))
            start = search_from = end.end()
        if start:
            del buffer[:start]
        if len(buffer) > self._max:
            raise UpstreamError(Reason.UPSTREAM_TOO_LARGE)
        self._scanned = max(0, len(buffer) - _LONGEST_END + 1)
        return events


def encode_event(data: bytes, event_id: str | None = None) -> bytes:
    """A message as an event; JSON of one line stays on one line."""
    head = b"" if event_id is None else b"id: " + event_id.encode() + b"\n"
    return head + b"event: message\ndata: " + data + b"\n\n"


def _event(raw: bytes) -> Event:
    data: list[bytes] = []
    event_id: str | None = None
    retry: float | None = None
    for line in _LINE_END.split(raw):
        if line.startswith(b"data:"):
            data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line.startswith(b"id:"):
            event_id = line[3:].strip().decode("utf-8", "replace")
        elif line.startswith(b"retry:") and line[6:].strip().isdigit():
            retry = int(line[6:].strip()[:9]) / 1000
    return Event(raw, b"\n".join(data) if any(data) else None, event_id, retry)

"""Newline-delimited messages, cut from chunks of any size without copying a long one again and again."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Final

import msgspec

from callgate.errors import Reason, Refused
from callgate.jsonrpc import RequestId

_START: Final = 4096
_END: Final = 1024
_BLANK: Final = rb"[ \t\r]*"
_TEXT: Final = rb'"(?:[^"\\]|\\.)*"'
_MEMBER: Final = re.compile(_BLANK + rb"[,{]" + _BLANK + rb"(" + _TEXT + rb")" + _BLANK + rb":" + _BLANK)
_SCALAR: Final = re.compile(rb"(" + _TEXT + rb"|[-+.0-9A-Za-z]+)(?=" + _BLANK + rb"[,}])")
# The last brace closes the outermost object, so what stands right before it is a member of that.
_LAST_ID: Final = re.compile(
    rb'[,{]B"id"B:B(T|-?[0-9]+)B(?:,B"jsonrpc"B:B"2\.0"B)?\}B\Z'.replace(b"B", _BLANK).replace(b"T", _TEXT)
)
_decode: Final = msgspec.json.Decoder(int | str).decode
# Bytes that may wait for the end of a turn.
_GATHERED: Final = 64 * 1024


class LostMessage(msgspec.Struct, frozen=True):
    """What can be told of a message that was not kept: whether it may be a reply, and to which request."""

    reply: bool
    id: RequestId | None = None


class LineTooLarge(Refused):
    """A line over the limit; of its text only the two ends are known, the second only where it has come."""

    def __init__(self, limit: int, start: bytes, end: bytes) -> None:
        super().__init__(Reason.MESSAGE_TOO_LARGE, f"a message is larger than {limit} bytes")
        self._start = start
        self._end = end

    def names(self) -> LostMessage:
        """Whom the message answers: servers write the id before the result or after it."""
        rpc_id: RequestId | None = None
        position = 0
        while (member := _MEMBER.match(self._start, position)) is not None:
            key = member.group(1)
            if key in (b'"method"', b'"params"'):
                return LostMessage(reply=False)
            if key in (b'"result"', b'"error"'):
                return LostMessage(reply=True, id=self._last_id() if rpc_id is None else rpc_id)
            scalar = _SCALAR.match(self._start, member.end())
            if scalar is None:
                break
            if key == b'"id"':
                rpc_id = _id(scalar.group(1))
            position = scalar.end()
        return LostMessage(reply=True)

    def _last_id(self) -> RequestId | None:
        found = _LAST_ID.search(self._end)
        return None if found is None else _id(found.group(1))


def _id(text: bytes) -> RequestId | None:
    try:
        found: RequestId = _decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return found


class LineCutter:
    """Feed it chunks, take whole lines; a line over the limit is refused once, at its end or at twice the limit."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        # Of a line over the limit: its two ends, and whether it was refused before its end came.
        self._ends: tuple[bytes, bytes] | None = None
        self._refused = False

    def feed(self, chunk: bytes) -> list[bytes | LineTooLarge]:
        """The lines that this chunk completes, without their newline."""
        found: list[bytes | LineTooLarge] = []
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            if not self._size and len(piece) <= self._max:
                found.append(piece)
                continue
            self._take(piece)
            if not self._refused:
                found.append(self.rest())
            self._parts, self._size, self._ends, self._refused = [], 0, None, False
        if rest:
            self._take(rest)
            if self._ends is not None and not self._refused and self._size > 2 * self._max:
                # It may never end: whoever waits for it has waited long enough.
                found.append(LineTooLarge(self._max, self._ends[0], b""))
                self._refused = True
        return found

    def rest(self) -> bytes | LineTooLarge:
        """What came after the last newline."""
        if self._ends is not None:
            return b"" if self._refused else LineTooLarge(self._max, *self._ends)
        return b"".join(self._parts)

    def _take(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._ends is not None:
            self._ends = self._ends[0], (self._ends[1] + piece[-_END:])[-_END:]
            return
        self._parts.append(piece)
        if self._size > self._max:
            text = b"".join(self._parts)
            self._ends = text[:_START], text[-_END:]
            self._parts = []


def one_line(raw: bytes) -> bytes:
    """The message as a line. In JSON a raw line end is white space between tokens, so a blank stands for it."""
    if b"\n" in raw or b"\r" in raw:
        raw = raw.replace(b"\r", b" ").replace(b"\n", b" ")
    return raw + b"\n"


class LineWriter:
    """Writes lines to a pipe. Those of one turn of the event loop leave together: each write wakes the reader, which
    would answer them one by one. A reader that is gone is not an error here."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._lines: list[bytes] = []
        self._size = 0

    async def write(self, line: bytes) -> None:
        """Write one line, which has its newline; waits while nobody reads."""
        if not self._lines:
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()
            asyncio.get_running_loop().call_soon(self.flush)
        self._lines.append(line)
        self._size += len(line)
        if self._size > _GATHERED:
            self.flush()

    def flush(self) -> None:
        """Hand everything to the pipe."""
        lines, self._lines, self._size = self._lines, [], 0
        if lines:
            with contextlib.suppress(ConnectionError, RuntimeError):
                self._writer.write(b"".join(lines))

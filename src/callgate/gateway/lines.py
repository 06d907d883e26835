"""Newline-delimited messages, cut from chunks of any size without copying a long one again and again."""

from __future__ import annotations

from callgate.errors import Reason, Refused


class LineCutter:
    """Feed it chunks, take whole lines; a line over the limit is refused and the rest of it skipped."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes | Refused]:
        """The lines that this chunk completes, without their newline."""
        found: list[bytes | Refused] = []
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            if self._skipping:
                self._skipping = False
                continue
            self._parts.append(piece)
            if self._size + len(piece) > self._max:
                found.append(self._too_large())
            else:
                found.append(b"".join(self._parts))
            self._parts = []
            self._size = 0
        if rest and not self._skipping:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > self._max:
                found.append(self._too_large())
                self._parts = []
                self._size = 0
                self._skipping = True
        return found

    def rest(self) -> bytes:
        """What came after the last newline."""
        return b"".join(self._parts)

    def _too_large(self) -> Refused:
        return Refused(Reason.MESSAGE_TOO_LARGE, f"a message is larger than {self._max} bytes")


def one_line(raw: bytes) -> bytes:
    """The message as a line. In JSON a raw line end is white space between tokens, so a blank stands for it."""
    if b"\n" in raw or b"\r" in raw:
        raw = raw.replace(b"\r", b" ").replace(b"\n", b" ")
    return raw + b"\n"

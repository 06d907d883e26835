"""Changing one value of a message and leaving every other byte alone."""

from __future__ import annotations

import json
import re
from typing import Final

import msgspec

from callgate.errors import INVALID_REQUEST, Reason
from callgate.jsonrpc.reading import BadMessage

_decode: Final = msgspec.json.Decoder().decode
_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

_KEY: Final = re.compile(rb'[ \t\r\n]*[,{][ \t\r\n]*("(?:[^"\\]|\\.)*")[ \t\r\n]*:[ \t\r\n]*')


def member_span(raw: bytes, path: tuple[str, ...]) -> tuple[int, int] | None:
    """Where the value at `path` of an object stands in its bytes, or None where there is no such member."""
    offset, text = 0, raw
    for name in path:
        span = _span(text, name)
        if span is None:
            return None
        offset += span[0]
        text = text[span[0] : span[1]]
    return offset, offset + len(text)


def replace_member(raw: bytes, path: tuple[str, ...], value: bytes) -> bytes:
    """The same bytes with another value at `path`; unchanged where there is no such member."""
    span = member_span(raw, path)
    return raw if span is None else raw[: span[0]] + value + raw[span[1] :]


def _span(text: bytes, name: str) -> tuple[int, int] | None:
    if text.lstrip(b" \t\r\n")[:1] != b"{":
        return None
    try:
        members = _decode_members(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _span_leniently(text, name)
    position = 0
    found: tuple[int, int] | None = None
    for key, value in members.items():
        head = _KEY.match(text, position)
        raw = bytes(value)
        if head is None or _decode(head.group(1)) != key or not text.startswith(raw, head.end()):
            raise BadMessage(Reason.DUPLICATE_KEY, f"an object holds {key!r} twice", code=INVALID_REQUEST)
        position = head.end() + len(raw)
        if key == name:
            found = head.end(), position
    # A pair too many is a key that came again: the decoder kept its first place and its last value.
    if members and text[position:].strip(b" \t\r\n") != b"}":
        raise BadMessage(Reason.DUPLICATE_KEY, "an object holds a key twice", code=INVALID_REQUEST)
    return found


_scan_value: Final = json.JSONDecoder().raw_decode
_BLANKS: Final = re.compile(r"[ \t\r\n]*")


def _span_leniently(text: bytes, name: str) -> tuple[int, int] | None:
    """The same for what only a lenient reader takes; raises where even that one does not.

    Left as it is, the value that was to be replaced would pass for somebody else's.
    """
    found: tuple[int, int] | None = None
    try:
        read = text.decode()
        at = read.index("{")
        while read[at] != "}":
            at = _skip(read, at + 1)
            if read[at] == "}" and found is None and read[:at].strip(" \t\r\n") == "{":
                break
            key, at = _scan_value(read, at)
            start = _skip(read, _skip(read, at) + 1)
            _, end = _scan_value(read, start)
            if key == name:
                if found is not None:
                    raise BadMessage(Reason.DUPLICATE_KEY, f"an object holds {key!r} twice", code=INVALID_REQUEST)
                found = start, end
            at = _skip(read, end)
    except (ValueError, IndexError, RecursionError):
        raise BadMessage(Reason.PARSE_ERROR, "an object cannot be read") from None
    if found is None:
        return None
    return len(read[: found[0]].encode()), len(read[: found[1]].encode())


def _skip(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return at if blanks is None else blanks.end()

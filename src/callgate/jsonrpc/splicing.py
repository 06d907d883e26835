"""Changing one value of a message and leaving every other byte alone."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Final

import msgspec

from callgate.errors import INVALID_REQUEST, Reason
from callgate.jsonrpc.reading import BadMessage, RequestId

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode
_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
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


def member_spans(raw: bytes) -> dict[str, tuple[int, int]] | None:
    """Where the value of each member of an object stands; None where it is none. Raises where a key comes twice."""
    if raw.lstrip(b" \t\r\n")[:1] != b"{":
        return None
    try:
        members = _decode_members(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _spans_leniently(raw)
    position = 0
    found: dict[str, tuple[int, int]] = {}
    for key, value in members.items():
        head = _KEY.match(raw, position)
        text = bytes(value)
        if head is None or _decode(head.group(1)) != key or not raw.startswith(text, head.end()):
            raise BadMessage(Reason.DUPLICATE_KEY, f"an object holds {key!r} twice", code=INVALID_REQUEST)
        position = head.end() + len(text)
        found[key] = head.end(), position
    # A pair too many is a key that came again: the decoder kept its first place and its last value.
    if members and raw[position:].strip(b" \t\r\n") != b"}":
        raise BadMessage(Reason.DUPLICATE_KEY, "an object holds a key twice", code=INVALID_REQUEST)
    return found


def elements(raw: bytes) -> list[bytes] | None:
    """The elements of an array as the bytes they came as, also where only a lenient reader takes one of them."""
    if raw.lstrip(b" \t\r\n")[:1] != b"[":
        return None
    try:
        return [bytes(part) for part in _decode_list(raw)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _elements_leniently(raw)


def _elements_leniently(raw: bytes) -> list[bytes]:
    found: list[bytes] = []
    try:
        text = raw.decode()
        at = _skip(text, text.index("[") + 1)
        while text[at] != "]":
            _, end = _scan_value(text, at)
            found.append(text[at:end].encode())
            at = _skip(text, end)
            if text[at] == ",":
                at = _skip(text, at + 1)
            elif text[at] != "]":
                raise ValueError
        if text[at + 1 :].strip(" \t\r\n"):
            raise ValueError
    except (ValueError, IndexError, RecursionError):
        raise BadMessage(Reason.PARSE_ERROR, "an array cannot be read") from None
    return found


def replace_member(raw: bytes, path: tuple[str, ...], value: bytes) -> bytes:
    """The same bytes with another value at `path`; unchanged where there is no such member."""
    span = member_span(raw, path)
    return raw if span is None else raw[: span[0]] + value + raw[span[1] :]


def put_member(raw: bytes, name: str, value: bytes) -> bytes:
    """An object's bytes with this member: its value replaced where it is there, else added at the end."""
    span = member_span(raw, (name,))
    if span is not None:
        return raw[: span[0]] + value + raw[span[1] :]
    head = raw.strip(b" \t\r\n")[:-1].rstrip(b" \t\r\n")
    comma = b"" if head == b"{" else b","
    return head + comma + json.dumps(name).encode() + b":" + value + b"}"


def drop_member(raw: bytes, path: tuple[str, ...]) -> bytes:
    """The same bytes without the member at `path`; unchanged where there is none."""
    return drop_members(raw, path[:-1], {path[-1]})


def drop_members(raw: bytes, path: tuple[str, ...], names: Collection[str]) -> bytes:
    """The same bytes without these members of the object at `path`: all of them in one go, however many they are."""
    parent = member_span(raw, path)
    if not names or parent is None or raw[parent[0] : parent[1]].lstrip(b" \t\r\n")[:1] != b"{":
        return raw
    text = raw[parent[0] : parent[1]].decode()
    pairs = _pairs(text)
    kept: list[str] = []
    after = pairs[0][1] if pairs else 0
    for key, start, end in pairs:
        if key not in names:
            # With what stands before it: a comma, and blanks as they are.
            kept.append(text[after if kept else start : end])
        after = end
    if all(key not in names for key, _, _ in pairs):
        return raw
    whole = text[: pairs[0][1]] + "".join(kept) + text[after:]
    return raw[: parent[0]] + whole.encode() + raw[parent[1] :]


def with_id(body: bytes, rpc_id: RequestId) -> bytes:
    """An error as the reply to a request: servers that refuse before they read leave the id out, or null."""
    if member_span(body, ("id",)) is not None:
        return replace_member(body, ("id",), _encode(rpc_id))
    return body.replace(b"{", b'{"id":' + _encode(rpc_id) + b",", 1)


def _pairs(text: str) -> list[tuple[str, int, int]]:
    """Each member of an object: its name, where that begins and where its value ends."""
    found: list[tuple[str, int, int]] = []
    try:
        at = _skip(text, text.index("{") + 1)
        while text[at] != "}":
            key, after = _scan_value(text, at)
            _, end = _scan_value(text, _skip(text, _skip(text, after) + 1))
            found.append((key, at, end))
            at = _skip(text, end)
            if text[at] == ",":
                at = _skip(text, at + 1)
    except (ValueError, IndexError, RecursionError):
        raise BadMessage(Reason.PARSE_ERROR, "an object cannot be read") from None
    return found


def _span(text: bytes, name: str) -> tuple[int, int] | None:
    spans = member_spans(text)
    return None if spans is None else spans.get(name)


_scan_value: Final = json.JSONDecoder().raw_decode
_BLANKS: Final = re.compile(r"[ \t\r\n]*")


def _spans_leniently(text: bytes) -> dict[str, tuple[int, int]]:
    """The same for what only a lenient reader takes; raises where even that one does not.

    Left as it is, the value that was to be replaced would pass for somebody else's.
    """
    found: dict[str, tuple[int, int]] = {}
    try:
        read = text.decode()
        at = read.index("{")
        while read[at] != "}":
            at = _skip(read, at + 1)
            if read[at] == "}" and not found and read[:at].strip(" \t\r\n") == "{":
                break
            if read[at] != '"':
                raise ValueError
            key, at = _scan_value(read, at)
            start = _skip(read, _skip(read, at) + 1)
            _, end = _scan_value(read, start)
            if key in found:
                raise BadMessage(Reason.DUPLICATE_KEY, f"an object holds {key!r} twice", code=INVALID_REQUEST)
            found[key] = start, end
            at = _skip(read, end)
    except (ValueError, IndexError, RecursionError):
        raise BadMessage(Reason.PARSE_ERROR, "an object cannot be read") from None
    return found if read.isascii() else _in_bytes(read, found)


def _in_bytes(read: str, found: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Places in a text as places in its bytes; each counted on from the one before, or many would take the square."""
    counted: dict[str, tuple[int, int]] = {}
    at = size = 0
    for key, (start, end) in found.items():
        begin = size + len(read[at:start].encode())
        at, size = end, begin + len(read[start:end].encode())
        counted[key] = begin, size
    return counted


def _skip(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return at if blanks is None else blanks.end()

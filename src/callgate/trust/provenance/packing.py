"""What one step left in memory, as the bytes that the store keeps with it."""

from __future__ import annotations

import struct
from array import array
from typing import Final

import msgspec

_HEAD: Final = struct.Struct("<BB7I")
_VERSION: Final = 1


class Left(msgspec.Struct):
    """The digests of one step. Words in order, 0 between texts, where they vouch; sets where they do not.

    `records` are runs of key, flags with the number of names above the lowest byte, and the names.
    """

    prompt: bytes = b""
    clean: bytes = b""
    vouching: bytes = b""
    strange: bytes = b""
    own: bytes = b""
    records: bytes = b""
    # A bit for each class of data, then the details that only who has read such data knows.
    details: bytes = b""
    # Not all of the result could be kept.
    cut: bool = False


class Unreadable(ValueError):
    """Bytes that no `pack` of this version made."""


def pack(left: Left) -> bytes:
    parts = (left.prompt, left.clean, left.vouching, left.strange, left.own, left.records, left.details)
    return _HEAD.pack(_VERSION, left.cut, *map(len, parts)) + b"".join(parts)


def unpack(packed: bytes) -> Left:
    try:
        version, cut, *lengths = _HEAD.unpack_from(packed)
    except struct.error:
        raise Unreadable from None
    if version != _VERSION or len(packed) != _HEAD.size + sum(lengths) or any(length % 8 for length in lengths):
        raise Unreadable
    parts, start = [], _HEAD.size
    for length in lengths:
        parts.append(packed[start : start + length])
        start += length
    prompt, clean, vouching, strange, own, records, details = parts
    return Left(prompt, clean, vouching, strange, own, records, details, bool(cut))


def numbers(packed: bytes) -> array[int]:
    """Packed digests, one by one."""
    digests: array[int] = array("Q")
    digests.frombytes(packed)
    return digests

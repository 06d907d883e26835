"""What the tables of pinning share: keys for names of any kind and length, and bodies that hold them."""

from __future__ import annotations

import hashlib
import json
from typing import TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


def key_of(*parts: str) -> bytes:
    """One value for texts that no index would take: long ones, ones with NUL, with half characters."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8))
        digest.update(raw)
    return digest.digest()


def pack(value: msgspec.Struct) -> bytes:
    """A body; half characters, which msgpack has no way to write, make it JSON."""
    try:
        return msgspec.msgpack.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode()


def unpack(body: bytes, kind: type[S]) -> S:
    """What `pack` made; a struct in msgpack never starts with a brace."""
    if body[:1] == b"{":
        return msgspec.convert(json.loads(body), kind)
    return msgspec.msgpack.decode(body, type=kind)

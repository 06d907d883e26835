"""The Merkle tree of RFC 6962 §2.1: hashes, proofs and their verification. No storage, no state."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import Final

HASH: Final = 32
EMPTY_ROOT: Final = hashlib.sha256().digest()
MAX_SIZE: Final = 2**62

# `node(height, index)` is the hash over the 2^height leaves that start at index * 2^height, all of them present.
Node = Callable[[int, int], bytes]


def leaf_hash(record: bytes) -> bytes:
    """§2.1: MTH({d(0)}) = SHA-256(0x00 || d(0))."""
    return hashlib.sha256(b"\x00" + record).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """§2.1: SHA-256(0x01 || left || right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def fold(hashes: bytes) -> bytes:
    """One level up: the parents of concatenated, evenly many hashes."""
    sha256 = hashlib.sha256
    return b"".join([sha256(b"\x01" + hashes[at : at + 64]).digest() for at in range(0, len(hashes), 64)])


def complete(hashes: bytes) -> bytes:
    """The root over concatenated hashes whose number is a power of two."""
    while len(hashes) > HASH:
        hashes = fold(hashes)
    return hashes


def root(size: int, node: Node) -> bytes:
    """§2.1: MTH(D[size])."""
    return EMPTY_ROOT if size == 0 else _range(0, size, node)


def inclusion(leaf: int, size: int, node: Node) -> list[bytes]:
    """§2.1.1: PATH(leaf, D[size]), lowest sibling first."""
    if not 0 <= leaf < size:
        raise ValueError(leaf, size)
    path: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        split = start + _split(end - start)
        if leaf < split:
            path.append(_range(split, end, node))
            end = split
        else:
            path.append(_range(start, split, node))
            start = split
    return path[::-1]


def consistency(old: int, new: int, node: Node) -> list[bytes]:
    """§2.1.2: PROOF(old, D[new]); empty where there is nothing to prove."""
    if not 0 <= old <= new:
        raise ValueError(old, new)
    if old in (0, new):
        return []
    path: list[bytes] = []
    start, end, whole = 0, new, True
    while old != end:
        split = start + _split(end - start)
        if old <= split:
            path.append(_range(split, end, node))
            end = split
        else:
            path.append(_range(start, split, node))
            start, whole = split, False
    if not whole:
        path.append(_range(start, end, node))
    return path[::-1]


def includes(record_hash: bytes, leaf: int, size: int, path: Sequence[bytes], expected: bytes) -> bool:
    """RFC 9162 §2.1.3.2: whether the path leads from this leaf to that root."""
    if not 0 <= leaf < size <= MAX_SIZE or not _hashes(path):
        return False
    fn, sn, result = leaf, size - 1, record_hash
    for step in path:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            result = node_hash(step, result)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            result = node_hash(result, step)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and hmac.compare_digest(result, expected)


def extends(old: int, new: int, old_root: bytes, new_root: bytes, path: Sequence[bytes]) -> bool:
    """RFC 9162 §2.1.4.2: whether the tree of `new` leaves begins with the tree of `old` leaves."""
    if not 0 <= old <= new <= MAX_SIZE or not _hashes(path):
        return False
    if old == new:
        return not path and hmac.compare_digest(old_root, new_root)
    if old == 0:
        return not path and hmac.compare_digest(old_root, EMPTY_ROOT)
    steps = list(path)
    if old & (old - 1) == 0:
        steps.insert(0, old_root)
    if not steps:
        return False
    fn, sn = old - 1, new - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    first = second = steps[0]
    for step in steps[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            first, second = node_hash(step, first), node_hash(step, second)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            second = node_hash(second, step)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and hmac.compare_digest(first, old_root) and hmac.compare_digest(second, new_root)


def _split(count: int) -> int:
    """§2.1: the largest power of two smaller than count."""
    return 1 << ((count - 1).bit_length() - 1)


def _range(start: int, end: int, node: Node) -> bytes:
    """MTH over leaves [start, end), where start is a multiple of the power of two that covers the range."""
    parts: list[bytes] = []
    while start < end:
        height = (end - start).bit_length() - 1
        parts.append(node(height, start >> height))
        start += 1 << height
    result = parts.pop()
    while parts:
        result = node_hash(parts.pop(), result)
    return result


def _hashes(path: Sequence[bytes]) -> bool:
    return len(path) <= 64 and all(len(step) == HASH for step in path)

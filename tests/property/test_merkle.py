"""The Merkle tree against a plain transcription of RFC 6962 §2.1, for every size up to 300 and beyond."""

import hashlib
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callgate.audit import merkle
from callgate.audit.proofs import Tiles, levels, width
from support.table import rows

LEAVES = [hashlib.sha256(b"\x00" + b"record %d" % number).digest() for number in range(70_000)]
SIZES = 301


def naive_split(count):
    k = 1
    while k * 2 < count:
        k *= 2
    return k


@cache
def naive_root(start, end):
    if end - start == 0:
        return hashlib.sha256(b"").digest()
    if end - start == 1:
        return LEAVES[start]
    k = naive_split(end - start)
    return hashlib.sha256(b"\x01" + naive_root(start, start + k) + naive_root(start + k, end)).digest()


def naive_path(m, start, end):
    if end - start == 1:
        return []
    k = naive_split(end - start)
    if m < k:
        return [*naive_path(m, start, start + k), naive_root(start + k, end)]
    return [*naive_path(m - k, start + k, end), naive_root(start, start + k)]


def naive_proof(m, start, end, whole):
    if m == end - start:
        return [] if whole else [naive_root(start, end)]
    k = naive_split(end - start)
    if m <= k:
        return [*naive_proof(m, start, start + k, whole), naive_root(start + k, end)]
    return [*naive_proof(m - k, start + k, end, False), naive_root(start, start + k)]


def tree(size, step=None):
    grown = Tiles(0, lambda level, number: b"")
    for start in range(0, size, step or max(1, size)):
        grown.append(LEAVES[start : min(size, start + (step or size))])
    return grown


@rows("step", [None, 1, 7, 256])
def test_roots_of_all_sizes(step):
    for size in range(0, SIZES, 1 if step is None else 13):
        assert tree(size, step).root() == naive_root(0, size)


def test_inclusion_proofs_of_all_sizes():
    grown = tree(SIZES)
    for size in range(1, SIZES):
        root = naive_root(0, size)
        for leaf in range(0, size, 1 if size < 40 else 17):
            path = merkle.inclusion(leaf, size, grown.node)
            assert path == naive_path(leaf, 0, size)
            assert merkle.includes(LEAVES[leaf], leaf, size, path, root)


def test_consistency_proofs_of_all_sizes():
    grown = tree(SIZES)
    for new in range(SIZES):
        for old in range(0, new + 1, 1 if new < 40 else 13):
            path = merkle.consistency(old, new, grown.node)
            assert path == (naive_proof(old, 0, new, True) if old else [])
            assert merkle.extends(old, new, naive_root(0, old), naive_root(0, new), path)


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_large_trees_grown_in_any_steps(data):
    size = data.draw(st.sampled_from([255, 256, 257, 511, 512, 513, 65_535, 65_536, 65_537, 66_000]))
    cuts = sorted({0, size, *data.draw(st.lists(st.integers(0, size), max_size=6))})
    grown = Tiles(0, lambda level, number: b"")
    for start, end in zip(cuts, cuts[1:], strict=False):
        grown.append(LEAVES[start:end])
        if data.draw(st.booleans()):
            grown.forget()
    assert grown.root() == naive_root(0, size)


def test_stored_tiles_hold_what_tlog_tiles_says():
    grown = tree(66_000, 4096)
    stored = {(level, number): hashes for level, number, hashes in grown.changed()}
    assert set(stored) == {(0, n) for n in range(258)} | {(1, 0), (1, 1), (2, 0)}
    assert levels(66_000) == 3
    for (level, number), hashes in stored.items():
        assert len(hashes) == 32 * width(66_000, level, number)
    assert stored[1, 0][:32] == naive_root(0, 256)
    assert stored[2, 0] == naive_root(0, 65_536)
    again = Tiles(66_000, lambda level, number: stored[level, number])
    assert again.root() == naive_root(0, 66_000)
    path = merkle.inclusion(12_345, 66_000, again.node)
    assert merkle.includes(LEAVES[12_345], 12_345, 66_000, path, again.root())


proof = st.integers(2, 300).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


@given(proof, st.data())
@settings(max_examples=100, deadline=None)
def test_a_mutated_inclusion_proof_is_refused(case, data):
    size, leaf = case
    path = naive_path(leaf, 0, size)
    root = naive_root(0, size)
    mutated, other_leaf, other_size, other_root = list(path), leaf, size, root
    kind = data.draw(st.sampled_from(["flip", "drop", "add", "swap", "root", "leaf", "short"]))
    at = data.draw(st.integers(0, len(path) - 1))
    if kind == "flip":
        byte = data.draw(st.integers(0, 31))
        mutated[at] = bytes(b ^ (1 << (byte % 8)) if i == byte else b for i, b in enumerate(mutated[at]))
    elif kind == "drop":
        del mutated[at]
    elif kind == "add":
        mutated.insert(at, bytes(32))
    elif kind == "swap":
        mutated.append(mutated.pop(0))
        if mutated == path:
            return
    elif kind == "root":
        other_root = naive_root(0, size + 1)
    elif kind == "leaf":
        other_leaf = data.draw(st.integers(0, size - 1).filter(lambda one: one != leaf))
    else:
        mutated[at] = mutated[at][:31]
    assert not merkle.includes(LEAVES[leaf], other_leaf, other_size, mutated, other_root)
    assert merkle.includes(LEAVES[leaf], leaf, size, path, root)


@given(st.integers(3, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1))), st.data())
@settings(max_examples=100, deadline=None)
def test_a_mutated_consistency_proof_is_refused(case, data):
    new, old = case
    path = naive_proof(old, 0, new, True)
    kind = data.draw(st.sampled_from(["flip", "drop", "add", "old root", "new root", "old size"]))
    mutated, old_root, new_root, size = list(path), naive_root(0, old), naive_root(0, new), old
    at = data.draw(st.integers(0, len(path) - 1))
    if kind == "flip":
        mutated[at] = bytes([mutated[at][0] ^ 1]) + mutated[at][1:]
    elif kind == "drop":
        del mutated[at]
    elif kind == "add":
        mutated.insert(at, bytes(32))
    elif kind == "old root":
        old_root = naive_root(1, old + 1)
    elif kind == "new root":
        new_root = naive_root(1, new + 1)
    else:
        size = data.draw(st.integers(1, new).filter(lambda one: one != old))
    assert not merkle.extends(size, new, old_root, new_root, mutated)


@rows(("leaf", "size"), [(-1, 3), (3, 3), (0, 0), (5, 2), (0, 2**63)], ids=["negative", "end", "empty", "out", "huge"])
def test_a_leaf_outside_the_tree_has_no_proof(leaf, size):
    assert not merkle.includes(LEAVES[0], leaf, size, [], LEAVES[0])
    if size < 2**63:
        with pytest.raises(ValueError):
            merkle.inclusion(leaf, size, tree(3).node)


def test_a_shrinking_tree_has_no_proof():
    assert not merkle.extends(5, 4, LEAVES[0], LEAVES[0], [])
    assert not merkle.extends(-1, 4, LEAVES[0], LEAVES[0], [])
    with pytest.raises(ValueError):
        merkle.consistency(5, 4, tree(5).node)

"""Results that are kept back: only the handle they were sealed for opens them."""

import itertools

import pytest

from callgate.trust.quarantine import HELD_MS, Seals, Unopened, expired, expires_at, is_handle, new_handle
from support.table import rows

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
REPLY = b'{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"kept back"}]}}'


def test_a_handle_is_128_random_bits_in_base32():
    assert new_handle(bytes) == "cgq_" + "a" * 26
    assert len({new_handle() for _ in range(100)}) == 100
    assert is_handle(new_handle())


@rows("text", ["", "cgq_", "cgq_" + "a" * 25, "cgq_" + "A" * 26, "cgq_" + "a" * 26 + "\n", None, 7])
def test_other_things_are_no_handles(text):
    assert not is_handle(text)


def test_what_was_sealed_opens_under_its_handle_and_says_nothing_before():
    seals, handle = Seals(KEY), new_handle()
    sealed = seals.seal(REPLY, handle)
    assert seals.open(sealed, handle) == REPLY
    assert b"kept back" not in sealed
    assert sealed != seals.seal(REPLY, handle)


def test_another_handle_does_not_open_it():
    seals = Seals(KEY)
    sealed = seals.seal(REPLY, new_handle())
    with pytest.raises(Unopened):
        seals.open(sealed, new_handle())


def test_no_byte_of_it_can_be_changed_or_cut_off():
    seals, handle = Seals(KEY), new_handle()
    sealed = seals.seal(REPLY, handle)
    for at in range(len(sealed)):
        flipped = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        with pytest.raises(Unopened):
            seals.open(flipped, handle)
        with pytest.raises(Unopened):
            seals.open(sealed[:at], handle)


def test_a_rotated_key_still_opens_and_a_lost_one_does_not():
    handle = new_handle()
    sealed = Seals(KEY).seal(REPLY, handle)
    assert Seals([OTHER, KEY]).open(sealed, handle) == REPLY
    assert Seals(KEY).open(Seals([KEY, OTHER]).seal(REPLY, handle), handle) == REPLY
    with pytest.raises(Unopened):
        Seals(OTHER).open(sealed, handle)


@rows("keys", [b"", b"short", [], [KEY, b"short"]])
def test_a_key_is_32_bytes(keys):
    with pytest.raises(ValueError, match="32 bytes"):
        Seals(keys)


def test_nonces_come_from_the_randomness_given():
    counter = itertools.count()
    seals = Seals(KEY, random=lambda size: next(counter).to_bytes(size, "big"))
    first, second = (seals.seal(REPLY, "cgq_" + "a" * 26) for _ in range(2))
    assert first[5:17] == bytes(12)
    assert second[5:17] == bytes(11) + b"\x01"


def test_a_result_is_held_for_a_time():
    assert expires_at(1_000, 500) == 1_500
    assert expires_at(1_000, -5) == 1_000
    assert not expired(1_000, 1_499, 500)
    assert expired(1_000, 1_500, 500)
    assert not expired(0, HELD_MS - 1)
    assert expired(0, HELD_MS)

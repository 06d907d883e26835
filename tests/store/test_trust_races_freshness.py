"""What one gateway has handed on, the other knows at its next call: however many write, and whoever is killed."""

import pytest

from store.tainting import Gateway


@pytest.fixture
def start(tmp_path):
    started = []

    def one():
        started.append(Gateway(f"sqlite:///{tmp_path / 'store.db'}"))
        return started[-1]

    yield one
    for gateway in started:
        gateway.kill()


def test_what_one_read_the_other_knows_at_its_next_call(start):
    first, second = start(), start()
    for number in range(20):
        one, other = (first, second) if number % 2 else (second, first)
        one.reads(f"word{number}x")
        known, overflowed = other.knows(f"word{number}x")
        assert known
        # Else it would take anything for a stranger's.
        assert not overflowed
        assert not other.knows(f"nobody{number}x")[0]


def test_what_was_handed_on_outlives_the_process(start):
    gateway = start()
    for number in range(6):
        words = [f"word{number}x{more}" for more in range(number % 4)]
        for word in words:
            gateway.reads(word)
        gateway.kill()
        gateway = start()
        for word in words:
            known, overflowed = gateway.knows(word)
            assert known
            assert not overflowed

"""How often something may be tried."""

import pytest

from callgate.console.guard import AttemptLimit
from callgate.errors import Reason, Refused


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def refused(pace, name):
    """For how many seconds; none if it is for another reason."""
    with pytest.raises(Refused) as caught:
        pace.step(name)
    return caught.value.data["retryAfter"] if caught.value.reason is Reason.APPROVAL_LIMIT else 0


def test_a_name_may_be_tried_so_often_a_minute():
    clock = Clock()
    pace = AttemptLimit(2, 10, clock)
    pace.step("anna")
    clock.now += 30
    pace.step("anna")
    assert refused(pace, "anna") == 30
    pace.step("berta")
    clock.now += 29.9
    assert refused(pace, "anna") == 1
    clock.now += 0.1
    pace.step("anna")
    assert refused(pace, "anna") == 30


def test_without_a_name_only_all_together_count():
    clock = Clock()
    pace = AttemptLimit(2, 5, clock)
    for _ in range(4):
        pace.step()
    pace.step("anna")
    assert refused(pace, "") == refused(pace, "berta") == 60


def test_all_names_together_are_bounded_and_so_is_what_is_remembered():
    clock = Clock()
    pace = AttemptLimit(2, 5, clock)
    for number in range(5):
        pace.step(f"user{number}")
    for number in range(1000):
        assert refused(pace, f"other{number}") == 60
    assert len(pace._tries) == 5
    clock.now += 60
    pace.step("anna")
    assert len(pace._tries) == 1

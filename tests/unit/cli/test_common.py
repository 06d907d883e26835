import pytest

from callgate.cli.common import pick, short
from callgate.cli.printing import moment, plain
from callgate.errors import CallgateError


def test_short_ids_are_as_long_as_they_have_to_be():
    one, two, other = "A" * 14 + "1", "A" * 14 + "2", "-B" * 10
    shown = short([one, two, other])
    assert shown == {one: one, two: two, other: other[1:11]}
    for full, beginning in shown.items():
        assert pick([one, two, other], beginning, "thing", "") == full
    assert short(["AAAA", "AAAAB"]) == {"AAAA": "AAAA", "AAAAB": "AAAAB"}


def test_a_whole_id_wins_over_one_that_it_begins():
    assert pick(["AAAA", "AAAAB"], "AAAA", "thing", "") == "AAAA"
    with pytest.raises(CallgateError, match="there is no thing ''"):
        pick(["AAAA"], "", "thing", "advice")
    with pytest.raises(CallgateError, match="more than one thing: AAAAB, AAAAC"):
        pick(["AAAAB", "AAAAC"], "AAA", "thing", "advice")


def test_texts_of_others_stay_on_their_line():
    assert plain("a\nb\x1b[31m\u202e") == "a\ufffdb\ufffd[31m\ufffd"
    assert plain("x" * 200) == "x" * 120 + "…"
    assert moment(None) == "-"

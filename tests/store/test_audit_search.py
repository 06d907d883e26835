"""Search and counts of the log, the same on both databases."""

import pytest

from callgate.audit import reading
from callgate.audit.reading import Search, search
from callgate.audit.storage import Counted, Filter
from callgate.store.approval import asked_by_hour
from support.auditing import START, decision, open_log, outcome
from support.table import rows

HOUR = 3_600_000
FIRST = START // HOUR


@pytest.fixture
async def log(url, tmp_path):
    opened = open_log(url, tmp_path / "keys")
    refused = {"verdict": "refuse", "reason": "rule_blocked", "tool": "50%_off"}
    with opened.store.audit_writing() as tables:
        for number in range(1, 13):
            more = refused if number % 4 == 0 else {}
            tables.insert(opened.row(decision(number, at=START + number * HOUR // 4, **more)))
            ended = "lost" if number == 5 else "result"
            tables.insert(opened.row(outcome(number, at=START + number * HOUR // 4, outcome=ended)))
    yield opened
    await opened.store.close()


def numbers(found):
    return [int(one.decision.call[-16:]) for one in found.entries]


async def test_pages_follow_each_other_both_ways(log):
    with log.store.audit_reading() as tables:
        first = search(tables, Search(), limit=5)
        second = search(tables, Search(), limit=5, before=first.older)
        third = search(tables, Search(), limit=5, before=second.older)
        back = search(tables, Search(), limit=5, after=third.newer)
    assert [numbers(one) for one in (first, second, third)] == [[12, 11, 10, 9, 8], [7, 6, 5, 4, 3], [2, 1]]
    assert (first.newer, third.older) == (None, None)
    assert numbers(back) == numbers(second)


@rows(
    ("wanted", "found"),
    [
        (Filter(text="50%_OFF"), [12, 8, 4]),
        (Filter(text="50__off"), []),
        (Filter(text="rule_"), [12, 8, 4]),
        (Filter(verdict="refuse", until=START + 8 * HOUR // 4), [4]),
        (Filter(since=START + 11 * HOUR // 4), [12, 11]),
        (Filter(since=START + 99 * HOUR), []),
    ],
)
async def test_what_is_looked_for_is_found(log, wanted, found):
    with log.store.audit_reading() as tables:
        assert numbers(search(tables, Search(wanted))) == found


async def test_calls_are_counted_by_the_hour(log):
    with log.store.audit_reading() as tables:
        found = sorted(tables.hours(0, tables.newest() + 1), key=lambda one: (one.hour, one.verdict))
        some = tables.hours(1, 5)
    expected = {}
    for number in range(1, 13):
        hour, verdict = (START + number * HOUR // 4) // HOUR, "allow" if number % 4 else "refuse"
        expected[hour, verdict] = expected.get((hour, verdict), 0) + 1
    assert {(one.hour, one.verdict): one.calls for one in found} == expected
    assert found[0] == Counted(FIRST, "files", "allow", "", expected[FIRST, "allow"])
    assert sum(one.calls for one in some) == 2


async def test_calls_that_were_lost_are_found(log):
    with log.store.audit_reading() as tables:
        found = reading.lost(tables, ("lost",), 0, 10)
        assert [(one.decision.call, one.outcome.outcome) for one in found] == [(decision(5).call, "lost")]
        assert reading.lost(tables, ("lost",), found[0].record + 2, 10) == []


async def test_no_requests_are_no_trouble(log):
    assert await log.store.read(lambda conn: asked_by_hour(conn, 0)) == []

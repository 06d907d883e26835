"""A change of a description that is found weeks later: the calls made under the old text are still on record."""

import pytest

from callgate.audit import reading
from callgate.audit.storage import Filter
from callgate.config import Config
from support.auditing import START, decision, open_log, outcome
from support.registry import requirement

WEEK = 7 * 86_400
PIN = {"pin": {"server_id": "npm:files@1.0.0", "approval_hash": "sha256:" + "a" * 64, "state": "approved"}}


@pytest.fixture
async def log(url, tmp_path):
    now = [START / 1000]
    opened = open_log(url, tmp_path / "keys", clock=lambda: now[0], retention_days=Config().audit.retention_days)
    opened.now = now
    yield opened
    await opened.store.close()


@requirement("TP-054", "TP-079")
async def test_a_call_of_weeks_ago_is_found_with_the_hash_it_was_made_under(log):
    """By default; and pruning has run every week since."""
    assert Config().audit.retention_days >= 90
    await log.decided(decision(1, extra=PIN))
    log.completed(outcome(1))
    log.store.flush()
    log.catch_up()
    for week in range(1, 13):
        log.now[0] += WEEK
        assert await log.prune() == 0
        log.catch_up()
        if week < 8:
            continue
        with log.store.audit_reading() as tables:
            (found,) = reading.entries(tables, Filter(tool="read"), 10)
        assert found.decision.extra == PIN
        assert found.outcome == outcome(1)

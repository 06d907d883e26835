import asyncio

import msgspec
import pytest
from sqlalchemy import func, select

from callgate.audit import Arguments, note, proofs, reading, receipt, verify
from callgate.audit import log as retention
from callgate.audit.log import Sequencer, SequencerStep
from callgate.audit.storage import Filter
from callgate.errors import AuditError, Reason, Refused, Tampered
from callgate.store.schema import audit_checkpoint, audit_leaf, audit_record
from support.auditing import START, decision, fill, open_log, outcome


@pytest.fixture
def clock():
    now = [START / 1000]

    def read():
        return now[0]

    read.now = now
    return read


@pytest.fixture
async def log(url, tmp_path, clock):
    opened = open_log(url, tmp_path / "keys", clock=clock)
    yield opened
    await opened.store.close()


def check(log, **options):
    return verify.verify(log.store, log.keyring, **options)


def head(log):
    with log.store.audit_reading() as conn:
        return conn.head()


async def test_a_decision_is_stored_sealed_and_readable(log):
    await log.decided(decision(1, reason="blocked_by_policy", verdict="refuse"))
    with log.store.audit_reading() as conn:
        found = reading.entry(conn, decision(1).call)
    assert found.decision == decision(1, reason="blocked_by_policy", verdict="refuse")
    assert check(log).pending == 1


async def test_decision_and_outcome_are_paired(log):
    await log.decided(decision(1))
    await log.decided(decision(2))
    log.completed(outcome(1))
    await asyncio.to_thread(log.store.flush)
    with log.store.audit_reading() as conn:
        found = reading.entries(conn, Filter(), 10)
    assert [(one.decision.call, one.outcome) for one in found] == [
        (decision(1).call, outcome(1)),
        (decision(2).call, None),
    ]


async def test_the_running_sequencer_brings_records_into_the_tree(log):
    await log.start()
    await log.decided(decision(1))
    async with asyncio.timeout(30):
        while (now := await asyncio.to_thread(head, log)) is None or now.size < 1:
            await asyncio.sleep(0.02)
    log.completed(outcome(1))
    await log.close()
    assert head(log).size == 2
    report = check(log)
    assert (report.records, report.pending) == (2, 0)


def test_any_number_of_records_integrates_and_verifies(log):
    before = 0
    for count in (0, 1, 128, 129, 500):
        fill(log, count - before, first=before + 1)
        assert log.catch_up() == 2 * (count - before)
        report = check(log)
        assert (report.size, report.records, report.pending) == (2 * count, 2 * count, 0)
        assert log.catch_up() == 0
        before = count


def test_the_tree_grows_the_same_in_small_steps_and_at_once(log, monkeypatch):
    monkeypatch.setattr("callgate.audit.log.BATCH", 7)
    fill(log, 100)
    log.catch_up()
    assert check(log).records == 200
    with log.store.reading() as conn:
        mapping = conn.execute(select(audit_leaf).order_by(audit_leaf.c.leaf)).all()
    assert [leaf for leaf, _ in mapping] == list(range(200))


def test_two_sequencers_do_not_get_in_each_others_way(log, url, tmp_path):
    other = open_log(url, tmp_path / "keys")
    fill(log, 50)
    first, second = Sequencer(log.store, log.keyring), Sequencer(other.store, other.keyring)
    first.catch_up()
    fill(other, 50, first=51)
    assert second.catch_up() == 100
    assert first.catch_up() == 0
    assert check(other).records == 200
    other.store.close_sync()


def test_a_gateway_ends_although_the_head_is_another_one_at_each_look(log, monkeypatch):
    """A store that was replaced: one connection has the old file, another the new one."""
    fill(log, 3)
    looks = []
    sequencer = Sequencer(log.store, log.keyring)
    monkeypatch.setattr(sequencer, "_integrate", lambda *_, **__: looks.append(1) or SequencerStep(0, more=True))
    sequencer.close()
    assert 1 < len(looks) < 1_000


def test_a_result_computed_on_an_old_head_is_not_kept(log, monkeypatch):
    fill(log, 3)
    log.catch_up()
    fill(log, 3, first=4)
    slow, fast = Sequencer(log.store, log.keyring), Sequencer(log.store, log.keyring)
    keep = slow._keep
    raced = []

    def late(*args, **options):
        if not raced:
            raced.append(fast.catch_up())
        return keep(*args, **options)

    monkeypatch.setattr(slow, "_keep", late)
    assert slow.catch_up() == 0
    assert raced == [6]
    assert check(log).records == 12


def test_every_record_has_an_inclusion_proof(log):
    fill(log, 30)
    log.catch_up()
    with log.store.audit_reading() as conn:
        for number in (1, 7, 30):
            document = receipt.encode(receipt.make(conn, decision(number).call, log.keyring.public_keys()))
            done = receipt.verify(document)
            assert (done.decision, done.outcome) == (decision(number), outcome(number))


def test_a_record_that_is_not_in_the_tree_has_no_proof_yet(log):
    fill(log, 1)
    log.catch_up()
    fill(log, 1, first=2)
    with log.store.audit_reading() as conn, pytest.raises(AuditError, match="not in the tree yet"):
        receipt.make(conn, decision(2).call, [])


def test_a_receipt_of_a_call_without_outcome(log):
    with log.store.writing() as conn:
        log.store.insert(conn, log.row(decision(1, verdict="refuse")))
    log.catch_up()
    with log.store.audit_reading() as conn:
        made = receipt.make(conn, decision(1).call, log.keyring.public_keys())
    assert receipt.verify(receipt.encode(made)).outcome is None


def test_checkpoints_are_archived_at_most_once_a_minute(log, clock):
    for number in range(1, 6):
        fill(log, 1, first=number)
        log.catch_up()
        clock.now[0] += 10
    with log.store.reading() as conn:
        assert conn.execute(select(func.count()).select_from(audit_checkpoint)).scalar_one() == 1
    clock.now[0] += 60
    fill(log, 1, first=6)
    log.catch_up()
    report = check(log)
    assert (report.checkpoints, report.size) == (2, 12)


def test_an_earlier_checkpoint_stays_contained(log):
    fill(log, 10)
    log.catch_up()
    earlier = head(log).note
    fill(log, 300, first=11)
    log.catch_up()
    assert check(log, earlier=[earlier]).size == 620
    with log.store.audit_reading() as conn:
        assert proofs.consistency(conn, note.parse(earlier))


def test_no_proof_is_made_for_a_checkpoint_that_the_log_does_not_begin_with(log):
    fill(log, 10)
    log.catch_up()
    now = note.parse(head(log).note)
    cut, rewritten, other = (
        msgspec.structs.replace(now, **one) for one in ({"size": 21}, {"root": bytes(32)}, {"origin": "another"})
    )
    for old, said in ((cut, "it was cut off"), (rewritten, "it was rewritten"), (other, "another log")):
        with log.store.audit_reading() as conn, pytest.raises(Tampered, match=said):
            proofs.consistency(conn, old)


def test_after_a_rotation_old_and_new_signatures_verify(log):
    fill(log, 5)
    log.catch_up()
    old = head(log).note
    log.keyring.rotate("checkpoint")
    log.keyring.rotate("seal")
    fill(log, 5, first=6)
    log.catch_up()
    new = head(log).note
    report = check(log, earlier=[old])
    assert report.records == 20
    assert old.split()[-1][:8] != new.split()[-1][:8]
    with log.store.reading() as conn:
        kept = [row.note for row in conn.execute(select(audit_checkpoint))]
    assert old in kept
    assert new in kept


# -- retention -----------------------------------------------------------------------------------------------------


def pruned(log, clock, *, records=20, days=180):
    fill(log, records)
    log.catch_up()
    clock.now[0] += (days + 1) * 86_400
    for number in range(records + 1, records + 4):
        late = int(clock.now[0] * 1000) + number
        with log.store.writing() as conn:
            log.store.insert(conn, log.row(decision(number, at=late)))
    log.catch_up()
    return log.prune_sync("gateway")


def test_old_bodies_go_and_everything_else_stays_provable(log, clock):
    assert pruned(log, clock) == 40
    log.catch_up()
    report = check(log)
    assert (report.size, report.records, report.removed) == (44, 4, 40)
    with log.store.audit_reading() as conn:
        made = receipt.make(conn, decision(22).call, log.keyring.public_keys())
    assert receipt.verify(receipt.encode(made)).decision.call == decision(22).call


def test_pruning_again_finds_nothing_and_adds_nothing(log, clock):
    pruned(log, clock)
    log.catch_up()
    before = head(log).size
    assert log.prune_sync("gateway") == 0
    assert log.catch_up() == 0
    assert head(log).size == before


def test_the_word_of_the_next_pruning_covers_the_last_one(log, clock):
    pruned(log, clock)
    log.catch_up()
    clock.now[0] += 400 * 86_400
    assert log.prune_sync("gateway") == 4
    log.catch_up()
    report = check(log)
    assert (report.records, report.removed) == (1, 44)


def test_records_that_wait_for_the_tree_are_never_pruned(log, clock):
    fill(log, 5)
    clock.now[0] += 400 * 86_400
    assert log.prune_sync("gateway") == 0
    log.catch_up()
    assert log.prune_sync("gateway") == 10


async def test_the_gateway_prunes_by_itself(log, clock):
    fill(log, 3)
    log.catch_up()
    assert await log.prune() == 0
    clock.now[0] += 181 * 86_400
    assert await log.prune() == 6


async def test_zero_days_keep_everything(url, tmp_path, clock):
    log = open_log(url, tmp_path / "keys", clock=clock, retention_days=0)
    fill(log, 2)
    log.catch_up()
    clock.now[0] += 4000 * 86_400
    assert await log.prune() == 0
    await log.store.close()


def test_a_crash_between_announcement_and_removal_is_no_tampering(log, clock, monkeypatch):
    monkeypatch.setattr(retention, "PRUNE_BATCH", 7)
    fill(log, 20)
    log.catch_up()
    clock.now[0] += 400 * 86_400
    writing, left = log.store.writing, [3]

    def failing():
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return writing()

    monkeypatch.setattr(log.store, "writing", failing)
    with pytest.raises(KeyboardInterrupt):
        log.prune_sync("gateway")
    monkeypatch.setattr(log.store, "writing", writing)
    assert check(log).removed == 14
    log.catch_up()
    assert log.prune_sync("gateway") == 26
    log.catch_up()
    report = check(log)
    assert (report.records, report.removed) == (2, 40)


def test_a_hole_without_a_retention_record_is_tampering(log):
    fill(log, 10)
    log.catch_up()
    with log.store.writing() as conn:
        conn.execute(audit_record.delete().where(audit_record.c.id == 4))
    with pytest.raises(Tampered, match="record 4 was removed") as found:
        check(log)
    assert found.value.record == 4


def test_a_retention_record_covers_nothing_after_what_it_says(log, clock):
    pruned(log, clock)
    log.catch_up()
    with log.store.writing() as conn:
        conn.execute(audit_record.delete().where(audit_record.c.id == 42))
    with pytest.raises(Tampered) as found:
        check(log)
    assert found.value.record == 42


# -- filters -------------------------------------------------------------------------------------------------------


def test_filters_choose_calls(log):
    with log.store.writing() as conn:
        for number in range(40):
            log.store.insert(
                conn,
                log.row(
                    decision(
                        number,
                        at=START + number * 100_000,
                        server="a" if number % 2 else "b",
                        tool=f"t{number % 3}",
                        verdict="refuse" if number % 5 == 0 else "allow",
                        reason="blocked_by_policy" if number % 5 == 0 else None,
                    )
                ),
            )

    def numbers(limit=100, **wanted):
        with log.store.audit_reading() as conn:
            return [int(one.decision.call[-6:]) for one in reading.entries(conn, Filter(**wanted), limit)]

    assert numbers() == list(range(40))
    assert numbers(limit=3) == [37, 38, 39]
    assert numbers(server="a", tool="t0") == [3, 9, 15, 21, 27, 33, 39]
    assert numbers(verdict="refuse", reason="blocked_by_policy") == list(range(0, 40, 5))
    assert numbers(since=START + 30 * 100_000) == list(range(30, 40))
    assert numbers(until=START + 3 * 100_000) == [0, 1, 2]
    assert numbers(since=START + 500_000, until=START + 700_000) == [5, 6]
    assert numbers(since=START * 2) == []
    assert numbers(call=decision(7).call) == [7]


def test_export_gives_every_record_in_order_with_its_exact_bytes(log):
    fill(log, 5)
    with log.store.audit_reading() as tables:
        found = list(tables.bodies(Filter()))
        assert tables.count(Filter()) == 10
        late = [number for number, _ in tables.bodies(Filter(since=START + 4, until=START + 8))]
        assert tables.count(Filter(since=START + 4, until=START + 8)) == len(late)
    assert late == [2, 4, 7, 9]
    with log.store.reading() as conn:
        query = select(audit_record.c.id, audit_record.c.body).order_by(audit_record.c.id)
        assert found == [(row.id, row.body) for row in conn.execute(query)]


def test_a_call_is_found_by_its_beginning(log):
    fill(log, 12)
    with log.store.audit_reading() as conn:
        assert reading.entry(conn, decision(2).call[:-1] + "2").decision == decision(2)
        with pytest.raises(AuditError, match="several"):
            reading.entry(conn, "01testcall")
        with pytest.raises(AuditError, match="no call"):
            reading.entry(conn, "01other")


# -- what cannot be recorded ---------------------------------------------------------------------------------------


async def test_a_name_that_a_database_cannot_hold_does_not_make_a_record_unwritable(log):
    nasty = decision(1, tool="a\0b" + "x" * 5000, server="\U0001f600")
    await log.decided(nasty)
    log.catch_up()
    assert check(log).records == 1
    with log.store.audit_reading() as conn:
        assert reading.entry(conn, nasty.call).decision == nasty


async def test_a_value_that_json_cannot_hold_refuses_the_call(log):
    with pytest.raises(Refused) as refused:
        await log.decided(decision(1, arguments=Arguments("whole", {"a": "\ud800"})))
    assert refused.value.reason is Reason.AUDIT_UNAVAILABLE
    with pytest.raises(Refused):
        await log.decided(decision(1, arguments=Arguments("whole", object())))


async def test_a_closed_store_refuses_the_decision_and_counts_the_outcome(log):
    await log.store.close()
    with pytest.raises(Refused):
        await log.decided(decision(1))
    log.completed(outcome(1))
    assert log.dropped == 1

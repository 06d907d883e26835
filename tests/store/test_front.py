import asyncio
import threading

import pytest
from sqlalchemy import insert, select, text
from sqlalchemy.exc import IntegrityError

from callgate.errors import StoreUnavailable
from callgate.store import DECISION, AuditRow, Store
from callgate.store.schema import audit_record, control
from support.table import rows


def row(number, **changes):
    values = AuditRow(DECISION, 1000 + number, f"call-{number:06d}", "srv", "tool", "allow", None, b"body", b"seal" * 9)
    return values._replace(body=b"body %d" % number, **changes)


def bodies(store):
    with store.reading() as conn:
        return list(conn.execute(select(audit_record.c.body).order_by(audit_record.c.id)).scalars())


def switch(name):
    return insert(control).values(name=name, value="v", changed_at=1, changed_by="me", note="")


@pytest.fixture
async def store(url):
    opened = Store.open(url, busy_seconds=30)
    yield opened
    await opened.close()


async def test_an_appended_row_is_there_for_another_process_when_append_returns(store, url):
    await store.append(row(1))
    other = Store.open(url)
    assert bodies(other) == [b"body 1"]
    other.close_sync()


async def test_rows_keep_every_column(store):
    await store.append(row(1, reason="why", verdict="refuse"))
    await store.append(row(2, call=None, server=None, tool=None, verdict=None))
    with store.reading() as conn:
        found = [tuple(one)[1:] for one in conn.execute(select(audit_record).order_by(audit_record.c.id))]
    assert found == [
        row(1, reason="why", verdict="refuse"),
        row(2, call=None, server=None, tool=None, verdict=None),
    ]


@rows("count", [2, 3, 127, 128, 129, 300, 1500])
async def test_a_batch_of_any_size_is_written_whole_and_in_order(store, count):
    before = len(bodies(store))
    await asyncio.gather(*(store.append(row(number)) for number in range(count)))
    assert bodies(store)[before:] == [b"body %d" % number for number in range(count)]


async def test_what_is_queued_together_goes_into_one_transaction(store):
    batches = []
    inner = store.backend.insert

    def counting(driver, rows):
        batches.append(len(rows))
        inner(driver, rows)

    store.backend.insert = counting
    await asyncio.gather(*(store.append(row(number)) for number in range(500)))
    assert sum(batches) == 500
    assert len(batches) < 100


async def test_rows_that_nobody_waits_for_are_written_by_close(url):
    store = Store.open(url)
    for number in range(50):
        store.append_soon(row(number))
    await store.close()
    again = Store.open(url)
    assert len(bodies(again)) == 50
    again.close_sync()


async def test_a_failing_operation_does_not_spoil_the_others_of_its_batch(store):
    def twice(conn):
        conn.execute(switch("half"))
        conn.execute(switch("taken"))

    await store.run(lambda conn: conn.execute(switch("taken")))
    done = await asyncio.gather(
        store.run(lambda conn: conn.execute(switch("one"))),
        store.run(twice),
        store.append(row(1)),
        store.run(lambda conn: conn.execute(switch("two"))),
        return_exceptions=True,
    )
    assert [isinstance(one, IntegrityError) for one in done] == [False, True, False, False]
    names = await store.read(lambda conn: set(conn.execute(select(control.c.name)).scalars()))
    assert names == {"taken", "one", "two"}
    assert bodies(store) == [b"body 1"]


async def test_what_an_operation_returns_and_raises_reaches_its_caller(store):
    assert await store.run(lambda conn: conn.execute(text("SELECT 41 + 1")).scalar_one()) == 42
    with pytest.raises(ZeroDivisionError):
        await store.run(lambda conn: 1 / 0)


async def test_a_conditional_write_succeeds_for_exactly_one_of_many(store):
    await store.run(lambda conn: conn.execute(switch("nonce")))

    def consume(conn):
        return conn.execute(control.delete().where(control.c.name == "nonce")).rowcount

    assert sum(await asyncio.gather(*(store.run(consume) for _ in range(20)))) == 1


async def test_a_row_that_cannot_be_written_fails_alone(store):
    bad = row(2)._replace(body=object())
    done = await asyncio.gather(store.append(row(1)), store.append(bad), store.append(row(3)), return_exceptions=True)
    assert [type(one) for one in done] == [list, StoreUnavailable, list]
    assert bodies(store) == [b"body 1", b"body 3"]


async def test_too_many_waiting_writes_are_refused_at_once(url):
    store = Store.open(url, queue=10)
    await store.append(row(0))
    with store.writing():
        taken = asyncio.ensure_future(store.append(row(1)))
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            # The writer has taken it and waits for its turn: it empties the queue no further.
            while store.queued:
                await asyncio.sleep(0)
        waiting = [asyncio.ensure_future(store.append(row(number))) for number in range(2, 30)]
        await asyncio.sleep(0)
        refused = [one for one in waiting if one.done()]
        assert refused
        assert all(isinstance(one.exception(), StoreUnavailable) for one in refused)
        with pytest.raises(StoreUnavailable):
            store.append_soon(row(99))
    await asyncio.gather(taken, *waiting, return_exceptions=True)
    assert len(bodies(store)) == 30 - len(refused)
    await store.close()


async def test_a_caller_that_stopped_waiting_gets_nothing_written(store):
    await store.append(row(0))
    with store.writing():
        first = asyncio.ensure_future(store.append(row(1)))
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            # The writer has taken it, and waits for its turn.
            while store.queued:
                await asyncio.sleep(0)
        second = asyncio.ensure_future(store.append(row(2)))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
    await first
    await store.append(row(3))
    assert b"body 2" not in bodies(store)


async def test_a_writer_that_hangs_is_noticed(url, monkeypatch):
    monkeypatch.setattr("callgate.store.front._WATCHDOG_SECONDS", 0.01)
    store = Store.open(url)
    store._patience = 0.01
    hang = threading.Event()
    store.backend.insert = lambda driver, rows: hang.wait(60)
    with pytest.raises(StoreUnavailable, match="did not take a write"):
        await store.append(row(1))
    hang.set()
    await store.close()


async def test_reading_does_not_wait_for_the_writer(store):
    await store.append(row(1))
    with store.writing() as conn:
        conn.execute(switch("x"))
        assert await store.read(lambda other: other.execute(select(control.c.name)).first()) is None


async def test_after_close_everything_is_refused(store):
    await store.close()
    with pytest.raises(StoreUnavailable):
        await store.append(row(1))
    with pytest.raises(StoreUnavailable):
        await store.read(lambda conn: None)
    with pytest.raises(StoreUnavailable):
        store.append_soon(row(1))


async def test_changes_by_another_process_are_noticed(store, url):
    told = threading.Event()
    stop = store.watch(told.set)
    other = Store.open(url)
    await asyncio.to_thread(told.wait, 30)
    told.clear()
    with other.writing() as conn:
        conn.execute(switch("x"))
        other.backend.announce(conn)
    assert await asyncio.to_thread(told.wait, 30)
    stop()
    other.close_sync()


async def test_the_store_serves_more_than_one_event_loop(store):
    def elsewhere():
        asyncio.run(store.append(row(2)))

    await asyncio.gather(store.append(row(1)), asyncio.to_thread(elsewhere))
    assert len(bodies(store)) == 2


async def test_waiting_jobs_are_settled_by_close(url):
    store = Store.open(url)
    waiting = [asyncio.ensure_future(store.append(row(number))) for number in range(100)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*waiting) == [[]] * 100

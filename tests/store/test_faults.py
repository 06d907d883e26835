"""What happens when the database is locked, full, gone or killed, and that the next write works."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading

import psycopg
import pytest
from sqlalchemy import text

from callgate.audit import verify
from callgate.errors import Reason, Refused, StoreUnavailable
from callgate.store import Store
from support.auditing import decision, open_log, outcome
from support.postgres import database
from support.racing import started
from support.stores import write_ready
from support.table import rows


@pytest.fixture
def place(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def log(place, tmp_path):
    opened = open_log(f"sqlite:///{place}", tmp_path / "keys")
    opened.store.close_sync()
    opened = open_log(f"sqlite:///{place}", tmp_path / "keys", busy_seconds=0.2)
    # How long a writer that does not answer is waited for; a lock is given up long before.
    opened.store._patience = 60.0
    yield opened
    opened.store.close_sync()


def count(store):
    with store.reading() as conn:
        return conn.execute(text("SELECT count(*) FROM audit_record")).scalar_one()


HOLDER = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
conn.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
conn.execute("ROLLBACK")
print("free", flush=True)
"""


@pytest.fixture
def holder(place, log):
    """Another process that holds the write lock until it is told to let go."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "locked\n"

    def release():
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "free\n"

    yield release
    process.kill()
    process.communicate()


async def test_a_locked_store_refuses_the_decision_and_recovers(log, holder):
    with pytest.raises(Refused) as refused:
        await log.decided(decision(1))
    assert refused.value.reason is Reason.AUDIT_UNAVAILABLE
    assert "locked by another process" in str(refused.value)
    holder()
    await log.decided(decision(2))
    assert count(log.store) == 1


async def test_an_outcome_outlives_a_locked_store(log, holder):
    log.completed(outcome(1))
    with pytest.raises(StoreUnavailable):
        await log.store.append(log.row(decision(2)))
    holder()
    assert await asyncio.to_thread(log.store.flush)
    assert count(log.store) == 1
    assert log.store.lost == 0


async def test_a_full_disk_refuses_the_decision_and_recovers(log, place):
    await log.decided(decision(1))

    def shrink(pages):
        # The limit belongs to a connection: the writer's.
        return log.store.run(lambda conn: conn.exec_driver_sql(f"PRAGMA max_page_count={pages}").scalar())

    pages = await shrink(1)
    big = {"arguments": {"mode": "whole", "value": "x" * 200_000}}
    with pytest.raises(Refused) as refused:
        await log.decided(decision(2, arguments=big["arguments"]))
    assert refused.value.reason is Reason.AUDIT_UNAVAILABLE
    assert "no room left" in str(refused.value)
    unavailable = refused.value.__cause__
    # Removing records has to write first: on a full disk that advice would fail too.
    assert "prune" not in unavailable.advice
    assert "disk space" in unavailable.advice
    assert pages > 1
    await shrink(10_000_000)
    await log.decided(decision(3, arguments=big["arguments"]))
    assert count(log.store) == 2


def test_an_outcome_that_stays_unwritable_is_counted_as_lost(log):
    bad = log.row(outcome(1))._replace(body=object())
    log.store.append_soon(bad)
    assert log.store.flush()
    assert log.store.lost == 1


WRITER = """
import asyncio, sys
from pathlib import Path
from support.auditing import decision, open_log, outcome

async def main():
    log = open_log(sys.argv[1], Path(sys.argv[2]))
    await log.start()
    print("ready", flush=True)
    number = 0
    async def caller(first):
        for number in range(first, 10**9, 8):
            await log.decided(decision(number))
            print(number, flush=True)
            log.completed(outcome(number))
    await asyncio.gather(*(caller(one) for one in range(8)))

asyncio.run(main())
"""


@pytest.mark.skipif(os.name == "nt", reason="kill -9")
@rows("after", [0, 3, 300])
def test_kill_9_while_writing_leaves_a_log_that_opens_and_verifies(tmp_path, after):
    url, keys = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "keys"
    process = started(WRITER, tmp_path, url, str(keys))
    assert process.stdout.readline() == "ready\n"
    written = [int(process.stdout.readline()) for _ in range(after)]
    process.kill()
    written += [int(line) for line in process.communicate()[0].splitlines() if line.strip()][:-1]
    log = open_log(url, keys)
    log.catch_up()
    report = verify.verify(log.store, log.keyring)
    assert report.pending == 0
    with log.store.reading() as conn:
        stored = set(conn.execute(text("SELECT call FROM audit_record WHERE kind = 1")).scalars())
    assert {decision(number).call for number in written} <= stored
    log.store.close_sync()


def test_many_processes_write_one_file(tmp_path):
    url, keys = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "keys"
    script = WRITER.replace("10**9, 8", "100, 8").replace(
        "for one in range(8)))", "for one in range(8)))\n    await log.close()\n    await log.store.close()"
    )
    # There before they begin: each would write it over that of another.
    write_ready(tmp_path / "store.db")
    running = [started(script, tmp_path, url, str(keys)) for _ in range(3)]
    # All of them to their end first, so that one that fails leaves none running.
    for process in running:
        process.communicate(timeout=60)
    assert [process.returncode for process in running] == [0, 0, 0]
    log = open_log(url, keys)
    log.catch_up()
    report = verify.verify(log.store, log.keyring)
    assert (report.records, report.pending) == (3 * 100 * 2, 0)
    log.store.close_sync()


async def test_a_lost_connection_refuses_and_the_next_write_works():
    with database() as url:
        store = Store.open(url, busy_seconds=30)
        await store.run(lambda conn: None)
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        with pytest.raises(StoreUnavailable):
            await store.run(lambda conn: conn.execute(text("SELECT 1")).scalar())
        assert await store.run(lambda conn: conn.execute(text("SELECT 1")).scalar()) == 1
        assert await store.read(lambda conn: conn.execute(text("SELECT 2")).scalar()) == 2
        await store.close()


def test_ids_that_commit_out_of_order_are_not_skipped(tmp_path):
    """PostgreSQL hands out ids before they commit: the sequencer must wait for the slow transaction."""
    with database() as url:
        log = open_log(url, tmp_path / "keys")
        log.catch_up()
        slow = Store.open(url)
        inserted, release = threading.Event(), threading.Event()

        def late():
            with slow.writing() as conn:
                slow.insert(conn, log.row(decision(1)))
                inserted.set()
                release.wait(60)

        thread = threading.Thread(target=late)
        thread.start()
        assert inserted.wait(60)
        with log.store.writing() as conn:
            log.store.insert(conn, log.row(decision(2)))
        with pytest.raises(StoreUnavailable):
            log.catch_up()
        release.set()
        thread.join()
        assert log.catch_up() == 2
        assert verify.verify(log.store, log.keyring).records == 2
        slow.close_sync()
        log.store.close_sync()


def test_a_store_that_another_program_keeps_in_its_old_journal_mode(place):
    with sqlite3.connect(place) as conn:
        conn.execute("CREATE TABLE x (y)")
    other = sqlite3.connect(place, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreUnavailable):
        Store.open(f"sqlite:///{place}", busy_seconds=0.1)
    other.close()
    conn.close()
    Store.open(f"sqlite:///{place}").close_sync()

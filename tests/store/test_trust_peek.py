"""A look at a session's version that never waits and never fails: None means that one has to ask."""

import asyncio
import sqlite3
import threading

import pytest
from sqlalchemy import text

from callgate.store import SqlTrust, Store, migrate
from support.memory import MemoryTrust
from support.table import rows
from support.trust_store import KEY, NOW, add


@pytest.fixture
def place(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
async def store(place):
    opened = Store.open(f"sqlite:///{place}", busy_seconds=1)
    yield opened
    await opened.close()


@pytest.fixture
def shelf(store):
    return SqlTrust(store)


@rows("kind", ["memory", "sqlite"])
async def test_the_version_is_there_at_once(shelf, kind):
    one = shelf if kind == "sqlite" else MemoryTrust()
    assert one.peek(KEY) == 0
    assert (await one.open(KEY, "stdio", NOW, 0)).version == one.peek(KEY)
    assert (await add(one)).version == one.peek(KEY)


async def test_what_another_process_wrote_is_seen(shelf, place):
    await shelf.open(KEY, "stdio", NOW, 0)
    before = shelf.peek(KEY)
    other = Store.open(f"sqlite:///{place}")
    await add(SqlTrust(other))
    await other.close()
    assert shelf.peek(KEY) == before + 1


async def test_many_threads_look(shelf):
    version = (await shelf.open(KEY, "stdio", NOW, 0)).version
    seen = []
    # More than get a connection: those ask the slow way.
    together = threading.Barrier(80)

    def look():
        together.wait(30)
        seen.append(shelf.peek(KEY))
        together.wait(30)

    threads = [threading.Thread(target=look) for _ in range(80)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert set(seen) <= {version, None}
    assert seen.count(version) >= 1
    assert len(seen) == 80
    assert await shelf.version(KEY) == version


async def test_threads_that_ended_leave_room_for_others(shelf):
    version = (await shelf.open(KEY, "stdio", NOW, 0)).version
    seen = []
    for _ in range(100):
        thread = threading.Thread(target=lambda: seen.append(shelf.peek(KEY)))
        thread.start()
        thread.join()
    assert seen == [version] * 100


async def test_a_writer_holds_nobody_up(shelf, place):
    version = (await shelf.open(KEY, "stdio", NOW, 0)).version
    other = sqlite3.connect(place, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE trust_session SET version = version + 1")
    assert shelf.peek(KEY) == version
    other.execute("COMMIT")
    assert shelf.peek(KEY) == version + 1
    other.close()


async def test_looking_keeps_nothing_from_being_written_back(shelf, store):
    await shelf.open(KEY, "stdio", NOW, 0)
    assert shelf.peek(KEY)
    await shelf.tainted(["o1"], NOW)
    await add(shelf)
    with store.backend.engine.connect() as conn:
        busy, *_ = conn.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").first()
    assert busy == 0


async def test_looking_writes_nothing(shelf):
    await shelf.open(KEY, "stdio", NOW, 0)
    shelf.peek(KEY)
    assert shelf._read_now("DELETE FROM trust_session") is None
    assert shelf.peek(KEY)


async def test_a_store_without_these_tables_answers_none(tmp_path):
    old = Store.connect(f"sqlite:///{tmp_path / 'old.db'}", create=True)
    with old.writing() as conn:
        migrate.upgrade(conn, "0004")
    shelf = SqlTrust(old)
    assert shelf.peek(KEY) is None
    old.upgrade()
    assert shelf.peek(KEY) == 0
    await old.close()


async def test_a_damaged_or_closed_store_answers_none(shelf, store):
    await shelf.open(KEY, "stdio", NOW, 0)
    assert shelf.peek(KEY)
    with store.writing() as conn:
        conn.execute(text("DROP TABLE trust_session"))
    assert shelf.peek(KEY) is None
    await store.close()
    assert shelf.peek(KEY) is None


async def test_postgresql_has_to_be_asked(shared_trust):
    shelf, url = shared_trust
    version = (await shelf.open(KEY, "stdio", NOW, 0)).version
    assert shelf.peek(KEY) == (version if url.startswith("sqlite") else None)
    assert await shelf.version(KEY) == version

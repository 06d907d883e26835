"""Whether others have written to a SQLite store, told from its shared index: never missed, and never at a cost to it."""

import mmap
import os
import sqlite3
import struct
import subprocess
import sys

import pytest

from callgate.store import SqlTrust, Store, changes
from callgate.store.changes import Changes
from callgate.trust.model import SessionLabel
from support.shelves import witness
from support.trusts import KEY, NOW, add

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SQLite's index is looked at on POSIX systems only")


@pytest.fixture
def place(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
async def store(place):
    opened = Store.open(f"sqlite:///{place}", busy_seconds=1)
    yield opened
    await opened.close()


@pytest.fixture
async def shelf(store):
    shelf = SqlTrust(store)
    await shelf.open(KEY, "stdio", NOW, 0)
    assert shelf.peek(KEY)
    return shelf


def elsewhere(place, *statements):
    """What another process does."""
    script = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)\n"
    script += "for one in sys.argv[2:]: db.execute(one)\n"
    return subprocess.run(
        [sys.executable, "-c", script, str(place), *statements], check=False, capture_output=True, text=True
    )


async def test_what_our_writer_commits_is_not_somebody_elses(store, shelf):
    mark = store.backend.changes.others()
    assert mark is not None
    for number in range(20):
        await add(shelf)
        await store.append(witness(f"call {number}"))
    assert store.backend.changes.others() == mark
    assert shelf.at_hand(KEY) == shelf.peek(KEY) == await shelf.version(KEY)


async def test_what_another_process_commits_is(store, shelf, place):
    seen = {store.backend.changes.others()}
    for _ in range(3):
        assert elsewhere(place, "UPDATE trust_session SET version = version + 1").returncode == 0
        assert shelf.at_hand(KEY) is None
        seen.add(store.backend.changes.others())
        version = shelf.peek(KEY)
        assert shelf.at_hand(KEY) == version
        await add(shelf)
        assert shelf.at_hand(KEY) == version + 1
    assert len(seen) == 4


async def test_what_another_connection_of_this_process_commits_is(store, shelf):
    mark = store.backend.changes.others()
    with store.writing() as conn:
        conn.exec_driver_sql("UPDATE trust_session SET version = version + 1")
    assert store.backend.changes.others() != mark
    assert shelf.at_hand(KEY) is None


async def test_what_takes_labels_away_is_though_our_writer_wrote_it(store, shelf):
    other = SqlTrust(store)
    await add(shelf)
    assert shelf.at_hand(KEY) is not None
    await other.declassify(KEY, SessionLabel(), "ann", "a false alarm", NOW)
    assert shelf.at_hand(KEY) is None
    assert shelf.peek(KEY) == await shelf.version(KEY)


async def test_an_operation_of_our_writer_is(store, shelf):
    await store.run(lambda conn: conn.exec_driver_sql("UPDATE trust_session SET version = version + 1"))
    assert shelf.at_hand(KEY) is None


def test_a_commit_that_changes_nothing_covers_no_other(place):
    """An update to what is there already is written, and yet no transaction to SQLite."""
    ours = sqlite3.connect(place, isolation_level=None)
    ours.execute("PRAGMA journal_mode=WAL")
    ours.execute("CREATE TABLE t (x)")
    ours.execute("INSERT INTO t VALUES (1)")
    looking = Changes(place)
    looking.open()
    mark = looking.others()
    ours.execute("BEGIN IMMEDIATE")
    looking.locked()
    ours.execute("UPDATE t SET x = 1")
    ours.execute("COMMIT")
    assert elsewhere(place, "INSERT INTO t VALUES (2)").returncode == 0
    looking.committed()
    assert looking.others() != mark
    looking.close()
    ours.close()


def test_somebody_who_commits_right_after_us_is_seen(place):
    ours = sqlite3.connect(place, isolation_level=None)
    ours.execute("PRAGMA journal_mode=WAL")
    ours.execute("CREATE TABLE t (x)")
    looking = Changes(place)
    looking.open()
    mark = looking.others()
    ours.execute("BEGIN IMMEDIATE")
    looking.locked()
    ours.execute("INSERT INTO t VALUES (1)")
    looking.wrote()
    assert looking.others() == mark
    ours.execute("COMMIT")
    assert looking.others() == mark
    assert elsewhere(place, "INSERT INTO t VALUES (2)").returncode == 0
    # Before our writer has noted that its own is through, and after.
    assert looking.others() != mark
    looking.committed()
    assert looking.others() != mark
    looking.close()
    ours.close()


def test_while_nobody_knows_who_commits_there_is_no_mark(place):
    ours = sqlite3.connect(place, isolation_level=None)
    ours.execute("PRAGMA journal_mode=WAL")
    ours.execute("CREATE TABLE t (x)")
    looking = Changes(place)
    looking.open()
    mark = looking.others()
    looking.locking()
    ours.execute("INSERT INTO t VALUES (1)")
    assert looking.others() is None
    looking.wrote()
    looking.committed()
    assert looking.others() == mark
    looking.locking()
    looking.failed()
    assert looking.others() == mark
    looking.close()
    assert looking.others() is None
    ours.close()


def test_an_index_that_cannot_be_read_gives_no_mark(place, monkeypatch):
    whole = struct.pack("=I4xI36xI4xI", 3_007_000, 7, 3_007_000, 7).ljust(96, b"\0")
    looking = Changes(place)
    for raw, mark in [
        (whole, 7),
        (bytes(96), None),
        (struct.pack("=I4xI36xI4xI", 3_007_001, 7, 3_007_001, 7).ljust(96, b"\0"), None),
        (struct.pack("=I4xI36xI4xI", 3_007_000, 8, 3_007_000, 7).ljust(96, b"\0"), None),
        # Made anew by somebody: the counter went back, and no mark of before comes again.
        (struct.pack("=I4xI36xI4xI", 3_007_000, 2, 3_007_000, 2).ljust(96, b"\0"), (1 << 32) + 2),
        (whole, (1 << 32) + 7),
    ]:
        monkeypatch.setattr(looking, "_index", raw)
        assert looking.others() == mark


def test_no_store_and_no_index_is_no_error(tmp_path):
    looking = Changes(tmp_path / "none.db")
    looking.open()
    assert looking.others() is None
    # A file that is not in WAL mode has no index.
    plain = sqlite3.connect(tmp_path / "plain.db")
    plain.execute("CREATE TABLE t (x)")
    plain.close()
    looking = Changes(tmp_path / "plain.db")
    looking.open()
    assert looking.others() is None
    assert not (tmp_path / "plain.db-shm").exists()


def test_looking_lets_no_lock_go(place):
    """Who closes any descriptor of a file loses all POSIX locks that the process has on it."""
    ours = sqlite3.connect(place, isolation_level=None)
    ours.execute("PRAGMA journal_mode=WAL")
    ours.execute("CREATE TABLE t (x)")
    ours.execute("BEGIN IMMEDIATE")
    for _ in range(3):
        looking = Changes(place)
        looking.open()
        assert looking.others() is not None
        looking.close()
    refused = elsewhere(place, "BEGIN IMMEDIATE")
    assert "locked" in refused.stderr
    ours.execute("COMMIT")
    assert elsewhere(place, "BEGIN IMMEDIATE").returncode == 0
    ours.close()


def test_descriptors_of_stores_that_are_gone_are_let_go(tmp_path):
    for number in range(5):
        place = tmp_path / f"{number}.db"
        ours = sqlite3.connect(place, isolation_level=None)
        ours.execute("PRAGMA journal_mode=WAL")
        ours.execute("CREATE TABLE t (x)")
        looking = Changes(place)
        looking.open()
        assert looking.others() is not None
        looking.close()
        ours.close()
        assert not place.with_name(f"{number}.db-shm").exists()
    # Only the latest is still open, until the next one comes.
    gone = [one for one in changes._opened if not os.fstat(one[0]).st_nlink]
    assert len(gone) <= 1


def test_a_file_that_is_no_index_is_left_open_and_not_believed(tmp_path, monkeypatch):
    place = tmp_path / "store.db"
    ours = sqlite3.connect(place, isolation_level=None)
    ours.execute("PRAGMA journal_mode=WAL")
    ours.execute("CREATE TABLE t (x)")

    def refuse(*given, **more):
        raise OSError("no memory")

    real = mmap.mmap
    monkeypatch.setattr(changes.mmap, "mmap", lambda at, *given, **more: refuse() if at >= 0 else real(at, *given))
    looking = Changes(place)
    looking.open()
    assert looking.others() is None
    ours.close()

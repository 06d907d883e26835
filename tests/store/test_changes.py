"""Whether others have written to a SQLite store, told from its shared index: never missed, and never at a cost to it."""

import mmap
import os
import sqlite3
import struct
import subprocess
import sys

import pytest

from callgate.store import SqlAgents, SqlTrust, Store, changes
from callgate.store.changes import WalChanges
from callgate.trust.model import SessionLabel
from support.approval_store import witness
from support.trust_store import KEY, NOW, add

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


@pytest.fixture
def ours(place):
    """A connection that writes as our writer does, to a store of one table."""
    driver = sqlite3.connect(place, isolation_level=None)
    driver.execute("PRAGMA journal_mode=WAL")
    driver.execute("CREATE TABLE t (x)")
    yield driver
    driver.close()


@pytest.fixture
def looking(place, ours):
    changes = WalChanges(place)
    changes.open()
    yield changes
    changes.close()


def elsewhere(place, *statements):
    """What another process does."""
    script = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)\n"
    script += "for one in sys.argv[2:]: db.execute(one)\n"
    return subprocess.run(
        [sys.executable, "-c", script, str(place), *statements], check=False, capture_output=True, text=True
    )


def header(count):
    """How an index begins."""
    return struct.pack("=I4xI36xI4xI", 3_007_000, count, 3_007_000, count).ljust(96, b"\0")


async def test_what_our_writer_commits_is_not_somebody_elses(store, shelf):
    mark = store.backend.changes.others()
    assert mark is not None
    for number in range(20):
        await add(shelf)
        await store.append(witness(f"call {number}"))
    assert store.backend.changes.others() == mark
    assert shelf.at_hand(KEY, NOW + 1000) == shelf.peek(KEY) == await shelf.version(KEY)


async def test_nor_is_what_our_writer_notes_of_agents(store, shelf):
    agents = SqlAgents(store)
    mark = store.backend.changes.others()
    for number in range(3):
        assert await agents.take_nonce("key", f"nonce {number}", NOW + 60_000, NOW)
        assert (await agents.spend("ann", 1.0, 0.001, 3.0, NOW))[0]
    assert store.backend.changes.others() == mark
    # One that was used before and a budget that is used up write nothing: nobody is believed to have counted that.
    assert not await agents.take_nonce("key", "nonce 1", NOW + 60_000, NOW)
    assert not (await agents.spend("ann", 1.0, 0.001, 3.0, NOW))[0]
    await add(shelf)
    assert shelf.at_hand(KEY, NOW + 1000) == await shelf.version(KEY)


async def test_what_another_process_commits_is(store, shelf, place):
    seen = {store.backend.changes.others()}
    for _ in range(3):
        assert elsewhere(place, "UPDATE trust_session SET version = version + 1").returncode == 0
        assert shelf.at_hand(KEY, NOW + 1000) is None
        seen.add(store.backend.changes.others())
        version = shelf.peek(KEY)
        assert shelf.at_hand(KEY, NOW + 1000) == version
        await add(shelf)
        assert shelf.at_hand(KEY, NOW + 1000) == version + 1
    assert len(seen) == 4


async def test_what_another_connection_of_this_process_commits_is(store, shelf):
    mark = store.backend.changes.others()
    with store.writing() as conn:
        conn.exec_driver_sql("UPDATE trust_session SET version = version + 1")
    assert store.backend.changes.others() != mark
    assert shelf.at_hand(KEY, NOW + 1000) is None


async def test_what_takes_labels_away_is_though_our_writer_wrote_it(store, shelf):
    other = SqlTrust(store)
    await add(shelf)
    assert shelf.at_hand(KEY, NOW + 1000) is not None
    await other.declassify(KEY, SessionLabel(), "ann", "a false alarm", NOW)
    assert shelf.at_hand(KEY, NOW + 1000) is None
    assert shelf.peek(KEY) == await shelf.version(KEY)


async def test_an_operation_of_our_writer_is(store, shelf):
    await store.run(lambda conn: conn.exec_driver_sql("UPDATE trust_session SET version = version + 1"))
    assert shelf.at_hand(KEY, NOW + 1000) is None


async def test_the_last_to_leave_puts_everything_into_the_file(place):
    """One that only reads could not, and whoever copies the file of a store that is closed would miss the newest."""
    store = Store.open(f"sqlite:///{place}", busy_seconds=1)
    shelf = SqlTrust(store)
    end = store.watch(lambda: None)
    await shelf.open(KEY, "stdio", NOW, 0)
    assert shelf.peek(KEY)
    end()
    await store.close()
    assert [one.name for one in place.parent.iterdir()] == [place.name]


def test_a_commit_that_changes_nothing_covers_no_other(place, ours, looking):
    """An update to what is there already is written, and yet no transaction to SQLite."""
    ours.execute("INSERT INTO t VALUES (1)")
    mark = looking.others()
    ours.execute("BEGIN IMMEDIATE")
    looking.locked()
    ours.execute("UPDATE t SET x = 1")
    ours.execute("COMMIT")
    assert elsewhere(place, "INSERT INTO t VALUES (2)").returncode == 0
    looking.committed()
    assert looking.others() != mark


def test_somebody_who_commits_right_after_us_is_seen(place, ours, looking):
    mark = looking.others()
    ours.execute("BEGIN IMMEDIATE")
    looking.locked()
    ours.execute("INSERT INTO t VALUES (1)")
    looking.wrote()
    assert looking.others() == mark
    ours.execute("COMMIT")
    # Something is committed, and our writer has not said that it was its own.
    assert looking.others() is None
    assert elsewhere(place, "INSERT INTO t VALUES (2)").returncode == 0
    assert looking.others() is None
    looking.committed()
    assert looking.others() != mark


def test_a_commit_of_ours_that_fails_covers_no_other(place, ours, looking):
    """The disk is full: SQLite rolls back and lets the lock go before our writer hears of it."""
    mark = looking.others()
    ours.execute("BEGIN IMMEDIATE")
    looking.locked()
    ours.execute("INSERT INTO t VALUES (1)")
    looking.wrote()
    ours.execute("ROLLBACK")
    assert elsewhere(place, "INSERT INTO t VALUES (2)").returncode == 0
    assert looking.others() is None
    looking.failed()
    assert looking.others() not in (None, mark)


def test_while_nobody_knows_who_commits_there_is_no_mark(place, ours, looking):
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


def test_an_index_that_cannot_be_read_gives_no_mark(place, monkeypatch):
    whole = struct.pack("=I4xI36xI4xI", 3_007_000, 7, 3_007_000, 7).ljust(96, b"\0")
    looking = WalChanges(place)
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
    looking = WalChanges(tmp_path / "none.db")
    looking.open()
    assert looking.others() is None
    # A file that is not in WAL mode has no index.
    plain = sqlite3.connect(tmp_path / "plain.db")
    plain.execute("CREATE TABLE t (x)")
    plain.close()
    looking = WalChanges(tmp_path / "plain.db")
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
        looking = WalChanges(place)
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
        looking = WalChanges(place)
        looking.open()
        assert looking.others() is not None
        looking.close()
        ours.close()
        assert not place.with_name(f"{number}.db-shm").exists()
    # Only the latest is still open, until the next one comes.
    gone = [one for one in changes._opened if not os.fstat(one.descriptor).st_nlink]
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
    looking = WalChanges(place)
    looking.open()
    assert looking.others() is None
    ours.close()


def test_a_store_behind_a_link_is_looked_at_where_it_is(tmp_path):
    """What an older store left at the link's place says nothing, and never would."""
    (tmp_path / "far").mkdir()
    place, link = tmp_path / "far" / "store.db", tmp_path / "store.db"
    ours = sqlite3.connect(place, isolation_level=None)
    ours.execute("PRAGMA journal_mode=WAL")
    ours.execute("CREATE TABLE t (x)")
    link.symlink_to(place)
    link.with_name("store.db-shm").write_bytes(header(7))
    looking = WalChanges(link)
    looking.open()
    mark = looking.others()
    assert elsewhere(place, "INSERT INTO t VALUES (1)").returncode == 0
    assert looking.others() != mark
    looking.close()
    ours.close()


def test_an_index_that_does_not_count_our_own_is_not_believed(place, tmp_path):
    ours = sqlite3.connect(place, isolation_level=None)
    ours.execute("PRAGMA journal_mode=WAL")
    ours.execute("CREATE TABLE t (x)")
    looking = WalChanges(place)
    looking.open()
    stale = tmp_path / "stale"
    stale.write_bytes(header(7))
    with stale.open("rb") as file:
        looking._index = mmap.mmap(file.fileno(), 96, access=mmap.ACCESS_READ)
    assert looking.others() is not None
    ours.execute("BEGIN IMMEDIATE")
    looking.locked()
    ours.execute("INSERT INTO t VALUES (1)")
    looking.wrote()
    ours.execute("COMMIT")
    looking.committed()
    assert looking.others() is None
    looking.close()
    ours.close()


def test_looking_again_and_again_takes_no_more_descriptors(place):
    ours = sqlite3.connect(place, isolation_level=None)
    ours.execute("PRAGMA journal_mode=WAL")
    ours.execute("CREATE TABLE t (x)")
    known = len(changes._opened)
    for _ in range(20):
        looking = WalChanges(place)
        looking.open()
        assert looking.others() is not None
        looking.close()
    assert len(changes._opened) <= known + 1
    ours.close()


def test_an_index_without_a_name_is_looked_at_for_as_long_as_somebody_wants(place, tmp_path):
    """Another store that is opened lets go of those that are gone, but not of one in use."""
    first, second = sqlite3.connect(place, isolation_level=None), sqlite3.connect(tmp_path / "b", isolation_level=None)
    for one in (first, second):
        one.execute("PRAGMA journal_mode=WAL")
        one.execute("CREATE TABLE t (x)")
    looking, other = WalChanges(place), WalChanges(tmp_path / "b")
    looking.open()
    mark = looking.others()
    place.with_name("store.db-shm").unlink()
    other.open()
    assert looking.others() == mark is not None
    first.execute("INSERT INTO t VALUES (1)")
    assert looking.others() != mark
    looking.close()
    other.close()
    first.close()
    second.close()


def test_an_index_made_anew_while_our_writer_has_the_lock_is_noticed(place, monkeypatch):
    looking = WalChanges(place)
    monkeypatch.setattr(looking, "_index", header(10))
    mark = looking.others()
    monkeypatch.setattr(looking, "_index", header(3))
    looking.locked()
    looking.others()
    looking.failed()
    # Seven transactions of others later the counter stands where it stood.
    monkeypatch.setattr(looking, "_index", header(10))
    assert looking.others() != mark


_ENDS = """
import os, sqlite3, sys
from pathlib import Path
from callgate.store.changes import WalChanges
place = Path(sys.argv[1])
sys.ours = ours = sqlite3.connect(place, isolation_level=None)
looking = WalChanges(place)
looking.open()
assert looking.others() is not None
ours.execute("BEGIN IMMEDIATE")
ours.execute("INSERT INTO t VALUES (1)")
script = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
class Last:
    def __init__(self, asks):
        self.asks, self.spawn, self.wait, self.leave = asks, os.posix_spawn, os.waitpid, os._exit
    def __del__(self):
        # Modules are gone by now.
        child = self.spawn(self.asks[0], self.asks, {})
        self.leave(10 if self.wait(child, 0)[1] else 20)
# What is there is let go of last of all, and of it what begins so comes first.
sys._last = Last([sys.executable, "-c", script, str(place)])
del looking, WalChanges
"""


def test_locks_hold_until_the_process_is_gone(place):
    """As the interpreter ends it closes what it finds, while the thread that writes may be in the middle of a commit."""
    ours = sqlite3.connect(place, isolation_level=None)
    ours.execute("PRAGMA journal_mode=WAL")
    ours.execute("CREATE TABLE t (x)")
    ended = subprocess.run([sys.executable, "-c", _ENDS, str(place)], check=False, capture_output=True, text=True)
    assert ended.returncode == 10, ended.stderr
    ours.close()

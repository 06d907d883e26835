"""Whether anybody else has written to a SQLite store, without asking SQLite: a look into memory that it shares.

In WAL mode every process has the WAL index mapped (the file ending in `-shm`). Its header counts the transactions; the
layout is documented and has been the same since SQLite 3.7. Take off those of our own writer, and what is left moves
on whenever another connection, of this process or another, commits something.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sqlite3
import struct
import sys
from pathlib import Path
from threading import Lock
from typing import Final, Protocol, TypeAlias

import msgspec

from callgate.trust.model import Session

# The header stands there twice: version, and the counter of transactions in each. Whoever commits writes the second
# one first, so while they differ somebody is in the middle of it.
_HEADER: Final = struct.Struct("=I4xI36xI4xI")
_unpack: Final = _HEADER.unpack_from
_VERSION: Final = 3_007_000
_SIZE: Final = 96
_MASK: Final = (1 << 32) - 1
# In the place of a counter that is not known.
_UNSURE: Final = -1

Mark: TypeAlias = int


class _Opened:
    """An index, for all that look at one store in this process.

    Closing any descriptor of a file drops all locks that this process has on it, SQLite's among them. So none is closed
    while the file has a name or somebody looks at it; after that nobody locks it any more.
    """

    __slots__ = ("descriptor", "index", "users")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.index: mmap.mmap | None = None
        self.users = 0

    def mapped(self) -> mmap.mmap:
        if self.index is None:
            index = mmap.mmap(self.descriptor, _SIZE, access=mmap.ACCESS_READ)
            # It has a descriptor of its own. That must not be closed when the interpreter ends either: the thread that
            # writes may be at a commit.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(index))
            self.index = index
        return self.index

    def close(self) -> None:
        if self.index is not None:
            self.index.close()
        os.close(self.descriptor)


_opened: Final[list[_Opened]] = []
_opening: Final = Lock()


class WalChanges:
    """For one store. All but `others` is for the thread that writes; nothing here ever fails or waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._tried = False
        self._index: mmap.mmap | None = None
        self._opened: _Opened | None = None
        # Keeps the index alive: SQLite removes it with the last connection. That also empties the log into the store's
        # file, which one that only reads could not.
        self._anchor: sqlite3.Connection | None = None
        # How many transactions were our writer's; and, while it is at one, the counter when it got the lock.
        self._state: tuple[int, int | None] = (0, None)
        self._counts = False
        self._for_all = False
        self._latest = 0
        self._begun_anew = 0

    def others(self) -> Mark | None:
        """A mark that stays the same until somebody else commits; None where that cannot be told just now."""
        state, index = self._state, self._index
        if index is None:
            return None
        header: tuple[int, int, int, int] = _unpack(index)
        version, now, again, second = header
        if now != second or version != _VERSION or again != _VERSION or state is not self._state:
            return None
        if now < self._latest:
            # Another process found the index damaged and made it anew.
            self._begun_anew += 1
        self._latest = now
        own, held = state
        if held is not None and now != held:
            # Nobody else commits while our writer has the lock. Once something is committed it has it no more, and
            # what that was is known when it says so.
            return None
        return (self._begun_anew << 32) + ((now - own) & _MASK)

    def locking(self) -> None:
        """Our writer is about to commit without having said that it has the lock."""
        self._counts, self._for_all = False, False
        self._state = self._state[0], _UNSURE

    def locked(self) -> None:
        """Our writer has the lock, and has not written yet."""
        self._counts, self._for_all = False, False
        now = self._count()
        self._state = self._state[0], _UNSURE if now is None else now

    def wrote(self) -> None:
        """It has added a row, so that its commit counts; one that changes nothing does not."""
        self._counts = True

    def concerns_all(self) -> None:
        """What it writes changes what others in this process go by, so it is as if somebody else had written it."""
        self._for_all = True

    def committed(self) -> None:
        """Its transaction is in the store. One that does not surely count is taken for somebody else's."""
        own, held = self._state
        if self._counts and held is not None and held == self._count():
            # It is not counted here, so this is not the index that SQLite uses.
            self._index = None
        self._state = own + (self._counts and not self._for_all), None

    def failed(self) -> None:
        """Its transaction is not in the store, or nobody knows."""
        self._state = self._state[0], None

    def open(self) -> None:
        """Begin to look, once; nothing where that is not possible here."""
        with self._lock:
            if not self._tried and sys.platform != "win32":
                self._tried = True
                self._open()

    def _open(self) -> None:
        try:
            self._anchor = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=0,
                isolation_level=None,
                check_same_thread=False,
            )
            self._anchor.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
            # SQLite follows links first.
            place = self._path.resolve()
            self._opened = _open(place.with_name(place.name + "-shm"))
            self._index = self._opened.index
        except (OSError, ValueError, sqlite3.Error):
            self._close()

    def close(self) -> None:
        with self._lock:
            self._tried = True
            self._close()

    def _close(self) -> None:
        self._index = None
        anchor, self._anchor = self._anchor, None
        if anchor is not None:
            anchor.close()
        opened, self._opened = self._opened, None
        if opened is not None:
            with _opening:
                opened.users -= 1

    def _count(self) -> int | None:
        index = self._index
        if index is None:
            return None
        version, first, again, second = _unpack(index)
        return first if version == again == _VERSION and first == second else None


def _open(path: Path) -> _Opened:
    with _opening:
        there = path.stat()
        for one in list(_opened):
            found = os.fstat(one.descriptor)
            if not found.st_nlink and not one.users:
                _opened.remove(one)
                one.close()
            elif os.path.samestat(found, there):
                one.mapped()
                one.users += 1
                return one
        opened = _Opened(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        # Also where it cannot be mapped: better one descriptor too many.
        _opened.append(opened)
        opened.mapped()
        opened.users = 1
        return opened


_MOST: Final = 2000


class StoredSession(msgspec.Struct, frozen=True, gc=False):
    """What a session's row has; without `session` only its version is known."""

    mark: Mark
    version: int
    # Versions up to this one may be others', all later ones are our writer's.
    theirs: int
    session: Session | None = None
    forgot: int = 0
    body: bytes = b""


class Changes(Protocol):
    """Whether what is kept still holds."""

    def others(self) -> Mark | None:
        """A mark that stays the same until somebody else commits; None where that cannot be told just now."""

    def open(self) -> None:
        """Begin to look."""


class StoredSessions:
    """Shared by everything in a process that writes sessions to one store: all of it goes through the one writer."""

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self.kept: dict[str, StoredSession] = {}
        self._lock = Lock()

    def now(self, key: str) -> StoredSession | None:
        """What the store has now, or will have as soon as the writer's transaction is through; None: one has to ask."""
        mark = self.changes.others()
        kept = self.kept.get(key)
        return kept if kept is not None and kept.mark == mark else None

    def before(self, key: str) -> tuple[Mark | None, StoredSession | None]:
        """For who asks: to be handed to `learn` with the answer."""
        return self.changes.others(), self.kept.get(key)

    def learn(self, key: str, before: tuple[Mark | None, StoredSession | None], version: int) -> None:
        """An answer of the store; not where the writer has been at the session since it was asked."""
        mark, kept = before
        if mark is None or (kept is not None and kept.mark == mark and kept.version > version):
            # What the writer is about to commit is not in the store yet.
            return
        with self._lock:
            if self.kept.get(key) is kept:
                self._put(key, StoredSession(mark, version, version))

    def put(self, key: str, kept: StoredSession) -> None:
        """The writer's own, before it commits."""
        with self._lock:
            self._put(key, kept)

    def forget(self, key: str) -> None:
        """Others may write to it from now on."""
        with self._lock:
            self.kept.pop(key, None)

    def clear(self) -> None:
        """The writer's transaction came to nothing."""
        with self._lock:
            self.kept.clear()

    def _put(self, key: str, kept: StoredSession) -> None:
        self.kept.pop(key, None)
        self.kept[key] = kept
        if len(self.kept) > _MOST:
            del self.kept[next(iter(self.kept))]

"""Sessions of agents that one gateway has to itself on PostgreSQL, so that it asks nobody before a call.

A session's row names its owner. Nobody else adds to a session that has one: whoever has to asks the owner to let go of
it, and waits. What a result taught is in the store before its answer leaves, so an owner that dies takes nothing along.

No clock is compared with another one. An owner counts a number up every second. It relies on what it owns for less time
after it began to count than others wait, once they have seen a number, before they take its sessions away. That is one
transaction with the end of the count, so an owner that slept that long learns that it owns nothing.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any, ClassVar, Final

import psycopg

from callgate.errors import StoreUnavailable
from callgate.store.changes import Mark, StoredSession, StoredSessions

log = logging.getLogger(__name__)

CHANNEL: Final = "callgate_wanted"
# Nobody else wrote to a session this often, so it is worth having alone.
ALONE: Final = 8
# One that others asked for is theirs as well for a while; one that nobody writes to is let go.
SHARED_SECONDS: Final = 30.0
QUIET_SECONDS: Final = 10.0
_ASK_SECONDS: Final = 0.02
_MOST: Final = 2000

_BEGIN: Final = b"INSERT INTO trust_owner (owner, beat) VALUES (%b, 0)"
_BEAT: Final = b"UPDATE trust_owner SET beat = beat + 1 WHERE owner = %b"
_LEAVE: Final = b"UPDATE trust_session SET owner = '' WHERE key = %b AND owner = %b"
_LEAVE_ALL: Final = b"UPDATE trust_session SET owner = '' WHERE owner = %b"
_END: Final = b"DELETE FROM trust_owner WHERE owner = %b"
_LOOK: Final = (
    b"SELECT s.owner, o.beat FROM trust_session AS s LEFT JOIN trust_owner AS o ON o.owner = s.owner WHERE s.key = %b"
)
_TAKE_AWAY: Final = (
    b"WITH ended AS (DELETE FROM trust_owner WHERE owner = %b AND beat = %b RETURNING owner)"
    b" UPDATE trust_session AS s SET owner = '' FROM ended WHERE s.owner = ended.owner"
)
_NOTIFY: Final = f"SELECT pg_notify('{CHANNEL}', %b)".encode()


def _now() -> float:
    """Seconds that also pass while the machine sleeps, where the system counts them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SessionLeases:
    """What this process owns. `connect` makes a connection whose statements are each a transaction."""

    beat_seconds: ClassVar = 0.5
    # For so long an owner relies on a number that it counted up.
    relied_seconds: ClassVar = 2.0
    # For so long others see the same number before they take the sessions away. It has to be longer.
    patience_seconds: ClassVar = 3.0

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self.sessions = StoredSessions(self)
        self.owner = ""
        # The name before it, under which some sessions may still be in the store.
        self._former = ""
        self._until = 0.0
        # Another one for each name that this process has had: what was known under the former one is not known now.
        self._mark = 0
        self._lock = Lock()
        self._stop = Event()
        self._thread: Thread | None = None
        # How often a session was let go of, so that what was read before it is not taken for known after it.
        self.let_go = 0
        self._leaving: set[str] = set()
        self._shared: dict[str, float] = {}
        self._used: dict[str, float] = {}
        self._alone: dict[str, tuple[int, int]] = {}

    # -- for who decides, and for the writer ---------------------------------------------------------------------

    def others(self) -> Mark | None:
        """A mark that stays the same while what is owned is owned; None where that is not certain now."""
        mark = self._mark
        return mark if self.owner and _now() < self._until and mark == self._mark else None

    def open(self) -> None:
        """Nothing has to be opened for that."""

    def keep(self, key: str, kept: StoredSession, since: int) -> None:
        """What the writer has committed of a session that is owned; not where it was let go of meanwhile. `since` is
        what `let_go` was before the writer looked at the session."""
        self._used[key] = _now()
        with self._lock:
            if self.let_go == since and key not in self._leaving and kept.mark == self._mark:
                self.sessions.put(key, kept)

    def wants(self, key: str, before: int, after: int) -> bool:
        """Whether a session that nobody owns is worth having alone, now that the writer takes it from one version to
        another."""
        count, version = self._alone.pop(key, (0, before))
        count = count + 1 if version == before else 0
        if count < ALONE:
            self._alone[key] = count, after
            if len(self._alone) > _MOST:
                del self._alone[next(iter(self._alone))]
            return False
        if self._shared.get(key, 0.0) > _now() or key in self._leaving:
            return False
        if self._thread is None:
            self._start()
        return self.others() is not None

    # -- for who needs what another has -------------------------------------------------------------------------

    async def freed(self, key: str, owner: str) -> None:
        """Ask the owner to let go of a session, and wait until it has, or until it is seen to be dead."""
        if self._stop.is_set():
            raise StoreUnavailable("the store is closed", advice="Start the gateway again.")
        await asyncio.to_thread(self._free, key, owner)

    def _free(self, key: str, owner: str) -> None:
        with self._connect() as driver:
            start = time.monotonic()
            seen: int | None = None
            since, asked = start, 0.0
            while time.monotonic() - start < 2 * self.patience_seconds and not self._stop.is_set():
                found = driver.execute(_LOOK, (key,), binary=True).fetchone()
                if found is None or found[0] != owner:
                    return
                now, beat = time.monotonic(), found[1]
                if beat is None:
                    driver.execute(_LEAVE_ALL, (owner,))
                    return
                if beat != seen:
                    seen, since = beat, now
                elif now - since > self.patience_seconds:
                    log.warning("a gateway that had sessions to itself has gone")
                    driver.execute(_TAKE_AWAY, (owner, beat))
                    continue
                if now - asked > self.beat_seconds:
                    asked = now
                    driver.execute(_NOTIFY, (f"{owner} {key}",))
                time.sleep(_ASK_SECONDS)
        raise StoreUnavailable(
            "another gateway does not let go of a session", advice="Run `callgate doctor` on the other gateways."
        )

    # -- the thread that counts ----------------------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = Thread(target=self._run, name="callgate-leases", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self._connect() as driver:
                    driver.execute(f"LISTEN {CHANNEL}".encode())
                    self._begin(driver)
                    while not self._stop.is_set() and self._beat(driver):
                        # The connection is busy until the last of them is read.
                        for notice in list(driver.notifies(timeout=self.beat_seconds, stop_after=1)):
                            owner, _, key = notice.payload.partition(" ")
                            if owner == self.owner:
                                self._share(key)
                                self._leave(driver, key)
                        self._leave_quiet(driver)
                    self._forget()
            except psycopg.Error as error:
                # Whatever was under way may be done or not: under another name it makes no difference.
                log.info("the connection that keeps sessions is gone: %s", error)
                self._forget()
                self._stop.wait(self.beat_seconds)

    def _begin(self, driver: psycopg.Connection[Any]) -> None:
        if self._former:
            self._end(driver, self._former)
            self._former = ""
        owner, start = secrets.token_hex(16), _now()
        driver.execute(_BEGIN, (owner,))
        self._until, self.owner = start + self.relied_seconds, owner

    @staticmethod
    def _end(driver: psycopg.Connection[Any], owner: str) -> None:
        """Only once nothing relies on it any more."""
        driver.execute(_LEAVE_ALL, (owner,))
        driver.execute(_END, (owner,))

    def _beat(self, driver: psycopg.Connection[Any]) -> bool:
        """False where others have taken everything away."""
        start = _now()
        if driver.execute(_BEAT, (self.owner,)).rowcount != 1:
            return False
        self._until = start + self.relied_seconds
        return True

    def _share(self, key: str) -> None:
        self._shared[key] = _now() + SHARED_SECONDS
        while len(self._shared) > _MOST:
            del self._shared[next(iter(self._shared))]

    def _leave(self, driver: psycopg.Connection[Any], key: str) -> None:
        with self._lock:
            self._leaving.add(key)
            self.let_go += 1
            self.sessions.forget(key)
        self._used.pop(key, None)
        driver.execute(_LEAVE, (key, self.owner))
        with self._lock:
            # Once more: the writer may have looked at the session since, when it was owned still.
            self.let_go += 1
            self._leaving.discard(key)

    def _leave_quiet(self, driver: psycopg.Connection[Any]) -> None:
        before = _now() - QUIET_SECONDS
        for key in [key for key, at in list(self._used.items()) if at < before]:
            self._leave(driver, key)

    def _forget(self) -> None:
        """Own nothing under this name any more. The row that counts may still be there; nobody counts it up."""
        with self._lock:
            self._former, self.owner, self._until = self.owner or self._former, "", 0.0
            self._mark += 1
            self.let_go += 1
            self.sessions.clear()
        self._leaving.clear()
        self._used.clear()

    def close(self) -> None:
        """Leave everything to others."""
        with self._lock:
            self._stop.set()
            thread = self._thread
        if thread is not None:
            thread.join(2 * self.beat_seconds + 1.0)
        self._forget()
        if self._former:
            with suppress(psycopg.Error), self._connect() as driver:
                self._end(driver, self._former)

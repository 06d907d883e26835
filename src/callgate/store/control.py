"""The kill switch: one row that every gateway on the store obeys within a second."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from sqlalchemy import Connection, delete, insert, select, text

from callgate.audit.records import AuditRow
from callgate.errors import Reason, Refused, StoreError, StoreTooNew, StoreTooOld
from callgate.store import migrate
from callgate.store.following import Follower
from callgate.store.front import Store
from callgate.store.schema import control

log = logging.getLogger(__name__)

VARIABLE: Final = "CALLGATE_BLOCK_ALL"
STALE_SECONDS: Final = 3.0
_NAME: Final = "block_all"
_VERSION: Final = text("SELECT version_num FROM alembic_version")
_ON: Final = {"1", "true", "on", "yes"}
_OFF: Final = {"", "0", "false", "off", "no"}


class Block(msgspec.Struct, frozen=True):
    """The stored state of the kill switch."""

    on: bool = False
    at: int = 0
    by: str = ""
    note: str = ""


def read_block(conn: Connection) -> Block:
    """The state of the switch; anything but a clear "off" is on."""
    row = conn.execute(select(control).where(control.c.name == _NAME)).first()
    if row is None:
        return Block()
    return Block(on=row.value != "off", at=row.changed_at, by=row.changed_by, note=row.note)


def set_block(store: Store, state: Block, row: AuditRow | None) -> None:
    """Turn the switch, together with the audit row that says so; None where none can be sealed."""
    with store.writing() as conn:
        _put(store, conn, state, row)


async def turn_block(store: Store, state: Block, row: AuditRow) -> None:
    """The same for a process that serves."""
    await store.run(lambda conn: _put(store, conn, state, row))


def _put(store: Store, conn: Connection, state: Block, row: AuditRow | None) -> None:
    conn.execute(delete(control).where(control.c.name == _NAME))
    conn.execute(
        insert(control).values(
            name=_NAME,
            value="on" if state.on else "off",
            changed_at=state.at,
            changed_by=state.by,
            note=state.note,
        )
    )
    if row is not None:
        store.insert(conn, row)
    store.backend.announce(conn)


def _read(conn: Connection) -> Block:
    migrate.require_current(str(conn.execute(_VERSION).scalar()))
    return read_block(conn)


def forced_by_environment(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment holds the switch on; a value that cannot be read holds it on too."""
    value = environ.get(VARIABLE, "").strip().lower()
    if value in _OFF:
        return False
    if value not in _ON:
        log.warning("%s=%r is neither on nor off; the kill switch is on", VARIABLE, value)
    return True


class KillSwitch:
    """The switch as a gateway sees it: a value in memory, kept fresh from the store."""

    def __init__(
        self,
        store: Store,
        forced: bool = False,
        *,
        turned: Callable[[Block], None] = lambda _state: None,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._by_config = forced
        self._by_environment = forced_by_environment(environ)
        self._clock = clock
        # Told whenever somebody has turned it.
        self._turned = turned
        self._state = Block()
        self._read_at: float | None = None
        # Whether the store has another schema than the one that was opened.
        self.outdated = False
        self._follower = Follower(self._watch, self.refresh, "callgate-kill-switch")

    def refusal(self) -> Refused | None:
        """Why nothing may pass: the switch is on, or nobody knows whether it is."""
        if self._by_config or self._by_environment or self._state.on:
            return Refused(Reason.BLOCKED_BY_POLICY, f"{Reason.BLOCKED_BY_POLICY.meaning} ({self.why})")
        if self._read_at is None or self._clock() - self._read_at > STALE_SECONDS:
            return Refused(Reason.STORE_UNAVAILABLE)
        return None

    @property
    def engaged(self) -> bool:
        """Whether every call is to be refused."""
        return self._by_config or self._by_environment or self._state.on

    @property
    def stale(self) -> bool:
        """Whether the stored state has been unreadable for so long that nobody knows it: refuse."""
        return self._read_at is None or self._clock() - self._read_at > STALE_SECONDS

    @property
    def forced(self) -> str:
        """What holds the switch on whatever the store says."""
        if self._by_environment:
            return f"{VARIABLE} is set"
        if self._by_config:
            return "policy.block_all is true in the configuration"
        return ""

    @property
    def why(self) -> str:
        """Who or what holds the switch on."""
        if self.forced:
            return self.forced
        if self._state.on:
            note = f": {self._state.note}" if self._state.note else ""
            return f"turned on by {self._state.by}{note}"
        return ""

    def force(self, forced: bool) -> None:
        """Follow a changed configuration."""
        self._by_config = forced

    def _watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self._store.watch(changed)

    async def start(self) -> None:
        """Read the state once, then keep it fresh."""
        await self._follower.start()

    async def stop(self) -> None:
        await self._follower.stop()

    async def catch_up(self) -> None:
        """Wait until the state is not stale."""
        while self.stale:
            await self._follower.next_reading()

    async def refresh(self) -> None:
        """Read the state now."""
        before = self._clock()
        try:
            state = await self._store.read(_read)
        except (StoreTooNew, StoreTooOld) as error:
            # Another Callgate has changed it under this one, which must not write to it any more.
            if not self.outdated:
                log.error("the store is another one now: %s", error)
            self.outdated, self._read_at = True, None
            return
        except StoreError as error:
            log.warning("the kill switch could not be read: %s", error)
            return
        except Exception:
            # Not to be expected, so the state ages into `stale` and calls are refused; the reading goes on.
            log.exception("the kill switch could not be read")
            return
        if self._read_at is not None and before < self._read_at:
            # Another reading, which began later, came first: this one may be older than what somebody has just turned.
            return
        if state.on != self._state.on:
            log.warning("kill switch is now %s (%s)", "on" if state.on else "off", state.by)
            if self._read_at is not None:
                self._turned(state)
        self._state = state
        self._read_at, self.outdated = before, False

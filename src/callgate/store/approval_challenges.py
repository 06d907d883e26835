"""Challenges and their single use (the approval room's `Challenges`). Only conditional writes decide who wins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection

from callgate.approval.model import Challenge, ChallengeUse, Credential, GrantUse, Use
from callgate.approval.storage import Bounds
from callgate.audit.rows import AuditRow
from callgate.errors import Reason, Refused, Spent
from callgate.store.approval_people import PASSKEY, credential_of
from callgate.store.approval_sql import KEEP_MS, SWEEP, Part, Statement, demand, known
from callgate.store.front import Store

_challenge: Final = msgspec.msgpack.Decoder(Challenge)
_CONSUME: Final = Statement(
    "UPDATE challenge SET consumed_at = ? WHERE id = ? AND consumed_at IS NULL AND expires_at > ?"
)
# §4.8 steps 11 and 14: zero means that the passkey does not count; otherwise the number only grows.
_COUNT: Final = Statement(
    "UPDATE passkey SET counter = ?, last_used_at = ?, backed_up = ?"
    " WHERE id = ? AND revoked_at IS NULL AND (counter = 0 OR counter < ?)"
)
_GRANT: Final = Statement(
    "UPDATE approval_request SET state = 'used', call = ? WHERE id = ? AND state = 'approved' AND expires_at > ?"
)
_STATE: Final = Statement("SELECT consumed_at, expires_at FROM challenge WHERE id = ?")
_REVOKED: Final = Statement("SELECT revoked_at FROM passkey WHERE id = ?")
_ONE: Final = Statement("SELECT body, consumed_at FROM challenge WHERE id = ?")
# One statement is one view, also where two would be two.
_BOTH: Final = Statement(
    f"SELECT c.body, c.consumed_at, {', '.join(f'p.{name}' for name in PASSKEY)} FROM (SELECT 1 AS one) AS o"  # noqa: S608
    " LEFT JOIN challenge AS c ON c.id = ? LEFT JOIN passkey AS p ON p.id = ?"
)
_SWEEP: Final = Statement(
    "DELETE FROM challenge WHERE seq IN (SELECT seq FROM challenge WHERE expires_at < ? ORDER BY expires_at LIMIT ?)"
)
_ADD: Final = Statement("INSERT INTO challenge (id, person, expires_at, body) VALUES (?, ?, ?, ?) RETURNING seq")
_OPEN: Final = Statement(
    "SELECT count(*) FROM (SELECT 1 FROM challenge WHERE expires_at > ? AND consumed_at IS NULL LIMIT ?) AS found"
)
_OPEN_OF: Final = Statement(
    "SELECT count(*) FROM"
    " (SELECT 1 FROM challenge WHERE person = ? AND expires_at > ? AND consumed_at IS NULL LIMIT ?) AS found"
)


class Tally:
    """Tells that a bound is kept without counting each time.

    What is open now was open when somebody last counted, or was added since; `seq` tells how many that are at most,
    whichever process added them. Only where that could be too many, they are counted again.
    """

    KEPT: Final = 1000
    # Counting many for every refusal would make being full expensive: what was full is full for a moment longer.
    MANY: Final = 1000
    FULL_MS: Final = 250

    def __init__(self) -> None:
        self._counted: dict[tuple[int, str | None], tuple[int, int]] = {}
        self._full: dict[tuple[int, str | None], int] = {}

    def freed(self) -> None:
        """Something was used up here, so there is room again."""
        self._full.clear()

    def within(self, bound: int, user: str | None, seq: int, now: int, count: Callable[[], int]) -> bool:
        # Counting ends one beyond the bound, so what was counted says nothing about a higher one.
        key = (bound, user)
        found, at = self._counted.get(key, (bound, 0))
        if found + max(0, seq - at) <= bound:
            return True
        if key in self._full and 0 <= now - self._full[key] < self.FULL_MS:
            return False
        if len(self._counted) >= self.KEPT:
            self._counted.clear()
            self._full.clear()
        found = count()
        self._counted[key] = found, seq
        if found > bound >= self.MANY:
            self._full[key] = now
        return found <= bound


class SqlChallenges(Part):
    """Challenges in a table."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._tally = Tally()

    async def add_challenge(self, challenge: Challenge, bounds: Bounds) -> None:
        demand(challenge.id, challenge.user)
        body = msgspec.msgpack.encode(challenge)
        await self._store.run(lambda conn: self._add(conn, challenge, body, bounds))

    def _add(self, conn: Connection, new: Challenge, body: bytes, bounds: Bounds) -> None:
        now, user = new.created_at, new.user
        driver = conn.connection.driver_connection
        with self._store.backend.together(driver):
            self._store.backend.hold_approvals(driver)
            _SWEEP.run(conn, now - KEEP_MS, SWEEP)
            added = _ADD.run(conn, new.id, user, new.expires_at, body)
        seq = int(added.fetchall()[0][0])

        def in_all() -> int:
            return _number(_OPEN.first(conn, now, bounds.in_all + 1))

        def of_user() -> int:
            return _number(_OPEN_OF.first(conn, user, now, bounds.per_user + 1))

        within = self._tally.within
        if not (within(bounds.per_user, user, seq, now, of_user) and within(bounds.in_all, None, seq, now, in_all)):
            raise Refused(Reason.APPROVAL_LIMIT)

    async def challenge(self, challenge_id: str) -> Challenge | None:
        wanted = known(challenge_id)
        row = await self._store.read(lambda conn: _ONE.first(conn, wanted))
        return None if row is None else _issued(*row)

    async def look_up(self, challenge_id: str, credential_id: str) -> tuple[Challenge | None, Credential | None]:
        wanted = known(challenge_id), known(credential_id)
        row = await self._store.read(lambda conn: _BOTH.first(conn, *wanted))
        assert row is not None
        challenge = None if row[0] is None else _issued(row[0], row[1])
        return challenge, None if row[2] is None else credential_of(row[2:])

    async def use(self, use: Use, witness: AuditRow | None = None) -> None:
        if isinstance(use, ChallengeUse):
            await self._store.run(lambda conn: self._consume(conn, use, witness))
        else:
            await self._store.run(lambda conn: self._use_grant(conn, use, witness))

    def _consume(self, conn: Connection, use: ChallengeUse, witness: AuditRow | None) -> None:
        """§4.8, steps 13 and 14, and their record.

        All of it is sent before anything is known of its success: raising undoes all of it (the store's savepoint).
        """
        challenge, credential = known(use.challenge), known(use.credential)
        driver = conn.connection.driver_connection
        with self._store.backend.together(driver):
            self._store.backend.hold_approvals(driver)
            consumed = _CONSUME.run(conn, use.at, challenge, use.at)
            moved = _COUNT.run(conn, use.counter, use.at, use.backed_up, credential, use.counter)
            self._record(conn, witness)
        if consumed.rowcount != 1:
            raise Spent(_why_not(conn, challenge, use.at))
        if moved.rowcount != 1:
            found = _REVOKED.first(conn, credential)
            gone = found is None or found[0] is not None
            raise Spent(Reason.UNKNOWN_CREDENTIAL if gone else Reason.SIGNATURE_COUNTER_REGRESSION)
        self._tally.freed()

    def _use_grant(self, conn: Connection, use: GrantUse, witness: AuditRow | None) -> None:
        driver = conn.connection.driver_connection
        with self._store.backend.together(driver):
            self._store.backend.hold_approvals(driver)
            used = _GRANT.run(conn, use.call, known(use.request), use.at)
            self._record(conn, witness)
        if used.rowcount != 1:
            raise Spent(Reason.APPROVAL_EXPIRED)


def _number(row: tuple[Any, ...] | None) -> int:
    return 0 if row is None else int(row[0])


def _issued(body: bytes, consumed_at: int | None) -> Challenge:
    return replace(_challenge.decode(body), consumed_at=consumed_at)


def _why_not(conn: Connection, challenge: str, at: int) -> Reason:
    """§4.8: unknown, then consumed, then expired."""
    found = _STATE.first(conn, challenge)
    if found is None:
        return Reason.CHALLENGE_UNKNOWN
    consumed_at, expires_at = found
    if consumed_at is not None:
        return Reason.CHALLENGE_CONSUMED
    return Reason.CHALLENGE_EXPIRED if expires_at <= at else Reason.CHALLENGE_UNKNOWN

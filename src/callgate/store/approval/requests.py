"""Challenges and requests for approval. Only conditional writes decide who wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Row, Select, delete, func, insert, select, update

from callgate.approval.model import Challenge, ChallengeUse, Credential, GrantUse, Request, RequestState, Use
from callgate.approval.storage import ApprovalBounds
from callgate.audit.records import AuditRow
from callgate.canonical import parts_hash
from callgate.errors import Reason, Refused, Spent
from callgate.store.approval.people import PASSKEY, credential_of
from callgate.store.front import Store
from callgate.store.schema import approval_request
from callgate.store.statements import DAY_MS, KEEP_MS, SWEEP, Repository, Statement, demand, known

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
_SWEEP_CHALLENGES: Final = Statement(
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


class OpenChallengeCount:
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


_MOST_LISTED: Final = 10_000
_request: Final = msgspec.msgpack.Decoder(Request)
_id, _columns = approval_request.c.id, approval_request.c


class StoredDecision(msgspec.Struct, frozen=True):
    """What became of a request, and by whom."""

    at: int
    by: str
    note: str | None = None
    evidence: dict[str, Any] | None = None


_decision: Final = msgspec.msgpack.Decoder(StoredDecision)


def call_key(caller: str, server: str, tool: str, action_hash: bytes) -> bytes:
    """One value for who calls what; texts of any kind and length, which no index would take, go in."""
    return parts_hash(caller, server, tool, action_hash)


class SqlRequests(Repository):
    """Challenges and requests in tables; approving a request uses a challenge up."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._tally = OpenChallengeCount()

    async def add_challenge(self, challenge: Challenge, bounds: ApprovalBounds) -> None:
        demand(challenge.id, challenge.user)
        body = msgspec.msgpack.encode(challenge)
        await self._store.run(lambda conn: self._add(conn, challenge, body, bounds))

    def _add(self, conn: Connection, new: Challenge, body: bytes, bounds: ApprovalBounds) -> None:
        now, user = new.created_at, new.user
        driver = conn.connection.driver_connection
        with self._store.backend.together(driver):
            self._store.backend.hold_approvals(driver)
            _SWEEP_CHALLENGES.run(conn, now - KEEP_MS, SWEEP)
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

    async def open_request(self, request: Request, bounds: ApprovalBounds, witness: AuditRow | None = None) -> Request:
        demand(request.id, request.user)
        new = replace(
            request, why=_whole(request.why), agent={_whole(key): _whole(text) for key, text in request.agent.items()}
        )
        key = call_key(new.caller, new.server, new.tool, new.action_hash)
        body = msgspec.msgpack.encode(new)

        def open_or_find(conn: Connection) -> Request:
            _sweep_requests(conn, new.created_at)
            unexpired = (_columns.person == new.user, _columns.expires_at > new.created_at)
            same = _select().where(*unexpired, _columns.call_key == key, _columns.state.in_(("waiting", "approved")))
            found = conn.execute(same.order_by(_columns.created_at, _id).limit(1)).first()
            if found is not None:
                return _request_of(found)
            waiting = select(func.count()).select_from(approval_request).where(*unexpired, _columns.state == "waiting")
            if conn.execute(waiting).scalar_one() >= bounds.requests_per_user:
                raise Refused(Reason.APPROVAL_LIMIT)
            _put(conn, new, key, body)
            self._record(conn, witness)
            self._store.backend.announce(conn)
            return new

        return await self._change(open_or_find)

    async def find_grant(self, caller: str, server: str, tool: str, action_hash: bytes, now: int) -> Request | None:
        key = call_key(caller, server, tool, action_hash)
        granted = _select().where(_columns.call_key == key, _columns.state == "approved", _columns.expires_at > now)
        query = granted.order_by(_columns.created_at, _id).limit(1)
        row = await self._store.read(lambda conn: conn.execute(query).first())
        return None if row is None else _request_of(row)

    async def hear_refusal(
        self, caller: str, server: str, tool: str, action_hash: bytes, *, call: str, now: int
    ) -> Request | None:
        key = call_key(caller, server, tool, action_hash)
        unheard = (
            _columns.call_key == key,
            _columns.state == "refused",
            _columns.call.is_(None),
            _columns.expires_at > now,
        )
        oldest = _select().where(*unheard).order_by(_columns.created_at, _id).limit(1)
        # Nearly always there is none, and a look is cheaper than a turn at writing.
        if await self._store.read(lambda conn: conn.execute(oldest).first()) is None:
            return None

        def hear(conn: Connection) -> Request | None:
            found = conn.execute(oldest).first()
            if found is None:
                return None
            mark = update(approval_request).where(_id == found.id, _columns.call.is_(None)).values(call=call)
            marked = conn.execute(mark, execution_options={"preserve_rowcount": True})
            return replace(_request_of(found), call=call) if marked.rowcount == 1 else None

        return await self._change(hear)

    async def request(self, request_id: str) -> Request | None:
        wanted = known(request_id)
        row = await self._store.read(lambda conn: _find(conn, wanted))
        return None if row is None else _request_of(row)

    async def requests(
        self, user: str | None = None, *, states: Sequence[RequestState] = (), limit: int = 100
    ) -> Sequence[Request]:
        query = _select().order_by(_columns.created_at.desc(), _id.desc()).limit(max(0, min(limit, _MOST_LISTED)))
        if user is not None:
            query = query.where(_columns.person == known(user))
        if states:
            query = query.where(_columns.state.in_(states))
        rows = await self._store.read(lambda conn: conn.execute(query).all())
        return [_request_of(row) for row in rows]

    async def approve_request(
        self, request_id: str, use: ChallengeUse, evidence: dict[str, Any], by: str, witness: AuditRow | None = None
    ) -> Request:
        decision = StoredDecision(use.at, by, evidence=evidence)

        def approve(conn: Connection) -> Request:
            decided = self._decide(conn, known(request_id), "approved", decision)
            self._consume(conn, use, witness)
            return decided

        return await self._change(approve)

    async def refuse_request(
        self, request_id: str, by: str, note: str, at: int, witness: AuditRow | None = None
    ) -> Request:
        decision = StoredDecision(at, _whole(by), note=_whole(note))

        def refuse(conn: Connection) -> Request:
            decided = self._decide(conn, known(request_id), "refused", decision)
            self._record(conn, witness)
            return decided

        return await self._change(refuse)

    def _decide(self, conn: Connection, request_id: str, state: RequestState, decision: StoredDecision) -> Request:
        waiting = (_id == request_id, _columns.state == "waiting", _columns.expires_at > decision.at)
        statement = update(approval_request).where(*waiting)
        done = conn.execute(statement.values(state=state, decision=msgspec.msgpack.encode(decision))).rowcount
        row = _find(conn, request_id)
        if done != 1:
            decided = row is not None and row.state != "waiting"
            raise Spent(Reason.APPROVAL_DECIDED if decided else Reason.APPROVAL_EXPIRED)
        assert row is not None
        self._store.backend.announce(conn)
        return _request_of(row)


def _select() -> Select[Any]:
    return select(_id, _columns.state, _columns.call, _columns.decision, _columns.body)


def _find(conn: Connection, request_id: str) -> Row[Any] | None:
    return conn.execute(_select().where(_id == request_id)).first()


def _request_of(row: Row[Any]) -> Request:
    opened = _request.decode(row.body)
    if row.decision is None:
        return replace(opened, state=row.state)
    decision = _decision.decode(row.decision)
    return replace(
        opened,
        state=row.state,
        decided_at=decision.at,
        decided_by=decision.by,
        note=decision.note,
        evidence=decision.evidence,
        call=row.call,
    )


def _put(conn: Connection, new: Request, key: bytes, body: bytes) -> None:
    conn.execute(
        insert(approval_request).values(
            id=new.id,
            person=new.user,
            call_key=key,
            state=new.state,
            created_at=new.created_at,
            expires_at=new.expires_at,
            body=body,
        )
    )


def _sweep_requests(conn: Connection, now: int) -> None:
    """A request is of no use to anyone a day after it ran out, decided or not."""
    old = select(_id).where(_columns.expires_at < now - DAY_MS).limit(SWEEP)
    conn.execute(delete(approval_request).where(_id.in_(old)))


def _whole(text: str) -> str:
    """Text to be shown, of whatever origin: half characters cannot be stored."""
    return text.encode("utf-8", "replace").decode()

"""Calls that wait for their person (the approval room's `Requests`)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Row, Select, delete, func, insert, select, update

from callgate.approval.model import ChallengeUse, Request, RequestState
from callgate.approval.storage import Bounds
from callgate.audit.rows import AuditRow
from callgate.errors import Reason, Refused, Spent
from callgate.store.approval_challenges import SqlChallenges
from callgate.store.approval_sql import DAY_MS, SWEEP, demand, known
from callgate.store.schema import approval_request

_MOST: Final = 10_000
_request: Final = msgspec.msgpack.Decoder(Request)
_id, _columns = approval_request.c.id, approval_request.c


class Decision(msgspec.Struct, frozen=True):
    """What became of a request, and by whom."""

    at: int
    by: str
    note: str | None = None
    evidence: dict[str, Any] | None = None


_decision: Final = msgspec.msgpack.Decoder(Decision)


def call_key(caller: str, server: str, tool: str, action_hash: bytes) -> bytes:
    """One value for who calls what; texts of any kind and length, which no index would take, go in."""
    digest = hashlib.sha256()
    for part in (*(text.encode("utf-8", "surrogatepass") for text in (caller, server, tool)), action_hash):
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.digest()


class SqlRequests(SqlChallenges):
    """Requests in a table; approving one uses a challenge up."""

    async def open_request(self, request: Request, bounds: Bounds, witness: AuditRow | None = None) -> Request:
        demand(request.id, request.user)
        new = replace(
            request, why=_whole(request.why), agent={_whole(key): _whole(text) for key, text in request.agent.items()}
        )
        key = call_key(new.caller, new.server, new.tool, new.action_hash)
        body = msgspec.msgpack.encode(new)

        def open_or_find(conn: Connection) -> Request:
            _sweep(conn, new.created_at)
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
        query = _select().order_by(_columns.created_at.desc(), _id.desc()).limit(max(0, min(limit, _MOST)))
        if user is not None:
            query = query.where(_columns.person == known(user))
        if states:
            query = query.where(_columns.state.in_(states))
        rows = await self._store.read(lambda conn: conn.execute(query).all())
        return [_request_of(row) for row in rows]

    async def approve_request(
        self, request_id: str, use: ChallengeUse, evidence: dict[str, Any], by: str, witness: AuditRow | None = None
    ) -> Request:
        decision = Decision(use.at, by, evidence=evidence)

        def approve(conn: Connection) -> Request:
            decided = self._decide(conn, known(request_id), "approved", decision)
            self._consume(conn, use, witness)
            return decided

        return await self._change(approve)

    async def refuse_request(
        self, request_id: str, by: str, note: str, at: int, witness: AuditRow | None = None
    ) -> Request:
        decision = Decision(at, _whole(by), note=_whole(note))

        def refuse(conn: Connection) -> Request:
            decided = self._decide(conn, known(request_id), "refused", decision)
            self._record(conn, witness)
            return decided

        return await self._change(refuse)

    def _decide(self, conn: Connection, request_id: str, state: RequestState, decision: Decision) -> Request:
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


def _sweep(conn: Connection, now: int) -> None:
    """A request is of no use to anyone a day after it ran out, decided or not."""
    old = select(_id).where(_columns.expires_at < now - DAY_MS).limit(SWEEP)
    conn.execute(delete(approval_request).where(_id.in_(old)))


def _whole(text: str) -> str:
    """Text to be shown, of whatever origin: half characters cannot be stored."""
    return text.encode("utf-8", "replace").decode()

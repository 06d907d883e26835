"""Grants in the store: kept, used up, ended. Each function is a part of somebody's transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, Select, and_, or_, select, update

from callgate.approval.delegation import Delegation, DelegationUse, GrantedAgent, read_terms
from callgate.canonical import parts_hash
from callgate.errors import Reason, Refused, Spent
from callgate.store.schema import delegation
from callgate.store.statements import count, insert_new

# Of one person, and of one agent on one server, that can be used: all of the latter are looked through for a call.
MOST_OF_ONE: Final = 100
_columns = delegation.c


class _Body(msgspec.Struct, frozen=True):
    terms: bytes
    evidence: dict[str, Any]


_body: Final = msgspec.msgpack.Decoder(_Body)


def agent_key(agent: GrantedAgent, server_id: str) -> bytes:
    return parts_hash(agent.source, agent.id, agent.key, agent.directory, server_id)


def of(row: Row[Any]) -> Delegation:
    """The grant in a row. What was signed is read again; the columns only count."""
    body = _body.decode(row.body)
    return Delegation(
        terms=read_terms(body.terms),
        credential=row.credential,
        at=row.at,
        evidence=body.evidence,
        calls=row.calls,
        amount=row.amount,
        revoked_at=row.revoked_at,
        revoked_by=row.revoked_by,
    )


def add(conn: Connection, new: Delegation, now: int) -> None:
    terms = new.terms
    agent = agent_key(terms.agent, terms.server_id)
    live = (_columns.revoked_at.is_(None), _columns.ends > now)
    for whose in (_columns.person == terms.person, _columns.agent == agent):
        if count(conn, delegation, whose, *live) >= MOST_OF_ONE:
            raise Refused(Reason.APPROVAL_LIMIT, f"there are {MOST_OF_ONE} grants already that can be used")
    row = {
        "id": terms.id,
        "person": terms.person,
        "credential": new.credential,
        "agent": agent,
        "at": new.at,
        "begins": terms.begins,
        "ends": terms.ends,
        "calls": 0,
        "most_calls": terms.calls,
        "amount": 0,
        "most_amount": terms.most_amount,
        "revoked_at": None,
        "revoked_by": None,
        "body": msgspec.msgpack.encode(_Body(terms.canonical, new.evidence)),
    }
    if not insert_new(conn, delegation, row):
        raise Refused(Reason.GRANT_INVALID, "there is a grant of this number already")


def for_agent(agent: GrantedAgent, server_id: str, now: int) -> Select[Any]:
    live = (_columns.revoked_at.is_(None), _columns.ends > now)
    query = select(delegation).where(_columns.agent == agent_key(agent, server_id), *live)
    return query.order_by(_columns.ends, _columns.id).limit(MOST_OF_ONE)


def use(conn: Connection, wanted: DelegationUse, clock: Callable[[], int]) -> Delegation:
    """One call and its amount, by one conditional write; the grant as it is afterwards.

    Time is read here, behind whatever the transaction has waited for (VA-129).
    """
    now = clock()
    fits = and_(
        _columns.revoked_at.is_(None),
        _columns.begins <= now,
        _columns.ends > now,
        _columns.calls < _columns.most_calls,
        or_(_columns.most_amount.is_(None), _columns.amount + wanted.amount <= _columns.most_amount),
    )
    if wanted.amount < 0:
        raise Spent(Reason.GRANT_USED_UP)
    taken = {"calls": _columns.calls + 1, "amount": _columns.amount + wanted.amount}
    done = conn.execute(update(delegation).where(_columns.id == wanted.grant, fits).values(taken)).rowcount
    row = conn.execute(select(delegation).where(_columns.id == wanted.grant)).first()
    if row is None or row.revoked_at is not None or not row.begins <= now < row.ends or row.ends <= clock():
        raise Spent(Reason.GRANT_ENDED)
    used = of(row)
    terms = used.terms
    # What was signed has the last word, whatever the columns say.
    if not terms.begins <= now < terms.ends:
        raise Spent(Reason.GRANT_ENDED)
    if done != 1 or used.calls > terms.calls or used.amount > (terms.most_amount or 0) * bool(terms.sum_of):
        raise Spent(Reason.GRANT_USED_UP)
    return used


def end(conn: Connection, which: ColumnElement[bool], *, by: str, at: int | None = None) -> int:
    """Revoke these grants; how many were not revoked before."""
    now = int(time.time() * 1000) if at is None else at
    live = (which, _columns.revoked_at.is_(None))
    return conn.execute(update(delegation).where(*live).values(revoked_at=now, revoked_by=by)).rowcount

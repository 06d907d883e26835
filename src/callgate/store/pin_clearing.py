"""Room for what was met and nobody has decided on, in the tables of sightings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, or_, select, update

from callgate.pinning.clearing import Kept, make_room
from callgate.pinning.model import Connected, ServerSeen
from callgate.pinning.storage import Bounds
from callgate.store.pin_meeting import SAME_TEXT
from callgate.store.pin_sql import key_of, unpack
from callgate.store.schema import pin, server_connected, server_seen, tool_seen, tool_text

_SERVER_DECIDED: Final = select(pin.c.seq).where(pin.c.server_key == server_seen.c.key).exists()
_SAME_TOOL: Final = and_(pin.c.server_key == tool_text.c.server_key, pin.c.tool_key == tool_text.c.tool_key)
_TOOL_DECIDED: Final = select(pin.c.seq).where(_SAME_TOOL).exists()
# Whether somebody decided on a row of `tool_text`.
DECIDED: Final = select(pin.c.seq).where(_SAME_TOOL, pin.c.approval_hash == tool_text.c.approval_hash).exists()
# Neither database reads a text to tell its length.
_LENGTH: Final[ColumnElement[int]] = func.length(tool_text.c.body)
_WAITING: Final = (
    select(func.coalesce(func.sum(_LENGTH), 0))
    .where(tool_text.c.server_key == server_seen.c.key, ~DECIDED)
    .correlate(server_seen)
    .scalar_subquery()
)


def weigh(conn: Connection, keys: Collection[bytes]) -> None:
    """Count anew what waits at these servers."""
    if keys:
        statement = update(server_seen).where(server_seen.c.key == bindparam("server")).values(waiting=_WAITING)
        conn.execute(statement, [{"server": key} for key in keys])


def clear(conn: Connection, server: ServerSeen, bounds: Bounds, before: int | None) -> None:
    """Make room for a server that was met just now; `before` is what waited of it until then, None for a newcomer."""
    key, lineage = key_of(server.server_id), key_of(server.lineage)
    weigh(conn, [key])
    live = _connected(conn, server.last_seen)
    own = select(server_seen.c.key, server_seen.c.body).where(server_seen.c.lineage_key == lineage)
    # Only servers of one lineage are told apart by their names.
    names = {row.key: unpack(row.body, ServerSeen).name for row in conn.execute(own)}
    columns = (server_seen.c.key, server_seen.c.lineage_key, server_seen.c.last_seen, server_seen.c.waiting)
    every = {}
    for row in conn.execute(select(*columns, _SERVER_DECIDED.label("decided"))):
        fixed = bool(row.decided) or row.key in live
        every[row.key] = Kept(row.key, row.lineage_key, names.get(row.key, ""), row.last_seen, row.waiting, fixed)
    met = every.pop(key)
    make_room(met, every.values(), bounds, _Clearing(conn), before)


def forget(conn: Connection, keys: Sequence[bytes]) -> None:
    """Drop all that was met of these servers."""
    conn.execute(delete(server_seen).where(server_seen.c.key.in_(keys)))
    for table in (tool_seen, tool_text):
        conn.execute(delete(table).where(table.c.server_key.in_(keys)))


def _connected(conn: Connection, now: int) -> set[bytes]:
    query = select(server_connected.c.body).where(server_connected.c.until > now)
    return {key_of(unpack(body, Connected).server_id) for body in conn.execute(query).scalars()}


class _Clearing:
    """The `Clearing` of pinning/clearing.py, inside a transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def forget(self, keys: Sequence[bytes]) -> None:
        forget(self._conn, keys)

    def trim(self, lineage: bytes | None, need: int) -> int:
        texts: list[dict[str, Any]] = []
        gone: list[dict[str, Any]] = []
        freed = 0
        for row in self._conn.execute(_spare(lineage)):
            if freed >= need:
                break
            freed += row.size
            tool = {"server": row.server_key, "tool": row.tool_key}
            texts.append({**tool, "text": row.approval_hash})
            if row.gone:
                gone.append(tool)
        if texts:
            one = delete(tool_text).where(*_of_tool(tool_text), tool_text.c.approval_hash == bindparam("text"))
            self._conn.execute(one, texts)
        if gone:
            # With all of its texts: nobody decided on any of them.
            for table in (tool_seen, tool_text):
                self._conn.execute(delete(table).where(*_of_tool(table)), gone)
        weigh(self._conn, {one["server"] for one in texts})
        return freed


def _spare(lineage: bytes | None) -> Any:
    """Former texts that nobody decided on, and tools that are gone and never were decided on, the oldest first."""
    names = ("server_key", "tool_key", "approval_hash")
    former = tool_seen.c.tool_key.is_(None)
    query = (
        select(*(tool_text.c[name] for name in names), _LENGTH.label("size"), tool_seen.c.gone)
        .join_from(tool_text, server_seen, server_seen.c.key == tool_text.c.server_key)
        .outerjoin(tool_seen, SAME_TEXT)
        .where(or_(and_(former, ~DECIDED), and_(tool_seen.c.gone, ~_TOOL_DECIDED)))
        .order_by(func.coalesce(tool_seen.c.last_seen, tool_text.c.last_seen), *(tool_text.c[name] for name in names))
    )
    return query if lineage is None else query.where(server_seen.c.lineage_key == lineage)


def _of_tool(table: Any) -> tuple[ColumnElement[bool], ...]:
    return table.c.server_key == bindparam("server"), table.c.tool_key == bindparam("tool")

"""What was met of servers and their tools, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, LargeBinary, Row, Select, and_, case, func, or_, select

from callgate.audit.rows import AuditRow
from callgate.pinning.keeping import names_of
from callgate.pinning.model import Change, ServerSeen, ToolSeen
from callgate.pinning.storage import USUAL, Bounds
from callgate.store.approval_sql import Part
from callgate.store.pin_clearing import DECIDED, clear, forget
from callgate.store.pin_meeting import SAME_TEXT, Meeting, Sighting, effective
from callgate.store.pin_sql import key_of, pack, unpack
from callgate.store.schema import server_seen, tool_seen, tool_text

_STATE_BYTES: Final = 32
# A gateway of an earlier version on the same store leaves the head empty, or as it was before the text changed.
# A part of an empty value is NULL in SQLite.
_STALE: Final = func.substr(tool_seen.c.head, 1, _STATE_BYTES, type_=LargeBinary).is_distinct_from(tool_seen.c.state)
_HEAD: Final = func.substr(tool_seen.c.head, _STATE_BYTES + 1, type_=LargeBinary)


class SqlSightings(Part):
    """Servers in `server_seen`, the newest text of each tool in `tool_seen`, all texts in `tool_text`."""

    async def saw(
        self, server: ServerSeen, tools: Sequence[ToolSeen], *, whole: bool, bounds: Bounds = USUAL
    ) -> tuple[Change, ...]:
        sighting = Sighting(server, tools, whole=whole)
        known_as = select(server_seen).where(server_seen.c.key == key_of(server.server_id))

        def meet(conn: Connection) -> tuple[Change, ...]:
            before = conn.execute(known_as).first()
            same = (
                before is not None and whole and before.list_state == sighting.state and len(sighting) <= bounds.tools
            )
            changes = () if same else Meeting(conn, sighting, before.whole_seen if before else 0).hold(bounds)
            _put_server(conn, sighting, before)
            if not same:
                clear(conn, server, bounds, None if before is None else before.waiting)
            if changes:
                self._store.backend.announce(conn)
            return changes

        return await self._change(meet)

    async def servers(self) -> list[ServerSeen]:
        query = select(server_seen.c.body, server_seen.c.last_seen)
        rows = await self._store.read(lambda conn: conn.execute(query).all())
        found = [replace(unpack(row.body, ServerSeen), last_seen=row.last_seen) for row in rows]
        return sorted(found, key=lambda server: (-server.last_seen, server.server_id))

    async def tools(self, server_id: str | None = None) -> list[ToolSeen]:
        stated = [tool_text.c[name] for name in ("approval_hash", "changes", "first_seen", "last_seen")]
        seen = (tool_seen.c.gone, tool_seen.c.last_seen.label("seen"), server_seen.c.whole_seen)
        # Of all at once, only what was decided on comes whole: its bytes are on record with the decision anyway.
        columns: list[ColumnElement[Any]] = [*stated, *seen]
        if server_id is not None:
            columns.append(tool_text.c.body)
        else:
            body = case((or_(DECIDED, _STALE), tool_text.c.body), else_=_HEAD)
            columns += [body.label("body"), and_(_STALE, ~DECIDED).label("stale")]
        query: Select[Any] = (
            select(*columns)
            .join_from(tool_text, tool_seen, SAME_TEXT)
            .join(server_seen, server_seen.c.key == tool_text.c.server_key)
        )
        if server_id is not None:
            query = query.where(tool_text.c.server_key == key_of(server_id))
        # Row by row: many that are stale are large together.
        found = await self._store.read(lambda conn: [_listed(row) for row in conn.execute(query)])
        return sorted(found, key=lambda tool: (tool.server_id, tool.tool))

    async def texts(self, server_id: str, tool: str) -> list[ToolSeen]:
        query = (
            select(tool_text, tool_seen.c.gone, tool_seen.c.last_seen.label("seen"), server_seen.c.whole_seen)
            .outerjoin(tool_seen, SAME_TEXT)
            .join(server_seen, server_seen.c.key == tool_text.c.server_key)
            .where(tool_text.c.server_key == key_of(server_id), tool_text.c.tool_key == key_of(tool))
            .order_by(tool_text.c.changes.desc())
        )
        rows = await self._store.read(lambda conn: conn.execute(query).all())
        return [_tool_of(row) for row in rows]

    async def forget(self, server_id: str, witnesses: Sequence[AuditRow] = ()) -> None:
        def drop(conn: Connection) -> None:
            forget(conn, [key_of(server_id)])
            for witness in witnesses:
                self._record(conn, witness)
            self._store.backend.announce(conn)

        await self._change(drop)


def _listed(row: Row[Any]) -> ToolSeen:
    made = _tool_of(row)
    return replace(made, raw=b"") if getattr(row, "stale", False) else made


def _tool_of(row: Row[Any]) -> ToolSeen:
    """A text; one that is no longer the newest has no row of `tool_seen` beside it."""
    newest = row.seen is not None
    seen = effective(row.seen, row.whole_seen, gone=bool(row.gone)) if newest else row.last_seen
    return replace(
        unpack(row.body, ToolSeen),
        first_seen=row.first_seen,
        last_seen=seen,
        changes=row.changes,
        gone=newest and bool(row.gone),
    )


def _put_server(conn: Connection, sighting: Sighting, before: Row[Any] | None) -> None:
    server, at = sighting.server, sighting.server.last_seen
    first, seen, full = server.first_seen or at, at, at if sighting.whole else 0
    known = None
    if before is not None:
        known = replace(unpack(before.body, ServerSeen), last_seen=before.last_seen)
        first = known.first_seen
        # Clocks of several gateways differ; time does not go back.
        seen, full = max(seen, before.last_seen), max(full, before.whole_seen)
    values = {
        "last_seen": seen,
        "whole_seen": full,
        "list_state": sighting.state if sighting.whole else b"",
        "body": pack(replace(server, first_seen=first, last_seen=0, names=names_of(known, server))),
    }
    key = key_of(server.server_id)
    if before is None:
        new = {"key": key, "lineage_key": key_of(server.lineage), "waiting": 0, **values}
        conn.execute(server_seen.insert().values(new))
    else:
        conn.execute(server_seen.update().where(server_seen.c.key == key).values(values))

"""The repository of pinning: decisions in a chain, servers and tools that were seen, connected servers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace
from sqlalchemy import (
    ColumnElement,
    Connection,
    LargeBinary,
    Row,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    not_,
    or_,
    select,
    update,
)

from callgate.audit.records import AuditRow
from callgate.canonical import parts_hash
from callgate.errors import Reason, Refused
from callgate.pinning.model import Change, Connected, ItemKind, Pin, ServerSeen, ToolSeen, kind_of
from callgate.pinning.storage import (
    USUAL,
    ChainHead,
    ExpectedTool,
    KeptServer,
    Link,
    PinBounds,
    Sealed,
    ServerMarks,
    check_link,
    check_wanted,
    compare,
    make_room,
    names_of,
    surplus,
    too_many_tools,
    vanish,
)
from callgate.store.schema import pin, pin_head, server_connected, server_seen, tool_seen, tool_text
from callgate.store.statements import Repository, Statement, demand, known, pack, unpack, upsert

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


def clear(conn: Connection, server: ServerSeen, bounds: PinBounds, before: int | None) -> None:
    """Make room for a server that was met just now; `before` is what waited of it until then, None for a newcomer."""
    key, lineage = parts_hash(server.server_id), parts_hash(server.lineage)
    weigh(conn, [key])
    connected = select(server_connected.c.body).where(server_connected.c.until > server.last_seen)
    live = {parts_hash(unpack(body, Connected).server_id) for body in conn.execute(connected).scalars()}
    own = select(server_seen.c.key, server_seen.c.body).where(server_seen.c.lineage_key == lineage)
    # Only servers of one lineage are told apart by their names.
    names = {row.key: unpack(row.body, ServerSeen).name for row in conn.execute(own)}
    columns = (server_seen.c.key, server_seen.c.lineage_key, server_seen.c.last_seen, server_seen.c.waiting)
    every = {}
    for row in conn.execute(select(*columns, _SERVER_DECIDED.label("decided"))):
        fixed = bool(row.decided) or row.key in live
        every[row.key] = KeptServer(row.key, row.lineage_key, names.get(row.key, ""), row.last_seen, row.waiting, fixed)
    met = every.pop(key)
    make_room(met, every.values(), bounds, before, drop=partial(forget, conn), trim=partial(_trim, conn))


def forget(conn: Connection, keys: Sequence[bytes]) -> None:
    """Drop all that was met of these servers."""
    conn.execute(delete(server_seen).where(server_seen.c.key.in_(keys)))
    for table in (tool_seen, tool_text):
        conn.execute(delete(table).where(table.c.server_key.in_(keys)))


def _trim(conn: Connection, lineage: bytes | None, need: int) -> int:
    texts: list[dict[str, Any]] = []
    gone: list[dict[str, Any]] = []
    freed = 0
    for row in conn.execute(_spare(lineage)):
        if freed >= need:
            break
        freed += row.size
        tool = {"server": row.server_key, "tool": row.tool_key}
        texts.append({**tool, "text": row.approval_hash})
        if row.gone:
            gone.append(tool)
    if texts:
        one = delete(tool_text).where(*_of_tool(tool_text), tool_text.c.approval_hash == bindparam("text"))
        conn.execute(one, texts)
    if gone:
        # With all of its texts: nobody decided on any of them.
        for table in (tool_seen, tool_text):
            conn.execute(delete(table).where(*_of_tool(table)), gone)
    weigh(conn, {one["server"] for one in texts})
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


# How many keys one statement names.
_MANY: Final = 500
_HELD: Final = Statement("SELECT tool_key, state, gone, last_seen FROM tool_seen WHERE server_key = ?")

SAME_TEXT: Final = and_(
    tool_text.c.server_key == tool_seen.c.server_key,
    tool_text.c.tool_key == tool_seen.c.tool_key,
    tool_text.c.approval_hash == tool_seen.c.approval_hash,
)


class ObservedTool(NamedTuple):
    """A tool as it was met just now. `state` is a hash of all that is stored of it."""

    tool: ToolSeen
    body: bytes
    state: bytes


class ObservedList:
    """A list of tools as it was met just now."""

    def __init__(self, server: ServerSeen, tools: Iterable[ToolSeen], *, whole: bool, kind: ItemKind = "tool") -> None:
        self.server = server
        self.whole = whole
        self.kind = kind
        plain = {"server_id": server.server_id, "first_seen": 0, "last_seen": 0, "changes": 0, "gone": False}
        self._tools = [replace(tool, **plain) for tool in tools]
        self._bodies = [pack(tool) for tool in self._tools]
        # Each body says where it ends, so no two lists read the same.
        self.state = hashlib.sha256(b"".join(self._bodies)).digest()

    def __len__(self) -> int:
        return len(self._tools)

    def met(self) -> dict[bytes, ObservedTool]:
        """Each tool under its key; of a name that is there twice, the last."""
        demand(*(tool.approval_hash for tool in self._tools))
        both = zip(self._tools, self._bodies, strict=True)
        return {parts_hash(tool.tool): ObservedTool(tool, body, hashlib.sha256(body).digest()) for tool, body in both}


class StoredTool(NamedTuple):
    """A tool as it was met before, as far as every list is compared with it."""

    key: bytes
    state: bytes
    gone: bool
    last_seen: int


def effective(last_seen: int, whole_seen: int, *, gone: bool) -> int:
    """When a tool was there last: with every whole list, unless it is gone."""
    return last_seen if gone else max(last_seen, whole_seen)


class ListRecorder:
    """Compares, and writes what differs."""

    def __init__(self, conn: Connection, sighting: ObservedList, whole_seen: int) -> None:
        self._conn = conn
        self._sighting = sighting
        self._key = parts_hash(sighting.server.server_id)
        self._at = sighting.server.last_seen
        self._whole_seen = whole_seen

    def hold(self, bounds: PinBounds) -> tuple[Change, ...]:
        """Remember a list; what of it is another than before, in its order, and then what is gone."""
        met, whole = self._sighting.met(), self._sighting.whole
        if len(met) > bounds.tools:
            raise too_many_tools(self._sighting.server, bounds)
        held = {row[0]: StoredTool(*row) for row in _HELD.run(self._conn, self._key).fetchall()}
        moved = [key for key, one in met.items() if key in held and (held[key].gone or held[key].state != one.state)]
        missing = [key for key, one in held.items() if whole and key not in met and not one.gone]
        before = self._texts([*moved, *missing])
        # A list of prompts says nothing of tools, nor the other way round.
        missing = [key for key in missing if kind_of(before[key].tool) == self._sighting.kind]
        if missing:
            self._lose(missing, before)
        new = [key for key in met if key not in held]
        if len(held) + len(new) > bounds.tools:
            self._make_room(len(held) + len(new) - bounds.tools, [*held.values()], missing, met, bounds)
        changes = {key: compare(before.get(key), met[key].tool) for key in met if key in before or key not in held}
        self._add(new, met)
        self._move(moved, met, before, changes)
        if not whole or self._sighting.kind != "tool":
            self._touch(key for key in met if key in held and key not in before)
        if any(change is not None and change.what == "text" for change in changes.values()):
            self._trim(bounds.texts)
        gone = sorted((vanish(before[key]) for key in missing), key=lambda change: change.tool)
        return (*(change for change in changes.values() if change is not None), *gone)

    def _texts(self, keys: Sequence[bytes]) -> dict[bytes, ToolSeen]:
        """The newest texts of these tools."""
        found = {}
        ours = select(tool_seen, tool_text.c.body).join(tool_text, SAME_TEXT).where(tool_seen.c.server_key == self._key)
        for start in range(0, len(keys), _MANY):
            query = ours.where(tool_seen.c.tool_key.in_(keys[start : start + _MANY]))
            found.update({row.tool_key: self._text_of(row) for row in self._conn.execute(query)})
        return found

    def _text_of(self, row: Row[Any]) -> ToolSeen:
        gone = bool(row.gone)
        seen = effective(row.last_seen, self._whole_seen, gone=gone)
        return replace(unpack(row.body, ToolSeen), changes=row.changes, gone=gone, last_seen=seen)

    def _lose(self, missing: Sequence[bytes], before: Mapping[bytes, ToolSeen]) -> None:
        statement = self._of_tool().values(gone=True, last_seen=bindparam("seen"))
        self._conn.execute(statement, [{"tool": key, "seen": before[key].last_seen} for key in missing])

    def _make_room(
        self,
        spare: int,
        held: Sequence[StoredTool],
        missing: Iterable[bytes],
        met: Mapping[bytes, ObservedTool],
        bounds: PinBounds,
    ) -> None:
        """Drop tools that are gone and that nobody decided on, those met longest ago first."""
        decided = set(self._conn.execute(select(pin.c.tool_key).where(pin.c.server_key == self._key)).scalars())
        kept = decided | met.keys()
        lost = set(missing)
        gone = sorted((one.last_seen, one.key) for one in held if (one.gone or one.key in lost) and one.key not in kept)
        if len(gone) < spare:
            raise too_many_tools(self._sighting.server, bounds)
        for table in (tool_seen, tool_text):
            statement = delete(table).where(table.c.server_key == self._key, table.c.tool_key == bindparam("tool"))
            self._conn.execute(statement, [{"tool": key} for _, key in gone[:spare]])

    def _add(self, new: Sequence[bytes], met: Mapping[bytes, ObservedTool]) -> None:
        if new:
            self._conn.execute(insert(tool_seen), [self._seen(key, met[key], 0) for key in new])
            self._conn.execute(insert(tool_text), [self._text(key, met[key], 0) for key in new])

    def _move(
        self,
        moved: Sequence[bytes],
        met: Mapping[bytes, ObservedTool],
        before: Mapping[bytes, ToolSeen],
        changes: Mapping[bytes, Change | None],
    ) -> None:
        if not moved:
            return
        counts = {}
        left = []
        for key in moved:
            change, old = changes[key], before[key]
            counts[key] = old.changes if change is None else change.changes
            if old.approval_hash != met[key].tool.approval_hash:
                left.append({"tool": key, "text": old.approval_hash, "seen": old.last_seen})
        names = ("approval_hash", "state", "changes", "gone", "last_seen", "head")
        statement = self._of_tool().values({name: bindparam(f"new_{name}") for name in names})
        rows = [(key, self._seen(key, met[key], counts[key])) for key in moved]
        self._conn.execute(statement, [{"tool": key, **{f"new_{n}": row[n] for n in names}} for key, row in rows])
        if left:
            old_text = (tool_text.c.tool_key == bindparam("tool"), tool_text.c.approval_hash == bindparam("text"))
            statement = update(tool_text).where(tool_text.c.server_key == self._key, *old_text)
            self._conn.execute(statement.values(last_seen=bindparam("seen")), left)
        texts = [self._text(key, met[key], counts[key]) for key in moved]
        upsert(self._conn, tool_text, texts, ("changes", "last_seen", "body"))

    def _touch(self, keys: Iterable[bytes]) -> None:
        """A page alone says that its tools are there, and nothing of the others."""
        rows = [{"tool": key} for key in keys]
        if rows:
            self._conn.execute(self._of_tool().values(last_seen=self._at), rows)

    def _trim(self, most: int) -> None:
        """Keep a bounded number of texts of each tool."""
        ours = tool_text.c.server_key == self._key
        full = select(tool_text.c.tool_key).where(ours).group_by(tool_text.c.tool_key).having(func.count() > most)
        order = (tool_text.c.tool_key, tool_text.c.changes.desc())
        query = select(tool_text.c.tool_key, tool_text.c.approval_hash).where(ours, tool_text.c.tool_key.in_(full))
        texts: dict[bytes, list[str]] = {}
        for tool, text in self._conn.execute(query.order_by(*order)):
            texts.setdefault(tool, []).append(text)
        if not texts:
            return
        decided: dict[bytes, set[str]] = {}
        pinned = select(pin.c.tool_key, pin.c.approval_hash).where(pin.c.server_key == self._key)
        for tool, text in self._conn.execute(pinned):
            decided.setdefault(tool, set()).add(text)
        drop = [(tool, text) for tool, held in texts.items() for text in surplus(held, decided.get(tool, ()), most)]
        if drop:
            one = (tool_text.c.tool_key == bindparam("tool"), tool_text.c.approval_hash == bindparam("text"))
            rows = [{"tool": tool, "text": text} for tool, text in drop]
            self._conn.execute(delete(tool_text).where(ours, *one), rows)

    def _of_tool(self) -> Any:
        return update(tool_seen).where(tool_seen.c.server_key == self._key, tool_seen.c.tool_key == bindparam("tool"))

    def _seen(self, key: bytes, met: ObservedTool, changes: int) -> dict[str, Any]:
        return {
            "server_key": self._key,
            "tool_key": key,
            "approval_hash": met.tool.approval_hash,
            "state": met.state,
            "changes": changes,
            "gone": False,
            "last_seen": self._at,
            "head": met.state + pack(replace(met.tool, raw=b"")),
        }

    def _text(self, key: bytes, met: ObservedTool, changes: int) -> dict[str, Any]:
        return {
            "server_key": self._key,
            "tool_key": key,
            "approval_hash": met.tool.approval_hash,
            "changes": changes,
            "first_seen": self._at,
            "last_seen": self._at,
            "body": met.body,
        }


_STATE_BYTES: Final = 32
# A gateway of an earlier version on the same store leaves the head empty, or as it was before the text changed.
# A part of an empty value is NULL in SQLite.
_STALE: Final = func.substr(tool_seen.c.head, 1, _STATE_BYTES, type_=LargeBinary).is_distinct_from(tool_seen.c.state)
_BODY_HEAD: Final = func.substr(tool_seen.c.head, _STATE_BYTES + 1, type_=LargeBinary)


T = TypeVar("T")

_pin: Final = msgspec.msgpack.Decoder(Pin)
_ROWS: Final = select(pin.c.seq, pin.c.body, pin.c.mac).order_by(pin.c.seq)
_HEAD: Final = select(pin_head.c.seq, pin_head.c.mac, pin_head.c.seal)
_END: Final = select(func.coalesce(func.max(pin.c.seq), 0))


def _head(conn: Connection) -> ChainHead | None:
    row = conn.execute(_HEAD).first()
    return None if row is None else ChainHead(_number(row[0]), _blob(row[1]), _blob(row[2]))


def _sealed(conn: Connection, query: Select[Any]) -> list[Sealed]:
    return [Sealed(_number(seq), _blob(body), _blob(mac)) for seq, body, mac in conn.execute(query)]


def _blob(value: object) -> bytes:
    # SQLite keeps whatever type was written; nothing of ours is empty, so what is no blob verifies nowhere.
    return value if isinstance(value, bytes) else b""


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1


def _newest(conn: Connection, wanted: ExpectedTool) -> ToolSeen | None:
    """What `check_wanted` has to know of the newest entry; its bytes are not part of it."""
    keys = (parts_hash(wanted.server_id), parts_hash(wanted.tool))
    query = select(tool_seen.c.approval_hash, tool_seen.c.gone, tool_text.c.body).outerjoin(tool_text, SAME_TEXT)
    row = conn.execute(query.where(tool_seen.c.server_key == keys[0], tool_seen.c.tool_key == keys[1])).first()
    if row is None:
        return None
    return ToolSeen(
        server_id=wanted.server_id,
        tool=wanted.tool,
        approval_hash=row.approval_hash,
        raw=b"",
        beside=unpack(row.body, ToolSeen).beside if row.body else {},
        gone=bool(row.gone),
    )


def _values(row: Sealed) -> dict[str, Any]:
    made = _pin.decode(row.body)
    return {
        "seq": row.seq,
        "server_key": parts_hash(made.server_id),
        "tool_key": parts_hash(made.tool),
        "approval_hash": known(made.approval_hash),
        "body": row.body,
        "mac": row.mac,
    }


def _put_head(conn: Connection, before: ChainHead | None, after: ChainHead) -> None:
    values = msgspec.structs.asdict(after)
    if before is None:
        conn.execute(insert(pin_head).values(id=1, **values))
        return
    same = and_(pin_head.c.seq == before.seq, pin_head.c.mac == before.mac, pin_head.c.seal == before.seal)
    if conn.execute(update(pin_head).where(same).values(values)).rowcount != 1:
        raise Refused(Reason.STORE_UNAVAILABLE, "another decision was made at the same moment")


_connected = server_connected.c


class SqlPins(Repository):
    """The pinning room's `PinRepository`, each method one transaction; a witness is an `AuditRow` written in it.

    Servers are in `server_seen`, the newest text of each tool in `tool_seen`, all texts in `tool_text`.
    """

    async def saw(
        self,
        server: ServerSeen,
        tools: Sequence[ToolSeen],
        *,
        whole: bool,
        bounds: PinBounds = USUAL,
        kind: ItemKind = "tool",
    ) -> tuple[Change, ...]:
        sighting = ObservedList(server, tools, whole=whole, kind=kind)
        known_as = select(server_seen).where(server_seen.c.key == parts_hash(server.server_id))

        def meet(conn: Connection) -> tuple[Change, ...]:
            before = conn.execute(known_as).first()
            listed = whole and kind == "tool"
            same = (
                before is not None and listed and before.list_state == sighting.state and len(sighting) <= bounds.tools
            )
            changes = () if same else ListRecorder(conn, sighting, before.whole_seen if before else 0).hold(bounds)
            _put_server(conn, sighting, before)
            if not same:
                clear(conn, server, bounds, None if before is None else before.waiting)
            if changes:
                self._store.backend.announce(conn)
            return changes

        return await self._change(meet)

    async def servers(self) -> list[ServerSeen]:
        query = select(server_seen.c.body, server_seen.c.last_seen)
        found = [replace(unpack(row.body, ServerSeen), last_seen=row.last_seen) for row in await self._rows(query)]
        return sorted(found, key=lambda server: (-server.last_seen, server.server_id))

    async def servers_since(self, known: ServerMarks) -> tuple[ServerMarks, list[ServerSeen]]:
        columns = (server_seen.c.key, server_seen.c.last_seen, server_seen.c.list_state)
        marks = {row.key: (row.last_seen, row.list_state) for row in await self._rows(select(*columns))}
        fresh = [key for key, mark in marks.items() if known.get(key) != mark]
        found: list[ServerSeen] = []
        for at in range(0, len(fresh), _MANY):
            wanted = server_seen.c.key.in_(fresh[at : at + _MANY])
            rows = await self._rows(select(server_seen.c.body, server_seen.c.last_seen).where(wanted))
            found += [replace(unpack(row.body, ServerSeen), last_seen=row.last_seen) for row in rows]
        return marks, sorted(found, key=lambda server: server.last_seen)

    async def tools(self, server_id: str | None = None) -> list[ToolSeen]:
        stated = [tool_text.c[name] for name in ("approval_hash", "changes", "first_seen", "last_seen")]
        seen = (tool_seen.c.gone, tool_seen.c.last_seen.label("seen"), server_seen.c.whole_seen)
        # Of all at once, only what was decided on comes whole: its bytes are on record with the decision anyway.
        columns: list[ColumnElement[Any]] = [*stated, *seen]
        if server_id is not None:
            columns.append(tool_text.c.body)
        else:
            body = case((or_(DECIDED, _STALE), tool_text.c.body), else_=_BODY_HEAD)
            columns += [body.label("body"), and_(_STALE, ~DECIDED).label("stale")]
        query: Select[Any] = (
            select(*columns)
            .join_from(tool_text, tool_seen, SAME_TEXT)
            .join(server_seen, server_seen.c.key == tool_text.c.server_key)
        )
        if server_id is not None:
            query = query.where(tool_text.c.server_key == parts_hash(server_id))
        # Row by row: many that are stale are large together.
        found = await self._store.read(lambda conn: [_tool_of(row) for row in conn.execute(query)])
        return sorted(found, key=lambda tool: (tool.server_id, tool.tool))

    async def texts(self, server_id: str, tool: str) -> list[ToolSeen]:
        query = (
            select(tool_text, tool_seen.c.gone, tool_seen.c.last_seen.label("seen"), server_seen.c.whole_seen)
            .outerjoin(tool_seen, SAME_TEXT)
            .join(server_seen, server_seen.c.key == tool_text.c.server_key)
            .where(tool_text.c.server_key == parts_hash(server_id), tool_text.c.tool_key == parts_hash(tool))
            .order_by(tool_text.c.changes.desc())
        )
        return [_tool_of(row) for row in await self._rows(query)]

    async def forget(self, server_id: str, witnesses: Sequence[AuditRow] = ()) -> None:
        def drop(conn: Connection) -> None:
            forget(conn, [parts_hash(server_id)])
            self._store.backend.announce(conn)

        await self._change(drop, *witnesses)

    async def connect(self, place: Connected, now: int, most: int) -> bool:
        gateway, name, group = parts_hash(place.gateway), parts_hash(place.name), parts_hash(place.group)
        same = parts_hash(place.name, place.server_id)
        own = and_(_connected.gateway_key == gateway, _connected.name_key == name)
        values = {
            "gateway_key": gateway,
            "name_key": name,
            "group_key": group,
            "place_key": same,
            "until": place.until,
            "body": pack(replace(place, until=0)),
        }

        def take(conn: Connection) -> bool:
            conn.execute(delete(server_connected).where(_connected.until <= now))
            had = conn.execute(select(_connected.place_key, _connected.group_key).where(own)).first()
            others = select(func.count(_connected.place_key.distinct())).where(
                _connected.group_key == group, _connected.place_key != same, not_(own)
            )
            room = conn.execute(others).scalar_one() < most
            # One that has no place keeps none, so that of too many the right number is left.
            conn.execute(delete(server_connected).where(own))
            if room:
                conn.execute(insert(server_connected).values(values))
            if room != (had is not None and tuple(had) == (same, group)):
                self._store.backend.announce(conn)
            return room

        return await self._change(take)

    async def connected(self, now: int) -> list[Connected]:
        query = select(_connected.body, _connected.until).where(_connected.until > now)
        found = [replace(unpack(row.body, Connected), until=row.until) for row in await self._rows(query)]
        return sorted(found, key=lambda one: (one.group, one.name, one.server_id, one.gateway))

    async def disconnect(self, gateway: str, name: str | None = None) -> None:
        given = delete(server_connected).where(_connected.gateway_key == parts_hash(gateway))
        if name is not None:
            given = given.where(_connected.name_key == parts_hash(name))

        def give(conn: Connection) -> None:
            if conn.execute(given).rowcount:
                self._store.backend.announce(conn)

        await self._change(give)

    async def head(self) -> ChainHead | None:
        return await self._doubting(_head)

    async def chain(self, after: int = 0, most: int = 10_000) -> list[Sealed]:
        query = _ROWS.where(pin.c.seq > after).limit(max(0, most))
        return await self._doubting(lambda conn: _sealed(conn, query))

    async def since(self, after: int = 0) -> tuple[ChainHead | None, list[Sealed]]:
        query = _ROWS.where(pin.c.seq > after)
        return await self._doubting(lambda conn: (_head(conn), _sealed(conn, query)))

    async def _doubting(self, read: Callable[[Connection], T]) -> T:
        """Somebody may have written anything into these tables: what is no row of ours must be found, not raised."""

        def look(conn: Connection) -> T:
            with self._store.backend.doubting(conn):
                return read(conn)

        return await self._store.read(look)

    async def decide(self, wanted: Sequence[ExpectedTool], link: Link, witnesses: Sequence[AuditRow] = ()) -> None:
        def add(conn: Connection) -> None:
            for one in wanted:
                check_wanted(one, _newest(conn, one))
            before = _head(conn)
            # Nothing is added to a chain that does not end where its head says.
            if conn.execute(_END).scalar_one() != (0 if before is None else before.seq):
                raise Refused(Reason.PIN_TAMPERED)
            rows, after = link(before)
            check_link(before, rows, after)
            if rows:
                values = [_values(row) for row in rows]
                conn.execute(insert(pin), values)
                weigh(conn, {row["server_key"] for row in values})
            _put_head(conn, before, after)
            self._store.backend.announce(conn)

        await self._change(add, *witnesses)


def _tool_of(row: Row[Any]) -> ToolSeen:
    """A text; one that is no longer the newest has no row of `tool_seen` beside it."""
    newest = row.seen is not None
    made = unpack(row.body, ToolSeen)
    # What waits may be as large as servers like.
    made = replace(made, raw=b"") if getattr(row, "stale", False) else made
    seen = effective(row.seen, row.whole_seen, gone=bool(row.gone)) if newest else row.last_seen
    gone = newest and bool(row.gone)
    return replace(made, first_seen=row.first_seen, last_seen=seen, changes=row.changes, gone=gone)


def _put_server(conn: Connection, sighting: ObservedList, before: Row[Any] | None) -> None:
    server, at = sighting.server, sighting.server.last_seen
    listed = sighting.whole and sighting.kind == "tool"
    first, seen, full = server.first_seen or at, at, at if listed else 0
    known = None
    if before is not None:
        known = replace(unpack(before.body, ServerSeen), last_seen=before.last_seen)
        first = known.first_seen
        # Clocks of several gateways differ; time does not go back.
        seen, full = max(seen, before.last_seen), max(full, before.whole_seen)
    state = sighting.state if listed else b""
    if known is not None and sighting.kind != "tool":
        # Its list of tools is what it was.
        kept = {name: getattr(known, name) for name in ("problem", "digest", "tools", "size")}
        server, state = replace(server, **kept), before.list_state if before is not None else b""
    values = {
        "last_seen": seen,
        "whole_seen": full,
        "list_state": state,
        "body": pack(replace(server, first_seen=first, last_seen=0, names=names_of(known, server))),
    }
    key = parts_hash(server.server_id)
    if before is None:
        new = {"key": key, "lineage_key": parts_hash(server.lineage), "waiting": 0, **values}
        conn.execute(server_seen.insert().values(new))
    else:
        conn.execute(server_seen.update().where(server_seen.c.key == key).values(values))

"""One list of tools against what was met before, inside a transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace
from sqlalchemy import Connection, Row, and_, bindparam, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from callgate.pinning.keeping import compare, surplus, too_many_tools, vanish
from callgate.pinning.model import Change, ServerSeen, ToolSeen
from callgate.pinning.storage import Bounds
from callgate.store.approval_sql import Statement, demand
from callgate.store.pin_sql import key_of, pack, unpack
from callgate.store.schema import pin, tool_seen, tool_text

# How many keys one statement names.
_MANY: Final = 500
_HELD: Final = Statement("SELECT tool_key, state, gone, last_seen FROM tool_seen WHERE server_key = ?")

SAME_TEXT: Final = and_(
    tool_text.c.server_key == tool_seen.c.server_key,
    tool_text.c.tool_key == tool_seen.c.tool_key,
    tool_text.c.approval_hash == tool_seen.c.approval_hash,
)


class Met(NamedTuple):
    """A tool as it was met just now. `state` is a hash of all that is stored of it."""

    tool: ToolSeen
    body: bytes
    state: bytes


class Sighting:
    """A list of tools as it was met just now."""

    def __init__(self, server: ServerSeen, tools: Iterable[ToolSeen], *, whole: bool) -> None:
        self.server = server
        self.whole = whole
        plain = {"server_id": server.server_id, "first_seen": 0, "last_seen": 0, "changes": 0, "gone": False}
        self._tools = [replace(tool, **plain) for tool in tools]
        self._bodies = [pack(tool) for tool in self._tools]
        # Each body says where it ends, so no two lists read the same.
        self.state = hashlib.sha256(b"".join(self._bodies)).digest()

    def __len__(self) -> int:
        return len(self._tools)

    def met(self) -> dict[bytes, Met]:
        """Each tool under its key; of a name that is there twice, the last."""
        demand(*(tool.approval_hash for tool in self._tools))
        both = zip(self._tools, self._bodies, strict=True)
        return {key_of(tool.tool): Met(tool, body, hashlib.sha256(body).digest()) for tool, body in both}


class Held(NamedTuple):
    """A tool as it was met before, as far as every list is compared with it."""

    key: bytes
    state: bytes
    gone: bool
    last_seen: int


def effective(last_seen: int, whole_seen: int, *, gone: bool) -> int:
    """When a tool was there last: with every whole list, unless it is gone."""
    return last_seen if gone else max(last_seen, whole_seen)


class Meeting:
    """Compares, and writes what differs."""

    def __init__(self, conn: Connection, sighting: Sighting, whole_seen: int) -> None:
        self._conn = conn
        self._sighting = sighting
        self._key = key_of(sighting.server.server_id)
        self._at = sighting.server.last_seen
        self._whole_seen = whole_seen

    def hold(self, bounds: Bounds) -> tuple[Change, ...]:
        """Remember a list; what of it is another than before, in its order, and then what is gone."""
        met, whole = self._sighting.met(), self._sighting.whole
        if len(met) > bounds.tools:
            raise too_many_tools(self._sighting.server, bounds)
        held = {row[0]: Held(*row) for row in _HELD.run(self._conn, self._key).fetchall()}
        moved = [key for key, one in met.items() if key in held and (held[key].gone or held[key].state != one.state)]
        missing = [key for key, one in held.items() if whole and key not in met and not one.gone]
        before = self._texts([*moved, *missing])
        if missing:
            self._lose(missing, before)
        new = [key for key in met if key not in held]
        if len(held) + len(new) > bounds.tools:
            self._make_room(len(held) + len(new) - bounds.tools, [*held.values()], missing, met, bounds)
        changes = {key: compare(before.get(key), met[key].tool) for key in met if key in before or key not in held}
        self._add(new, met)
        self._move(moved, met, before, changes)
        if not whole:
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
        self, spare: int, held: Sequence[Held], missing: Iterable[bytes], met: Mapping[bytes, Met], bounds: Bounds
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

    def _add(self, new: Sequence[bytes], met: Mapping[bytes, Met]) -> None:
        if new:
            self._conn.execute(insert(tool_seen), [self._seen(key, met[key], 0) for key in new])
            self._conn.execute(insert(tool_text), [self._text(key, met[key], 0) for key in new])

    def _move(
        self,
        moved: Sequence[bytes],
        met: Mapping[bytes, Met],
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
        self._upsert([self._text(key, met[key], counts[key]) for key in moved])

    def _upsert(self, texts: list[dict[str, Any]]) -> None:
        make = sqlite.insert if self._conn.dialect.name == "sqlite" else postgresql.insert
        statement = make(tool_text)
        fresh = {name: statement.excluded[name] for name in ("changes", "last_seen", "body")}
        self._conn.execute(statement.on_conflict_do_update(index_elements=[*tool_text.primary_key], set_=fresh), texts)

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

    def _seen(self, key: bytes, met: Met, changes: int) -> dict[str, Any]:
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

    def _text(self, key: bytes, met: Met, changes: int) -> dict[str, Any]:
        return {
            "server_key": self._key,
            "tool_key": key,
            "approval_hash": met.tool.approval_hash,
            "changes": changes,
            "first_seen": self._at,
            "last_seen": self._at,
            "body": met.body,
        }

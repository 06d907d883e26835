"""Shelves on each kind of store: the same tests in memory, on SQLite and on PostgreSQL."""

from contextlib import asynccontextmanager

import pytest

from callgate.agents.memory import MemoryAgents
from callgate.approval.memory import MemoryShelf
from callgate.pinning.memory import MemoryPins
from callgate.store import SqlAgents, SqlPins, SqlShelf, SqlTrust, Store
from callgate.trust.memory import MemoryTrust
from support.pins import Shelved
from support.shelves import Kept
from support.stores import bare, ready

on_both = pytest.fixture(params=["sqlite", "postgresql"])
on_all = pytest.fixture(params=["memory", "sqlite", "postgresql"])


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
async def opened(url, busy_seconds=30):
    store = Store.open(url, busy_seconds=busy_seconds)
    yield store
    await store.close()


@asynccontextmanager
async def kind_of(request, tmp_path):
    """The store of this kind and where it is; nothing where the shelf is to be in memory."""
    if request.param == "memory":
        yield None, ""
        return
    with ready(request.param, tmp_path) as url:
        async with opened(url, busy_seconds=10) as store:
            yield store, url


# -- shelves that may be in memory ---------------------------------------------------------------------------------


@on_all
async def kept(request, tmp_path):
    """A shelf of verified approval."""
    async with kind_of(request, tmp_path) as (store, url):
        yield Kept(SqlShelf(store), store, url) if store else Kept(MemoryShelf())


@pytest.fixture
def shelf(kept):
    return kept.shelf


@on_all
async def pinned(request, tmp_path):
    """A shelf of tool pinning."""
    async with kind_of(request, tmp_path) as (store, url):
        yield Shelved(SqlPins(store), store, url) if store else Shelved(MemoryPins())


@pytest.fixture
def pins(pinned):
    return pinned.shelf


@on_all
async def trust(request, tmp_path):
    """A shelf of trust."""
    async with kind_of(request, tmp_path) as (store, _):
        yield SqlTrust(store) if store else MemoryTrust()


@on_all
async def agents(request, tmp_path):
    """A shelf of agents."""
    async with kind_of(request, tmp_path) as (store, _):
        yield SqlAgents(store) if store else MemoryAgents()


# -- shelves that other processes share ------------------------------------------------------------------------------


@pytest.fixture
async def stored(url):
    """A shelf of verified approval."""
    async with opened(url) as store:
        yield Kept(SqlShelf(store), store, url)


@pytest.fixture
async def shared_pins(url):
    """A shelf of tool pinning."""
    async with opened(url) as store:
        yield Shelved(SqlPins(store), store, url)


@pytest.fixture
async def shared_trust(url):
    """A shelf of trust, and where it is."""
    async with opened(url) as store:
        yield SqlTrust(store), url


@pytest.fixture
async def shared_agents(url):
    """A shelf of agents, and where it is."""
    async with opened(url) as store:
        yield SqlAgents(store), url

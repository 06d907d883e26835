from contextlib import ExitStack

import pytest

from callgate.agents.memory import MemoryAgents
from callgate.approval.memory import MemoryShelf
from callgate.pinning.memory import MemoryPins
from callgate.store import SqlAgents, SqlPins, SqlShelf, SqlTrust, Store
from callgate.trust.memory import MemoryTrust
from support.pins import Shelved
from support.postgres import database
from support.shelves import Kept


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """The same tests on both databases."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'state' / 'store.db'}"
    else:
        with database() as fresh:
            yield fresh


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def kept(request, tmp_path):
    """A shelf of verified approval: the same tests in memory and on both databases."""
    if request.param == "memory":
        yield Kept(MemoryShelf())
        return
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else stack.enter_context(database())
        store = Store.open(url, busy_seconds=10)
        yield Kept(SqlShelf(store), store, url)
        await store.close()


@pytest.fixture
def shelf(kept):
    return kept.shelf


@pytest.fixture
async def stored(url):
    """A shelf that other processes share."""
    store = Store.open(url, busy_seconds=30)
    yield Kept(SqlShelf(store), store, url)
    await store.close()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def pinned(request, tmp_path):
    """A shelf of tool pinning: the same tests in memory and on both databases."""
    if request.param == "memory":
        yield Shelved(MemoryPins())
        return
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else stack.enter_context(database())
        store = Store.open(url, busy_seconds=10)
        yield Shelved(SqlPins(store), store, url)
        await store.close()


@pytest.fixture
def pins(pinned):
    return pinned.shelf


@pytest.fixture
async def shared_pins(url):
    """A shelf of tool pinning that other processes share."""
    store = Store.open(url, busy_seconds=30)
    yield Shelved(SqlPins(store), store, url)
    await store.close()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def trust(request, tmp_path):
    """A shelf of trust: the same tests in memory and on both databases."""
    if request.param == "memory":
        yield MemoryTrust()
        return
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else stack.enter_context(database())
        store = Store.open(url, busy_seconds=10)
        yield SqlTrust(store)
        await store.close()


@pytest.fixture
async def shared_trust(url):
    """A shelf of trust that other processes share, and where it is."""
    store = Store.open(url, busy_seconds=30)
    yield SqlTrust(store), url
    await store.close()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def agents(request, tmp_path):
    """A shelf of agents: the same tests in memory and on both databases."""
    if request.param == "memory":
        yield MemoryAgents()
        return
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else stack.enter_context(database())
        store = Store.open(url, busy_seconds=10)
        yield SqlAgents(store)
        await store.close()


@pytest.fixture
async def shared_agents(url):
    """A shelf of agents that other processes share, and where it is."""
    store = Store.open(url, busy_seconds=30)
    yield SqlAgents(store), url
    await store.close()

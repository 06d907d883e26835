from contextlib import ExitStack

import pytest

from callgate.approval.memory import MemoryShelf
from callgate.store import SqlShelf, Store
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

"""A store of the schema before agents, with sessions and records in it, becomes one with them and loses nothing."""

import pytest
from sqlalchemy import inspect, text

from callgate.errors import StoreTooOld
from callgate.store import SqlAgents, SqlTrust, Store, migrate
from callgate.store.schema import HEAD, metadata
from support.agents_race import NOW, SCOPE
from support.pin_store import witness
from support.trust_store import KEY, add

NEW = {"agent_nonce", "agent_budget", "agent_key", "agent_listed", "agent_directory", "agent_head"}


@pytest.fixture
def url(bare_url):
    """A store that nobody has opened: its tables are made here."""
    return bare_url


def contents(conn, tables):
    return {name: sorted(map(tuple, conn.execute(text(f"SELECT * FROM {name}"))), key=repr) for name in tables}


async def test_a_store_with_sessions_and_records_is_upgraded_whole(url):
    old = Store.connect(url, create=True)
    with old.writing() as conn:
        migrate.upgrade(conn, "0005")
    await SqlTrust(old).open(KEY, "stdio", NOW, 0)
    await add(SqlTrust(old))
    await old.append(witness("before"))
    with old.reading() as conn:
        kept = set(inspect(conn).get_table_names()) - {"alembic_version"}
        before = contents(conn, kept)
    assert not NEW & kept
    assert before["trust_session"]
    assert before["audit_record"]
    await old.close()
    with pytest.raises(StoreTooOld):
        Store.open(url)

    store = Store.connect(url)
    assert store.upgrade() == ("0005", HEAD)
    store.close_sync()
    store = Store.open(url)
    with store.reading() as conn:
        assert contents(conn, kept) == before
        assert set(inspect(conn).get_table_names()) == {*metadata.tables, "alembic_version"} >= NEW
    shelf = SqlAgents(store)
    assert await shelf.directories_version() == 0
    assert await shelf.take_nonce(SCOPE, "n", NOW, NOW)
    await store.close()

"""A store of the schema before agents, with sessions and records in it, becomes one with them and loses nothing."""

import pytest
from sqlalchemy import inspect, text

from callgate.errors import StoreTooOld
from callgate.store import SqlAgents, Store, migrate
from callgate.store.schema import HEAD, metadata
from support.agents_race import NOW, SCOPE
from support.pin_store import witness
from support.trust_store import KEY

NEW = {"agent_nonce", "agent_budget", "agent_key", "agent_listed", "agent_directory", "agent_head"}


@pytest.fixture
def url(bare_url):
    """A store that nobody has opened: its tables are made here."""
    return bare_url


OLD_SESSION = text("INSERT INTO trust_session VALUES (:key, :at, :at, :at, 1, 0, :body)")
OLD_STEP = text("INSERT INTO trust_step VALUES (:key, 1, 0, 1, :body, :body)")


def contents(conn, tables):
    """The rows of some tables, given with the columns that count."""
    return {
        name: sorted(map(tuple, conn.execute(text(f"SELECT {', '.join(columns)} FROM {name}"))), key=repr)
        for name, columns in tables.items()
    }


async def test_a_store_with_sessions_and_records_is_upgraded_whole(url):
    old = Store.connect(url, create=True)
    with old.writing() as conn:
        migrate.upgrade(conn, "0005")
        # As that version wrote them.
        for statement in (OLD_SESSION, OLD_STEP):
            conn.execute(statement, {"key": KEY, "at": NOW, "body": b"x"})
    await old.append(witness("before"))
    with old.reading() as conn:
        found = inspect(conn)
        kept = {name: [column["name"] for column in found.get_columns(name)] for name in found.get_table_names()}
        del kept["alembic_version"]
        before = contents(conn, kept)
    assert not NEW & kept.keys()
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

"""A store of the schema before trust, with people, pins and records in it, becomes one with it and loses nothing."""

import pytest
from sqlalchemy import inspect, text

from callgate.errors import StoreTooOld
from callgate.store import SqlApprovals, SqlPins, SqlTrust, Store, migrate
from callgate.store.schema import HEAD, metadata
from support.approval_store import BEFORE, BOUNDS, challenge, credential, enrol_without_role, use, witness
from support.pin_store import BEFORE_0008, SERVER, decide, pin, read, server, tool, without_0008
from support.trust_store import KEY, NOW, add

NEW = {"trust_session", "trust_step", "trust_endorsed", "trust_object", "trust_held"}

# Those that were there before: later ones add to these tables.
COLUMNS = {**BEFORE, **BEFORE_0008}


@pytest.fixture
def url(bare_url):
    """A store that nobody has opened: its tables are made here."""
    return bare_url


def contents(conn, tables):
    return {
        name: sorted(map(tuple, conn.execute(text(f"SELECT {COLUMNS.get(name, '*')} FROM {name}"))), key=repr)
        for name in tables
    }


async def test_a_store_with_people_pins_and_records_is_upgraded_whole(url):
    old = Store.connect(url, create=True)
    with old.writing() as conn:
        migrate.upgrade(conn, "0004")
        conn.execute(text("INSERT INTO control VALUES ('block_all', 'on', 1, 'me', 'why')"))
    shelf, pins = SqlApprovals(old), SqlPins(old)
    await enrol_without_role(old, shelf, credential())
    await shelf.add_challenge(challenge(), BOUNDS)
    await shelf.use(use(), witness("before"))
    with without_0008(old):
        await pins.saw(server(), [tool()], whole=True)
        await decide(pins, pin(tool()), witnesses=[witness("pinned")])
    with old.reading() as conn:
        kept = set(inspect(conn).get_table_names()) - {"alembic_version"}
        before = contents(conn, kept)
    assert not NEW & kept
    assert all(before[name] for name in ("audit_record", "person", "passkey", "pin", "pin_head", "tool_text"))
    await old.close()
    with pytest.raises(StoreTooOld):
        Store.open(url)

    store = Store.connect(url)
    assert store.upgrade() == ("0004", HEAD)
    store.close_sync()
    store = Store.open(url)
    with store.reading() as conn:
        assert contents(conn, kept) == before
        assert set(inspect(conn).get_table_names()) == {*metadata.tables, "alembic_version"}
        assert conn.execute(text("SELECT role FROM person")).scalars().all() == ["operator"]
    assert (await read(SqlPins(store))).pin(SERVER, "read") is not None
    trust = SqlTrust(store)
    await trust.open(KEY, "stdio", NOW, 0)
    assert (await add(trust)).steps == 1
    await store.close()

"""A store of every earlier schema, with people, pins, sessions and records in it, is upgraded whole."""

import asyncio

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from msgspec.structs import replace
from sqlalchemy import MetaData, insert, inspect, select

from callgate.errors import StoreTooOld
from callgate.store import SqlAgents, SqlApprovals, SqlPins, SqlTrust, Store, migrate
from callgate.store.schema import HEAD, VERSIONS, metadata
from support import approval_store as people
from support import pin_store as pinning
from support import trust_store as trusting
from support.agents_race import NOW, SCOPE
from support.stores import bare, opened, ready
from support.table import rows


async def fill(store):
    """Something of everything, as the product writes it."""
    people_kept, pins, trust, agents = SqlApprovals(store), SqlPins(store), SqlTrust(store), SqlAgents(store)
    # Whoever was there before there were roles may do everything.
    await people_kept.add_user(replace(people.user(), role="operator"))
    await people.enrol(people_kept, people.credential(), [b"code"])
    await people_kept.add_challenge(people.challenge(), people.BOUNDS)
    await people_kept.use(people.use(), people.witness("before"))
    await people_kept.open_request(people.request(), people.BOUNDS, people.witness("asked"))
    await people_kept.add_session(people.session())
    odd = pinning.tool("o\ud800dd")
    await pins.saw(pinning.server(), [pinning.tool("read", "Old."), pinning.tool("write")], whole=True)
    await pins.saw(pinning.server(), [pinning.tool("read"), pinning.tool("write", title="W"), odd], whole=True)
    await pinning.decide(pins, pinning.pin(pinning.tool("read")), witnesses=[people.witness("pinned")])
    await trust.open(trusting.KEY, "stdio", trusting.NOW, 0)
    await trusting.add(trust)
    assert await agents.take_nonce(SCOPE, "n", NOW, NOW)


def contents(store, tables):
    """The rows of some tables, with the columns that these tables have."""
    with store.reading() as conn:
        return {table.name: sorted(map(tuple, conn.execute(select(table))), key=repr) for table in tables}


@pytest.fixture(params=["sqlite", "postgresql"])
async def full(request, tmp_path):
    """The kind of a store, and one of today's schema with something in it."""
    with ready(request.param, tmp_path) as url:
        async with opened(url) as store:
            await fill(store)
            yield request.param, store


def copy(full, url, version):
    """A store of an earlier schema with the same rows, as far as that schema has a place for them; and its tables."""
    old = Store.connect(url, create=True, busy_seconds=30)
    found = MetaData()
    with full.reading() as source, old.writing() as conn:
        migrate.upgrade(conn, version)
        found.reflect(conn)
        found.remove(found.tables["alembic_version"])
        for table in found.sorted_tables:
            columns = [metadata.tables[table.name].c[column.name] for column in table.columns]
            for row in source.execute(select(*columns)).mappings():
                conn.execute(insert(metadata.tables[table.name]).values(dict(row)))
        if conn.dialect.name == "postgresql":
            # Numbers that the database hands out go on where they were.
            for table, column in (("audit_record", "id"), ("challenge", "seq")):
                if table in found.tables:
                    conn.exec_driver_sql(
                        f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), max({column})) FROM {table}"
                    )
    old.close_sync()
    return found.sorted_tables


@rows("version", VERSIONS[:-1])
async def test_a_store_of_every_earlier_schema_is_upgraded_whole(full, tmp_path, version):
    kind, newest = full
    with bare(kind, tmp_path) as url:
        tables = copy(newest, url, version)
        with pytest.raises(StoreTooOld):
            Store.open(url)
        # Two at once: one of them does it, the other finds it done.
        stores = [Store.connect(url, busy_seconds=60) for _ in range(2)]
        try:
            before = contents(stores[0], tables)
            ends = await asyncio.gather(*(asyncio.to_thread(one.upgrade) for one in stores))
        finally:
            for one in stores:
                one.close_sync()
        assert sorted(ends) == [(version, HEAD), (HEAD, HEAD)]
        async with opened(url) as store:
            assert contents(store, tables) == before
            with store.reading() as conn:
                assert compare_metadata(MigrationContext.configure(conn), metadata) == []
            await serves(store, newest, {table.name for table in tables})


async def serves(store, newest, had):
    """What was there is read as it is in a store that was never upgraded, and new things are written beside it."""
    approvals, pins, trust, agents = SqlApprovals(store), SqlPins(store), SqlTrust(store), SqlAgents(store)
    if "person" in had:
        assert await approvals.user("ada") == await SqlApprovals(newest).user("ada")
        assert await approvals.credentials("ada") == await SqlApprovals(newest).credentials("ada")
        assert await approvals.request("request-1") == await SqlApprovals(newest).request("request-1")
    if "pin" in had:
        assert await pins.since() == await SqlPins(newest).since()
        assert await pins.tools() == await SqlPins(newest).tools()
        assert contents(store, [metadata.tables["server_seen"]]) == contents(newest, [metadata.tables["server_seen"]])
        assert (await pinning.read(pins)).pin(pinning.SERVER, "read") is not None
    assert await agents.take_nonce(SCOPE, "n", NOW, NOW) is ("agent_nonce" not in had)
    await trust.open(trusting.KEY, "stdio", trusting.NOW, 0)
    assert (await trusting.add(trust)).steps == (2 if "trust_session" in had else 1)
    await people.enrol(approvals, people.credential("new"))
    await pins.saw(pinning.server(), [pinning.tool("new")], whole=True)
    await pinning.decide(pins, pinning.pin(pinning.tool("new")), witnesses=[people.witness("after")])
    await approvals.add_challenge(people.challenge(2, allowed=("new",)), people.BOUNDS)
    await approvals.use(people.use(2, credential="new"), people.witness("after"))


async def test_nothing_of_an_upgrade_stays_where_it_fails(full, tmp_path):
    """A table of somebody else's stands in the way of the last migration."""
    kind, newest = full
    with bare(kind, tmp_path / "other") as url:
        tables = copy(newest, url, "0003")
        store = Store.connect(url)
        with store.writing() as conn:
            conn.exec_driver_sql("CREATE TABLE delegation (x INTEGER)")
        before = contents(store, tables)
        with pytest.raises(Exception, match="delegation"):
            store.upgrade()
        assert contents(store, tables) == before
        with store.reading() as conn:
            assert migrate.version(conn) == "0003"
            there = set(inspect(conn).get_table_names())
        assert there == {"alembic_version", "delegation", *(one.name for one in tables)}
        store.close_sync()

"""A store of the schema before tool pinning, with records and people in it, becomes one with it and loses nothing."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from callgate.errors import StoreTooOld
from callgate.store import SqlApprovals, SqlPins, Store, migrate
from callgate.store.schema import HEAD, metadata
from support.approval_store import BEFORE, BOUNDS, challenge, credential, drop_0009, enrol_without_role, use, witness
from support.pin_store import SERVER, decide, drop_0008, pin, read, server, tool
from support.registry import requirement

NEW = {"pin", "pin_head", "server_seen", "tool_seen", "tool_text", "server_connected"}
MIGRATIONS = Path(migrate.__file__).parent / "migrations"
KEPT = ("audit_record", "control", "person", "passkey", "ticket", "registration", "challenge")


@pytest.fixture
def url(bare_url):
    """A store that nobody has opened: its tables are made here."""
    return bare_url


def contents(conn):
    return {
        name: sorted(map(tuple, conn.execute(text(f"SELECT {BEFORE.get(name, '*')} FROM {name}"))), key=repr)
        for name in KEPT
    }


async def test_a_store_with_people_and_records_is_upgraded_whole(url):
    old = Store.connect(url, create=True)
    with old.writing() as conn:
        migrate.upgrade(conn, "0003")
        conn.execute(text("INSERT INTO control VALUES ('block_all', 'on', 1, 'me', 'why')"))
    shelf = SqlApprovals(old)
    await enrol_without_role(old, shelf, credential())
    await shelf.add_challenge(challenge(), BOUNDS)
    await shelf.use(use(), witness("before"))
    with old.reading() as conn:
        before = contents(conn)
        assert not NEW & set(inspect(conn).get_table_names())
    await old.close()
    with pytest.raises(StoreTooOld):
        Store.open(url)

    store = Store.connect(url)
    assert store.upgrade() == ("0003", HEAD)
    store.close_sync()
    store = Store.open(url)
    with store.reading() as conn:
        assert contents(conn) == before
        assert set(inspect(conn).get_table_names()) == {*metadata.tables, "alembic_version"}
        assert conn.execute(text("SELECT role FROM person")).scalars().all() == ["operator"]
    pins = SqlPins(store)
    await pins.saw(server(), [tool()], whole=True)
    await decide(pins, pin(tool()), witnesses=[witness("after")])
    assert (await read(pins)).pin(SERVER, "read") is not None
    await store.close()


async def test_a_store_from_before_room_was_counted_counts_it(url):
    store = Store.open(url)
    pins = SqlPins(store)
    odd = tool("o\ud800dd")
    await pins.saw(server(), [tool("read", "Old."), tool("write")], whole=True)
    await pins.saw(server(), [tool("read"), tool("write", title="W"), odd], whole=True)
    await decide(pins, pin(tool("read")))
    light, whole = await pins.tools(), await pins.tools(SERVER)
    with store.reading() as conn:
        waiting = conn.execute(text("SELECT waiting FROM server_seen")).scalar_one()
    drop_0008(store)
    drop_0009(store)
    with store.writing() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = '0007'"))
    await store.close()

    store = Store.connect(url)
    assert store.upgrade() == ("0007", HEAD)
    store.close_sync()
    store = Store.open(url)
    pins = SqlPins(store)
    assert (await pins.tools(), await pins.tools(SERVER)) == (light, whole)
    assert [bool(one.raw) for one in light] == [one.tool == "read" for one in light]
    with store.reading() as conn:
        assert conn.execute(text("SELECT waiting FROM server_seen")).scalar_one() == waiting > 0
    assert await pins.saw(server(), [tool("read"), tool("write", title="W"), odd], whole=True) == ()
    await store.close()


@requirement("TP-069")
async def test_approvals_outlive_an_upgrade_to_the_next_schema(url, monkeypatch, tmp_path):
    """As a later Callgate will find them: its migration adds a table and a column, and approvals are as they were."""
    store = Store.open(url)
    await SqlPins(store).saw(server(), [tool(), tool("write")], whole=True)
    await decide(SqlPins(store), pin(tool()), pin(tool("write"), action="block"))
    before = await SqlPins(store).since()
    await store.close()

    # The next Callgate: one more migration, and a schema of that version.
    folder = tmp_path / "migrations"
    _copy_with_one_more(folder)
    monkeypatch.setattr(migrate, "__file__", str(tmp_path / "migrate.py"))
    for module in ("callgate.store.migrate", "callgate.store.front"):
        monkeypatch.setattr(f"{module}.HEAD", "9000")
        monkeypatch.setattr(f"{module}.VERSIONS", ("0001", "0002", "0003", HEAD, "9000"))
    monkeypatch.setattr(migrate.upgrade, "__defaults__", ("9000",))
    with pytest.raises(StoreTooOld):
        Store.open(url)
    store = Store.connect(url)
    assert store.upgrade() == (HEAD, "9000")
    store.close_sync()

    store = Store.open(url)
    with store.reading() as conn:
        assert inspect(conn).has_table("of_tomorrow")
    pins = SqlPins(store)
    assert await pins.since() == before
    book = await read(pins)
    assert book.pin(SERVER, "read").action == "approve"
    assert book.pin(SERVER, "write").action == "block"
    assert await pins.saw(server(), [tool(), tool("write")], whole=True) == ()
    await store.close()


def _copy_with_one_more(folder):
    shutil.copytree(MIGRATIONS, folder)
    (folder / "versions" / "v9000_tomorrow.py").write_text(
        f"""import sqlalchemy as sa
from alembic import op

revision = "9000"
down_revision = "{HEAD}"
branch_labels = None
depends_on = None


def upgrade():
    op.create_table("of_tomorrow", sa.Column("id", sa.Integer, primary_key=True))
    with op.batch_alter_table("pin") as table:
        table.add_column(sa.Column("of_tomorrow", sa.Text))
"""
    )

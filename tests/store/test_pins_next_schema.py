"""Approvals of tools are as they were after the store went to the next schema."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import inspect

from callgate.errors import StoreTooOld
from callgate.store import SqlPins, Store, migrate
from callgate.store.schema import HEAD
from support.pin_store import SERVER, decide, pin, read, server, tool
from support.registry import requirement

MIGRATIONS = Path(migrate.__file__).parent / "migrations"


@pytest.fixture
def url(bare_url):
    """A store that nobody has opened: its tables are made here."""
    return bare_url


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

"""A store of the schema before verified approval, with records in it, becomes one with it and loses nothing."""

import pytest
from sqlalchemy import inspect, text

from callgate.errors import StoreTooOld
from callgate.store import SqlApprovals, Store, migrate
from callgate.store.schema import HEAD, metadata
from support.approval_store import BOUNDS, challenge, credential, enrol, use, witness

NEW = {
    "person",
    "passkey",
    "ticket",
    "recovery_code",
    "registration",
    "challenge",
    "approval_request",
    "console_session",
}


@pytest.fixture
def url(bare_url):
    """A store that nobody has opened: its tables are made here."""
    return bare_url


async def test_a_store_with_records_is_upgraded_whole(url):
    old = Store.connect(url, create=True)
    with old.writing() as conn:
        migrate.upgrade(conn, "0002")
        conn.execute(text("INSERT INTO control VALUES ('block_all', 'on', 1, 'me', 'why')"))
        conn.execute(text("INSERT INTO audit_leaf VALUES (0, 1)"))
        for number in range(300):
            old.insert(conn, witness(f"record {number}"))
    with old.reading() as conn:
        records = conn.execute(text("SELECT * FROM audit_record ORDER BY id")).all()
        assert not NEW & set(inspect(conn).get_table_names())
    old.close_sync()
    with pytest.raises(StoreTooOld):
        Store.open(url)

    store = Store.connect(url)
    assert store.upgrade() == ("0002", HEAD)
    store.close_sync()
    store = Store.open(url)
    with store.reading() as conn:
        assert conn.execute(text("SELECT * FROM audit_record ORDER BY id")).all() == records
        assert conn.execute(text("SELECT * FROM audit_leaf")).all() == [(0, 1)]
        assert conn.execute(text("SELECT * FROM control")).all() == [("block_all", "on", 1, "me", "why")]
        assert set(inspect(conn).get_table_names()) == {*metadata.tables, "alembic_version"}
    shelf = SqlApprovals(store)
    await enrol(shelf, credential())
    await shelf.add_challenge(challenge(), BOUNDS)
    await shelf.use(use(), witness("after"))
    with store.reading() as conn:
        assert conn.execute(text("SELECT max(id) FROM audit_record")).scalar_one() == 301
    await store.close()

import os
import stat
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from callgate.errors import ConfigError, StoreTooNew, StoreTooOld, StoreUnavailable
from callgate.store import Store, migrate
from callgate.store.schema import HEAD, VERSIONS, metadata
from support.racing import started
from support.table import rows

posix = pytest.mark.skipif(os.name == "nt", reason="modes are a POSIX idea")


@pytest.fixture
def url(bare_url):
    """A store that nobody has opened: its tables are made here."""
    return bare_url


def set_version(url, value):
    store = Store.connect(url)
    with store.writing() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = :v"), {"v": value})
    store.close_sync()


def test_an_empty_place_becomes_a_store_of_our_schema(url):
    store = Store.open(url)
    with store.reading() as conn:
        assert migrate.version(conn) == HEAD
    store.close_sync()


def test_the_migrations_lead_to_the_schema_in_code(url):
    store = Store.open(url)
    with store.reading() as conn:
        assert compare_metadata(MigrationContext.configure(conn), metadata) == []
    store.close_sync()


def test_head_is_the_newest_migration():
    scripts = ScriptDirectory(str(Path(migrate.__file__).parent / "migrations"))
    assert scripts.get_heads() == [HEAD]
    assert [one.revision for one in scripts.walk_revisions()][::-1] == list(VERSIONS)


def test_a_store_of_a_newer_schema_is_refused_with_advice(url):
    Store.open(url).close_sync()
    set_version(url, "9999")
    with pytest.raises(StoreTooNew) as refused:
        Store.open(url)
    assert "Install the Callgate" in refused.value.advice
    store = Store.connect(url)
    with pytest.raises(StoreTooNew):
        store.upgrade()
    store.close_sync()


def test_an_older_store_is_refused_until_it_is_upgraded_and_keeps_its_data(url):
    old = Store.connect(url, create=True)
    with old.writing() as conn:
        migrate.upgrade(conn, "0001")
        conn.execute(text("INSERT INTO control VALUES ('block_all', 'on', 1, 'me', '')"))
    old.close_sync()
    with pytest.raises(StoreTooOld) as refused:
        Store.open(url)
    assert "`callgate store upgrade`" in refused.value.advice
    store = Store.connect(url)
    assert store.upgrade() == ("0001", HEAD)
    assert store.upgrade() == (HEAD, HEAD)
    store.close_sync()
    current = Store.open(url)
    with current.reading() as conn:
        assert conn.execute(text("SELECT value FROM control")).scalar_one() == "on"
    current.close_sync()


def test_a_failed_upgrade_leaves_the_store_as_it_was(url):
    store = Store.connect(url, create=True)
    with store.writing() as conn:
        conn.execute(text("CREATE TABLE audit_leaf (x INTEGER)"))
    with pytest.raises(Exception, match="audit_leaf"):
        store.upgrade()
    with store.reading() as conn:
        assert set(inspect(conn).get_table_names()) == {"audit_leaf"}
    store.close_sync()


def test_many_processes_create_one_store_at_once(url, tmp_path):
    script = "import sys; from callgate.store import Store; Store.open(sys.argv[1], busy_seconds=60).close_sync()"
    for process in [started(script, tmp_path, url) for _ in range(4)]:
        process.communicate(timeout=100)
        assert process.returncode == 0
    store = Store.open(url)
    with store.reading() as conn:
        assert conn.execute(text("SELECT count(*) FROM alembic_version")).scalar_one() == 1
    store.close_sync()


def test_without_create_nothing_is_made(tmp_path):
    place = tmp_path / "none" / "store.db"
    with pytest.raises(StoreUnavailable, match="there is no store"):
        Store.open(f"sqlite:///{place}", create=False)
    assert not place.parent.exists()


@posix
def test_file_and_folder_are_the_owners_alone(tmp_path):
    place = tmp_path / "deep" / "state" / "store.db"
    store = Store.open(f"sqlite:///{place}")
    with store.writing() as conn:
        conn.execute(text("INSERT INTO control VALUES ('x', 'on', 1, 'me', '')"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in place.parent.iterdir()}
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert set(modes.values()) == {0o600}
    assert "store.db-wal" in modes
    store.close_sync()


@rows("wrong", ["nonsense", "sqlite://", "sqlite:///:memory:", "mysql://h/d", "http://x"])
def test_a_url_that_names_no_store_is_a_configuration_error(wrong):
    with pytest.raises(ConfigError):
        Store.open(wrong)


def test_something_that_is_no_database_is_refused(tmp_path):
    place = tmp_path / "store.db"
    place.write_bytes(b"this is not a database, it is a text file that is long enough" * 20)
    with pytest.raises(StoreUnavailable, match="damaged or not a SQLite file"):
        Store.open(f"sqlite:///{place}")


def test_an_unreachable_server_is_reported(tmp_path):
    with pytest.raises(StoreUnavailable, match="PostgreSQL"):
        Store.open(f"postgresql://nobody@/none?host={tmp_path}", busy_seconds=1)

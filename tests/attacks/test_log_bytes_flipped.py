"""Someone who can write to the database changes one stored value, any one: verification finds it."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callgate.audit import verify
from callgate.errors import Tampered
from support.auditing import decision, fill, open_log, outcome
from support.table import rows

TABLES = ("audit_record", "audit_leaf", "audit_tile", "audit_tree", "audit_checkpoint")


def make(folder, calls):
    """A log with records in the tree, archived checkpoints and records that still wait."""
    log = open_log(f"sqlite:///{folder / 'store.db'}", folder / "keys")
    log.catch_up()
    fill(log, calls)
    with log.store.writing() as conn:
        log.store.insert(conn, log.admin("block_all.on", "alice", {"note": "x"}))
    log._sequencer.catch_up(archive=True)
    with log.store.writing() as conn:
        log.store.insert(conn, log.row(decision(9000)))
        log.store.insert(conn, log.row(outcome(9000)))
    driver = sqlite3.connect(folder / "store.db", isolation_level=None)
    driver.execute("PRAGMA synchronous=OFF")
    return log, driver


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    log, driver = make(tmp_path_factory.mktemp("small"), 1)
    yield log, driver
    driver.close()
    log.store.close_sync()


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    log, driver = make(tmp_path_factory.mktemp("large"), 300)
    yield log, driver
    driver.close()
    log.store.close_sync()


def mutations(value, step=1):
    """One value for each byte or character that can differ, or every `step`th, and a few of another kind."""
    if isinstance(value, bytes):
        for at in range(0, len(value), step):
            yield value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
        yield value[:-1]
        yield value + b"\0"
        yield value.decode("latin-1")
    elif isinstance(value, str):
        for at in range(0, len(value), step):
            yield value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]
        yield value[:-1]
        yield value + "x"
        yield value.encode()
    elif isinstance(value, int):
        yield from (value + 1, value - 1, -value - 1, value ^ 64, f"x{value}")
    else:
        yield from ("x", "")


def detect(log):
    with pytest.raises(Tampered) as found:
        verify.verify(log.store, log.keyring)
    return found.value


def columns(driver, table):
    return [row[1] for row in driver.execute(f"PRAGMA table_info({table})")]


def attack(log, driver, table, rowid, column, old, new):
    """Store another value; whether the database took it."""
    try:
        driver.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, rowid))
    except sqlite3.IntegrityError:
        return None
    moved = new if column in ("id", "leaf") and table in ("audit_record", "audit_leaf") else rowid
    try:
        return detect(log)
    finally:
        driver.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (old, moved))


def change_each(small, table, step):
    log, driver = small
    verify.verify(log.store, log.keyring)
    tried = 0
    for column in columns(driver, table):
        for rowid, old in driver.execute(f"SELECT rowid, {column} FROM {table}").fetchall():
            for new in mutations(old, step):
                error = attack(log, driver, table, rowid, column, old, new)
                tried += error is not None
                if error is not None and table == "audit_record" and column != "id":
                    assert error.record == rowid, (column, new, error)
    assert tried > 5
    verify.verify(log.store, log.keyring)


@rows("table", TABLES)
def test_bytes_of_every_column_of_every_row(small, table):
    change_each(small, table, 41)


@pytest.mark.verify
@rows("table", TABLES)
def test_every_byte_of_every_column_of_every_row(small, table):
    change_each(small, table, 1)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_byte_of_a_log_with_several_levels_of_tiles(large, data):
    log, driver = large
    table = data.draw(st.sampled_from(TABLES))
    column = data.draw(st.sampled_from(columns(driver, table)))
    rowids = [row[0] for row in driver.execute(f"SELECT rowid FROM {table}")]
    rowid = data.draw(st.sampled_from(rowids))
    old = driver.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (rowid,)).fetchone()[0]
    choices = list(mutations(old))
    error = attack(log, driver, table, rowid, column, old, choices[data.draw(st.integers(0, len(choices) - 1))])
    if error is not None and table == "audit_record" and column != "id":
        assert error.record == rowid


@rows("table", TABLES)
def test_every_row_deleted(small, table):
    log, driver = small
    for (rowid,) in driver.execute(f"SELECT rowid FROM {table}").fetchall():
        kept = driver.execute(f"SELECT * FROM {table} WHERE rowid = ?", (rowid,)).fetchone()
        if table == "audit_checkpoint":
            continue  # an archived checkpoint less proves less, and hides nothing: the head covers all records
        driver.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))
        error = detect(log)
        if table == "audit_record":
            assert error.record == rowid
        marks = ",".join("?" * len(kept))
        driver.execute(f"INSERT INTO {table} VALUES ({marks})", kept)
    verify.verify(log.store, log.keyring)


def test_the_first_of_several_bad_records_is_named(large):
    log, driver = large
    for number in (77, 301, 599):
        driver.execute("UPDATE audit_record SET server = 'other' WHERE id = ?", (number,))
    error = detect(log)
    assert error.record == 77
    assert decision(39).call in str(error)
    driver.execute("UPDATE audit_record SET server = 'files' WHERE server = 'other'")
    verify.verify(log.store, log.keyring)

"""Someone who can write to the database cuts, reorders, replaces or re-signs the log."""

import logging
import shutil
import sqlite3

import pytest

from callgate.audit import note, verify
from callgate.audit.log import Sealer, Sequencer
from callgate.errors import AuditError, KeyringError, Refused, Tampered
from callgate.keyring import Keyring
from support.auditing import decision, fill, open_log, outcome


@pytest.fixture
def log(tmp_path):
    opened = open_log(f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "keys")
    opened.catch_up()
    fill(opened, 10)
    opened.catch_up()
    yield opened
    opened.store.close_sync()


@pytest.fixture
def driver(log, tmp_path):
    opened = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    yield opened
    opened.close()


def head(log):
    with log.store.audit_reading() as conn:
        return conn.head()


def check(log, keyring=None, **options):
    return verify.verify(log.store, keyring or log.keyring, **options)


def test_two_records_swapped(log, driver):
    first, second = (driver.execute("SELECT * FROM audit_record WHERE id = ?", (n,)).fetchone() for n in (3, 5))
    driver.execute("DELETE FROM audit_record WHERE id IN (3, 5)")
    for number, values in ((5, first), (3, second)):
        driver.execute("INSERT INTO audit_record VALUES (?,?,?,?,?,?,?,?,?,?)", (number, *values[1:]))
    with pytest.raises(Tampered) as found:
        check(log)
    assert found.value.record == 3


def test_two_leaves_swapped(log, driver):
    driver.execute("UPDATE audit_leaf SET record = 6 WHERE leaf = 4")
    driver.execute("UPDATE audit_leaf SET record = 5 WHERE leaf = 5")
    with pytest.raises(Tampered):
        check(log)


def test_a_record_replaced_by_a_copy_of_another(log, driver):
    driver.execute(
        "UPDATE audit_record SET (kind, at, call, server, tool, verdict, reason, body, seal) ="
        " (SELECT kind, at, call, server, tool, verdict, reason, body, seal FROM audit_record WHERE id = 1)"
        " WHERE id = 7"
    )
    with pytest.raises(Tampered) as found:
        check(log)
    assert found.value.record == 7


def test_a_sealed_record_slipped_between(log, driver):
    """Removed by hand, then an id below the head is used again for a genuine record."""
    driver.execute("DELETE FROM audit_record WHERE id = 20")
    driver.execute("DELETE FROM audit_leaf WHERE record = 20")
    row = log.row(decision(77))
    driver.execute("INSERT INTO audit_record VALUES (20,?,?,?,?,?,?,?,?,?)", row)
    with pytest.raises(Tampered):
        check(log)


def test_a_record_edited_before_it_reaches_the_tree(log, driver, caplog):
    told = []
    fill(log, 2, first=50)
    driver.execute("UPDATE audit_record SET body = replace(body, 'files', 'filez') WHERE id = 23")
    driver.execute("UPDATE audit_record SET body = cast(body AS blob) WHERE id = 23")
    with pytest.raises(Tampered) as found:
        check(log)
    assert found.value.record == 23
    sequencer = Sequencer(log.store, log.keyring, tampered=told.append)
    with caplog.at_level(logging.CRITICAL):
        sequencer.close()
    assert [error.record for error in told] == [23]
    assert "TAMPERED" in caplog.text
    assert (head(log).size, head(log).record) == (22, 22), "the good ones before it are in the tree, nothing after"


def test_a_record_removed_before_it_reaches_the_tree(log, driver):
    fill(log, 2, first=50)
    driver.execute("DELETE FROM audit_record WHERE id = 22")
    with pytest.raises(Tampered) as found:
        check(log)
    assert found.value.record == 22
    log.catch_up()
    with pytest.raises(Tampered) as found:
        check(log)
    assert found.value.record == 23
    assert "found leaf 21, record 23" in str(found.value)


def test_the_last_waiting_record_removed(log, driver):
    fill(log, 1, first=50)
    driver.execute("DELETE FROM audit_record WHERE id = 22")
    with pytest.raises(Tampered, match="record 22 was removed"):
        check(log)


def cut(driver, folder, copy):
    """Put the store back to an earlier state, bytes and all."""
    driver.close()
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        (folder / name).unlink(missing_ok=True)
        if (copy / name).exists():
            shutil.copy(copy / name, folder / name)


@pytest.fixture
def put_back(log, driver, tmp_path):
    """The log of ten calls is kept aside, grows, is seen by a witness, and is then put back."""
    driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    aside = tmp_path / "aside"
    aside.mkdir()
    shutil.copy(tmp_path / "store.db", aside / "store.db")
    fill(log, 5, first=11)
    log._sequencer.catch_up(archive=True)
    witnessed = head(log).note
    log.store.close_sync()
    cut(driver, tmp_path, aside)
    again = open_log(f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "keys")
    yield again, witnessed
    again.store.close_sync()


def test_an_earlier_state_put_back_verifies_by_itself_but_not_against_a_later_checkpoint(put_back):
    log, witnessed = put_back
    assert check(log).size == 20
    with pytest.raises(Tampered, match="cut off"):
        check(log, earlier=[witnessed])


def test_an_earlier_state_put_back_is_seen_by_the_checkpoint_noted_beside_the_keys(put_back):
    log, witnessed = put_back
    origin = witnessed.splitlines()[0]
    assert note.noted_checkpoint(log.keyring, origin) == witnessed
    with pytest.raises(Refused, match="no continuation"):
        fill(log, 20, first=500)
    with pytest.raises(Tampered, match="no continuation"):
        log._sequencer.catch_up()
    with pytest.raises(Tampered, match="cut off"):
        check(log, earlier=[note.noted_checkpoint(log.keyring, origin)])


def test_a_log_cut_and_signed_again_with_another_key(log, driver, tmp_path):
    for statement in ("DELETE FROM audit_record WHERE id > 10", "UPDATE sqlite_sequence SET seq = 10"):
        driver.execute(statement)
    for table in ("audit_leaf", "audit_tile", "audit_tree", "audit_checkpoint"):
        driver.execute(f"DELETE FROM {table}")
    foreign = Keyring(tmp_path / "foreign", environ={})
    shutil.copytree(tmp_path / "keys", tmp_path / "foreign")
    for path in ((tmp_path / "foreign" / "checkpoint.1.key"), *(tmp_path / "foreign").glob("log.*.origin")):
        path.unlink()
    foreign.make("checkpoint")
    Sequencer(log.store, foreign).catch_up()
    assert check(log, foreign).size == 10
    with pytest.raises(Tampered, match="not signed by a known key"):
        check(log)


def test_a_record_forged_with_another_seal_key(log, tmp_path):
    foreign = Keyring(tmp_path / "foreign", environ={})
    foreign.make("seal")
    genuine = log.row(decision(99))
    with log.store.writing() as conn:
        log.store.insert(conn, genuine._replace(seal=Sealer(foreign).seal(genuine.body)))
    with pytest.raises(Tampered) as found:
        check(log)
    assert found.value.record == 21


def test_the_sequencer_does_not_sign_over_changed_tiles(log, driver):
    hashes = driver.execute("SELECT hashes FROM audit_tile WHERE level = 0").fetchone()[0]
    driver.execute("UPDATE audit_tile SET hashes = ? WHERE level = 0", (bytes(32) + hashes[32:],))
    fill(log, 1, first=50)
    before = head(log)
    with pytest.raises(Tampered, match="tiles"):
        log.catch_up()
    assert head(log) == before


def test_the_sequencer_does_not_sign_over_a_changed_head(log, driver):
    fill(log, 1, first=50)
    driver.execute("UPDATE audit_tree SET record = record + 1, size = size + 1")
    with pytest.raises(Tampered, match="differs from its signed checkpoint"):
        log.catch_up()


def test_the_sequencer_does_not_begin_a_new_log_over_the_remains_of_one(log, driver):
    driver.execute("DELETE FROM audit_tree")
    with pytest.raises(Tampered, match="gone"):
        log.catch_up()
    with pytest.raises(Tampered, match="gone"):
        check(log)


def test_a_checkpoint_of_another_log_is_not_taken(log, tmp_path):
    other = open_log(f"sqlite:///{tmp_path / 'other.db'}", tmp_path / "keys")
    other.catch_up()
    foreign = head(other).note
    other.store.close_sync()
    with pytest.raises(Tampered, match="another log"):
        check(log, earlier=[foreign])


def test_a_forged_retention_record_covers_nothing(log, driver):
    """Admin records are sealed: one written by hand is itself the first finding."""
    driver.execute("DELETE FROM audit_record WHERE id = 2")
    forged = log.admin("audit.prune", "gateway", {"to_leaf": 20})._replace(seal=bytes(36))
    driver.execute(
        "INSERT INTO audit_record (kind,at,call,server,tool,verdict,reason,body,seal) VALUES (?,?,?,?,?,?,?,?,?)",
        forged,
    )
    with pytest.raises(Tampered):
        check(log)


def test_without_the_keys_nothing_is_said_to_verify(log, tmp_path):
    empty = Keyring(tmp_path / "nothing", environ={})
    with pytest.raises(KeyringError):
        empty.require("checkpoint")
    with pytest.raises(KeyringError):
        check(log, empty)


def test_an_outcome_without_a_decision_is_no_receipt(log):
    from callgate.audit import receipt

    with log.store.writing() as conn:
        log.store.insert(conn, log.row(outcome(99)))
    log.catch_up()
    with log.store.audit_reading() as conn, pytest.raises(AuditError, match="no decision"):
        receipt.make(conn, outcome(99).call, log.keyring.public_keys())

"""A command or a gateway with other keys than the log's: it must not put one record into the log, nor make new keys for it."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from callgate.audit import verify
from callgate.cli import run
from callgate.errors import KeyringError
from callgate.keyring import CHECKPOINT, SEAL, Keyring
from callgate.store import Store, read_block
from support import fork_server
from support.auditing import fill, open_log
from support.gateway import serving, write_config
from support.hostile import assert_works, hostile_server
from support.table import rows


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A shell in another folder, with no configuration."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "xdg"))
    for name in ("CALLGATE_CONFIG", "CALLGATE_STORE_URL", "CALLGATE_BLOCK_ALL"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def log(tmp_path, store_url):
    opened = open_log(store_url, tmp_path / "own" / "keys")
    fill(opened, 3)
    opened.catch_up()
    yield opened
    opened.store.close_sync()


@pytest.fixture
def store_url(tmp_path):
    return f"sqlite:///{tmp_path / 'store.db'}"


def count(url):
    with sqlite3.connect(url.removeprefix("sqlite:///")) as conn:
        found = conn.execute("SELECT count(*) FROM audit_record").fetchone()[0]
    conn.close()
    return found


@rows(
    "words", [["block-all", "off"], ["keys", "rotate"], ["keys", "rotate", "seal"], ["keys", "export"],
              ["audit", "prune", "--days", "1"], ["audit", "verify"], ["audit", "checkpoint"]],
)  # fmt: skip
@rows("others", [False, True], ids=["no keys", "another log's keys"])
def test_a_command_with_other_keys_writes_nothing(elsewhere, log, store_url, words, others, capsys):
    keys = Path(store_url.removeprefix("sqlite:///")).with_name("keys")
    shutil.rmtree(keys, ignore_errors=True)
    if others:
        Keyring(keys, environ={}).make(SEAL, CHECKPOINT)
    before = count(store_url), sorted(keys.glob("*"))
    assert run([*words, "--store", store_url]) == 1
    said = capsys.readouterr().err
    assert "store.keys_dir" in said or "keys folder" in said
    assert (count(store_url), sorted(keys.glob("*"))) == before
    assert verify.verify(log.store, log.keyring).records == 6


def test_the_switch_turned_on_with_other_keys_is_on_and_leaves_the_log_whole(elsewhere, log, store_url, capsys):
    assert run(["block-all", "on", "--store", store_url]) == 0
    assert "no audit record" in capsys.readouterr().err
    with log.store.reading() as conn:
        assert read_block(conn).on
    assert verify.verify(log.store, log.keyring).records == 6


@rows("name", [SEAL, CHECKPOINT])
def test_one_foreign_key_is_enough_to_be_refused(log, store_url, tmp_path, name):
    mixed = tmp_path / "mixed"
    shutil.copytree(log.keyring.directory, mixed)
    other = Keyring(tmp_path / "other", environ={})
    other.make(SEAL, CHECKPOINT)
    shutil.copyfile(tmp_path / "other" / f"{name}.1.key", mixed / f"{name}.1.key")
    with pytest.raises(KeyringError):
        open_log(store_url, mixed)


def test_the_second_of_two_founders_with_different_keys_is_refused(store_url, tmp_path):
    first = open_log(store_url, tmp_path / "one")
    with pytest.raises(KeyringError):
        open_log(store_url, tmp_path / "two")
    assert not (tmp_path / "two").exists()
    first.store.close_sync()


def test_keys_that_vanish_from_a_running_log_are_not_replaced(log, tmp_path):
    keys = log.keyring.directory
    keys.rename(tmp_path / "lost")
    fill(log, 1, first=10)
    with pytest.raises(KeyringError):
        log.catch_up()
    assert not keys.exists()
    (tmp_path / "lost").rename(keys)
    log.catch_up()
    assert verify.verify(log.store, log.keyring).records == 8


def test_a_gateway_whose_keys_were_moved_away_does_not_start(tmp_path):
    with hostile_server() as upstream:
        servers = {"one": {"url": upstream.url}}
        with serving(tmp_path, servers) as gateway:
            assert_works(gateway.port)
        (tmp_path / "keys").rename(tmp_path / "lost")
        started = fork_server.run([fork_server.CALLGATE, "serve", "-c", str(write_config(tmp_path, servers))])
        assert started.returncode == 1
        assert "store.keys_dir" in started.stderr
        assert not (tmp_path / "keys").exists()
        (tmp_path / "lost").rename(tmp_path / "keys")
        with serving(tmp_path, servers) as gateway:
            assert_works(gateway.port)
    store = Store.open(f"sqlite:///{tmp_path / 'callgate.db'}")
    assert verify.verify(store, Keyring(tmp_path / "keys", environ={})).pending == 0
    store.close_sync()

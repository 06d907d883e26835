import json
import os
import sqlite3
import time
from types import SimpleNamespace

import pytest

from callgate.cli import build, run
from callgate.store import Store, migrate
from support.auditing import decision, fill, open_log
from support.postgres import database


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("CALLGATE_CONFIG", raising=False)
    monkeypatch.delenv("CALLGATE_STORE_URL", raising=False)
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def callgate(place, capsys):
    def call(*words, code=0, store=place):
        found = run(["store", *words, "--store", store])
        out, err = capsys.readouterr()
        assert found == code, err
        return out, err

    return call


def test_upgrade_creates_a_store(callgate):
    assert callgate("upgrade")[0] == "The store went from schema none to 0013.\n"
    assert callgate("upgrade")[0] == "The store is at schema 0013 already.\n"


def test_upgrade_brings_an_older_store_up(callgate, place):
    old = Store.connect(place, create=True)
    with old.writing() as conn:
        migrate.upgrade(conn, "0001")
    old.close_sync()
    assert "run `callgate store upgrade`" in callgate("check", code=1)[1]
    assert callgate("upgrade")[0] == "The store went from schema 0001 to 0013.\n"
    callgate("check")


def test_size_says_how_fast_the_store_grows_and_how_long_the_disk_lasts(callgate, place, tmp_path, monkeypatch):
    log = open_log(place, tmp_path / "keys")
    log.catch_up()
    log.store.close_sync()
    assert "so nobody can say how fast it grows" in callgate("size")[0]
    log = open_log(place, tmp_path / "keys")
    now = int(time.time() * 1000)
    with log.store.audit_writing() as tables:
        for number in range(200):
            # Two days of them, one after the other.
            tables.insert(log.row(decision(number, at=now - (200 - number) * 864_000)))
    log.catch_up()
    log.store.close_sync()
    found = json.loads(callgate("size", "--json")[0])
    assert found["records"] == 200
    # The oldest of them may be a day old by now.
    assert found["last_day"] in (99, 100)
    assert found["bytes_each"] == found["bytes"] // found["records"]
    assert found["daily_bytes"] == found["last_day"] * found["bytes_each"]
    assert found["kept_bytes"] == found["daily_bytes"] * 180
    assert "Records are kept for 180 days." in callgate("size")[0]
    nearly_full = SimpleNamespace(free=found["daily_bytes"] * 12)
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: nearly_full)
    assert "The disk is full in about 12 days. Lower audit.retention_days" in callgate("size")[0]


def test_check_says_what_is_there(callgate, place, tmp_path):
    log = open_log(place, tmp_path / "keys")
    fill(log, 4)
    log.catch_up()
    log.store.close_sync()
    said = json.loads(callgate("check", "--json")[0])
    assert said.pop("bytes") > 4096
    assert said == {
        "ok": True,
        "place": str(tmp_path / "store.db"),
        "schema": "0013",
        "records": 8,
        "in_the_tree": 8,
        "problems": [],
    }
    assert "The store is fine." in callgate("check")[0]


def test_check_leaves_nothing_behind(callgate, tmp_path):
    callgate("upgrade")
    callgate("check")
    with sqlite3.connect(tmp_path / "store.db") as conn:
        assert conn.execute("SELECT count(*) FROM control").fetchone() == (0,)
    conn.close()


@pytest.mark.skipif(os.name == "nt", reason="modes")
def test_check_finds_a_file_that_others_can_read(callgate, tmp_path):
    callgate("upgrade")
    (tmp_path / "store.db").chmod(0o644)
    assert "chmod 600" in callgate("check", code=1)[1]


def test_check_finds_damage(callgate, tmp_path):
    callgate("upgrade")
    data = bytearray((tmp_path / "store.db").read_bytes())
    data[4096:8192] = b"\xff" * 4096
    (tmp_path / "store.db").write_bytes(data)
    _, err = callgate("check", code=1)
    assert "damage" in err
    assert "Traceback" not in err


def test_check_finds_a_store_that_cannot_be_written(callgate, tmp_path):
    callgate("upgrade")
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    (tmp_path / "callgate.toml").write_text("[store]\nbusy_seconds = 0.1\n")
    assert "stayed locked" in callgate("check", code=1)[1]
    other.close()


def test_check_refuses_a_newer_store(callgate, tmp_path):
    callgate("upgrade")
    with sqlite3.connect(tmp_path / "store.db") as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
    conn.close()
    assert "newer" in callgate("check", code=1)[1]
    assert "newer" in callgate("upgrade", code=1)[1]


def test_a_backup_is_a_store_even_while_someone_writes(callgate, place, tmp_path):
    log = open_log(place, tmp_path / "keys")
    fill(log, 4)
    log.catch_up()
    with log.store.writing() as conn:
        log.store.insert(conn, log.admin("x", "me"))
        out, _ = callgate("backup", "copy.db")
    log.store.close_sync()
    assert f"they are in {tmp_path / 'keys'}" in out
    said = json.loads(callgate("check", "--json", store=f"sqlite:///{tmp_path / 'copy.db'}")[0])
    assert (said["records"], said["ok"]) == (8, True)
    assert "does not exist yet" in callgate("backup", "copy.db", code=1)[1]


def test_for_postgresql_the_tool_to_use_is_named(callgate):
    with database() as url:
        callgate("upgrade", store=url)
        assert json.loads(callgate("check", "--json", store=url)[0])["ok"]
        assert "pg_dump --format=custom --file=copy.dump" in callgate("backup", "copy.dump", code=1, store=url)[1]


def test_a_password_in_the_url_is_not_printed(callgate, tmp_path):
    url = f"postgresql://me:hunter2@/db?host={tmp_path}&connect_timeout=1"
    out, err = callgate("check", code=1, store=url)
    assert "hunter2" not in out + err


def test_a_url_that_is_none_is_explained(callgate):
    assert "sqlite:///PATH" in callgate("check", code=1, store="nonsense")[1]


def test_usage_errors_exit_with_two(capsys):
    assert run(["store", "nonsense"]) == 2
    assert run(["nonsense"]) == 2
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("callgate ")


def test_one_verb_loads_one_module():
    assert [group.name for group in build(["store"]).registered_groups] == ["store"]
    assert {"audit", "store", "keys", "block-all"} <= {group.name for group in build([]).registered_groups}

import json
import os

import pytest

from callgate.audit import reading, verify
from callgate.cli import run
from callgate.keyring import Keyring
from callgate.store import Store


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    for name in ("CALLGATE_CONFIG", "CALLGATE_STORE_URL", "CALLGATE_BLOCK_ALL"):
        monkeypatch.delenv(name, raising=False)
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def callgate(place, capsys):
    def call(*words):
        assert run(["block-all", *words, "--store", place]) == 0
        return capsys.readouterr()

    return call


def test_the_switch_is_off_until_it_is_turned_on(callgate):
    assert callgate("status").out == "off\n"
    callgate("on", "--note", "the agent runs wild")
    lines = callgate("status").out.splitlines()
    assert lines[0] == "on: every call is refused"
    assert lines[1].endswith(": the agent runs wild")
    callgate("off")
    assert callgate("status").out.startswith("off\n")


def test_status_for_machines(callgate):
    said = json.loads(callgate("status", "--json").out)
    assert said == {"on": False, "stored": False, "forced": None, "at": None, "by": None, "note": None}
    callgate("on")
    said = json.loads(callgate("status", "--json").out)
    assert (said["on"], said["stored"]) == (True, True)
    assert "@" in said["by"]


def test_every_turn_is_on_record(callgate, place, tmp_path):
    callgate("on", "--note", "why")
    callgate("off")
    store = Store.open(place, busy_seconds=60)
    with store.audit_reading() as tables:
        bodies = [json.loads(body) for _, body in tables.bodies(reading.Filter())]
    assert [(body["kind"], body["action"], body.get("detail")) for body in bodies] == [
        ("admin", "block_all.on", {"note": "why"}),
        ("admin", "block_all.off", None),
    ]
    assert verify.verify(store, Keyring(tmp_path / "keys", environ={})).pending == 2
    store.close_sync()


def test_what_forces_it_on_is_said(callgate, monkeypatch, tmp_path):
    (tmp_path / "callgate.toml").write_text("[policy]\nblock_all = true\n")
    assert "policy.block_all" in callgate("status").out
    assert "keep refusing" in callgate("off").err
    (tmp_path / "callgate.toml").unlink()
    monkeypatch.setenv("CALLGATE_BLOCK_ALL", "1")
    assert "CALLGATE_BLOCK_ALL" in callgate("status").out


@pytest.mark.skipif(os.name == "nt", reason="modes are a POSIX idea")
def test_an_emergency_stop_does_not_wait_for_healthy_keys(place, callgate, tmp_path, capsys):
    callgate("off")
    (tmp_path / "keys").chmod(0o755)
    said = callgate("on", "--note", "now")
    assert "Every call is refused now" in said.out
    assert "no audit record" in said.err
    assert f"chmod 700 {tmp_path / 'keys'}" in said.err
    assert callgate("status").out.startswith("on")
    assert run(["block-all", "off", "--store", place]) == 1
    assert "chmod 700" in capsys.readouterr().err
    assert callgate("status").out.startswith("on")
    (tmp_path / "keys").chmod(0o700)
    callgate("off")
    assert callgate("status").out.startswith("off")


def test_an_emergency_stop_does_not_wait_for_a_log_that_goes_on(place, callgate, tmp_path, capsys):
    callgate("off")
    assert run(["audit", "verify", "--store", place]) == 0
    for path in tmp_path.glob("store.db*"):
        path.unlink()
    assert run(["block-all", "off", "--store", place]) == 1
    accept = "type `callgate audit accept-restore --why REASON`"
    assert accept in capsys.readouterr().err
    said = callgate("on")
    assert "Every call is refused now" in said.out
    assert "no audit record" in said.err
    assert accept in said.err
    assert callgate("status").out.startswith("on")
    assert run(["audit", "verify", "--store", place]) == 1
    assert accept in capsys.readouterr().err
    assert run(["audit", "accept-restore", "--why", "I deleted it", "--yes", "--store", place]) == 0
    assert run(["audit", "verify", "--store", place]) == 0
    capsys.readouterr()
    assert callgate("status").out.startswith("on")
    callgate("off")

import json

import pytest

from callgate.audit import verify
from callgate.audit.note import VerifierKey
from callgate.cli import run
from support.auditing import fill, open_log


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    for name in ("CALLGATE_CONFIG", "CALLGATE_STORE_URL"):
        monkeypatch.delenv(name, raising=False)
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def callgate(place, capsys):
    def call(*words, code=0):
        assert run(["keys", *words, "--store", place]) == code
        return capsys.readouterr()

    return call


def test_list_before_there_are_any(callgate):
    assert "the first gateway makes them" in callgate("list").out


def test_secrets_are_never_printed(callgate, tmp_path):
    callgate("export")
    callgate("rotate", "seal")
    callgate("rotate")
    printed = "".join(callgate(*words).out for words in (("list",), ("list", "--json"), ("export",)))
    for path in (tmp_path / "keys").glob("*.key"):
        assert path.read_text().strip() not in printed


def test_list_shows_versions(callgate):
    callgate("rotate", "checkpoint")
    rows = json.loads(callgate("list", "--json").out)["keys"]
    found = [(row["name"], row["version"], row["state"]) for row in rows]
    assert found == [("checkpoint", 2, "current"), ("checkpoint", 1, "retired"), ("seal", 1, "current")]
    assert rows[0]["fingerprint"].startswith("SHA256:")


def test_export_prints_keys_that_verifiers_read(callgate):
    callgate("rotate")
    keys = [VerifierKey.parse(line) for line in callgate("export").out.splitlines()]
    assert len(keys) == 2
    said = json.loads(callgate("export", "--json").out)
    assert [one["key"] for one in said["keys"]] == [str(key) for key in keys]
    assert said["origin"] == keys[0].name


def test_rotation_is_on_record_and_the_log_verifies_across_it(callgate, place, tmp_path):
    log = open_log(place, tmp_path / "keys")
    fill(log, 3)
    log.catch_up()
    callgate("rotate", "seal")
    callgate("rotate", "checkpoint")
    fill(log, 3, first=10)
    log.catch_up()
    report = verify.verify(log.store, log.keyring)
    assert (report.records, report.pending) == (14, 0)
    log.store.close_sync()


def test_a_key_that_does_not_exist_is_not_rotated(callgate):
    assert "checkpoint, seal" in callgate("rotate", "nonsense", code=1).err

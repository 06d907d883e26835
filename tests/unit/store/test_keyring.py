import base64
import os
import stat
import subprocess
import sys

import pytest

from callgate.errors import KeyringError
from callgate.keyring import CHECKPOINT, SEAL, Keyring
from support.table import rows

posix = pytest.mark.skipif(os.name == "nt", reason="modes are a POSIX idea")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state" / "keys"


@pytest.fixture
def keyring(folder):
    return Keyring(folder, environ={})


def b64(byte):
    return base64.b64encode(bytes([byte]) * 32).decode()


def test_a_key_is_made_once_and_stays(keyring, folder):
    keyring.make(SEAL, CHECKPOINT)
    key = keyring.current(SEAL)
    assert len(key.secret) == 32
    other = Keyring(folder, environ={})
    other.make(SEAL, CHECKPOINT)
    assert other.current(SEAL) == key
    assert keyring.current(CHECKPOINT).secret != key.secret


def test_a_key_is_never_made_by_asking_for_it(keyring, folder):
    with pytest.raises(KeyringError, match="no seal key"):
        keyring.current(SEAL)
    with pytest.raises(KeyringError, match="no seal key"):
        keyring.rotate(SEAL)
    assert not folder.exists()


def test_a_signing_key_whose_secret_half_is_elsewhere_is_not_replaced(keyring, folder):
    keyring.make(CHECKPOINT)
    keyring.rotate(CHECKPOINT)
    (folder / "checkpoint.2.key").unlink()
    other = Keyring(folder, environ={})
    with pytest.raises(KeyringError, match="only the public half"):
        other.current(CHECKPOINT)
    other.make(CHECKPOINT)
    assert [path.name for path in folder.iterdir()] == ["checkpoint.1.pub"]


@posix
def test_files_are_the_owners_alone(keyring, folder):
    keyring.make(SEAL)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600]


@posix
@rows("mode", [0o640, 0o604, 0o666, 0o620])
def test_a_key_that_others_can_reach_is_refused_with_the_command_that_helps(tmp_path, mode):
    folder = tmp_path / "keys"
    Keyring(folder, environ={}).make(SEAL)
    path = folder / "seal.1.key"
    path.chmod(mode)
    with pytest.raises(KeyringError) as refused:
        Keyring(folder, environ={}).current(SEAL)
    assert f"chmod 600 {path}" in refused.value.advice


@posix
def test_a_folder_that_others_can_reach_is_refused(keyring, folder):
    keyring.make(SEAL)
    folder.chmod(0o755)
    with pytest.raises(KeyringError) as refused:
        Keyring(folder, environ={}).current(SEAL)
    assert f"chmod 700 {folder}" in refused.value.advice


def test_a_rotated_signing_key_keeps_only_its_public_half(keyring, folder):
    keyring.make(CHECKPOINT)
    old = keyring.current(CHECKPOINT)
    new = keyring.rotate(CHECKPOINT)
    assert (old.version, new.version) == (1, 2)
    assert {path.name for path in folder.iterdir()} == {"checkpoint.1.pub", "checkpoint.2.key"}
    assert keyring.public_keys() == [new.public, old.public]
    assert [key.secret for key in keyring.versions(CHECKPOINT)] == [new.secret, b""]


def test_a_rotated_seal_key_stays_to_verify_old_records(keyring):
    keyring.make(SEAL)
    old = keyring.current(SEAL)
    new = keyring.rotate(SEAL)
    assert [key.secret for key in keyring.versions(SEAL)] == [new.secret, old.secret]


def test_another_process_sees_a_rotation(keyring, folder):
    running = Keyring(folder, environ={})
    running.make(CHECKPOINT)
    before = running.current(CHECKPOINT)
    os.utime(folder, ns=(1, 1))
    keyring.rotate(CHECKPOINT)
    assert running.current(CHECKPOINT).version == before.version + 1


def test_processes_that_start_at_once_use_one_key(folder):
    script = (
        "import sys; from pathlib import Path; from callgate.keyring import Keyring;"
        "keys = Keyring(Path(sys.argv[1]), environ={}); keys.make('seal'); print(keys.current('seal').secret.hex())"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert len({process.communicate(timeout=30)[0] for process in started}) == 1
    assert [path.name for path in folder.iterdir()] == ["seal.1.key"]


def test_keys_from_the_environment_come_first(folder):
    made = Keyring(folder, environ={})
    made.make(SEAL)
    stored = made.current(SEAL)
    keyring = Keyring(folder, environ={"CALLGATE_KEY_SEAL": f"{b64(2)},{b64(1)}"})
    assert [key.secret for key in keyring.versions(SEAL)] == [bytes([2]) * 32, bytes([1]) * 32, stored.secret]
    assert keyring.current(SEAL).source == "environment"
    with pytest.raises(KeyringError, match="environment"):
        keyring.rotate(SEAL)


def test_keys_from_a_file_named_in_the_environment(tmp_path):
    path = tmp_path / "secret"
    old = Keyring(tmp_path / "x", environ={})
    old.make(CHECKPOINT)
    retired = old.current(CHECKPOINT).public
    path.write_text(f"{b64(3)}\npub:{base64.b64encode(retired).decode()}\n")
    keyring = Keyring(None, environ={"CALLGATE_KEY_CHECKPOINT_FILE": str(path)})
    assert keyring.current(CHECKPOINT).secret == bytes([3]) * 32
    assert keyring.public_keys()[1] == retired


@rows("value", ["short", b64(1)[:-4], "!" * 44, "pub:" + b64(1)])
def test_what_is_no_key_is_refused(value):
    with pytest.raises(KeyringError, match="CALLGATE_KEY_SEAL does not hold a key"):
        Keyring(None, environ={"CALLGATE_KEY_SEAL": value}).current(SEAL)


def test_without_a_folder_nothing_is_made(tmp_path):
    with pytest.raises(KeyringError, match="no seal key"):
        Keyring(None, environ={}).make(SEAL)
    with pytest.raises(KeyringError, match="no seal key"):
        Keyring(tmp_path / "none", environ={}).require(SEAL)
    with pytest.raises(KeyringError, match="cannot be read"):
        Keyring(None, environ={"CALLGATE_KEY_SEAL_FILE": str(tmp_path / "none")}).current(SEAL)


def test_a_damaged_key_file_is_named(keyring, folder):
    keyring.make(SEAL)
    (folder / "seal.1.key").write_text("half")
    with pytest.raises(KeyringError, match=r"seal\.1\.key does not hold a key"):
        Keyring(folder, environ={}).current(SEAL)


def test_a_key_never_shows_in_its_printed_form(keyring):
    keyring.make(SEAL)
    key = keyring.current(SEAL)
    assert key.secret.hex() not in repr(key)
    assert repr(key.secret) not in repr(key)

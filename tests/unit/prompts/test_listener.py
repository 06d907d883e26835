"""The socket that a wrapped server's gateway listens on."""

import os
import socket
import stat
from pathlib import Path

import pytest

from callgate.prompts.listener import listening
from support.table import rows


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "callgate" / "prompts"


def told(path, data):
    """What somebody sends there; returns when the gateway has closed the link."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(60)
        handle = os.open(path.parent, os.O_RDONLY)
        link.connect(f"/proc/self/fd/{handle}/{path.name}")
        os.close(handle)
        link.sendall(data)
        link.shutdown(socket.SHUT_WR)
        return link.recv(10)


def test_only_its_user_can_reach_it_and_it_goes_with_the_process(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    with listening():
        own = folder / f"{os.getpid()}.sock"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert list(folder.iterdir()) == []


def test_sockets_of_the_dead_are_cleared_away_and_those_of_the_living_stay(folder, monkeypatch):
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as living:
        dead.bind("1.sock")
        dead.close()
        living.bind("2.sock")
        living.listen()
        with listening():
            assert {path.name for path in folder.iterdir()} == {"2.sock", f"{os.getpid()}.sock"}


@rows("data", [b"", b"no JSON", b"[]", b"{}", b'{"prompt": 7}', b"[" * 100_000, b"x" * (2 << 20)])
def test_what_is_no_message_does_no_harm(folder, data):
    with listening() as listener:
        heard = []
        listener.add(os.getpid(), Path.cwd(), heard.append)
        own = folder / f"{os.getpid()}.sock"
        try:
            told(own, data)
        except ConnectionError:
            assert len(data) > 2**20, "it is closed before the end"
        assert told(own, b"{}") == b"", "it listens still"
        assert heard == []


def test_where_the_folder_cannot_be_had_nothing_is_heard(folder):
    folder.parent.mkdir(parents=True)
    folder.write_text("a file")
    with listening() as listener:
        assert listener is None


def test_a_path_that_is_longer_than_an_address(tmp_path, monkeypatch):
    long = tmp_path / ("long" * 30)
    monkeypatch.setenv("XDG_STATE_HOME", str(long))
    with listening():
        assert told(long / "callgate" / "prompts" / f"{os.getpid()}.sock", b"{}") == b""

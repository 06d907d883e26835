"""A link in the folder of a person's gateway leads elsewhere, or something was put in the place of its files."""

import os
import socket
import sys
from pathlib import Path

import pytest

from support.raw import SECONDS
from support.shared import Client, shared
from support.table import rows

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no such gateway there")


@pytest.fixture
def elsewhere(tmp_path):
    found = tmp_path / "elsewhere"
    found.mkdir()
    (found / "precious").write_text("kept")
    return found


def untouched(elsewhere):
    return sorted(path.name for path in elsewhere.iterdir()) == ["precious"] and (
        (elsewhere / "precious").read_text() == "kept"
    )


@rows("kind", ["lock", "starting", "log"])
def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path_factory, kind, monkeypatch):
    folder = tmp_path_factory.mktemp("linked")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    target = folder / "target"
    with shared(folder) as person:
        os.close(person.place.enter())
        (Path(person.place.folder) / f"{person.place.name}.{kind}").symlink_to(target)
        with Client(person.argv()) as client:
            assert client.process.wait(SECONDS) == 1
            said = client.process.stderr.read().decode()
        assert f".{kind} cannot be used" in said
        assert "Traceback" not in said
        assert not target.exists()
        (Path(person.place.folder) / f"{person.place.name}.{kind}").unlink()


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path, elsewhere, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "callgate").mkdir()
    (tmp_path / "callgate" / "run").symlink_to(elsewhere)
    with Client([sys.executable, "-m", "callgate", "wrap", "s", "--", "cat"], fork=False) as client:
        assert client.process.wait(SECONDS) == 1
        said = client.process.stderr.read().decode()
    assert "cannot be used" in said
    assert "no link" in said
    assert untouched(elsewhere)


@rows("put", ["file", "dead socket", "link"])
def test_what_was_put_in_the_place_of_the_socket_is_replaced(tmp_path_factory, put, monkeypatch):
    folder = tmp_path_factory.mktemp("put")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    target = folder / "target"
    target.write_text("kept")
    with shared(folder) as person:
        handle = person.place.enter()
        at = Path(person.place.folder) / person.place.address
        if put == "file":
            at.write_text("no socket")
        elif put == "link":
            at.symlink_to(target)
        else:
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(f"/proc/self/fd/{handle}/{at.name}" if sys.platform == "linux" else str(at))
        os.close(handle)
        with person.wrapped() as client:
            assert "result" in client.ask("tools/list")
        assert at.is_socket()
        assert not at.is_symlink()
    assert target.read_text() == "kept"

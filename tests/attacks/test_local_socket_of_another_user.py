"""Another user of the machine speaks to a person's gateway, or waits for their wraps at a socket of its own."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from callgate.local.place import LocalError, Place
from support.raw import SECONDS
from support.shared import Client, shared

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0, reason="only root can be another user: run it as root"
)

NOBODY = 65534
ASK = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
link = socket.socket(socket.AF_UNIX)
link.settimeout(30)
try:
    link.connect(sys.argv[1])
    link.sendall(bytes.fromhex(sys.argv[2]))
    print("answered" if link.recv(1) else "closed")
except PermissionError:
    print("kept out")
except ConnectionError:
    print("closed")
"""


@pytest.fixture
def folder():
    """Short and open to everybody on the way, so that only what is tested keeps anybody out."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def asked_by_nobody(path, message=b""):
    argv = [sys.executable, "-I", "-S", "-c", ASK, str(path), message.hex()]
    return subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=True).stdout.strip()


def test_another_user_is_kept_out_and_turned_away(folder, monkeypatch):
    from callgate.local import wire

    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    with shared(folder) as person, person.wrapped() as client:
        run = folder / "callgate" / "run"
        listens = run / person.place.address
        assert asked_by_nobody(listens) == "kept out"
        # Somebody has opened every door by hand: who is there is still asked for.
        for path, mode in ((folder / "callgate", 0o755), (run, 0o755), (listens, 0o666)):
            path.chmod(mode)
        for message in (person.order(), person.order(do="status"), person.order(do="stop")):
            assert asked_by_nobody(listens, wire.encode(message)) == "closed"
        assert "result" in client.ask("tools/list")
        with person.wrapped() as again:
            assert "result" in again.ask("tools/list")
        assert run.stat().st_mode & 0o777 == 0o700, "whoever comes next closes it again"


def test_a_wrap_gives_nothing_to_a_socket_of_another_user(folder, monkeypatch):
    """It was put there before the gateway was started, in a folder that was open to everybody."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    place = Place(str(folder / "callgate.toml"))
    os.close(place.enter())
    listen = (
        "import os, socket, sys\n"
        "link = socket.socket(socket.AF_UNIX)\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "link.bind(sys.argv[1]); link.listen()\n"
        "print('ready', flush=True)\n"
        "print(link.accept()[0].recv(100), flush=True)\n"
    )
    run = Path(place.folder)
    run.parent.chmod(0o755)
    run.chmod(0o777)
    argv = [sys.executable, "-I", "-S", "-c", listen, str(run / place.address)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "ready\n"
        with Client(
            [sys.executable, "-m", "callgate", "wrap", "-c", place.config, "s", "--", "cat"], fork=False
        ) as one:
            assert one.process.wait(SECONDS) == 1
            assert b"another user" in one.process.stderr.read()
        assert other.stdout.read() == "b''\n", "nothing was said to it"


def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    place = Place()
    Path(place.folder).mkdir(parents=True)
    os.chown(place.folder, NOBODY, NOBODY)
    with pytest.raises(LocalError, match="another user"):
        place.connect()
    assert list(Path(place.folder).iterdir()) == []

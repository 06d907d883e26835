"""One Chromium for all workers of a run, behind Playwright's own server.

Several clients of one browser's debugging port see each other's pages, and each sets up all of them after its own wishes.
Playwright's server gives every client contexts of its own.

Run as a program, this is the process that keeps the server: `python browser_server.py SOCKET CHROMIUM`. It tells each
worker that connects where the server is, and ends it when the last of them is gone, however they went.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from typing import Final

WAIT_SECONDS: Final = 110.0
STOP_SECONDS: Final = 20.0


class NoBrowserError(Exception):
    """The browser does not start."""


# ---- as a worker speaks to it ----


@cache
def endpoint(chromium: str) -> str:
    """Where the browser of this run is; the first who asks starts it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"pid-{os.getpid()}"
    # In the kernel's own namespace: only one process can have a name, and nothing is left behind.
    name = f"\0callgate-browser-{run}"
    while True:
        ours = socket.socket(socket.AF_UNIX)
        ours.settimeout(WAIT_SECONDS)
        try:
            ours.connect(name)
            told = ours.makefile().readline().split(maxsplit=1)
        except ConnectionError:
            # Nobody is there, or it was just about to end.
            told = []
        if told:
            # Open as long as this process lives.
            _held.append(ours)
            break
        ours.close()
        _start(name, chromium)
    if told[0] == "failed":
        raise NoBrowserError(told[1])
    return told[1].strip()


_held: Final[list[socket.socket]] = []
_kept: Final[list[subprocess.Popen[bytes]]] = []


def _start(name: str, chromium: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(name)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return
            raise
        listener.listen(128)
        argv = [sys.executable, "-I", "-S", __file__, str(listener.fileno()), chromium]
        # In a session of its own: a Ctrl-C is for the workers, and it ends after them.
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=[listener.fileno()], start_new_session=True)
        _kept.append(process)


# ---- the process that keeps the server ----


def _keep(listener: socket.socket, chromium: str) -> None:
    with tempfile.NamedTemporaryFile("w", prefix="callgate-browser-") as file:
        json.dump({"executablePath": chromium, "args": ["--no-sandbox"], "host": "127.0.0.1"}, file)
        file.flush()
        argv = [sys.executable, "-m", "playwright", "launch-server", "--browser", "chromium", "--config", file.name]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as server:
            assert server.stdout is not None
            line = server.stdout.readline().decode().strip()
            _serve(listener, f"started {line}" if line.startswith("ws://") else f"failed {line or chromium}")
            # Whoever comes now is turned away, and starts another.
            listener.close()
            # All of its session: Playwright's command is a Python that waits for a node.
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)


def _serve(listener: socket.socket, answer: str) -> None:
    """Until the last worker has gone."""
    with selectors.DefaultSelector() as waiting:
        waiting.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is listener:
                    worker, _ = listener.accept()
                    with contextlib.suppress(OSError):
                        worker.sendall(f"{answer}\n".encode())
                    waiting.register(worker, selectors.EVENT_READ)
                else:
                    # A worker says nothing: it has gone.
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
            if len(waiting.get_map()) == 1:
                return


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as accepting:
        _keep(accepting, sys.argv[2])

"""Starts `callgate serve` again and again, each in a process of its own, without paying for its imports each time.

Run as a program: for every line on stdin, `CONFIG LOG`, it forks a gateway and prints its process id.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


class Nursery:
    """The program, as a test speaks to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(self, config: Path, log: Path) -> int:
        """A new gateway; its process id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{config} {log}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextlib.contextmanager
def nursery() -> Iterator[Nursery]:
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        yield Nursery(process)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _become_gateway(config: str, log: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(descriptor, number)
    sys.argv = ["callgate", "serve", "-c", config]
    from callgate.cli import main

    main()


def run() -> None:
    import callgate.gateway.runtime
    import callgate.gateway.serve
    import callgate.gateway.server  # noqa: F401 - loaded here, they need not be in each gateway

    # Nobody waits for the gateways: they are there to be killed.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        config, log = line.split()
        pid = os.fork()
        if pid == 0:
            try:
                _become_gateway(config, log)
            finally:
                os._exit(1)
        print(pid, flush=True)


if __name__ == "__main__":
    run()

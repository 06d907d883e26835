"""Starts a person's gateway where none runs: detached, and one at a time, however many ask for it at once."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time

from callgate.local.place import LocalError, Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

START_SECONDS = 60.0
_LOG_BYTES = 4 * 2**20
# What a gateway that listens tells whoever started it.
READY = b"ready"


def reach(place: Place, wanted: Callable[[], bool] = lambda: True) -> socket.socket:
    """A link to the gateway, started where it has to be; LocalError where nobody wants it any more meanwhile."""
    link = place.connect()
    return link if link is not None else _start(place, wanted)


def _start(place: Place, wanted: Callable[[], bool]) -> socket.socket:
    turn = place.open("starting")
    try:
        _take(turn, wanted)
        # Whoever had the turn before has started it.
        link = place.connect()
        return link if link is not None else _wait(place, _spawn(place), wanted)
    finally:
        os.close(turn)


def _take(turn: int, wanted: Callable[[], bool]) -> None:
    # Windows, which has none, gets as far as loading this file.
    import fcntl

    deadline = time.monotonic() + 2 * START_SECONDS
    while True:
        try:
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise LocalError("another program is starting your gateway, and does not finish", _LOOK) from None
            _check(wanted)
            time.sleep(0.02)
        else:
            return


def _check(wanted: Callable[[], bool]) -> None:
    if not wanted():
        raise LocalError("the client that started this server has ended")


_LOOK = "Type `callgate logs` to see what it says."


def _spawn(place: Place) -> int:
    """Start it as a process of nobody: it outlives the client, its terminal and its process group."""
    log = place.open("log", os.O_WRONLY | os.O_APPEND)
    ready, tell = os.pipe()
    if (first := os.fork()) == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                os.close(ready)
                os.set_inheritable(tell, True)  # noqa: FBT003
                _become(place, tell, log)
        finally:
            os._exit(1)
    with contextlib.suppress(ChildProcessError):
        # Whoever started us may ignore how its children end; then so do we, and there is nothing to wait for.
        os.waitpid(first, 0)
    os.close(tell)
    os.close(log)
    return ready


def _become(place: Place, tell: int, log: int) -> None:
    if os.fstat(log).st_size > _LOG_BYTES:
        os.ftruncate(log, 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, tell)
    os.closerange(tell + 1, 1024)
    os.chdir("/")
    # Not of the folder that the client has open: a file there must not stand in for a module.
    argv = [sys.executable, "-P", "-m", "callgate.cli.gateway", place.config, str(tell)]
    os.execve(sys.executable, argv, {**os.environ, "CALLGATE_CONFIG": ""})  # noqa: S606


def _wait(place: Place, ready: int, wanted: Callable[[], bool]) -> socket.socket:
    """It says that it listens, or why it cannot; what ends without a word has said it in its log."""
    import select

    said = b""
    deadline = time.monotonic() + START_SECONDS
    try:
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([ready], [], [], min(left, 0.5))[0]:
                _check(wanted)
                continue
            chunk = os.read(ready, 4096)
            said += chunk
            if not chunk:
                break
        else:
            raise LocalError(f"your gateway did not start within {START_SECONDS:.0f} seconds", _LOOK)
    finally:
        os.close(ready)
    link = place.connect() if said == READY else None
    if link is None:
        message, _, advice = said.removeprefix(READY).decode("utf-8", "replace").partition("\n")
        raise LocalError(f"your gateway did not start{f': {message}' if message else ''}", advice or _LOOK)
    return link

"""Single keys while a story goes on: nothing waits for them, and the terminal is put back at the end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_LOOK_SECONDS: Final = 0.3


class Listening:
    """The keyboard, if there is one; `next` waits a moment for a key."""

    def __init__(self) -> None:
        self._pressed: asyncio.Queue[str] = asyncio.Queue()
        self.on = False

    def drop(self) -> None:
        """Forget what was pressed before it was asked for."""
        while not self._pressed.empty():
            self._pressed.get_nowait()

    async def next(self) -> str | None:
        """The next key as a small letter, or None after a moment."""
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                return await self._pressed.get()
        except TimeoutError:
            return None

    def read(self) -> None:
        """Take what the terminal has; the end of input is not a key."""
        try:
            found = os.read(sys.stdin.fileno(), 64)
        except OSError:
            found = b""
        if not found:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self.on = False
        for char in found.decode("ascii", "ignore").lower():
            self._pressed.put_nowait(char)


@contextmanager
def listening(*, wanted: bool) -> Iterator[Listening]:
    """Keys from the terminal that this runs on. Without one, and on Windows, the console and commands are left."""
    keys = Listening()
    if not wanted or os.name == "nt" or not sys.stdin.isatty() or not _in_front():
        yield keys
        return
    import termios
    import tty

    fd, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(fd)
    # Keys arrive one by one and are not echoed; Ctrl-C stays what it is.
    tty.setcbreak(fd, termios.TCSANOW)
    loop.add_reader(fd, keys.read)
    keys.on = True
    try:
        yield keys
    finally:
        loop.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSANOW, before)


def _in_front() -> bool:
    """Whether the terminal is ours to read: a job in the background that tries is stopped by the system."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False

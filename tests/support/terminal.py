"""A real command on a real terminal, seen as a person sees it: what is on the screen, and keys pressed one by one."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from support.fork_server import CALLGATE, Forked

_AGAIN_SECONDS: Final = 2.0
_SECONDS: Final = 30.0
# Ctrl-C reaches only who has the terminal as its own.
_TAKE_TERMINAL: Final = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)
# Colours and the like; everything else that begins with an escape stays in the text, for a test to find.
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
# A line that is taken back stays here: it was shown.
_ERASED: Final = re.compile(r"\r\x1b\[2K")


class Terminal:
    """A process whose standard input, output and error are a terminal of this size."""

    def __init__(
        self, argv: Sequence[str], *, columns: int = 100, rows: int = 40, env: Mapping[str, str] | None = None
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(theirs)
        own = {"TERM": "xterm-256color", **(env or {})}
        # A forked program takes the terminal by itself.
        start, first = (
            (Forked, []) if argv[0] == CALLGATE else (subprocess.Popen, [sys.executable, "-c", _TAKE_TERMINAL])
        )
        self.process: subprocess.Popen[bytes] = start(
            [*first, *argv],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | own,
            start_new_session=True,
        )
        self._theirs = theirs
        self.raw = ""
        self._at = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(_SECONDS)
        os.close(self._ours)
        os.close(self._theirs)

    @property
    def text(self) -> str:
        """Everything that was shown, without colours."""
        return _STYLE.sub("", _ERASED.sub("\n", self.raw.replace("\r\n", "\n")))

    def expect(self, *what: str, seconds: float = _SECONDS) -> str:
        """Wait until this, or one of these, is shown, behind what was waited for last; what was shown up to there."""
        deadline = time.monotonic() + seconds
        while not (found := [at + len(one) for one in what if (at := self.text.find(one, self._at)) >= 0]):
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{what!r} was never shown; this was:\n{self.text[self._at :]}")
        shown = self.text[self._at : min(found)]
        self._at = min(found)
        return shown

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self, seconds: float = _SECONDS) -> int:
        """Wait for the end of the process; its exit code."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"it did not end; it showed:\n{self.text[-2000:]}")
            self._read(0.1)
        while self._read(0.1):
            pass
        return self.process.returncode

    def interrupt(self) -> int:
        """Ctrl-C until the process ends; its exit code.

        One that comes between a question and the reading of its answer is only noticed with the next key.
        """
        deadline = time.monotonic() + _SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            self.press("\x03")
            again = time.monotonic() + _AGAIN_SECONDS
            while self.process.poll() is None and time.monotonic() < again:
                self._read(0.1)
        return self.end()

    @property
    def restored(self) -> bool:
        """Whether the terminal is as it was at the beginning."""
        return termios.tcgetattr(self._theirs) == self.before

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, min(seconds, 0.5)))
        if ready:
            self.raw += os.read(self._ours, 65_536).decode("utf-8", "replace")
            return True
        return seconds > 0.1 and self.process.poll() is None

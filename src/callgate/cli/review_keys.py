"""One key at a time from a terminal, and lines in between. What was typed before a screen was there is dropped."""

from __future__ import annotations

import os
import sys
from typing import Any, Final, Self

# Space, enter, and down.
NEXT: Final = "next"
OTHER: Final = "other"
END: Final = "end"
_LINE: Final = 4096
_PAGE_DOWN: Final = (b"\x1b[B", b"\x1b[6~", b"\x1bOB")
_ESCAPE_SECONDS: Final = 0.05
_LONGEST: Final = 8


class Keys:
    """The keyboard of the terminal that the command runs on. Whatever happens, the terminal is put back at the end."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._before: Any = None

    def __enter__(self) -> Self:
        if os.name != "nt":
            import termios

            self._before = termios.tcgetattr(self._fd)
        return self

    def __exit__(self, *_: object) -> None:
        self._put_back()

    def drop(self) -> None:
        """Forget what was typed until now: nobody approves a text that was not there yet."""
        if os.name == "nt":
            import msvcrt

            while msvcrt.kbhit():  # type: ignore[attr-defined,unused-ignore]
                msvcrt.getwch()  # type: ignore[attr-defined,unused-ignore]
            return
        import termios
        import tty

        # Keys arrive one by one and are not echoed; Ctrl-C stays what it is.
        tty.setcbreak(self._fd, termios.TCSANOW)
        termios.tcflush(self._fd, termios.TCIFLUSH)

    def key(self) -> str:
        """The next key, as a letter or one of the names above."""
        if os.name == "nt":
            import msvcrt

            return _named(msvcrt.getwch().encode("utf-8", "replace"))  # type: ignore[attr-defined,unused-ignore]
        return _named(_pressed(self._fd))

    def line(self) -> str:
        """A line that the person types and can correct; empty at the end of input."""
        if os.name == "nt":
            return input()
        self._put_back()
        # The terminal hands over whole lines now; Python's own buffer would keep what follows from `key`.
        return os.read(self._fd, _LINE).decode("utf-8", "replace").strip()

    def _put_back(self) -> None:
        if self._before is not None:
            import termios

            termios.tcsetattr(self._fd, termios.TCSANOW, self._before)


def _pressed(fd: int) -> bytes:
    import select

    found = os.read(fd, 1)
    # An arrow or a function key: several bytes that belong together.
    while found.startswith(b"\x1b") and len(found) < _LONGEST and select.select([fd], [], [], _ESCAPE_SECONDS)[0]:
        more = os.read(fd, 1)
        found += more
        if not more or more == b"~" or (more.isalpha() and found != b"\x1bO"):
            break
    return found


def _named(pressed: bytes) -> str:
    if pressed in (b"", b"\x04"):
        return END
    if pressed == b"\x03":
        raise KeyboardInterrupt
    if pressed in (b"\r", b"\n", b" ", *_PAGE_DOWN):
        return NEXT
    if len(pressed) == 1 and 0x21 <= pressed[0] < 0x7F:
        return chr(pressed[0]).lower()
    return OTHER

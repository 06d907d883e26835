"""A server with every ability of the protocol, for tests to put behind the gateway; see __main__."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, Literal

_TESTS: Final = str(Path(__file__).resolve().parents[2])
_RUN: Final = f"import sys; sys.path.insert(0, {_TESTS!r}); from support.everything.__main__ import main; main()"


def everything_argv(way: Literal["stdio", "http"], marks: Path) -> list[str]:
    """The command that starts it; works in any directory and with a bare environment."""
    return [sys.executable, "-c", _RUN, f"--{way}", "--marks", str(marks)]

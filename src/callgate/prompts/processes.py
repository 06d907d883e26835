"""The processes of this machine: which one started which, of what program, on what terminal."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

_DEEPEST: Final = 64
_ENVIRON_BYTES: Final = 256 * 1024
_PS: Final = ("ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "tty=", "-o", "lstart=", "-o", "comm=")


class Process(NamedTuple):
    """`started` tells it from a later one of the same number. `terminal` is empty for one that has none."""

    pid: int
    parent: int
    started: str
    program: str
    terminal: str = ""

    def is_same(self, other: Process) -> bool:
        return self.pid == other.pid and self.started == other.started


Look: TypeAlias = Callable[[int], Process | None]


def snapshot() -> Look:
    """A look at the processes as they are now."""
    return _of_linux if sys.platform == "linux" else _parse(_listed()).get


def chain(look: Look, pid: int) -> list[Process]:
    """A process, who started it, and so on up."""
    found: list[Process] = []
    while pid > 0 and len(found) < _DEEPEST and (process := look(pid)) is not None:
        found.append(process)
        pid = process.parent
    return found


def variables(pid: int) -> frozenset[str]:
    """The names in the environment that a process was started with; none where the system does not show them."""
    with contextlib.suppress(OSError), Path(f"/proc/{pid}/environ").open("rb") as file:
        pairs = file.read(_ENVIRON_BYTES).split(b"\0")
        return frozenset(pair.partition(b"=")[0].decode("utf-8", "replace") for pair in pairs)
    return frozenset()


def _of_linux(pid: int) -> Process | None:
    try:
        # proc_pid_stat(5): the name may hold anything, a bracket as well.
        name, _, rest = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")
        words = rest.split()
        parent, terminal, started = int(words[1]), words[4], words[19]
    except (OSError, ValueError, IndexError):
        return None
    try:
        # The program of a client that was updated while it runs is deleted, and is still the same.
        program = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")  # noqa: PTH115 - a name, no path to follow
    except OSError:
        program = name.partition("(")[2]
    return Process(pid, parent, started, program, "" if terminal == "0" else terminal)


def _listed() -> str:
    try:
        return subprocess.run(_PS, capture_output=True, text=True, timeout=1, check=True, errors="replace").stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _parse(listed: str) -> dict[int, Process]:
    """What `ps` says: number, parent, terminal, five words of time, program."""
    found: dict[int, Process] = {}
    for line in listed.splitlines():
        words = line.split(None, 8)
        if len(words) == 9 and words[0].isdigit() and words[1].isdigit():
            terminal = "" if words[2].strip("?-") == "" else words[2]
            pid = int(words[0])
            found[pid] = Process(pid, int(words[1]), " ".join(words[3:8]), words[8], terminal)
    return found

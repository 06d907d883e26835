"""Starting, watching and ending the processes under measurement. All of them listen on loopback only."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped,unused-ignore]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CACHE = ROOT / ".cache" / "bench"


class Unavailable(Exception):
    """A subject that cannot be measured here; the message is the line shown in the table."""


@dataclass(frozen=True, slots=True)
class Running:
    """A started HTTP subject. `pid` is the process whose CPU counts (None: nothing stands in the middle)."""

    url: str
    pid: int | None = None
    store_pid: int | None = None
    tool: str = "echo"
    # The seed of the key that requests have to be signed with, in hex; empty where nobody signs.
    key: str = ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "NO_PROXY": "127.0.0.1,localhost", "PYTHONUNBUFFERED": "1", **(extra or {})}


def spawn(
    stack: ExitStack, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """Starts a process that writes to `log` and is ended with the stack, whatever happens in between."""
    output = stack.enter_context(log.open("wb"))
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=child_environment(env), cwd=cwd or ROOT
    )
    stack.callback(end, process)
    return process


def end(process: subprocess.Popen[bytes], grace: float = 5.0) -> None:
    """Ends a process and whatever it started, gently first. Safe to call twice."""
    family = _family(process.pid) if process.poll() is None else []
    for member in family:
        _quietly(member.terminate)
    _, alive = psutil.wait_procs(family, timeout=grace)
    for member in alive:
        _quietly(member.kill)
    process.wait()


def _family(pid: int) -> list[psutil.Process]:
    try:
        head = psutil.Process(pid)
        return [head, *head.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _quietly(action: Callable[[], object]) -> None:
    with suppress(psutil.NoSuchProcess):
        action()


def cpu_seconds(pid: int | None, leave_out: str = "") -> float:
    """User and system time of a process, its threads and its children, less those that run the script `leave_out`."""
    total = 0.0
    for member in _family(pid) if pid else []:
        try:
            if leave_out and any(leave_out in part for part in member.cmdline()[1:2]):
                continue
            times = member.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def rss_bytes(pid: int) -> int:
    total = 0
    for member in _family(pid):
        try:
            total += member.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def wait_listening(process: subprocess.Popen[bytes], port: int, log: Path, seconds: float = 30.0) -> None:
    def connects() -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex(("127.0.0.1", port)) == 0

    _wait(process, connects, log, seconds)


def wait_ok(process: subprocess.Popen[bytes], url: str, log: Path, seconds: float = 30.0) -> None:
    """Waits until a GET of `url` answers 200."""

    def answers() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=2.0) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    _wait(process, answers, log, seconds)


def _wait(process: subprocess.Popen[bytes], ready: Callable[[], bool], log: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Unavailable(f"ended at start ({process.returncode}): {last_line(log)}")
        if ready():
            return
        time.sleep(0.05)
    raise Unavailable(f"not ready after {seconds:.0f} s: {last_line(log)}")


def last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:160] if lines else "it wrote nothing"

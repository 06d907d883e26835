"""Starts `callgate` and programs of tests again and again, each in a process of its own, without paying for their imports
each time: they are forked from a process that has done nothing but import.

For the process and its pipes nothing else is different, but for its parent: where that or the script itself matters, a
test takes subprocess.Popen. Run as a program, this is the process that forks: `python fork_server.py SOCKET`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

CALLGATE: Final = str(Path(sys.executable).with_name("callgate"))
_MOST_BYTES: Final = 200_000
# Loaded beside all modules of callgate: what these import only when they first need it.
_LOADED: Final = (
    "alembic.config",
    "google.protobuf.text_format",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "uvicorn.lifespan.off",
    "uvloop",
)


# ---- as a test speaks to it ----


class Forked(subprocess.Popen[Any]):
    """`callgate WORDS` or `python PROGRAM WORDS`, forked with its imports done."""

    _status: int

    def _execute_child(self, args: Sequence[str], *more: Any) -> None:
        """In the place of fork and exec; the names of `more` are those of subprocess.Popen."""
        _executable, _preexec, _close, _pass, cwd, env, _info, _flags, _shell, *pipes = more[:15]
        given = [os.fspath(one) for one in args]
        wanted = {
            "argv": given if given[0] == CALLGATE else given[1:],
            "cwd": os.fspath(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            # start_new_session
            "session": bool(more[20]),
        }
        ends = [own if own != -1 else number for number, own in enumerate((pipes[0], pipes[3], pipes[5]))]
        self._status, status = os.pipe()
        socket.send_fds(_nursery(), [json.dumps(wanted).encode()], [*ends, status])
        os.close(status)
        self.pid = int(_line(self._status))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _internal_poll(self, _deadstate: object = None) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                self._take(os.WNOHANG)
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode

    def _take(self, flags: int) -> None:
        if self.returncode is None and self._try_wait(flags)[0] == self.pid:
            self._handle_exitstatus(self._ended)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """What os.waitpid tells the parent, who here tells us."""
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        self._ended = int(_line(self._status) or signal.SIGKILL)
        os.close(self._status)
        return self.pid, self._ended


def run(argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    ends = subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE
    with Forked(argv, stdin=ends[0], stdout=ends[1], stderr=ends[2], text=True, env=env) as process:
        try:
            out, err = process.communicate(timeout=60)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(list(argv), process.returncode, out, err)


# Ended by a signal or by their pipes: for a shell they are the process itself.
_ITSELF: Final = ("demo", "serve", "watch", "wrap")
_ORDER: Final = "CALLGATE_TESTS_NURSERY"
_COMMAND: Final = """#!{python} -IS
import os, sys
environ = dict(os.environ)
orders, at = map(int, environ[{order!r}].split())
def real():
    os.execve({callgate!r}, [{callgate!r}, *sys.argv[1:]], environ)
if sys.argv[1:2] and sys.argv[1] in {real!r}:
    real()
try:
    if os.fstat(orders).st_ino != at:
        real()
except OSError:
    # Whoever started this passes no descriptors on.
    real()
import json, socket
told, status = os.pipe()
wanted = {{"argv": [{callgate!r}, *sys.argv[1:]], "cwd": os.getcwd(), "env": environ}}
socket.send_fds(socket.socket(fileno=orders), [json.dumps(wanted).encode()], [0, 1, 2, status])
os.close(status)
with open(told) as lines:
    _, ended = lines
sys.exit(os.waitstatus_to_exitcode(int(ended)))
"""


def on_path(folder: Path) -> tuple[dict[str, str], list[int]]:
    """A `callgate` for scripts of a shell, in a folder to be put on their PATH: what to add to the environment of the
    shell, and the descriptors that it has to be given (`pass_fds`)."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "callgate"
    script.write_text(
        _COMMAND.format(python=sys.executable, order=_ORDER, real=_ITSELF, callgate=CALLGATE), encoding="utf-8"
    )
    script.chmod(0o755)
    orders = _nursery().fileno()
    return {_ORDER: f"{orders} {os.fstat(orders).st_ino}"}, [orders]


def _nursery() -> socket.socket:
    """Where the process that forks takes orders; there is one for each worker."""
    with _one:
        return _start()


_one: Final = threading.Lock()


@cache
def _start() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
    argv = [sys.executable, __file__, str(theirs.fileno())]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
    theirs.close()
    # It ends when this end is shut, whoever else may still hold it.
    atexit.register(process.wait)
    atexit.register(ours.close)
    atexit.register(ours.shutdown, socket.SHUT_RDWR)
    return ours


def _line(descriptor: int) -> bytes:
    found = b""
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        found += byte
    return found


# ---- the process that forks ----


def _fork_forever(orders: socket.socket) -> list[str]:
    """Comes back only in the process of a program, with its command line."""
    while True:
        data, ends, _, _ = socket.recv_fds(orders, _MOST_BYTES, 4)
        if not data:
            sys.exit()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            pid = os.fork()
            if pid == 0:
                return _become(json.loads(data), ends)
            _tell(pid, ends.pop(), [*ends, orders.fileno(), 0, 1, 2])
        for one in ends:
            os.close(one)


def _tell(pid: int, told: int, unused: Sequence[int]) -> None:
    """The program's parent: says who it is, and in the end how it ended."""
    for one in unused:
        os.close(one)
    os.write(told, b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    try:
        os.write(told, b"%d\n" % status)
    finally:
        os._exit(0)


def _become(wanted: dict[str, Any], ends: Sequence[int]) -> list[str]:
    for number, one in enumerate(ends[:3]):
        os.dup2(one, number)
    os.closerange(3, max(*ends, 64) + 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if wanted.get("session"):
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(wanted["env"])
    time.tzset()
    os.chdir(wanted["cwd"])
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for the life of the process
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    argv: list[str] = wanted["argv"]
    return argv


def _load() -> None:
    import gc
    from contextlib import redirect_stdout
    from importlib import import_module
    from io import StringIO
    from pkgutil import walk_packages

    import callgate as project
    from callgate.cli import run as callgate
    from callgate.inspection import all_rules

    parts = [one.name for one in walk_packages(project.__path__, "callgate.")]
    for name in (*parts, *_LOADED):
        # Those are no modules to import, but programs.
        if not name.startswith("callgate.store.migrations.") and not name.endswith("__main__"):
            import_module(name)
    all_rules()
    with redirect_stdout(StringIO()):
        # What the command line itself loads when it is first used.
        callgate(["serve", "--help"])
        callgate(["config", "show", "-c", os.devnull])
    # What is here now stays: no program has to look through it again.
    gc.collect()
    gc.freeze()


def main() -> None:
    import runpy

    # As for the script; nothing here may stand in for a module of another name.
    sys.path[0] = str(Path(CALLGATE).parent)
    _load()
    # Whoever waits for a program is a process of its own, which nobody waits for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.argv = _fork_forever(socket.socket(fileno=int(sys.argv[1])))
    if sys.argv[0] != CALLGATE:
        sys.path[0] = str(Path(__file__).parents[1])
        runpy.run_path(sys.argv[0], run_name="__main__")
        return
    from callgate.cli import main as callgate

    _end_with(callgate)


def _end_with(program: Callable[[], None]) -> None:
    """Ends as the interpreter does, but for taking everything apart that was loaded: that is a tenth of a second."""
    status = 1
    try:
        program()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for one in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            one.flush()
    os._exit(status)


if __name__ == "__main__":
    main()

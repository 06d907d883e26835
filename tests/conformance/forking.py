"""Starts the same few programs again and again, each in a process of its own, without paying for their imports each time.

A gateway starts its servers by a command line. The one that `starter` gives asks a process that has imported everything
to fork, and hands its standard input and output on. Run as a program, this is both sides:
`python forking.py serve NAME` and `python forking.py ask NAME PROGRAM...`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence

_MOST_BYTES = 200_000
_LOADED = (
    "anyio._backends._asyncio",
    "callgate.cli.serve",
    "callgate.app.event_loop",
    "callgate.app.wrap",
    "callgate.store",
    "mcp.server.lowlevel",
    "mcp.server.stdio",
    "mcp.server.streamable_http_manager",
    "mcp.server.subscriptions",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "starlette.applications",
    "uvicorn",
    "uvloop",
)


@contextlib.contextmanager
def starter() -> Iterator[list[str]]:
    """The beginning of a command line: a script and its words come behind it."""
    name = secrets.token_hex(8)
    command = [sys.executable, __file__, "serve", name]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            yield [sys.executable, "-I", "-S", __file__, "ask", name]
        finally:
            process.terminate()


def _ask(name: str, argv: Sequence[str]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.connect(f"\0{name}")
        wanted = {"argv": argv, "cwd": os.getcwd(), "env": dict(os.environ)}  # noqa: PTH109 - few imports
        socket.send_fds(asking, [json.dumps(wanted).encode()], [0, 1, 2])
        nothing = os.open(os.devnull, os.O_RDWR)
        for one in (0, 1):
            os.dup2(nothing, one)
        # The other end is closed when the program has ended.
        asking.recv(1)


def _serve(name: str) -> list[str]:
    """Comes back only in the process of a program, with its command line."""
    from importlib import import_module

    for one in _LOADED:
        import_module(one)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{name}")
        listener.listen(128)
        print("ready", flush=True)
        while True:
            asking, _ = listener.accept()
            with asking:
                data, ends, _, _ = socket.recv_fds(asking, _MOST_BYTES, 3)
                if os.fork() == 0:
                    asking.detach()
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    break
                for one in ends:
                    os.close(one)
    wanted = json.loads(data)
    for number, one in enumerate(ends):
        os.dup2(one, number)
        os.close(one)
    os.environ.clear()
    os.environ.update(wanted["env"])
    os.chdir(wanted["cwd"])
    argv: list[str] = wanted["argv"]
    return argv


def main() -> None:
    side, name, *argv = sys.argv[1:]
    if side == "ask":
        _ask(name, argv)
        return
    import runpy

    sys.argv = _serve(name)
    sys.path[0] = os.path.dirname(sys.argv[0])  # noqa: PTH120 - few imports
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()

"""The subjects of the HTTP benchmark: a name, a label for the table, and how to start it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import contextforge
import gateway
from environments import FASTMCP, Say, ensure
from processes import HERE, Running, free_port, spawn, wait_listening
from wire import HANDSHAKE, MODERN


@dataclass(frozen=True, slots=True)
class Bench:
    """What every subject is given: the echo server's address, a scratch folder, and a way to report progress."""

    upstream: str
    scratch: Path
    say: Say


Start = Callable[[ExitStack, Bench], Running]


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    label: str
    start: Start
    eras: tuple[str, ...] = (HANDSHAKE,)


def start_echo(stack: ExitStack, scratch: Path) -> str:
    port, log = free_port(), scratch / "echo.log"
    process = spawn(stack, [sys.executable, str(HERE / "echo_server.py"), "--port", str(port)], log)
    wait_listening(process, port, log)
    return f"http://127.0.0.1:{port}/mcp"


def _direct(_: ExitStack, bench: Bench) -> Running:
    return Running(url=bench.upstream)


def _script(name: str, script: str, *arguments: str, python: str = sys.executable) -> Start:
    def start(stack: ExitStack, bench: Bench) -> Running:
        port, log = free_port(), bench.scratch / f"{name}.log"
        command = [python, str(HERE / script), "--port", str(port), "--upstream", bench.upstream, *arguments]
        process = spawn(stack, command, log)
        wait_listening(process, port, log, seconds=60)
        return Running(url=f"http://127.0.0.1:{port}/mcp", pid=process.pid)

    return start


def _fastmcp(name: str, *arguments: str) -> Start:
    def start(stack: ExitStack, bench: Bench) -> Running:
        ensure(FASTMCP, bench.say)
        python = str(FASTMCP.program("python"))
        return _script(name, "fastmcp_proxy.py", *arguments, python=python)(stack, bench)

    return start


def _callgate(name: str, *, on_postgres: bool, workers: int = 1) -> Start:
    def start(stack: ExitStack, bench: Bench) -> Running:
        return gateway.serve(stack, bench.scratch / name, bench.upstream, on_postgres=on_postgres, workers=workers)

    return start


def _contextforge(stack: ExitStack, bench: Bench) -> Running:
    return contextforge.serve(stack, bench.scratch / "contextforge", bench.upstream, bench.say)


BOTH = (HANDSHAKE, MODERN)
SUBJECTS = (
    Subject("direct", "direct (no middle)", _direct, BOTH),
    Subject("relay", "bare aiohttp relay, uvloop", _script("relay", "relay.py"), BOTH),
    Subject("relay-asyncio", "bare aiohttp relay, asyncio", _script("relay-asyncio", "relay.py", "--loop", "asyncio")),
    Subject("callgate-sqlite", "Callgate, audit, SQLite", _callgate("callgate-sqlite", on_postgres=False), BOTH),
    Subject("callgate-workers", "Callgate, SQLite, two workers", _callgate("workers", on_postgres=False, workers=2)),
    Subject("callgate-postgres", "Callgate, audit, PostgreSQL", _callgate("callgate-postgres", on_postgres=True), BOTH),
    Subject("fastmcp", "FastMCP proxy, default", _fastmcp("fastmcp"), BOTH),
    Subject("fastmcp-shared", "FastMCP proxy, shared client", _fastmcp("fastmcp-shared", "--shared"), BOTH),
    Subject("contextforge", "ContextForge", _contextforge),
)

"""A server that is started by a command and spoken to over its pipes."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from callgate.errors import Reason, UpstreamError
from callgate.gateway.lines import LineCutter, TooLarge

log = logging.getLogger("callgate.process")

_CHUNK: Final = 256 * 1024
_WRITE_BUFFER: Final = 1024 * 1024
_GRACE: Final = 2.0
_ERROR_LINE: Final = 2000
_PR_SET_PDEATHSIG: Final = 1

OnLine = Callable[[bytes], Awaitable[None]]
OnTooLarge = Callable[[TooLarge], None]


# Loaded before any fork: the child of a threaded process must not import or load anything.
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Linux: a child is ended by the kernel when the gateway is killed without a chance to clean up."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """One running command, in a process group of its own so that all of it can be ended."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, max_bytes: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.name = name
        self.pid = process.pid
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self.max_bytes = max_bytes
        self._tasks: list[asyncio.Task[None]] = []
        self.ended = asyncio.Event()

    @classmethod
    async def start(
        cls, name: str, argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, max_bytes: int
    ) -> Process:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
                preexec_fn=die_with_parent if sys.platform == "linux" else None,
            )
        except (OSError, ValueError) as error:
            raise UpstreamError(Reason.UPSTREAM_START_FAILED, f"cannot start {argv[0]!r}: {error}") from None
        assert process.stdin is not None
        with contextlib.suppress(RuntimeError):  # it has ended already: the first message to it will say so
            process.stdin.transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        return cls(name, process, max_bytes)

    def listen(self, on_line: OnLine, on_too_large: OnTooLarge) -> None:
        """Begin to hand the process's messages on, one after the other; of one over the limit, what is known of it."""
        reading = asyncio.create_task(self._read(on_line, on_too_large))
        self._tasks = [reading, asyncio.create_task(self._log_errors())]

    async def send(self, line: bytes) -> None:
        """Write one line; waits while the process does not read. A line is never sent in part."""
        try:
            self.post(line)
            await self._stdin.drain()
        except (ConnectionError, RuntimeError):
            raise UpstreamError(Reason.UPSTREAM_CLOSED, "the server's process has ended") from None

    def post(self, line: bytes) -> None:
        """Write one line without waiting; refused where too much is unread already."""
        unread = self._stdin.transport.get_write_buffer_size()
        if unread > 2 * self.max_bytes:
            raise UpstreamError(Reason.UPSTREAM_TIMEOUT, "the server does not read what it is sent")
        self._stdin.write(line)

    async def stop(self, grace: float = _GRACE) -> None:
        """End it as MCP asks (lifecycle, shutdown): close its input, then SIGTERM, then SIGKILL, to the whole group."""
        self._stdin.close()
        for step in (None, signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
            if step is not None:
                self._signal_group(step)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._exited()
                    break
        # Whatever the server itself started must not outlive it.
        self._signal_group(getattr(signal, "SIGKILL", signal.SIGTERM))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - a grandchild may hold the pipes

    async def _exited(self) -> None:
        # Not wait(): that also waits for the pipes to close, which a surviving grandchild may keep open.
        while self._process.returncode is None:  # noqa: ASYNC110 - asyncio has no event for this
            await asyncio.sleep(0.01)

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self.pid, number)

    async def _read(self, on_line: OnLine, on_too_large: OnTooLarge) -> None:
        cutter = LineCutter(self.max_bytes)
        try:
            while chunk := await self._stdout.read(_CHUNK):
                for line in cutter.feed(chunk):
                    if isinstance(line, TooLarge):
                        log.warning("message dropped: too large", extra={"fields": {"server": self.name}})
                        on_too_large(line)
                    elif line.strip():
                        await on_line(line)
        except ConnectionError:
            pass
        finally:
            self.ended.set()

    async def _log_errors(self) -> None:
        """What the server says on stderr goes to the gateway's log, bounded a line."""
        assert self._process.stderr is not None
        cutter = LineCutter(_ERROR_LINE)
        while chunk := await self._process.stderr.read(65536):
            for line in cutter.feed(chunk):
                text = (
                    "(long line left out)" if isinstance(line, TooLarge) else line.decode("utf-8", "replace").rstrip()
                )
                log.info("server says", extra={"fields": {"server": self.name, "pid": self.pid, "stderr": text}})

"""The server of `callgate wrap NAME -- CMD`: the command itself, behaving as if nothing stood in front of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from callgate.config import ServerSection
from callgate.errors import Reason, UpstreamError
from callgate.jsonrpc import Message, MessageKind, RequestId, error_reply, parts, peek
from callgate.local.wrap import FORWARDED
from callgate.pipeline.dispatcher import Admitted, Deliver
from callgate.transport.lines import LineCutter, LineTooLarge, LineWriter, one_line
from callgate.transport.upstream.process import die_with_parent

log = logging.getLogger("callgate.wrap")

_CHUNK: Final = 256 * 1024
_LAST_WORDS: Final = 0.5


class ChildProcess(Protocol):
    """The command's process: its pipes, and its end."""

    @property
    def stdin(self) -> asyncio.StreamWriter | None: ...

    @property
    def stdout(self) -> asyncio.StreamReader | None: ...

    async def wait(self) -> int: ...


class WrappedCommand:
    """The messages of a command. `start` is how its process comes about."""

    def __init__(self, start: Callable[[], Awaitable[ChildProcess]], max_bytes: int) -> None:
        self._start = start
        self._max = max_bytes
        self._process: ChildProcess | None = None
        self._stdin: LineWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: set[RequestId] = set()
        self._chunks = 0
        self._listening = False

    async def start(self, deliver: Deliver) -> None:
        self._process = await self._start()
        assert self._process.stdin is not None
        self._stdin = LineWriter(self._process.stdin)
        self._reading = asyncio.create_task(self._read(deliver))

    async def send(self, entry: Admitted) -> None:
        assert self._stdin is not None
        sent = entry.message
        if isinstance(sent, Message) and sent.kind is MessageKind.REQUEST and sent.id is not None:
            self._waiting.add(sent.id)
        else:
            for message in entry.messages:
                self._note(message)
        # A command that no longer reads is about to end; its exit status tells the client.
        await self._stdin.write(one_line(sent.raw))

    async def send_eof(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._stdin is not None
        self._stdin.flush()
        self._process.stdin.close()

    async def finish(self) -> int:
        """Wait for the command and everything it still has to say; negative for the signal that ended it."""
        assert self._process is not None
        assert self._reading is not None
        exited = asyncio.create_task(self._process.wait())
        await asyncio.wait({self._reading, exited}, return_when=asyncio.FIRST_COMPLETED)
        if exited.done() and not await self._said_everything(self._reading):
            self._reading.cancel()
        else:
            await self._reading
        return await exited

    async def _said_everything(self, reading: asyncio.Task[None]) -> bool:
        """False where what the command left running holds its stdout open, and says nothing: it may stay for good."""
        while not reading.done():
            before = self._chunks
            await asyncio.wait({reading}, timeout=_LAST_WORDS)
            if self._listening and self._chunks == before:
                return False
        return True

    async def _read(self, deliver: Deliver) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        cutter = LineCutter(self._max)
        while chunk := await self._listen(self._process.stdout):
            await deliver([said for line in cutter.feed(chunk) for said in self._noted(line)])
        if rest := cutter.rest():
            await deliver(self._noted(rest))

    def _noted(self, line: bytes | LineTooLarge) -> Sequence[bytes]:
        """What the client is to get of a line; what was answered is waited for no more."""
        if isinstance(line, LineTooLarge):
            log.warning("message dropped: too large", extra={"fields": {"limit": self._max}})
            too_large = UpstreamError(Reason.UPSTREAM_TOO_LARGE)
            return [error_reply(rpc_id, too_large) for rpc_id in self._lost(line)]
        if self._waiting:
            for part in (line,) if line[:1] == b"{" else parts(line) or (line,):
                seen = peek(part)
                if seen is not None and seen.is_reply and seen.id is not None:
                    self._waiting.discard(seen.id)
        return (line,)

    def _lost(self, line: LineTooLarge) -> list[RequestId]:
        """The requests that a reply which was not kept leaves unanswered: all, if nobody can tell whose it was."""
        named = line.names()
        if not named.reply:
            return []
        lost = [rpc_id for rpc_id in self._waiting if named.id is None or rpc_id == named.id]
        self._waiting.difference_update(lost)
        return lost

    def _note(self, message: Message) -> None:
        if message.kind is MessageKind.REQUEST and message.id is not None:
            self._waiting.add(message.id)
        elif message.method == "notifications/cancelled" and isinstance(message.params, dict):
            # It need not be answered any more, nor said to be lost.
            wanted = message.params.get("requestId")
            if isinstance(wanted, (int, str)):
                self._waiting.discard(wanted)

    async def _listen(self, stdout: asyncio.StreamReader) -> bytes:
        self._listening = True
        try:
            return await stdout.read(_CHUNK)
        finally:
            self._listening = False
            self._chunks += 1


async def start_command(argv: Sequence[str], server: ServerSection | None) -> ChildProcess:
    """Start it here. Given on the command line, its environment, folder, stderr and process group are the client's."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=None if server is None else server.environment(os.environ),
            cwd=None if server is None else server.cwd,
            preexec_fn=die_with_parent if sys.platform == "linux" else None,
        )
    except (OSError, ValueError) as error:
        raise UpstreamError(Reason.UPSTREAM_START_FAILED, f"cannot start {argv[0]!r}: {error}") from None
    _forward_signals(process)
    return process


def _forward_signals(process: asyncio.subprocess.Process) -> None:
    def pass_on(number: int | None) -> None:
        if number is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    loop = asyncio.get_running_loop()
    for name in FORWARDED:
        number = getattr(signal, name, None)
        if number is None:
            continue
        # On a terminal, Ctrl-C reaches the whole foreground group: the command has it already.
        shared = name in ("SIGINT", "SIGQUIT") and os.isatty(sys.stdin.fileno())
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, pass_on, None if shared else number)

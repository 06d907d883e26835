"""A server that is started by a command: its process, and the exchanges that share its pipes."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from callgate.errors import MessageError, Reason, Refused, UpstreamError
from callgate.jsonrpc import (
    Message,
    MessageKind,
    Peek,
    RequestId,
    error_reply,
    member_span,
    parts,
    peek,
    replace_member,
)
from callgate.pipeline.dispatcher import Admitted
from callgate.transport.lines import LineCutter, LineTooLarge, one_line

log = logging.getLogger("callgate.process")

_CHUNK: Final = 256 * 1024
_WRITE_BUFFER: Final = 1024 * 1024
_GRACE: Final = 2.0
_ERROR_LINE: Final = 2000
_PR_SET_PDEATHSIG: Final = 1

OnLine = Callable[[bytes], Awaitable[None]]
OnTooLarge = Callable[[LineTooLarge], None]


# Loaded before any fork: the child of a threaded process must not import or load anything.
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Linux: a child is ended by the kernel when the gateway is killed without a chance to clean up."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class ServerProcess:
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
    ) -> ServerProcess:
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
                    if isinstance(line, LineTooLarge):
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
                    "(long line left out)"
                    if isinstance(line, LineTooLarge)
                    else line.decode("utf-8", "replace").rstrip()
                )
                log.info("server says", extra={"fields": {"server": self.name, "pid": self.pid, "stderr": text}})


link_log = logging.getLogger("callgate.link")

_BOX_MAX: Final = 2000
# What may wait for one client: two messages of the largest size, and a burst of smaller ones where that is small.
_BOX_MESSAGES: Final = 2
_BOX_BURST: Final = 4 * 1024 * 1024
_TOO_MUCH: Final = "the server sends more ahead of its answer than the client takes; the rest was dropped"
_CANCEL_GRACE: Final = 2.0
_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_SUBSCRIPTION_PATH: Final = ("params", "_meta", _SUBSCRIPTION)
_PROGRESS_PATH: Final = ("params", "progressToken")
# Told of every message of the server's own accord.
Hear = Callable[[bytes], None]
_decode_id: Final = msgspec.json.Decoder(int | str).decode
_encode: Final = msgspec.json.Encoder().encode


class Mailbox:
    """What the process sends for one exchange, in order; `None` ends it. Bounded in messages and in bytes."""

    def __init__(self, entry: Admitted, most_bytes: int, *, own: bool = False) -> None:
        self.entry = entry
        # Of the gateway itself: nothing but its reply is meant for it.
        self.own = own
        self.failure: UpstreamError | None = None
        self.waiting: set[RequestId] = {
            m.id for m in entry.messages if m.kind is MessageKind.REQUEST and m.id is not None
        }
        self.tokens = {token for m in entry.messages if (token := _token(m)) is not None}
        self.cancelled: set[RequestId] = set()
        self.overflow = False
        self.line = b""
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = most_bytes

    def put(self, message: bytes | None) -> bool:
        """Whether it fitted."""
        size = len(message or b"")
        # Once something did not fit nothing follows it: a client must not take a part for the whole.
        self.overflow = self.overflow or self._queue.qsize() >= _BOX_MAX or size > self._room
        if not self.overflow:
            self._room -= size
            self._queue.put_nowait(message)
        return not self.overflow

    def fail(self, failure: UpstreamError) -> None:
        """End it for a reason; what is in it already is still for the client."""
        self.failure = failure
        self.put(None)

    @property
    def given_up(self) -> bool:
        """Whether the client itself has cancelled everything that is still unanswered."""
        return self.waiting <= self.cancelled

    def give_up(self) -> None:
        if self.waiting and self.given_up:
            self.put(None)

    @property
    def complete(self) -> bool:
        """Whether every reply has come and been taken; one that did not fit has not come."""
        return not self.waiting and self._queue.empty()

    async def get(self) -> bytes | None:
        """The next message; None where no more comes, and `failure` may say why."""
        if self.overflow and self._queue.empty():
            self.failure = self.failure or UpstreamError(Reason.OVERLOADED, _TOO_MUCH)
            return None
        message = await self._queue.get()
        self._room += len(message or b"")
        return message


class ProcessLink:
    """One process and the exchanges on it."""

    def __init__(
        self,
        process: ServerProcess,
        *,
        shared: bool,
        unclaimed: Callable[[bytes], None],
        ended: Callable[[], object] = lambda: None,
        hear: Hear | None = None,
    ) -> None:
        self._process = process
        self._shared = shared
        self._unclaimed = unclaimed
        self._ended = ended
        self._hear = hear
        # Set once a request was given up unanswered: the server may go on working on it, and speaking of it.
        self.haunted = False
        self._boxes: list[Mailbox] = []
        self._numbers = itertools.count(1)
        # The id a request has on the process's side → its box and the id its client knows.
        self._asked: dict[RequestId, tuple[Mailbox, RequestId]] = {}
        self._watcher = asyncio.create_task(self._until_ended())
        process.listen(self._on_line, self._on_too_large)

    @property
    def alive(self) -> bool:
        return not self._process.ended.is_set()

    @property
    def busy(self) -> bool:
        return bool(self._boxes)

    async def stop(self) -> None:
        await self._process.stop()
        self._watcher.cancel()
        self._end_all()

    async def send(self, entry: Admitted) -> None:
        """Hand on a message that expects no reply."""
        await self._process.send(one_line(entry.raw))
        for message in entry.messages:
            if message.method == "notifications/cancelled" and isinstance(message.params, dict):
                self._give_up(message.params.get("requestId"))

    def _give_up(self, rpc_id: object) -> None:
        """A cancelled request need not be answered: its exchange ends even if the server stays silent."""
        asked = self._asked.get(rpc_id) if isinstance(rpc_id, (int, str)) else None
        if asked is not None:
            asked[0].cancelled.add(asked[1])
            asyncio.get_running_loop().call_later(_CANCEL_GRACE, asked[0].give_up)

    def open(self, entry: Admitted, *, own: bool = False) -> Mailbox:
        """A box for a request: it receives everything the process says for it, once it is submitted."""
        box = Mailbox(entry, max(_BOX_MESSAGES * self._process.max_bytes, _BOX_BURST), own=own)
        raw = entry.raw
        if self._shared:
            assert isinstance(entry.message, Message)
            assert entry.message.id is not None
            number = next(self._numbers)
            raw = replace_member(raw, ("id",), _encode(number))
            raw = replace_member(raw, ("params", "_meta", "progressToken"), _encode(number))
            self._asked[number] = (box, entry.message.id)
        else:
            for rpc_id in box.waiting:
                if rpc_id in self._asked:
                    raise Refused(Reason.INVALID_REQUEST, "a request with this id is under way in this session")
            self._asked.update({rpc_id: (box, rpc_id) for rpc_id in box.waiting})
        self._boxes.append(box)
        box.line = one_line(raw)
        return box

    async def submit(self, box: Mailbox) -> None:
        """Send the request; waits while the process does not read."""
        line, box.line = box.line, b""
        await self._process.send(line)

    def close(self, box: Mailbox) -> None:
        """Done with a box; what is still unanswered is cancelled at the process."""
        unanswered = self._drop(box)
        if box.line:
            return  # never submitted
        self.haunted = self.haunted or bool(unanswered)
        if not self.alive:
            return
        for number in unanswered:
            notice = {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": number, "reason": "the client closed the connection"},
            }
            with contextlib.suppress(UpstreamError, ConnectionError, RuntimeError):
                self._process.post(_encode(notice) + b"\n")

    def _drop(self, box: Mailbox) -> list[RequestId]:
        if box in self._boxes:
            self._boxes.remove(box)
        numbers = [number for number, (owner, _) in self._asked.items() if owner is box]
        for number in numbers:
            del self._asked[number]
        return numbers

    async def _until_ended(self) -> None:
        await self._process.ended.wait()
        self._end_all()

    def _end_all(self) -> None:
        for box in self._boxes:
            box.put(None)
        self._ended()

    async def _on_line(self, line: bytes) -> None:
        batch = parts(line)
        for part in [line] if batch is None else batch:
            self._route(part)

    def _on_too_large(self, line: LineTooLarge) -> None:
        """A reply that was not kept: who asked is told, or all who wait if nobody can tell whose it was."""
        named = line.names()
        if not named.reply:
            return
        failure = UpstreamError(Reason.UPSTREAM_TOO_LARGE)
        if named.id is not None:
            asked = self._asked.pop(named.id, None)
            if asked is not None:
                asked[0].fail(failure)
            return
        for box in self._boxes:
            if box.waiting:
                box.fail(failure)

    def _route(self, line: bytes) -> None:
        seen = peek(line)
        if seen is None:
            link_log.warning("message dropped: not JSON-RPC", extra={"fields": {"server": self._process.name}})
            return
        if seen.is_reply:
            self._reply(line, seen)
            return
        if self._hear is not None:
            self._hear(line)
        if (owner := self._owner(line, seen)) is not None:
            owner[0].put(owner[1])
        elif not self._shared:
            self._unclaimed(line)
        else:
            link_log.debug("message dropped: belongs to no single client", extra={"fields": {"method": seen.method}})

    def _reply(self, line: bytes, seen: Peek) -> None:
        asked = self._asked.pop(seen.id, None) if seen.id is not None else None
        if asked is None:
            return  # the client left meanwhile, or nobody asked
        box, client_id = asked
        if self._shared:
            try:
                line = replace_member(line, ("id",), _encode(client_id))
                if _SUBSCRIPTION.encode() in line:
                    line = replace_member(line, ("result", "_meta", _SUBSCRIPTION), _encode(client_id))
            except MessageError:
                line = error_reply(client_id, UpstreamError(Reason.UPSTREAM_GARBAGE, "the reply holds a key twice"))
        # A reply that did not fit has not come: its client is told so when it has read what did.
        if box.put(line):
            box.waiting.discard(client_id)

    def _owner(self, line: bytes, seen: Peek) -> tuple[Mailbox, bytes] | None:
        """The box a notification or a request of the server belongs to, and the message as that client knows it."""
        for path in (_PROGRESS_PATH, _SUBSCRIPTION_PATH):
            try:
                span = member_span(line, path)
            except MessageError:  # a key twice: nobody can tell what it says
                return None
            if span is not None:
                return self._named(line, path, span)
        # A client that has its reply may have left the stream: what comes later is not for that stream.
        waiting = [box for box in self._boxes if box.waiting and not box.own]
        if self._shared and (seen.id is not None or self.haunted or len(waiting) != 1):
            return None
        # 2025-11-25: what a server sends while it works on a request goes on that request's stream.
        return (waiting[-1], line) if waiting else None

    def _named(self, line: bytes, path: tuple[str, ...], span: tuple[int, int]) -> tuple[Mailbox, bytes] | None:
        """The box whose progress token or subscription a message names."""
        try:
            value = _decode_id(line[span[0] : span[1]])
        except (msgspec.MsgspecError, UnicodeDecodeError):  # neither a number nor a text that anybody gave
            return None
        if not self._shared:
            for box in self._boxes:
                if box.waiting and value in (box.tokens if path is _PROGRESS_PATH else box.waiting):
                    return box, line
            return None
        asked = self._asked.get(value) if type(value) is int else None
        if asked is None:
            return None
        box, client_id = asked
        original = next(iter(box.tokens), client_id) if path is _PROGRESS_PATH else client_id
        return box, line[: span[0]] + _encode(original) + line[span[1] :]


def _token(message: Message) -> RequestId | None:
    token = message.meta.get("progressToken")
    return token if isinstance(token, (str, int)) else None

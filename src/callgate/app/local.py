"""The socket of a person's gateway: takes over the pipes of wrapped servers, and answers `callgate status` and `stop`.

Only processes of the same user are spoken to. What they say is bounded in size and time, and what they hand over is
looked at before it is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import re
import resource
import secrets
import signal
import socket
import stat
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from callgate._version import __version__
from callgate.app.observations import ServerObservations
from callgate.app.runtime import Runtime
from callgate.app.wrap import WrapOrder, listen, order_place, wrapped_server
from callgate.config import Config, ServerSection
from callgate.errors import CallgateError, ConfigError, place
from callgate.local import wire
from callgate.local.place import LocalError, Place, address, peer
from callgate.prompts.listener import PromptListener, PromptRecipient
from callgate.prompts.processes import Process, snapshot
from callgate.transport.stdio.pipes import StdioFront
from callgate.transport.stdio.session import StdioSession, WrappedServer
from callgate.transport.upstream.wrapped_command import WrappedCommand
from callgate.transport.upstream.wrapped_url import WrappedUrl
from callgate.trust.session_cache import started_by

log = logging.getLogger("callgate.local")

_BACKLOG: Final = 1024
# On a machine where a hundred servers start at once, each of them takes a while to say its next word.
_ORDER_SECONDS: Final = 60.0
_START_SECONDS: Final = 120.0
# Connections that have not said yet what they want; the oldest is dropped for a new one, and tries again.
_WAITING_MAX: Final = 512
WRAPPED_MAX: Final = 1000
# Each wrapped server takes up to so many descriptors here; the store and the console need theirs as well.
_DESCRIPTORS_EACH: Final = 8
_DESCRIPTORS_SPARE: Final = 256
_ACCEPT_PAUSE: Final = 0.2
_CLOSE_SECONDS: Final = 2.0
_TARGET_CHARS: Final = 500
# As long as a link may be good for that somebody was given.
_EXPECTED_SECONDS_MAX: Final = 604_800.0


class LocalListener:
    """One for a gateway process that holds its place. `stop` is how a person ends it."""

    def __init__(
        self,
        runtime: Runtime,
        at: Place,
        *,
        where: Callable[[], str],
        stop: Callable[[], None],
        fresh: Callable[[], Awaitable[None]],
        prompts: PromptListener | None = None,
        gives_way: bool = False,
    ) -> None:
        self._runtime = runtime
        # Takes the configuration as it is written now.
        self._fresh = fresh
        self._prompts = prompts
        # Whether it ends for a `wrap` of a newer version: not where it serves others as well.
        self._gives_way = gives_way
        self._at = at
        self._where = where
        self._stop = stop
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._waiting: dict[asyncio.Task[None], None] = {}
        self._serving: dict[asyncio.Task[None], WrapConnection] = {}
        self._began = time.time()
        self._closing = False
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        has_limit = limit != resource.RLIM_INFINITY
        # Beyond this, one more server would take the descriptor that the record of a call needs.
        fitting = max(1, (limit - _DESCRIPTORS_SPARE) // _DESCRIPTORS_EACH) if has_limit else WRAPPED_MAX
        self._most = min(WRAPPED_MAX, fitting)
        self._waiting_most = min(_WAITING_MAX, max(16, limit // 8)) if has_limit else _WAITING_MAX
        # Since when no server is wrapped.
        self.idle_since: float | None = time.monotonic()
        # Until when somebody may open a link that they were given.
        self.expected_until = 0.0

    def open(self) -> None:
        """Listen, in the place of whatever was left there."""
        handle = self._at.enter()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._at.address, dir_fd=handle)
            listener.bind(address(self._at.folder, self._at.address, handle))
            os.chmod(self._at.address, 0o600, dir_fd=handle)
            listener.listen(_BACKLOG)
            listener.setblocking(False)  # noqa: FBT003
        except OSError as error:
            listener.close()
            text = f"cannot listen at {self._at.folder}/{self._at.address}: {error.strerror}"
            raise ConfigError(text, advice="Look at that folder: it has to be your own, and writable.") from None
        finally:
            os.close(handle)
        self._listener = listener
        self._accepting = asyncio.create_task(self._accept(listener), name="callgate-local")

    def end(self) -> None:
        """Whoever comes from now on starts the next gateway, which waits until this one has ended."""
        if not self._closing:
            self._closing = True
            with contextlib.suppress(OSError, LocalError):
                handle = self._at.enter()
                try:
                    os.unlink(self._at.address, dir_fd=handle)
                finally:
                    os.close(handle)
            self._stop()

    async def close(self) -> None:
        """Take no new ones, and end those that are there."""
        self.end()
        tasks = [*self._waiting, *self._serving]
        for task in [*tasks, *([] if self._accepting is None else [self._accepting])]:
            task.cancel()
        if tasks:
            # A client that reads nothing any more must not hold it up.
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
        if self._listener is not None:
            self._listener.close()

    def reload(self, config: Config) -> None:
        """Follow a new configuration on the connections that are there."""
        for task, connection in self._serving.items():
            try:
                connection.follow(config)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others follow
                # What cannot follow must not go on under what was in force before.
                log.error("server ended: it cannot follow the configuration", extra={"fields": {"error": place(error)}})
                task.cancel()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                link, _ = await loop.sock_accept(listener)
            except OSError as error:
                # Out of descriptors: those that wait stay in the queue of the system.
                log.warning("connection not taken", extra={"fields": {"error": error.strerror}})
                await asyncio.sleep(_ACCEPT_PAUSE)
                continue
            while len(self._waiting) >= self._waiting_most:
                oldest = next(iter(self._waiting))
                del self._waiting[oldest]
                oldest.cancel()
            task = asyncio.create_task(self._meet(WrapLink(link)))
            self._waiting[task] = None
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._waiting.pop(task, None)
        if self._serving.pop(task, None) is not None and not self._serving:
            self.idle_since = time.monotonic()

    async def _meet(self, link: WrapLink) -> None:
        try:
            process, user = peer(link.socket)
            if user != os.geteuid():
                log.warning("another user was turned away", extra={"fields": {"user": user}})
                return
            async with asyncio.timeout(_ORDER_SECONDS):
                message = await link.receive()
            await self._answer(link, process, message)
        except EOFError:
            pass
        except (CallgateError, TimeoutError, OSError, wire.WireError, msgspec.ValidationError) as error:
            await link.refuse(error)
        except Exception as error:  # noqa: BLE001 - one connection that breaks us must not end the others
            log.error("connection failed", extra={"fields": {"error": place(error)}})
        finally:
            link.close()

    async def _answer(self, link: WrapLink, process: int, message: dict[str, Any]) -> None:
        if message.get("protocol") != wire.PROTOCOL:
            raise ConfigError(
                f"your gateway is Callgate {__version__}, and this is {str(message.get('version', 'another'))[:40]}: "
                "they do not understand each other",
                advice="Type `callgate restart`.",
            )
        if message.get("do") == "wrap":
            # Before anything else: what follows must not be interrupted.
            await self._fresh()
            if self._gives_way and not self._serving and _is_newer(message.get("version")):
                # After an upgrade the next one is that of the new version.
                self.end()
        if message.get("do") == "stop":
            self.end()
            await link.send({"stopping": True, "pid": os.getpid()})
        elif self._closing:
            await link.send({"again": True})
        elif message.get("do") == "status":
            if isinstance(seconds := message.get("expect"), int | float):
                until = time.monotonic() + min(float(seconds), _EXPECTED_SECONDS_MAX)
                self.expected_until = max(self.expected_until, until)
            await link.send(self._status())
        elif message.get("do") == "wrap":
            if len(self._serving) >= self._most:
                text = f"{self._most} servers are wrapped already, which is as many as one gateway takes here"
                raise ConfigError(text, advice="End some clients, or use `callgate wrap --alone`.")
            task = asyncio.current_task()
            assert task is not None
            order = msgspec.convert(message, WrapOrder)
            connection = WrapConnection(self._runtime, link, process, order, self._prompts)
            self._waiting.pop(task, None)
            self._serving[task] = connection
            self.idle_since = None
            await connection.run()
        else:
            raise ConfigError("your gateway was asked for what it does not know", advice="Type `callgate restart`.")

    def _status(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "version": __version__,
            "address": self._where(),
            "began": self._began,
            "config": self._at.config,
            "servers": [connection.about() for connection in self._serving.values()],
        }


class WrapConnection:
    """One `callgate wrap`, from its order to the end of its server."""

    def __init__(
        self, runtime: Runtime, link: WrapLink, process: int, order: WrapOrder, prompts: PromptListener | None
    ) -> None:
        self._runtime = runtime
        self._prompts = prompts
        self._link = link
        self._order = order
        self._process = process
        self._began = time.time()
        found = snapshot()(process)
        self._client = 0 if found is None else found.parent
        self._learnt: ServerObservations | None = None
        self._wrap: StdioSession | None = None

    def about(self) -> dict[str, Any]:
        return {
            "name": self._order.name,
            "target": "" if self._learnt is None or self._learnt.place is None else _short(self._learnt.place.target),
            "process": self._process,
            "client": self._client,
            "began": self._began,
        }

    def follow(self, config: Config) -> None:
        if self._learnt is not None and self._wrap is not None:
            self._wrap.use(self._runtime.dispatcher(config, self._learnt))

    async def run(self) -> None:
        runtime, order = self._runtime, self._order
        config = runtime.config
        server = wrapped_server(config, order)
        at = order_place(config, order, server, f"-{secrets.token_hex(4)}")
        learnt = self._learnt = ServerObservations(at, started_by(self._client, order.environ))
        runtime.metrics.know([order.name])
        ear: PromptRecipient | None = None
        try:
            dispatcher = runtime.dispatcher(config, learnt)
            if runtime.pinning is not None:
                await runtime.pinning.enter(learnt)
            if self._prompts is not None and learnt.prompts is not None:
                # Also where the configuration does not want them: it may change.
                ear = listen(self._prompts, self._process, order.folder, learnt.prompts)
            behind, ends, child = await self._take_over(server, config.limits.message_bytes)
            front = StdioFront(config.limits.message_bytes, ends)
            if runtime.config is not config:
                # It changed while the server was started.
                try:
                    dispatcher = runtime.dispatcher(runtime.config, learnt)
                except BaseException:
                    await front.close()
                    if child is not None:
                        child.close()
                    raise
            self._wrap = StdioSession(order.name, dispatcher, behind, front, runtime.spans, hear=learnt.hear)
            heard = asyncio.create_task(self._listen(child or behind, self._wrap))
            try:
                status = await self._wrap.run()
                await self._link.send({"done": status})
            finally:
                heard.cancel()
                await asyncio.gather(heard, return_exceptions=True)
                if child is not None:
                    child.close()
        finally:
            if self._prompts is not None and ear is not None:
                self._prompts.remove(ear)
            if runtime.pinning is not None:
                await runtime.pinning.leave(learnt)

    async def _take_over(
        self, server: ServerSection | None, most: int
    ) -> tuple[WrappedServer, tuple[int, int], HandedProcess | None]:
        """Say what is to be started, and take the pipes."""
        if server is not None and server.url is not None:
            await self._link.send({"start": None})
            ends = _checked((await self._handed())[1], 2)
            return WrappedUrl(server, most), (ends[0], ends[1]), None
        start: dict[str, Any] = {"argv": list(self._order.command), "env": None, "folder": None}
        if server is not None:
            env = server.environment(self._order.environ)
            start = {"argv": list(server.argv), "env": env, "folder": None if server.cwd is None else str(server.cwd)}
        await self._link.send({"start": start})
        message, given = await self._handed()
        ends = _checked(given, 4)
        child = HandedProcess(ends[2], ends[3], self._child(message.get("started")))
        return WrappedCommand(child.open, most), (ends[0], ends[1]), child

    def _child(self, pid: object) -> Process | None:
        """The server's process, where it is one that the `wrap` has started."""
        found = snapshot()(pid) if isinstance(pid, int) else None
        return found if found is not None and found.parent == self._process else None

    async def _handed(self) -> tuple[dict[str, Any], list[int]]:
        async with asyncio.timeout(_START_SECONDS):
            return await self._link.receive_with()

    async def _listen(self, server: HandedProcess | WrappedServer, wrap: StdioSession) -> None:
        """What the `wrap` still has to say: that the server has ended. Without it, nobody holds the server."""
        left = asyncio.create_task(self._tell_left(wrap))
        try:
            while True:
                message = await self._link.receive()
                if isinstance(server, HandedProcess) and isinstance(status := message.get("exited"), int):
                    server.ended(status)
        except (OSError, wire.WireError, EOFError):
            if isinstance(server, HandedProcess):
                server.kill()
            elif isinstance(server, WrappedUrl):
                server.stop(-signal.SIGKILL)
            wrap.abandon()
        finally:
            left.cancel()

    async def _tell_left(self, wrap: StdioSession) -> None:
        await wrap.client_left()
        with contextlib.suppress(OSError):
            await self._link.send({"left": True})


class HandedProcess:
    """The process of a server that a `wrap` has started: our ends of its pipes, and its end when that is told."""

    def __init__(self, stdin: int, stdout: int, process: Process | None) -> None:
        self._ends: tuple[int, ...] = stdin, stdout
        self._process = process
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._closed = contextlib.ExitStack()

    async def open(self) -> HandedProcess:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        (stdin, stdout), self._ends = self._ends, ()
        said, sent = os.fdopen(stdout, "rb", buffering=0), os.fdopen(stdin, "wb", buffering=0)
        reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), said)
        self._closed.callback(reading.close)
        writing, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sent)
        self._closed.callback(writing.close)
        self.stdin, self.stdout = asyncio.StreamWriter(writing, protocol, None, loop), reader
        return self

    def close(self) -> None:
        """Let go of the pipes."""
        for descriptor in self._ends:
            os.close(descriptor)
        self._ends = ()
        self._closed.close()

    def ended(self, status: int) -> None:
        if not self._ended.done():
            self._ended.set_result(status)

    def kill(self) -> None:
        """Who started it is gone without a word."""
        if self._process is not None and not self._ended.done():
            now = snapshot()(self._process.pid)
            if now is not None and now.is_same(self._process):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(now.pid, signal.SIGKILL)
        self.ended(-signal.SIGKILL)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)


def _short(target: str) -> str:
    """All of them have to fit into one message."""
    return target if len(target) <= _TARGET_CHARS else f"{target[:_TARGET_CHARS]}…"


def _is_newer(version: object) -> bool:
    """Whether a version is a later one than ours."""
    return isinstance(version, str) and _numbers(version) > _numbers(__version__)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]{1,9}", version[:40])]


def _checked(given: list[int], count: int) -> list[int]:
    """Descriptors that can be what they are said to be; all are closed where one cannot."""
    try:
        if len(given) != count:
            raise ConfigError(f"{len(given)} descriptors were handed over instead of {count}")
        for at, descriptor in enumerate(given):
            mode, flags = os.fstat(descriptor).st_mode, fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
            pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
            # A client may also be a terminal, a file or nothing at all.
            fits = pipe or (at < 2 and (stat.S_ISCHR(mode) or stat.S_ISREG(mode)))
            read = at in (0, 3)
            if not fits or flags == (os.O_WRONLY if read else os.O_RDONLY):
                raise ConfigError("a descriptor was handed over that is no end of a pipe")
    except (ConfigError, OSError) as error:
        for descriptor in given:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        raise ConfigError(
            "what was handed over cannot be used" if isinstance(error, OSError) else error.message,
            advice="Start the server with `callgate wrap`.",
        ) from None
    return given


class WrapLink:
    """The gateway's end of a connection."""

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)  # noqa: FBT003
        self.socket = link
        self._incoming = wire.Incoming()
        self._sending = asyncio.Lock()

    async def send(self, message: dict[str, Any]) -> None:
        async with self._sending:
            await asyncio.get_running_loop().sock_sendall(self.socket, wire.encode(message))

    async def receive(self) -> dict[str, Any]:
        """The next message; EOFError where the other end is gone. What it brings beside it is closed."""
        message, given = await self.receive_with()
        for descriptor in given:
            os.close(descriptor)
        return message

    async def receive_with(self) -> tuple[dict[str, Any], list[int]]:
        while (found := self._incoming.take()) is None:
            await self._readable()
            try:
                if not self._incoming.read(self.socket):
                    raise EOFError
            except (BlockingIOError, InterruptedError):
                continue
        return found

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self.socket, lambda: None if ready.done() else ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_reader(self.socket)

    async def refuse(self, error: Exception) -> None:
        """Say why, where anybody still listens."""
        if isinstance(error, CallgateError):
            text, advice = error.message, error.advice
        elif isinstance(error, OSError) and error.errno in (errno.EPIPE, errno.ECONNRESET):
            return
        elif isinstance(error, TimeoutError):
            text, advice = "your gateway was told nothing for a long time", "Start the server again in your client."
        elif isinstance(error, OSError):
            text, advice = f"a pipe of this server cannot be used: {error.strerror}", "Look at what it writes to."
        else:
            text, advice = "your gateway could not read what it was asked", "Type `callgate restart`."
        log.warning(
            "connection refused",
            extra={"fields": {"why": text if isinstance(error, CallgateError) else str(error)[:200]}},
        )
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await self.send({"refused": text, "advice": advice})

    def close(self) -> None:
        self._incoming.close()
        self.socket.close()

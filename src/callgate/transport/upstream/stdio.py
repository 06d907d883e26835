"""A server started by a command, served over HTTP: a process per handshake session, one for the modern era."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from callgate.config import ServerLimits, ServerSection
from callgate.errors import Reason, Refused, UpstreamError
from callgate.jsonrpc import TOOLS_CALL, Batch, Message, MessageKind, error_reply, peek
from callgate.jsonrpc.reading import decode_leniently
from callgate.pipeline.context import own_request
from callgate.pipeline.dispatcher import Admitted
from callgate.pipeline.replies import ask_for_entries, listed_tools
from callgate.protocol import CHANGED
from callgate.transport.http.exchange import (
    EVENT_STREAM,
    JSON,
    Deadline,
    Exchange,
    Parameters,
    Routing,
    check_parameters,
    parameter_map,
)
from callgate.transport.sse import encode_event
from callgate.transport.upstream.process import Hear, Mailbox, ProcessLink, ServerProcess

log = logging.getLogger("callgate.upstream")

_SWEEP_SECONDS: Final = 1.0
_KEPT_EVENTS: Final = 256
_KEPT_BYTES: Final = 4 * 1024 * 1024
_TOOLS_MAX: Final = 10_000

LOG_LEVEL_META: Final = "io.modelcontextprotocol/logLevel"
# 2026-07-28, Streamable HTTP: the status that a JSON-RPC error has on the modern wire.
_MODERN_STATUS: Final = dict.fromkeys((-32700, -32600, -32602, -32020, -32021, -32022), 400) | {-32601: 404}


class ProcessSession:
    """A client's own process, and the stream for what the server sends of its own accord."""

    def __init__(self, process: ServerProcess, hear: Hear | None = None, owner: str = "") -> None:
        self.id, self.owner = secrets.token_urlsafe(32), owner
        self._news = asyncio.Condition()
        self._pending: set[asyncio.Task[None]] = set()
        self.link = ProcessLink(process, shared=False, unclaimed=self.keep, ended=self._wake, hear=hear)
        self.used = time.monotonic()
        self.streams = 0
        self._turn = 0
        self._events: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._last = 0
        self._delivered = 0

    def keep(self, line: bytes) -> None:
        self._last += 1
        self._events.append((self._last, line))
        self._bytes += len(line)
        while len(self._events) > 1 and (self._bytes > _KEPT_BYTES or len(self._events) > _KEPT_EVENTS):
            self._bytes -= len(self._events.popleft()[1])
        self._wake()

    def _wake(self) -> None:
        task = asyncio.get_running_loop().create_task(self._notify())
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _notify(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def listen(self, exchange: Exchange, last_event_id: str) -> None:
        """Stream what the server sends, from where the client left off, until the process or the client's turn ends.

        A message goes on one stream only (2025-11-25, Streamable HTTP): the stream that was opened last.
        """
        self._turn = turn = self._turn + 1
        self._wake()
        after = int(last_event_id) if last_event_id.isdecimal() else self._delivered
        await exchange.start(200, [*EVENT_STREAM, (b"mcp-session-id", self.id.encode())])
        while self._turn == turn:
            for number, line in [event for event in self._events if event[0] > after]:
                passed = line if exchange.unasked is None else await exchange.unasked(line)
                await exchange.write(encode_event(passed, str(number)))
                after = number
                self._delivered = max(self._delivered, number)
            if not self.link.alive and self._last <= after:
                break
            async with self._news:
                if self._last <= after and self._turn == turn and self.link.alive:
                    try:
                        async with asyncio.timeout(15):
                            await self._news.wait()
                    except TimeoutError:
                        await exchange.write(b": still here\n\n")
        await exchange.end()


class StdioUpstream:
    """Relays exchanges to processes of one command."""

    sees_headers = False

    def __init__(
        self,
        name: str,
        server: ServerSection,
        limits: ServerLimits,
        max_bytes: int,
        on_start: Callable[[str], None] = lambda _name: None,
        *,
        hear: Callable[[str, bytes], None] | None = None,
        renewed: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        self.name = name
        self.busy = 0
        self._server = server
        self._limits = limits
        self._max = max_bytes
        self._on_start = on_start
        # Told when the process that all share has ended; says whether what was decided for it must not reach the next.
        self._renewed = renewed
        self._hear = None if hear is None else partial(hear, name)
        self._sessions: dict[str, ProcessSession] = {}
        self._starting = 0
        self._shared: ProcessLink | None = None
        # Which arguments the tools of the shared process want repeated as headers, and whether its whole list was read.
        self._parameters: dict[str, Parameters] = {}
        self._listed = False
        self._shared_lock = asyncio.Lock()
        self._retiring: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    async def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        links = [session.link for session in self._sessions.values()]
        self._sessions.clear()
        if self._shared is not None:
            links.append(self._shared)
        await asyncio.gather(*(self._stop(link) for link in links), *self._retiring)

    # ---- the three HTTP methods ----

    async def post(self, exchange: Exchange, entry: Admitted) -> None:
        try:
            if Routing(exchange).modern:
                await self._post_modern(exchange, entry)
            elif isinstance(entry.message, Message) and entry.message.method == "initialize":
                await self._initialize(exchange, entry)
            else:
                session = self._session(exchange)
                await self._relay(exchange, session.link, entry, [])
        except Refused as refused:
            for flight in entry.calls:
                flight.finish("lost", code=refused.code)
            raise
        finally:
            for flight in entry.calls:
                flight.finish("cancelled")

    async def get(self, exchange: Exchange) -> None:
        if Routing(exchange).modern:
            # 2026-07-28, Streamable HTTP: one endpoint, one method.
            refused = Refused(Reason.METHOD_NOT_ALLOWED, advice="Use POST.")
            await exchange.respond(refused.status, error_reply(None, refused), [JSON, (b"allow", b"POST")])
            return
        session = self._session(exchange)
        last_event_id = (exchange.fields.get(b"last-event-id", b"")).decode("latin-1").strip()[:20]
        session.streams += 1
        try:
            hearing = contextlib.nullcontext() if exchange.hearing is None else exchange.hearing(session.keep)
            with hearing, Deadline(None, Reason.UPSTREAM_TIMEOUT, exchange.client_gone, at_once=True):
                await session.listen(exchange, last_event_id)
        finally:
            session.streams -= 1
            session.used = time.monotonic()

    async def delete(self, exchange: Exchange) -> None:
        session = self._session(exchange)
        await asyncio.shield(self._end(session))
        await exchange.respond(204)

    # ---- for the gateway itself ----

    async def prepare(self, exchange: Exchange, message: Message | Batch) -> None:
        """A process that will not do for the message is replaced now: its tools are looked at before the call is let
        through, and not after. Raises what the server would answer if it saw the headers."""
        if isinstance(message, Message) and Routing(exchange).modern:
            if message.method == "initialize":
                # The server may speak both eras on its pipe; this endpoint is told the era by the header.
                raise Refused(
                    Reason.METHOD_NOT_FOUND,
                    "no version without a handshake has initialize",
                    advice="Send server/discover, or initialize without the header MCP-Protocol-Version.",
                )
            if message.method == TOOLS_CALL:
                self._compare(exchange, message)
        if self._shared is not None and isinstance(message, Message) and LOG_LEVEL_META in message.meta:
            # Where none can be started, the message itself is told so.
            with contextlib.suppress(UpstreamError):
                if Routing(exchange).modern:
                    await self._shared_link(message)

    async def ask(self, exchange: Exchange, message: Message) -> bytes:
        """The reply to a request of our own, from the process that serves this client."""
        link = await self._shared_link(message) if Routing(exchange).modern else self._session(exchange).link
        box = link.open(Admitted(message), own=True)
        try:
            await link.submit(box)
            reply = await box.get()
        finally:
            link.close(box)
        if reply is None:
            raise _failure(box)
        if link is self._shared and message.method == "tools/list":
            self._learn(reply)
        return reply

    # ---- arguments that are repeated as headers ----

    def _compare(self, exchange: Exchange, message: Message) -> bool:
        """Hold a call's headers against its arguments; False where nobody knows the tool. Raises −32020."""
        params = message.params if isinstance(message.params, dict) else {}
        known = self._parameters.get(str(params.get("name")))
        if known:
            check_parameters(known, params.get("arguments"), exchange)
        return known is not None

    async def _compare_surely(self, exchange: Exchange, message: Message) -> None:
        """The same before a call leaves: nearly always its tool is known by then, as the checks looked at the list."""
        if self._compare(exchange, message) or self._listed:
            return

        async def ask(method: str, params: dict[str, Any]) -> bytes:
            return await self.ask(exchange, own_request(method, params, message.meta))

        with Deadline(self._server.timeout_seconds, Reason.UPSTREAM_TIMEOUT, exchange.client_gone):
            await ask_for_entries(ask)
        self._listed = True
        self._compare(exchange, message)

    def _learn(self, reply: bytes) -> None:
        """A page of the shared process's list."""
        page = decode_leniently(reply)
        for name, entry in listed_tools(page.get("result") if isinstance(page, dict) else None).items():
            if name in self._parameters or len(self._parameters) < _TOOLS_MAX:
                self._parameters[name] = parameter_map(entry.get("inputSchema"))

    def _unlearn(self) -> None:
        self._parameters, self._listed = {}, False

    def _heard(self, line: bytes) -> None:
        """A message of the shared process's own accord: its list may have changed."""
        # Letters may be written as escapes; what has neither the word nor an escape is not worth a closer look.
        if b"list_changed" in line or b"\\u" in line:
            seen = peek(line)
            if seen is not None and seen.method == CHANGED:
                self._unlearn()
        if self._hear is not None:
            self._hear(line)

    @contextlib.contextmanager
    def hold(self, exchange: Exchange) -> Iterator[None]:
        """A session whose call waits for a person is not idle."""
        session = None if Routing(exchange).modern else self._session(exchange)
        if session is None:
            yield
            return
        session.streams += 1
        try:
            yield
        finally:
            session.streams -= 1
            session.used = time.monotonic()

    # ---- sessions and processes ----

    def _session(self, exchange: Exchange) -> ProcessSession:
        given = (exchange.fields.get(b"mcp-session-id", b"")).decode("latin-1")
        if not given:
            raise Refused(
                Reason.INVALID_REQUEST, "the header Mcp-Session-Id is missing", advice="Send `initialize` first."
            )
        session = self._sessions.get(given)
        if session is None or not session.link.alive or session.owner != exchange.owner:
            raise Refused(Reason.SESSION_UNKNOWN)
        session.used = time.monotonic()
        return session

    async def _initialize(self, exchange: Exchange, entry: Admitted) -> None:
        if len(self._sessions) + self._starting >= self._limits.sessions or self._processes >= self._limits.processes:
            raise Refused(Reason.SESSION_LIMIT)
        self._starting += 1
        try:
            session = ProcessSession(await self._start(), self._hear, exchange.owner)
        finally:
            self._starting -= 1
        self._sessions[session.id] = session
        self._keep_sweeping()
        settled = False
        try:
            settled = await self._relay(exchange, session.link, entry, [(b"mcp-session-id", session.id.encode())])
        finally:
            if not settled:
                await asyncio.shield(self._end(session))

    @property
    def _processes(self) -> int:
        """What counts against `processes`: all but the one that the modern era shares, until they have really ended."""
        return len(self._sessions) + self._starting + len(self._retiring)

    def _end(self, session: ProcessSession) -> asyncio.Task[None]:
        self._sessions.pop(session.id, None)
        return self._retire(session.link)

    def _retire(self, link: ProcessLink) -> asyncio.Task[None]:
        """Stop a process on the side: it takes as long as it takes, and whoever asked for it may leave meanwhile."""
        task = asyncio.create_task(self._stop(link))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)
        return task

    async def _stop(self, link: ProcessLink) -> None:
        try:
            await link.stop()
        except Exception:
            # Whatever the system makes of one process, the others are still to be ended.
            log.exception("process not stopped", extra={"fields": {"server": self.name}})

    async def _start(self) -> ServerProcess:
        self._on_start(self.name)
        server = self._server
        return await ServerProcess.start(self.name, server.argv, server.environment(os.environ), server.cwd, self._max)

    async def _shared_link(self, message: Message, *, decided: bool = False) -> ProcessLink:
        async with self._shared_lock:
            link = self._shared
            # Log messages name no request: whoever asks for them gets a process that owes nobody else an answer. Not a
            # call that was let through to this one: it goes without them where somebody has left meanwhile.
            wanted = LOG_LEVEL_META in message.meta and not decided
            unfit = link is not None and link.haunted and not link.busy and wanted
            if link is not None and link.alive and not unfit:
                return link
            self._shared = None
            if link is not None:
                # From now on no call leaves by what the old one listed: it waits for the list of the next.
                self._renewed(self.name)
                ending = self._retire(link)
                if self._processes > self._limits.processes:
                    await asyncio.shield(ending)
            process = await self._start()
            self._shared = ProcessLink(
                process, shared=True, unclaimed=lambda _line: None, ended=self._ended, hear=self._heard
            )
            self._unlearn()
            self._renewed(self.name)
            return self._shared

    def _ended(self) -> None:
        """A shared process has ended. If it was replaced before, that says nothing of the one in its place."""
        if self._shared is not None and not self._shared.alive:
            self._renewed(self.name)

    def _keep_sweeping(self) -> None:
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        """End sessions that are idle or whose process is gone; the task ends with the last session."""
        while self._sessions:
            await asyncio.sleep(min(_SWEEP_SECONDS, self._limits.idle_seconds / 2))
            oldest = time.monotonic() - self._limits.idle_seconds
            for session in list(self._sessions.values()):
                idle = session.used < oldest and not session.streams and not session.link.busy
                if idle or not session.link.alive:
                    self._end(session)
                    log.info("session ended", extra={"fields": {"server": self.name, "idle": idle}})

    # ---- one exchange ----

    async def _post_modern(self, exchange: Exchange, entry: Admitted) -> None:
        message = entry.message
        if not isinstance(message, Message) or message.kind is MessageKind.RESPONSE:
            raise Refused(Reason.INVALID_REQUEST, "the body has to be one request or notification")
        if message.kind is MessageKind.NOTIFICATION:
            # 2026-07-28 has no notifications from the client over HTTP; a shared process must not see a stray one.
            await exchange.respond(202)
            return
        before = self._shared
        link = await self._shared_link(message, decided=bool(entry.calls))
        if entry.calls and link is not before and self._renewed(self.name):
            raise Refused(Reason.TOOLSET_UNVERIFIED, "the server was started anew after the call was let through")
        if message.method == TOOLS_CALL:
            await self._compare_surely(exchange, message)
        await self._relay(exchange, link, entry, [], modern=True)

    async def _relay(
        self,
        exchange: Exchange,
        link: ProcessLink,
        entry: Admitted,
        headers: list[tuple[bytes, bytes]],
        *,
        modern: bool = False,
    ) -> bool:
        """Send, and answer with what comes back; True once the answer is a result."""
        if all(message.kind is not MessageKind.REQUEST for message in entry.messages):
            with Deadline(self._server.timeout_seconds, Reason.UPSTREAM_TIMEOUT, exchange.client_gone):
                await link.send(entry)
                await exchange.respond(202)
            return True
        box = link.open(entry)
        good = False
        try:
            with Deadline(self._server.timeout_seconds, Reason.UPSTREAM_TIMEOUT, exchange.client_gone) as watch:
                await link.submit(box)
                good = await self._deliver(exchange, box, headers, watch, modern=modern)
        finally:
            link.close(box)
        return good

    async def _deliver(
        self, exchange: Exchange, box: Mailbox, headers: list[tuple[bytes, bytes]], watch: Deadline, *, modern: bool
    ) -> bool:
        first = await box.get()
        watch.patient()
        if first is None and box.given_up:
            # 2025-11-25, cancellation: a cancelled request gets no reply. Its stream ends without one.
            await exchange.start(200, [*EVENT_STREAM, *headers])
            await exchange.end()
            return False
        if first is None:
            raise _failure(box)
        seen = peek(first)
        if seen is not None and seen.is_reply and not box.waiting and len(box.entry.messages) == 1:
            self._note(box, first, modern=modern)
            status = _MODERN_STATUS.get(seen.code or 0, 200) if modern and seen.outcome == "error" else 200
            await exchange.respond(status, await box.entry.passing(first), [JSON, *headers])
            return seen.outcome != "error"
        await exchange.start(200, [*EVENT_STREAM, *headers])
        line: bytes | None = first
        while line is not None:
            self._note(box, line, modern=modern)
            await exchange.write(encode_event(await box.entry.passing(line)))
            if box.complete:
                break
            line = await box.get()
        if line is None and not box.given_up:
            await self._lost(exchange, box)
        await exchange.end()
        return line is not None

    def _note(self, box: Mailbox, line: bytes, *, modern: bool) -> None:
        if modern and any(message.method == "tools/list" for message in box.entry.messages):
            self._learn(line)
        for flight in box.entry.calls:
            if not flight.done and flight.replied(line):
                return

    @staticmethod
    async def _lost(exchange: Exchange, box: Mailbox) -> None:
        failure = _failure(box)
        for flight in box.entry.calls:
            flight.finish("lost", code=failure.code)
        for rpc_id in box.waiting:
            await exchange.write(encode_event(error_reply(rpc_id, failure)))


def _failure(box: Mailbox) -> UpstreamError:
    """Why a box ended before all of its replies were there."""
    closed = "the server's process ended before it answered"
    return box.failure or UpstreamError(Reason.UPSTREAM_CLOSED, closed)

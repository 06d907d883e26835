"""The gateway's HTTP application: `/mcp`, `/servers/NAME/mcp`, and `/healthz`, `/readyz`, `/metrics` for operators."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from callgate.errors import Reason, Refused, UpstreamError, place
from callgate.gate import NOBODY, CallerRefused, Context, Identity
from callgate.jsonrpc import TOOLS_CALL, BadMessage, Batch, Message, MessageKind, error_reply, parse
from callgate.pipeline.context import (
    NOBODY_KNOWN,
    ClientInfo,
    ClientInfos,
    RequestContext,
    SessionOpening,
    StreamContext,
    ToolDigests,
    greeting_client,
)
from callgate.pipeline.dispatcher import Admitted, Dispatcher, LocalResponse, Rejected, refuse_all, session_digest
from callgate.pipeline.list_changed import only, wanted_changes
from callgate.telemetry.metrics import Counter, by_worker
from callgate.telemetry.spans import Tracer, span_of
from callgate.transport.http.exchange import (
    JSON,
    Asgi,
    ClientGone,
    Exchange,
    Guard,
    Receive,
    Routing,
    Scope,
    Send,
    Streams,
    check_head,
    check_routing,
    onto,
)
from callgate.transport.http.peers import Peers
from callgate.transport.sse import encode_event


class SessionServer(Protocol):
    """The server behind, as far as a waiting call needs it."""

    async def ask(self, exchange: Exchange, message: Message) -> bytes: ...

    def hold(self, exchange: Exchange) -> AbstractContextManager[None]: ...


class StoppableGateway(Protocol):
    @property
    def stopping(self) -> bool: ...

    def aside(self) -> AbstractContextManager[None]:
        """Around a wait for a person: the request takes no place among those under way."""


class HttpChannel(msgspec.Struct, eq=False):
    """The line of one exchange."""

    exchange: Exchange
    server: SessionServer
    gateway: StoppableGateway
    waited: float = 0.0
    caller: str | None = None
    held: object = None
    judged: dict[str, ToolDigests] = {}

    @property
    def stopping(self) -> bool:
        return self.gateway.stopping

    @property
    def can_say(self) -> bool:
        return self.exchange.takes_events

    async def turn(self) -> None:
        """Each request stands for itself."""

    async def ask(self, message: Message) -> bytes:
        return await self.server.ask(self.exchange, message)

    async def say(self, message: bytes) -> None:
        if self.can_say:
            await self.exchange.park()
            await self.exchange.write(encode_event(message))

    async def breathe(self) -> None:
        if self.can_say:
            await self.exchange.park()
            await self.exchange.write(b": waiting for a person\n\n")

    async def gone(self) -> None:
        await self.exchange.client_gone()

    @contextmanager
    def aside(self) -> Iterator[None]:
        with self.gateway.aside(), self.server.hold(self.exchange):
            yield


def listening(server: str, exchange: Exchange, protocol: str | None, clients: ClientInfos | None) -> StreamContext:
    """Where a client is that only listens."""
    session = session_digest(exchange.session) if b"mcp-session-id" in exchange.fields else None
    greeted = NOBODY_KNOWN if clients is None or session is None else clients.at(server, session)
    return StreamContext(
        server, "http", session, protocol, exchange.peer, exchange.fields, exchange.identity.caller, greeted=greeted
    )


def visit(
    server: str, line: HttpChannel, protocol: str | None, message: Message | Batch, clients: ClientInfos | None
) -> RequestContext:
    """The same of a message whose call may have to wait: who sent it, and a line to them and to the server."""
    exchange, opening, alone = line.exchange, None, False
    meta: Mapping[str, Any] = {}
    session = session_digest(exchange.session) if b"mcp-session-id" in exchange.fields else None
    if isinstance(message, Message):
        alone, meta = True, message.meta
        if message.method == "initialize" and clients is not None:
            opening = SessionOpening()
            exchange.opens_session(partial(_open, clients, server, greeting_client(message), opening))
    return RequestContext(
        server,
        "http",
        session,
        protocol,
        exchange.peer,
        exchange.fields,
        exchange.identity.caller,
        exchange.identity.barred,
        exchange.identity.uses,
        line=line,
        # Only at the start of a session does a client say who it is for all that follows.
        greeted=NOBODY_KNOWN if clients is None or session is None else clients.at(server, session),
        meta=meta,
        alone=alone,
        opening=opening,
    )


def _open(clients: ClientInfos, server: str, client: ClientInfo, opening: SessionOpening, session: str) -> None:
    known = session_digest(session)
    clients.greet(server, known, client)
    clients.opened(session)
    opening.opened(known)


SUFFIX: Final = "/mcp"
_PREFIX: Final = "/servers/"
_GROUPS: Final = "/groups/"


class Authenticate(Protocol):
    """Finds out who sends a request; both raise CallerRefused."""

    # One of these headers has to be there; empty where nobody has to prove anything.
    proof_headers: frozenset[bytes]

    def precheck(self, exchange: Exchange) -> None:
        """Before the body is read."""

    async def authenticate(
        self, exchange: Exchange, server: str, body: bytes, tools: Sequence[str], *, later: bool = False
    ) -> Identity:
        """`tools` are those that the request calls. `later`: what it uses up goes with the gate's decision."""

    def refusal(self, exchange: Exchange, found: Identity, refused: Refused) -> CallerRefused:
        """What there is to say of a request that turned out to be refused afterwards."""


class Upstream(Protocol):
    """A server as the HTTP face sees it."""

    name: str
    sees_headers: bool
    busy: int

    @property
    def sessions(self) -> int: ...

    async def prepare(self, exchange: Exchange, message: Message | Batch) -> None:
        """Before a message is decided on: what it will go to is there, so that it is decided on for that."""

    async def ask(self, exchange: Exchange, message: Message) -> bytes:
        """The reply to a request of the gateway's own, in the session of the exchange."""

    def hold(self, exchange: Exchange) -> AbstractContextManager[None]:
        """Keep the session of the exchange while its call waits."""

    async def post(self, exchange: Exchange, entry: Admitted) -> None: ...

    async def get(self, exchange: Exchange) -> None: ...

    async def delete(self, exchange: Exchange) -> None: ...

    async def close(self) -> None: ...


class Site(msgspec.Struct, frozen=True):
    """One configuration's worth of the gateway: replaced whole when the configuration changes."""

    dispatcher: Dispatcher
    guard: Guard
    upstreams: Mapping[str, Upstream]
    body_seconds: float
    in_flight: int
    held_bytes: int
    # The group of each server; empty for those that stand in none.
    groups: Mapping[str, str] = {}
    # Who calls; None where nobody is asked. And what is published at well-known paths.
    agents: Authenticate | None = None
    documents: Mapping[str, bytes] = {}

    def upstream(self, path: str) -> Upstream:
        """The server a path leads to. A server of a group is found under that group's path only."""
        group, rest = "", path
        if path.startswith(_GROUPS):
            group, _, rest = path[len(_GROUPS) :].partition("/")
            rest = "/" + rest
        company = [name for name in self.upstreams if self.groups.get(name, "") == group]
        if rest == SUFFIX and len(company) == 1 and (group or len(self.upstreams) == 1):
            return self.upstreams[company[0]]
        if rest.startswith(_PREFIX) and rest.endswith(SUFFIX):
            name = rest[len(_PREFIX) : -len(SUFFIX)]
            if name in company:
                return self.upstreams[name]
            if name in self.upstreams:
                raise Refused(Reason.SERVER_UNKNOWN, advice=f"Use {endpoint(name, self.groups.get(name, ''))}.")
        if path == SUFFIX:
            raise Refused(
                Reason.SERVER_UNKNOWN,
                "/mcp leads somewhere only while exactly one server is configured",
                advice="Use /servers/NAME/mcp; `callgate check` lists the names.",
            )
        raise Refused(Reason.SERVER_UNKNOWN)


class SiteSource(Protocol):
    """Has the site in force."""

    current: Site


def endpoint(server: str, group: str = "") -> str:
    """The path that a server is served under."""
    return (f"{_GROUPS}{group}" if group else "") + f"{_PREFIX}{server}{SUFFIX}"


log = logging.getLogger("callgate.http")

_SUBSCRIBE: Final = "subscriptions/listen"
_CALL: Final = TOOLS_CALL.encode()
# What is read, and waited for, of the body of somebody who brings nothing to prove who they are.
_UNPROVEN_BYTES: Final = 64 * 1024
_UNPROVEN_SECONDS: Final = 1.0
_OPERATORS: Final = frozenset({"/healthz", "/readyz", "/metrics"})


class RecordRefusal(Protocol):
    """Puts calls on record that are refused before the gate decides."""

    def refused(self, exchange: Exchange, server: str, message: Message | Batch | None, refused: Refused) -> None: ...


class OperatorView(Protocol):
    """What operators look at, and what is counted."""

    def ready(self) -> str | None: ...

    def notice(self) -> str: ...

    def render_metrics(self, busy: int, sessions: Mapping[str, int]) -> bytes | None: ...

    # By method and status.
    @property
    def requests(self) -> Mapping[tuple[str, ...], Counter]: ...

    def failure(self, server: str, reason: Reason) -> None: ...

    @property
    def spans(self) -> Tracer: ...

    @property
    def refusals(self) -> RecordRefusal: ...


class App:
    """The ASGI application; `console` gives the application for paths that are neither MCP's nor the operators'."""

    def __init__(
        self,
        sites: SiteSource,
        watched: OperatorView,
        *,
        clients: ClientInfos | None = None,
        console: Callable[[], Asgi | None] = lambda: None,
        peers: Peers | None = None,
    ) -> None:
        self._sites = sites
        self._watched = watched
        self._requests = watched.requests
        self._clients = clients
        self._console = console
        self._peers = peers
        self._busy = 0
        self._held = 0
        self._streams = Streams()
        # When a page was last asked for, and how many are being shown.
        self.last_page = float("-inf")
        self.busy_with_pages = 0

    def begin_shutdown(self) -> None:
        """End the streams that would never end by themselves; calls under way are left to finish."""
        self._streams.stop()

    @property
    def stopping(self) -> bool:
        return self._streams.stopping

    @property
    def busy(self) -> int:
        """Requests under way."""
        return self._busy

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """A request that waits for a person has its place in the lobby, not among those under way."""
        self._busy -= 1
        try:
            yield
        finally:
            self._busy += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = Exchange(scope, receive, send)
        site = self._sites.current
        try:
            if exchange.path not in ("/healthz", "/readyz"):
                site.guard.check(exchange)
            if exchange.path in site.documents:
                await _publish(exchange, site.documents[exchange.path])
                return
            if not exchange.path.endswith(SUFFIX):
                console = None if exchange.path in _OPERATORS else self._console()
                if console is not None:
                    self.busy_with_pages += 1
                    try:
                        await self._streams.show(console, exchange, scope, receive, send)
                    finally:
                        self.busy_with_pages -= 1
                        self.last_page = time.monotonic()
                else:
                    await self._watch(exchange)
                return
            await self._serve(site, exchange)
        except Refused as refused:
            await self._refuse(exchange, refused)
        except ClientGone:
            log.debug("client left before its request was whole")
        except Exception as error:  # noqa: BLE001 - fail closed: what nobody thought of is refused, never a pass
            log.error("request failed", extra={"fields": {"error": place(error)}})
            await self._refuse(exchange, Refused(Reason.INTERNAL_ERROR))
        except asyncio.CancelledError:
            if not self._streams.stopping:
                raise
            # The time for calls under way is over: say so instead of breaking off without a word.
            if not exchange.started or exchange.parked:
                await exchange.refuse(Refused(Reason.SHUTTING_DOWN))
        finally:
            self._requests[exchange.method, str(exchange.status)].value += 1

    async def _serve(self, site: Site, exchange: Exchange) -> None:
        agents = site.agents
        if agents is not None and agents.proof_headers and agents.proof_headers.isdisjoint(exchange.fields):
            await self._refuse_unproven(site, agents, exchange)
        upstream = site.upstream(exchange.path)
        if self._busy >= site.in_flight and exchange.method != "GET":
            raise Refused(Reason.OVERLOADED)
        if self._streams.stopping:
            raise Refused(Reason.SHUTTING_DOWN)
        if exchange.method != "POST" and (closed := site.dispatcher.gate.closed()) is not None:
            raise closed
        # A stream that only waits takes a connection, not a place among the requests under way.
        working = exchange.method != "GET"
        self._busy += working
        upstream.busy += 1
        try:
            if exchange.method == "POST":
                await self._post(site, upstream, exchange)
                return
            if site.agents is not None:
                await _identify(site.agents, exchange, upstream.name)
                # A directory may have been fetched for it meanwhile.
                if (closed := site.dispatcher.gate.closed()) is not None:
                    raise closed
            if exchange.method == "GET":
                if site.dispatcher.stages is not None:
                    context = listening(upstream.name, exchange, Routing(exchange).version, self._clients)
                    stages = site.dispatcher.stages
                    exchange.listens(partial(stages.heard_by, context), stages.unasked(context))
                await self._stream(upstream, exchange)
            elif exchange.method == "DELETE":
                await upstream.delete(exchange)
            else:
                raise Refused(Reason.METHOD_NOT_ALLOWED)
        except UpstreamError as error:
            self._watched.failure(upstream.name, error.reason)
            raise
        finally:
            self._busy -= working
            upstream.busy -= 1

    async def _refuse_unproven(self, site: Site, agents: Authenticate, exchange: Exchange) -> None:
        """Refuse who brings nothing at all, whatever else may be wrong with the request; calls are put on record."""
        if site.dispatcher.gate.closed() is not None:
            return
        try:
            agents.precheck(exchange)
        except CallerRefused as denied:
            exchange.identify(denied.identity)
            if exchange.method == "POST":
                await self._record_unproven(site, exchange, denied.refused)
            raise denied.refused from None

    async def _record_unproven(self, site: Site, exchange: Exchange, refused: Refused) -> None:
        """The body is read for the record alone: if it is short and comes at once. Otherwise headers say what it is."""
        try:
            server = site.upstream(exchange.path).name
        except Refused:
            return
        message: Message | Batch | None = None
        length = exchange.fields.get(b"content-length", b"")
        size = int(length) if length.isdigit() and len(length) < 16 else _UNPROVEN_BYTES + 1
        if size <= _UNPROVEN_BYTES and self._held + size <= site.held_bytes and b"expect" not in exchange.fields:
            self._held += size
            try:
                message = parse(await exchange.body(size, _UNPROVEN_SECONDS), site.dispatcher.limits)
            except BadMessage:
                return  # no call
            except (Refused, ClientGone):
                log.debug("the body of a refused request was not read")
            finally:
                self._held -= size
        if message is not None or exchange.fields.get(b"mcp-method", _CALL) == _CALL:
            self._watched.refusals.refused(exchange, server, message, refused)

    async def _post(self, site: Site, upstream: Upstream, exchange: Exchange) -> None:
        check_head(exchange)
        # Room for a body before it is read: its own size, or the most it may be where it does not say.
        length = exchange.fields.get(b"content-length", b"")
        size = int(length) if length.isdigit() and len(length) < 16 else site.dispatcher.limits.bytes
        if self._held + size > site.held_bytes and self._held:
            raise Refused(Reason.OVERLOADED, "the gateway holds as many bytes of requests as it may")
        self._held += size
        try:
            raw = await exchange.body(site.dispatcher.limits.bytes, site.body_seconds)
            # A call may wait for a person: it holds what it has, not what it might have had.
            self._held -= size - len(raw)
            size = len(raw)
            await self._judge(site, upstream, exchange, raw)
        finally:
            self._held -= size

    async def _judge(self, site: Site, upstream: Upstream, exchange: Exchange, raw: bytes) -> None:
        dispatcher = site.dispatcher
        try:
            message = parse(raw, dispatcher.limits)
            routing = Routing(exchange)
            try:
                check_routing(message, routing, complete=not upstream.sees_headers)
            except Refused as refused:
                raise Rejected(refused, error_reply(_id_of(message), refused)) from None
            asks = isinstance(message, Message) and message.kind is MessageKind.REQUEST
            if site.agents is not None or not asks:
                await self._meet(site, upstream, exchange, message)
            line = HttpChannel(exchange, upstream, self)
            context = visit(upstream.name, line, routing.version, message, self._clients)
            if dispatcher.stages is not None:
                if isinstance(message, Message) and message.method == _SUBSCRIBE:
                    exchange.listens(partial(dispatcher.stages.heard_by, context, subscription=message.id))
                if not asks and await dispatcher.takes(message, context):
                    await exchange.respond(202)
                    return
            if not upstream.sees_headers and (exchange.identity.barred or dispatcher.gate.closed()) is None:
                try:
                    await upstream.prepare(exchange, message)
                except Refused as refused:
                    raise Rejected(refused, error_reply(_id_of(message), refused)) from None
            if self._watched.spans.enabled:
                await self._traced(site, upstream, exchange, message, context)
            else:
                entry = await dispatcher.admit(message, context)
                await dispatcher.pre_dispatch_check(entry, context.barred)
                await self._pass_on(upstream, exchange, entry)
        except BadMessage as error:
            await exchange.refuse(error, error.rpc_id)
        except Rejected as rejected:
            await self._reject(site, upstream, exchange, rejected)
        except LocalResponse as answered:
            await exchange.respond(200, answered.reply, [JSON])

    async def _meet(self, site: Site, upstream: Upstream, exchange: Exchange, message: Message | Batch) -> None:
        """Who sent the message. The kill switch comes first: while it is on, nobody is asked and nothing leaves."""
        messages = message.messages if isinstance(message, Batch) else (message,)
        closed = site.dispatcher.gate.closed()
        if closed is not None:
            closed = await site.dispatcher.gate.still_closed(closed)
        if all(one.kind is not MessageKind.REQUEST for one in messages) and closed is not None:
            raise closed
        if site.agents is None:
            return
        if closed is not None:
            exchange.identify(Identity(barred=closed))
            return
        # What it calls, as far as it says; what cannot be read as a call is refused later.
        calls = [one.params for one in messages if one.method == TOOLS_CALL]
        names = [params.get("name") if isinstance(params, dict) else None for params in calls]
        tools = tuple(name if isinstance(name, str) else "" for name in names)
        later = isinstance(message, Message) and _goes_before_the_gate(site, upstream, message, tools)
        try:
            exchange.identify(await site.agents.authenticate(exchange, upstream.name, message.raw, tools, later=later))
        except CallerRefused as denied:
            exchange.identify(denied.identity)
            self._watched.refusals.refused(exchange, upstream.name, message, denied.refused)
            raise Rejected(denied.refused, refuse_all(message, denied.refused)) from None
        # That may have taken a while; requests are looked at once more before they leave.
        if (
            all(one.kind is not MessageKind.REQUEST for one in messages)
            and (closed := site.dispatcher.gate.closed()) is not None
        ):
            raise closed

    async def _reject(self, site: Site, upstream: Upstream, exchange: Exchange, rejected: Rejected) -> None:
        if rejected.replay is not None and site.agents is not None:
            # Only its decision showed that it was sent before. It is answered and counted as if that had come first.
            refusal = site.agents.refusal(exchange, NOBODY, rejected.refused)
            exchange.identify(refusal.identity)
            self._watched.refusals.refused(exchange, upstream.name, rejected.replay, rejected.refused)
        exchange.answer_with(rejected.headers)
        if rejected.silent:
            await exchange.silence()
        else:
            await exchange.refuse(rejected.refused, reply=rejected.reply)

    async def _traced(
        self, site: Site, upstream: Upstream, exchange: Exchange, message: Message | Batch, context: Context
    ) -> None:
        """The same with a span around it, whose parent the client may have named and which the server is told."""
        with span_of(self._watched.spans, message, context, exchange.fields) as span:
            try:
                entry = await site.dispatcher.admit(message, context)
            except Rejected as rejected:
                span.refused(rejected.refused.reason)
                await self._reject(site, upstream, exchange, rejected)
                return
            except LocalResponse as answered:
                span.allowed()
                await exchange.respond(200, answered.reply, [JSON])
                return
            span.allowed()
            exchange.continue_trace({name.encode(): value.encode() for name, value in span.headers().items()})
            await site.dispatcher.pre_dispatch_check(entry, context.barred)
            await self._pass_on(upstream, exchange, entry)

    async def _pass_on(self, upstream: Upstream, exchange: Exchange, entry: Admitted) -> None:
        endless = isinstance(entry.message, Message) and entry.message.method == _SUBSCRIBE
        exchange.answer_with(entry.headers)
        try:
            if endless:
                with self._heard(exchange, entry.message):
                    await self._streams.follow(upstream.post(exchange, entry))
            else:
                await upstream.post(exchange, entry)
        except Refused as refused:
            if isinstance(refused, UpstreamError):
                self._watched.failure(upstream.name, refused.reason)
            if exchange.started and not exchange.parked:
                raise
            await exchange.refuse(refused, reply=refuse_all(entry.message, refused))
        except asyncio.CancelledError:
            if self._streams.stopping and exchange.streaming:
                # The time for calls under way is over: a stream ends with the reason, not in the middle.
                cut = Refused(Reason.SHUTTING_DOWN)
                await exchange.end(b"" if endless else encode_event(error_reply(_id_of(entry.message), cut)))
            raise

    @staticmethod
    def _heard(exchange: Exchange, message: Message | Batch) -> AbstractContextManager[None]:
        """A subscription may be for what the gateway itself has to tell."""
        wanted = wanted_changes(message) if isinstance(message, Message) else frozenset()
        if exchange.hearing is None or not wanted:
            return contextlib.nullcontext()
        return exchange.hearing(only(wanted, onto(exchange)))

    async def _stream(self, upstream: Upstream, exchange: Exchange) -> None:
        try:
            await self._streams.follow(upstream.get(exchange))
        except asyncio.CancelledError:
            if not self._streams.stopping:
                raise
            if exchange.started:
                await exchange.end()
            else:
                raise Refused(Reason.SHUTTING_DOWN) from None

    async def _refuse(self, exchange: Exchange, refused: Refused) -> None:
        if exchange.started and not exchange.parked:
            log.warning("answer broken off", extra={"fields": {"reason": refused.reason.value}})
            return
        await exchange.refuse(refused)

    def metrics(self) -> bytes:
        """What this process has counted; nothing where nobody may see it."""
        upstreams = self._sites.current.upstreams
        return self._watched.render_metrics(self._busy, {name: up.sessions for name, up in upstreams.items()}) or b""

    async def _watch(self, exchange: Exchange) -> None:
        text = (b"content-type", b"text/plain; charset=utf-8")
        if exchange.path in _OPERATORS and exchange.method not in ("GET", "HEAD"):
            raise Refused(Reason.METHOD_NOT_ALLOWED, advice="Use GET.")
        if exchange.path == "/healthz":
            await exchange.respond(200, b"ok\n", [text])
        elif exchange.path == "/readyz":
            problem = "shutting down" if self._streams.stopping else self._watched.ready()
            notice = self._watched.notice()
            said = (problem or "ready") + (f"\n{notice}" if notice else "")
            await exchange.respond(200 if problem is None else 503, said.encode() + b"\n", [text])
        elif exchange.path == "/metrics" and (metrics := self.metrics()):
            if self._peers is not None:
                metrics = by_worker(await self._peers.texts())
            await exchange.respond(200, metrics, [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")])
        else:
            raise Refused(
                Reason.SERVER_UNKNOWN,
                f"nothing is at {exchange.path!r}",
                advice="MCP endpoints are /servers/NAME/mcp, and /mcp while there is one server.",
            )


async def _publish(exchange: Exchange, document: bytes) -> None:
    """What clients have to know before they can call; web pages of others may read it too."""
    if exchange.method not in ("GET", "HEAD"):
        raise Refused(Reason.METHOD_NOT_ALLOWED, advice="Use GET.")
    await exchange.respond(200, document, [JSON, (b"access-control-allow-origin", b"*")])


async def _identify(agents: Authenticate, exchange: Exchange, server: str) -> None:
    """Who asks for something that is no message; raises Refused."""
    try:
        exchange.identify(await agents.authenticate(exchange, server, b"", ()))
    except CallerRefused as denied:
        exchange.identify(denied.identity)
        raise denied.refused from None


def _goes_before_the_gate(site: Site, upstream: Upstream, message: Message, tools: Sequence[str]) -> bool:
    """Whether a message is one call, which does nothing anywhere before the gate decides on it."""
    stages = site.dispatcher.stages
    called = message.kind is MessageKind.REQUEST and len(tools) == 1 and upstream.sees_headers
    return called and (stages is None or tools[0] not in stages.tools)


def _id_of(message: Message | Batch) -> int | str | None:
    return message.id if isinstance(message, Message) else None

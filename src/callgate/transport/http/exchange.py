"""One request of a client over HTTP: its head and body, who may send it, and what headers may say."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any, Final, Self, TypeAlias
from urllib.parse import urlsplit

from callgate.errors import MessageError, Reason, Refused, UpstreamError
from callgate.gate import NOBODY, Headers, Identity
from callgate.jsonrpc import Batch, Message, MessageKind, RequestId, error_reply
from callgate.protocol import CAPABILITIES_META, HANDSHAKE_VERSIONS, HOP_BY_HOP, VERSION_META
from callgate.transport.lines import one_line
from callgate.transport.sse import encode_event

# Most calls are over sooner; only a slow one pays for a task that watches the client's side of the connection.
_WATCH_AFTER: Final = 0.05


class Deadline:
    """`with Deadline(seconds, reason):` — the block is given up after that time with this refusal.

    With `gone`, which ends when the client has left, the block ends then too, and `deadline.gone` says so. What is
    late is then the server: the refusal is an UpstreamError. `patient()` says that something has begun and there is no
    hurry any more.
    """

    __slots__ = (
        "_delay",
        "_expired",
        "_leaves",
        "_patience",
        "_reason",
        "_since",
        "_task",
        "_timer",
        "_watcher",
        "gone",
    )

    def __init__(
        self,
        seconds: float | None,
        reason: Reason,
        gone: Callable[[], Awaitable[None]] | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        self._patience = seconds
        self._reason = reason
        self._leaves = gone
        self._delay = 0.0 if at_once else _WATCH_AFTER
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._since = 0.0
        self._expired = False
        self.gone = False

    def patient(self) -> None:
        """Wait for as long as it takes from here on."""
        self._patience = None

    def __enter__(self) -> Self:
        # Asked for once: up to Python 3.11 it is a system call each time.
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(loop)
        self._since = loop.time()
        self._timer = loop.call_later(self._delay, self._begin, loop)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if kind is asyncio.CancelledError and (self.gone or self._expired):
            assert self._task is not None
            # Only our own request to stop is swallowed; a shutdown that came at the same time still counts.
            if self._task.uncancel() == 0:
                if self._expired:
                    raise (Refused if self._leaves is None else UpstreamError)(self._reason) from None
                return True
        return False

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._leaves is not None:
            self._watcher = loop.create_task(self._wait(self._leaves))
        self._tick(loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look again at the end of the patience, if there still is one then."""
        if self._patience is None:
            self._timer = None
            return
        left = self._since + self._patience - loop.time()
        if left > 0:
            self._timer = loop.call_later(left, self._tick, loop)
            return
        self._expired = True
        assert self._task is not None
        self._task.cancel()

    async def _wait(self, gone: Callable[[], Awaitable[None]]) -> None:
        await gone()
        self.gone = True
        assert self._task is not None
        self._task.cancel()


Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON: Final = (b"content-type", b"application/json")
EVENT_STREAM: Final = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform"))
# Two values of one of these would let the gate and a server each believe another one.
_SINGLE: Final = (b"host", b"origin", b"content-type", b"content-length", b"content-encoding", b"mcp-session-id")


class ClientGone(Exception):
    """The client closed the connection before its request was whole."""


class Exchange:
    """A request to read and an answer to write; `fields` has the headers by name."""

    __slots__ = (
        "_answering",
        "_greeted",
        "_receive",
        "_send",
        "fields",
        "headers",
        "hearing",
        "identity",
        "method",
        "parked",
        "path",
        "peer",
        "query",
        "raw_path",
        "repeats",
        "scheme",
        "server",
        "session",
        "started",
        "status",
        "streaming",
        "trace",
        "unasked",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        # As they came, for whoever has to know what was signed.
        self.raw_path: bytes = scope.get("raw_path") or b""
        self.query: bytes = scope.get("query_string", b"")
        self.scheme: str = scope.get("scheme", "http")
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.fields: dict[bytes, bytes] = dict(self.headers)
        # Whether some header appears more than once.
        self.repeats = len(self.fields) != len(self.headers)
        # The session that the client names; empty without one.
        self.session = self.fields.get(b"mcp-session-id", b"").decode("latin-1")
        client = scope.get("client")
        self.peer: str | None = client[0] if client else None
        # The address and port of ours that it came to, where that is known.
        self.server: tuple[str, int | None] | None = scope.get("server")
        self.started = self.streaming = False
        # The stream was opened before the server was asked: what it answers becomes an event on it.
        self.parked = False
        # Told the session that the answer opens, before the client can use it.
        self._greeted: Callable[[str], None] | None = None
        # Around a stream that can take messages of the gateway's own, given how to send them there.
        self.hearing: Callable[[Callable[[bytes], None]], AbstractContextManager[None]] | None = None
        # What to do with messages on a stream that answer nothing.
        self.unasked: Callable[[bytes], Awaitable[bytes]] | None = None
        self.status = 0
        self.trace: dict[bytes, bytes] = {}
        # Who sent it, once that is verified, and what more the answer says than what it answers.
        self.identity = NOBODY
        self._answering: Headers = ()
        self._receive = receive
        self._send = send

    @property
    def owner(self) -> str:
        """Whose a session is that this request opens: a verified agent's is nobody else's. Empty for the unnamed."""
        caller = self.identity.caller
        return "" if caller is None else caller.id

    def identify(self, identity: Identity) -> None:
        """Who sent it is known now."""
        self.identity = identity
        self._answering += identity.answering

    def listens(
        self,
        hearing: Callable[[Callable[[bytes], None]], AbstractContextManager[None]],
        unasked: Callable[[bytes], Awaitable[bytes]] | None = None,
    ) -> None:
        """Its answer is a stream that takes messages of the gateway's own, and the server's that answer nothing."""
        self.hearing, self.unasked = hearing, unasked

    def opens_session(self, greeted: Callable[[str], None]) -> None:
        """Its answer opens a session: `greeted` is told which, before the client can use it."""
        self._greeted = greeted

    def continue_trace(self, headers: Mapping[bytes, bytes]) -> None:
        """These headers tell the server which trace it is part of."""
        self.trace = dict(headers)

    def answer_with(self, headers: Headers) -> None:
        """Headers for the answer, whatever it will be."""
        self._answering += headers

    def refuse_repeated(self) -> None:
        """Raise where a header that has to be single is not."""
        if self.repeats:
            names = [name for name, _ in self.headers]
            for name in _SINGLE:
                if names.count(name) > 1:
                    raise Refused(Reason.INVALID_REQUEST, f"the header {name.decode()} appears more than once")

    async def body(self, limit: int, seconds: float) -> bytes:
        """The whole body; refused as soon as it is known to be too large or too slow."""
        length = self.fields.get(b"content-length")
        if length is not None and (not length.isdigit() or int(length) > limit):
            raise Refused(Reason.MESSAGE_TOO_LARGE, f"the body is announced larger than {limit} bytes")
        with Deadline(seconds, Reason.BODY_TIMEOUT):
            parts: list[bytes] = []
            size, more = 0, True
            while more:
                event = await self._receive()
                if event["type"] == "http.disconnect":
                    raise ClientGone
                parts.append(event.get("body", b""))
                more = event.get("more_body", False)
                size += len(parts[-1])
                if size > limit:
                    raise Refused(Reason.MESSAGE_TOO_LARGE, f"the body is larger than {limit} bytes")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def respond(self, status: int, body: bytes = b"", headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """A whole answer at once; on a parked stream, its last event."""
        if self.parked:
            await self.end(encode_event(one_line(body)[:-1]) if body.strip() else b"")
            return
        head = [] if headers is None else headers
        if self._greeted is not None:
            self._greet(self._greeted, head)
        head += self._answering
        if body or status not in (202, 204, 304):
            head.append((b"content-length", b"%d" % len(body)))
        self.started = True
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, refused: Refused, rpc_id: RequestId | None = None, reply: bytes | None = None) -> None:
        """The answer that a refusal becomes."""
        headers = [JSON]
        if refused.status == Reason.METHOD_NOT_ALLOWED.status:
            headers.append((b"allow", b"POST, GET, DELETE"))
        if refused.status in (Reason.OVERLOADED.status, Reason.BODY_TIMEOUT.status):
            headers.append((b"retry-after", b"1"))
        await self.respond(refused.status, error_reply(rpc_id, refused) if reply is None else reply, headers)

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Begin an answer that is streamed, or go on with one that was parked."""
        if self.parked:
            self.parked = False
            return
        if self._greeted is not None:
            self._greet(self._greeted, headers)
        headers += self._answering
        self.started = self.streaming = True
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    @staticmethod
    def _greet(greeted: Callable[[str], None], headers: list[tuple[bytes, bytes]]) -> None:
        for name, value in headers:
            if name == b"mcp-session-id":
                greeted(value.decode("latin-1"))

    async def park(self) -> None:
        """Open the stream before there is an answer: what follows may take long."""
        if not self.started:
            await self.start(200, list(EVENT_STREAM))
            self.parked = True

    async def silence(self) -> None:
        """End without an answer: the client took its request back, and wants none (2025-11-25, cancellation)."""
        await self.park()
        await self.end()

    @property
    def takes_events(self) -> bool:
        """Whether the client takes a stream for an answer."""
        accept = self.fields.get(b"accept", b"").lower()
        return b"text/event-stream" in accept or b"*/*" in accept

    async def write(self, chunk: bytes) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes = b"") -> None:
        self.streaming = self.parked = False
        await self._send({"type": "http.response.body", "body": chunk})

    async def client_gone(self) -> None:
        """Wait until the client has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Streams:
    """Answers that would never end by themselves: they end as soon as whoever listens is asked to stop."""

    def __init__(self) -> None:
        self.stopping = False
        self._tasks: set[asyncio.Task[object]] = set()

    def stop(self) -> None:
        self.stopping = True
        for task in self._tasks:
            task.cancel()

    async def follow(self, work: Awaitable[None]) -> None:
        """Do this until then: from then on it is cancelled."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await work
        except asyncio.CancelledError:
            if self.stopping:
                task.uncancel()
            raise
        finally:
            self._tasks.discard(task)

    async def show(self, app: Asgi, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        """A page of an application. An answer that has begun ends there, and is whole: a page follows what happens."""

        async def noticing(message: AsgiMessage) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                exchange.started = exchange.streaming = True
                exchange.status = message["status"]
            elif not message.get("more_body", False):
                exchange.streaming = False

        try:
            if not self.stopping:
                await self.follow(app(scope, receive, noticing))
        except asyncio.CancelledError:
            if not self.stopping:
                raise
        if self.stopping and not exchange.started:
            raise Refused(Reason.SHUTTING_DOWN)
        if self.stopping and exchange.streaming:
            await exchange.end()


def onto(exchange: Exchange) -> Callable[[bytes], None]:
    """Writes onto a stream that is open; where none is, the client will ask for the list anyway."""
    writing: set[asyncio.Task[None]] = set()

    def push(message: bytes) -> None:
        if not exchange.streaming:
            return
        task = asyncio.get_running_loop().create_task(_write(exchange, message))
        writing.add(task)
        task.add_done_callback(writing.discard)

    return push


async def _write(exchange: Exchange, message: bytes) -> None:
    with contextlib.suppress(Exception):  # a client that has left needs no news
        if exchange.streaming:
            await exchange.write(encode_event(message))


_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Guard:
    """Host and Origin have to name this gateway, or what the operator listed."""

    def __init__(self, listen_host: str, allowed_hosts: tuple[str, ...], allowed_origins: tuple[str, ...]) -> None:
        own = f"[{listen_host}]" if ":" in listen_host and not listen_host.startswith("[") else listen_host
        self._hosts = _LOOPBACK | {own.lower()} | {host.lower() for host in allowed_hosts}
        self._any_host = "*" in allowed_hosts
        self._origins = frozenset(origin.lower().rstrip("/") for origin in allowed_origins)
        # What passed once passes again: a handful of spellings, kept bounded, spares the parsing on each request.
        self._seen: dict[tuple[bytes | None, bytes | None], bool] = {}

    def check(self, exchange: Exchange) -> None:
        """Raise where Host or Origin is not ours."""
        host = exchange.fields.get(b"host")
        origin = exchange.fields.get(b"origin")
        if (host, origin) in self._seen and not exchange.repeats:
            return
        exchange.refuse_repeated()
        if not self._host_allowed(host):
            raise Refused(Reason.HOST_NOT_ALLOWED)
        if origin is not None and not self._origin_allowed(origin):
            raise Refused(Reason.ORIGIN_NOT_ALLOWED)
        if len(self._seen) < 256:
            self._seen[(host, origin)] = True

    def _host_allowed(self, header: bytes | None) -> bool:
        if header is None:
            return False
        text = header.decode("latin-1").strip().lower()
        return self._any_host or text in self._hosts or _without_port(text) in self._hosts

    def _origin_allowed(self, header: bytes) -> bool:
        text = header.decode("latin-1").strip().lower().rstrip("/")
        if text in self._origins:
            return True
        try:
            parts = urlsplit(text)
            host = parts.hostname
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or host is None:
            return False
        # A page served from this machine's own loopback, or by a host the gateway itself answers for.
        return (f"[{host}]" if ":" in host else host) in self._hosts


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def origin_of(url: str) -> str:
    """An address's origin, without its path."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def host_of(url: str) -> str:
    return urlsplit(url).netloc


def check_head(exchange: Exchange) -> None:
    """A body the gate cannot read as plain UTF-8 JSON could be another call to whoever can read it.

    `Connection` may name headers that end here (RFC 9110 §7.6.1): not those that the request was judged by.
    """
    fields = exchange.fields
    if fields.get(b"connection") not in (None, b"keep-alive", b"close"):
        _check_nominated(exchange)
    if fields.get(b"content-encoding", b"identity").strip().lower() not in (b"", b"identity"):
        raise Refused(Reason.UNSUPPORTED_MEDIA_TYPE, "a compressed body cannot be checked")
    seen = fields.get(b"content-type")
    if seen == b"application/json":
        return
    if seen is None:
        raise Refused(Reason.UNSUPPORTED_MEDIA_TYPE)
    kind, _, parameters = seen.decode("latin-1").lower().partition(";")
    if kind.strip() != "application/json":
        raise Refused(Reason.UNSUPPORTED_MEDIA_TYPE)
    for parameter in parameters.split(";"):
        key, _, charset = parameter.partition("=")
        if key.strip() == "charset" and charset.strip().strip('"') not in ("utf-8", "utf8"):
            raise Refused(Reason.UNSUPPORTED_MEDIA_TYPE, "the body has to be UTF-8")


def _check_nominated(exchange: Exchange) -> None:
    for name, value in exchange.headers:
        if name == b"connection" and any(_judged(token.strip()) for token in value.lower().split(b",")):
            raise Refused(Reason.INVALID_REQUEST, "Connection names a header that has to reach the server")


def _judged(name: bytes) -> bool:
    return name.startswith(b"mcp-") or name in (b"accept", b"content-type", b"content-encoding", b"last-event-id")


_ROUTING: Final = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
NAME_PARAMETER: Final[Mapping[str, str]] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Routing:
    """The modern era's routing headers of one request, duplicates noticed."""

    __slots__ = ("duplicate", "method", "modern", "name", "version")

    def __init__(self, exchange: Exchange) -> None:
        # RFC 9110 §5.5: white space around a value is not part of it; httptools leaves it there.
        self.version, self.method, self.name = [
            None if (value := exchange.fields.get(name)) is None else value.decode("latin-1").strip()
            for name in _ROUTING
        ]
        # Era by header alone: no header or a handshake version means sessions, everything else is stateless.
        self.modern = self.version is not None and self.version not in HANDSHAKE_VERSIONS
        self.duplicate: str | None = None
        if exchange.repeats:
            names = [name for name, _ in exchange.headers if name in _ROUTING]
            self.duplicate = next((name.decode() for name in _ROUTING if names.count(name) > 1), None)


def check_routing(message: Message | Batch, routing: Routing, *, complete: bool) -> None:
    """Raise −32020 where the headers say something else than the body.

    `complete` also judges what is absent: set for an upstream that sees no headers and cannot judge by itself.
    """
    if routing.duplicate is not None:
        raise _mismatch(f"the header {routing.duplicate} appears more than once")
    if isinstance(message, Batch):
        if routing.modern or routing.method is not None or routing.name is not None:
            raise MessageError(Reason.INVALID_REQUEST, "a batch cannot carry the routing headers of one request")
        return
    if message.kind is not MessageKind.REQUEST and routing.method is None:
        return
    if routing.method is not None and routing.method != message.method:
        raise _mismatch("Mcp-Method differs from the body's method")
    expected = _named(message)
    # Only a wrapped value stands for another text than its own.
    name = decode_value(routing.name) if routing.name is not None and routing.name[:2] == "=?" else routing.name
    if routing.name is not None and expected is not None and name != expected:
        raise _mismatch("Mcp-Name differs from what the body names")
    if routing.modern and message.kind is MessageKind.REQUEST:
        _check_envelope(message, routing, expected, complete=complete)


def _check_envelope(message: Message, routing: Routing, expected: str | None, *, complete: bool) -> None:
    version = message.meta.get(VERSION_META)
    if version is None or CAPABILITIES_META not in message.meta:
        # The modern envelope is missing from the body: not a mismatch, and a server that sees it says so itself.
        if complete:
            raise MessageError(Reason.INVALID_PARAMS, f"params._meta lacks {VERSION_META} or {CAPABILITIES_META}")
        return
    if version != routing.version:
        raise _mismatch("MCP-Protocol-Version differs from the body's protocol version")
    if routing.method is None:
        raise _mismatch("the header Mcp-Method is missing")
    if routing.name is None and expected is not None:
        raise _mismatch("the header Mcp-Name is missing")


def _named(message: Message) -> str | None:
    key = NAME_PARAMETER.get(message.method)
    if key is None or not isinstance(message.params, dict):
        return None
    value = message.params.get(key)
    return value if isinstance(value, str) else None


def _mismatch(detail: str) -> MessageError:
    return MessageError(Reason.HEADER_MISMATCH, detail)


# ---- header values that carry text ----

_WRAPPED: Final = re.compile(r"=\?base64\?(.*)\?=")
_PLAIN: Final = re.compile(r"[\x20-\x7e]*")


def encode_value(value: str) -> str:
    """A text as a header value: as it is, or wrapped as `=?base64?…?=` where it would not survive."""
    if _PLAIN.fullmatch(value) and value == value.strip() and not _WRAPPED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def decode_value(value: str) -> str | None:
    """The text a header value stands for, or None if it is wrapped and damaged."""
    wrapped = _WRAPPED.fullmatch(value)
    if wrapped is None:
        return value
    try:
        text = base64.b64decode(wrapped.group(1), validate=True)
        if base64.b64encode(text).decode() != wrapped.group(1):
            return None
        return text.decode()
    except ValueError:  # no base64, no ASCII, or no UTF-8
        return None


# ---- arguments that are repeated as headers: `x-mcp-header` in a tool's definition ----

# Which arguments of a tool are repeated, by their path, and the end of each header's name.
Parameters: TypeAlias = Mapping[tuple[str, ...], str]


def parameter_map(input_schema: Any) -> Parameters:
    """Which arguments of a tool are repeated as `Mcp-Param-…` headers: `x-mcp-header` along `properties` only."""
    found: dict[tuple[str, ...], str] = {}
    stack: list[tuple[tuple[str, ...], Any]] = [((), input_schema)]
    while stack and len(found) < 64:
        path, schema = stack.pop()
        if not isinstance(schema, dict) or len(path) > 16:
            continue
        token = schema.get("x-mcp-header")
        if path and isinstance(token, str) and _TOKEN.fullmatch(token):
            found[path] = token
        properties = schema.get("properties")
        if isinstance(properties, dict):
            stack.extend(((*path, key), value) for key, value in properties.items())
    # Two arguments cannot share one header: such a mark is none.
    tokens = [token.lower() for token in found.values()]
    return {path: token for path, token in found.items() if tokens.count(token.lower()) == 1}


def check_parameters(parameters: Parameters, arguments: object, exchange: Exchange) -> None:
    """Raise −32020 where an `Mcp-Param-…` header and the argument that it repeats are not the same.

    2026-07-28, Streamable HTTP, Server Behavior for Custom Headers: an argument has to have its header, a header
    without its argument is refused, and headers of other names are not looked at.
    """
    for path, token in parameters.items():
        name = f"Mcp-Param-{token}"
        key = name.lower().encode()
        if exchange.repeats and sum(header == key for header, _ in exchange.headers) > 1:
            raise _mismatch(f"the header {name} appears more than once")
        value, raw = _at(arguments, path), exchange.fields.get(key)
        given = None if raw is None else raw.decode("latin-1").strip()
        if given is None:
            if _repeatable(value):
                raise _mismatch(f"the header {name} is missing")
        elif not _VISIBLE.fullmatch(given):
            raise _mismatch(f"the header {name} holds characters that need the form =?base64?…?=")
        elif not _says(decode_value(given), value):
            raise _mismatch(f"{name} differs from the argument {'.'.join(path)}")


def _at(arguments: object, path: tuple[str, ...]) -> object:
    node = arguments
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def _repeatable(value: object) -> bool:
    """Whether a header has to repeat it. What has a fraction need not: the mark is not for the type `number`."""
    return isinstance(value, (str, int)) or (isinstance(value, float) and value.is_integer())


def _says(text: str | None, value: object) -> bool:
    if text is None or value is None:
        return False
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, (int, float)):
        # Numerically, as the note under Server Validation has it: 42.0 is 42.
        return len(text) <= _NUMBER_CHARS and _DECIMAL.fullmatch(text) is not None and Decimal(text) == Decimal(value)
    return text == value


_VISIBLE: Final = re.compile(r"[\t\x20-\x7e]*")
_DECIMAL: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_NUMBER_CHARS: Final = 400
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


# ---- for a client that has no headers: the ones its requests stand for ----


def routing_headers(message: Message) -> dict[str, str]:
    """The modern era's headers for a message that came over a pipe; empty in the handshake era."""
    version = message.meta.get(VERSION_META)
    if not isinstance(version, str) or version in HANDSHAKE_VERSIONS:
        return {}
    headers = {"mcp-protocol-version": version, "mcp-method": encode_value(message.method)}
    name = _named(message)
    if name is not None:
        headers["mcp-name"] = encode_value(name)
    return headers


def parameter_headers(parameters: Parameters, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The `Mcp-Param-…` headers of one call."""
    headers: dict[str, str] = {}
    for path, token in parameters.items():
        value = _at(arguments, path)
        if isinstance(value, bool):
            headers[f"mcp-param-{token.lower()}"] = "true" if value else "false"
        elif isinstance(value, (str, int)):
            headers[f"mcp-param-{token.lower()}"] = encode_value(str(value))
    return headers


RawHeaders: TypeAlias = Iterable[tuple[bytes, bytes]]

# And what belongs to one connection or to one pair of peers only.
_HOP_BY_HOP: Final = HOP_BY_HOP | {b"http2-settings"}
# The gateway is the client upstream sees: its own host and length, no compression, and no credentials of ours.
_NOT_UP: Final = _HOP_BY_HOP | {
    b"host",
    b"content-length",
    b"accept-encoding",
    b"cookie",
    b"origin",
    b"referer",
    b"expect",
    b"forwarded",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-proto",
    b"x-real-ip",
}
_NOT_DOWN: Final = _HOP_BY_HOP | {b"content-length", b"set-cookie", b"content-encoding", b"alt-svc"}
_OF_ONE_REQUEST: Final = (b"mcp-method", b"mcp-name", b"mcp-param-", b"last-event-id")
_PLAIN_CONNECTION: Final = (b"keep-alive", b"close")
_SECRET_UP: Final = frozenset({b"authorization"})


# What begins like this tells a server who was verified, and only we say that (agents/model.py); CGI reads `_` as `-`.
_OURS: Final = b"callgate"


class RequestHeaderFilter:
    """Which of a client's headers travel on to one server, beside the ones configured for it."""

    def __init__(self, own: Iterable[tuple[bytes, bytes]], *, authorization: bool) -> None:
        self._own = [(b"accept-encoding", b"identity"), *own]
        drop = _NOT_UP if authorization else _NOT_UP | _SECRET_UP
        self._drop = drop | {name for name, _ in self._own}

    def headers(self, exchange: Exchange) -> list[tuple[bytes, bytes]]:
        identity = exchange.identity
        drop = self._drop | identity.spent if identity.spent else self._drop
        connection = exchange.fields.get(b"connection")
        if connection is not None and (exchange.repeats or connection not in _PLAIN_CONNECTION):
            drop = drop | _named_by_connection(exchange.headers)
        # RFC 9110 §5.5: white space around a value is not part of it; httptools leaves it there.
        up = [(name, value.strip()) for name, value in exchange.headers if name not in drop and name[:8] != _OURS]
        up += self._own
        up += identity.told
        if exchange.trace:
            up = [item for item in up if item[0] not in exchange.trace]
            up += exchange.trace.items()
        return up

    def headers_for(self, exchange: Exchange, message: Message) -> list[tuple[bytes, bytes]]:
        """The same for a request of the gateway's own: what named the client's request names ours instead."""
        kept = [pair for pair in self.headers(exchange) if not pair[0].startswith(_OF_ONE_REQUEST)]
        named = routing_headers(message)
        named.pop("mcp-protocol-version", None)
        return kept + [(name.encode(), value.encode()) for name, value in named.items()]


def forward_down(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """The headers of an answer to the client."""
    down: list[tuple[bytes, bytes]] = []
    drop: AbstractSet[bytes] = _NOT_DOWN
    for name, value in headers:
        if (low := name.lower()) not in drop:
            down.append((low, value))
        elif low == b"connection" and value not in _PLAIN_CONNECTION:
            drop = drop | _named_by_connection(((low, value),))
    return down if drop is _NOT_DOWN else [pair for pair in down if pair[0] not in drop]


def _named_by_connection(headers: RawHeaders) -> set[bytes]:
    """Connection may name further headers that end here (RFC 9110 §7.6.1)."""
    return {
        token.strip()
        for name, value in headers
        if name == b"connection" and value not in _PLAIN_CONNECTION
        for token in value.lower().split(b",")
    }

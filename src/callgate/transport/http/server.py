"""The listening side: uvicorn, with the bounds that a hostile network makes necessary."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import re
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from callgate.config import Config
from callgate.config.rules import Address
from callgate.errors import ConfigError, Reason, Refused
from callgate.jsonrpc import error_reply
from callgate.transport.http.app import App
from callgate.transport.http.exchange import Asgi
from callgate.transport.http.peers import Peers

_HEAD_BYTES: Final = 64 * 1024
_HEAD_FIELDS: Final = 200
_LINGER_SECONDS: Final = 1.0
_LINGER_MOST: Final = 64
_AUTHORITY_END: Final = re.compile(rb"[/?#]")


class _Trailers(list[tuple[bytes, bytes]]):
    """Takes no header: what comes behind the body was not there when the request was judged (RFC 9110 §6.5.1)."""

    def append(self, _field: tuple[bytes, bytes]) -> None:
        return


_TRAILERS: Final = _Trailers()
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_ANNOUNCED: Final = b"\r\ncontent-length: "
# A longer body is not copied for the sake of its head.
_JOINED_BYTES: Final = 64 * 1024


class _Joined(asyncio.Transport):
    """The transport as one answer sees it: a head that announces a body leaves together with the first of it.

    uvicorn writes the two one after the other, and each write is a system call and a packet: the dearest thing there
    is about a small answer. Nobody can use the head alone. What does not announce its length is never held: it may be
    a stream, whose head has to be there long before its first event.
    """

    __slots__ = ("_begun", "_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._begun = False
        self._head = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._head:
            head, self._head = self._head, b""
            if len(data) <= _JOINED_BYTES:
                data = head + data
            else:
                self._transport.write(head)
        elif not self._begun and data != _CONTINUE:
            # Only the first piece is a head, whatever a body may look like.
            self._begun = True
            head = bytes(data)
            if head.find(_ANNOUNCED) >= 0:
                self._head = head
                return
        self._transport.write(data)

    def close(self) -> None:
        if self._head:
            self.write(b"")
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()


class Connection(HttpToolsProtocol):
    """uvicorn's protocol with a cap on connections, on the size of a request's head and on the time it may take."""

    most: int
    head_seconds: float
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _in_head = True
    _body_came = False
    _deaf = False
    # The other processes of this gateway. A request of one of theirs is passed on with its connection, if all that
    # was read of it is at hand: it began where a piece of what came begins.
    peers: Peers | None = None
    _ended = True
    _apart = False
    _whole = False
    _read = b""
    _owner: int | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self._turn_away(Reason.OVERLOADED)
            return
        self._head_timer = self.loop.call_later(self.head_seconds, self._turn_away, Reason.BODY_TIMEOUT)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deaf or self.transport.is_closing():
            return
        if self.peers is not None:
            self._apart = self._ended
            self._read = data if self._ended or not self._in_head else self._read + data
        super().data_received(data)
        if self._owner is not None:
            self._leave(self._owner)
        elif self._in_head:
            self._head_goes_on(len(data))
        elif self.cycle.more_body or self.cycle.response_complete:
            self._rest_goes_on(len(data))

    def _head_goes_on(self, size: int) -> None:
        """Most heads come in one piece: only a request that is still unfinished pays for a count and a timer."""
        if self._deaf:
            return
        self._head_bytes += size
        if self._head_bytes > _HEAD_BYTES:
            self._turn_away(Reason.MESSAGE_TOO_LARGE)
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self._turn_away, Reason.BODY_TIMEOUT)

    def _rest_goes_on(self, size: int) -> None:
        """More of a body, of what follows it, or of a request that has its answer: none of it may go on for ever."""
        if self._body_came:
            self._body_came = False
            self._head_bytes = 0
        else:
            self._head_bytes += size
            if self._head_bytes > _HEAD_BYTES:
                self._turn_away(Reason.MESSAGE_TOO_LARGE)
                return
        if self.cycle.response_complete and self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def on_message_begin(self) -> None:
        self._in_head = True
        self._whole, self._apart, self._ended = self._apart, False, False
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._ended = True
        super().on_message_complete()

    def on_headers_complete(self) -> None:
        if self._owner is not None:
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._leave_pipelined()
            return
        self._head_bytes = 0
        if self._head_timer is not None:
            self._stop_timer()
        if len(self.headers) > _HEAD_FIELDS:
            self._turn_away(Reason.MESSAGE_TOO_LARGE)
            return
        if (self.url[:1] != b"/" or b"#" in self.url) and not self._read_target():
            self._turn_away(Reason.INVALID_REQUEST)
            return
        if self.peers is not None:
            self._owner = self._owner_of(self.peers)
            if self._owner is not None:
                self._deaf = True
                return
        before = self.cycle
        super().on_headers_complete()
        # The answer to HEAD has no body that its head could leave with.
        if self.cycle is not before and self.scope["method"] != "HEAD":
            self.cycle.transport = _Joined(self.transport)
        self._in_head = False
        self.headers = _TRAILERS

    def _owner_of(self, peers: Peers) -> int | None:
        return peers.owner(self.url, self.headers)

    def _leave(self, owner: int) -> None:
        """Pass the connection on to the process that the request belongs to, or let the client come again."""
        self.transport.pause_reading()
        link = self.transport.get_extra_info("socket")
        self._stop_timer()
        if self._whole and self.peers is not None and self.peers.pass_on(owner, link.fileno(), self._read):
            self.transport.abort()
            return
        self._deaf = False
        self._turn_away(Reason.OVERLOADED)

    def _read_target(self) -> bool:
        """Whether a target in absolute form is one; it goes by its own host, whatever Host says (RFC 9112 §3.2.2).

        Nobody can sign or guard what has a user in it, and a fragment is never sent.
        """
        if self.url == b"*":
            return True
        scheme, marked, rest = self.url.partition(b"://")
        authority = _AUTHORITY_END.split(rest, maxsplit=1)[0]
        if not marked or scheme.lower() not in (b"http", b"https") or not authority:
            return False
        if b"@" in authority or b"#" in self.url:
            return False
        rest_of_them = [field for field in self.headers if field[0] != b"host"]
        # Two of them are refused later, as any header that has to be single.
        if len(self.headers) - len(rest_of_them) <= 1:
            self.headers[:] = [*rest_of_them, (b"host", authority)]
        return True

    def on_body(self, body: bytes) -> None:
        if not self._deaf:
            self._body_came = True
            super().on_body(body)

    def _leave_pipelined(self) -> None:
        """A request behind one under way is not read: the connection ends with the first answer, so it is sent again.

        uvicorn would stop reading, and with that never notice that the client has left (RFC 9112 §9.3.2 and §9.6).
        """
        self._deaf = True
        self.cycle.keep_alive = False
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _turn_away(self, reason: Reason) -> None:
        self._stop_timer()
        if self._deaf or self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            # Written now, the refusal would be taken for the answer to the request before, or for a part of it.
            self.transport.close()
            return
        body = error_reply(None, Refused(reason))
        head = (
            b"HTTP/1.1 %d Refused\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        )
        self.transport.write(head % (reason.status, len(body)) + body)
        self._deaf = True
        if len(self.connections) > self.most + _LINGER_MOST:
            self.transport.close()
            return
        # Closed with bytes unread, the connection would be reset and the answer lost on its way (RFC 9112 §9.6).
        self.transport.write_eof()
        self._head_timer = self.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature
        """What is no HTTP gets an answer of the same form as every other refusal."""
        self._turn_away(Reason.INVALID_REQUEST)


class _Adopted(Connection):
    """A connection that another process of this gateway passed on, with what it read of its first request."""

    _settled = False

    def __init__(self, first: bytes, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._first = first

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Before anything that is still to be read of it.
        self.data_received(self._first)

    def _owner_of(self, peers: Peers) -> int | None:
        # Not sent round in circles, whatever the processes think of each other.
        settled, self._settled = self._settled, True
        return super()._owner_of(peers) if settled else None


def bounded(
    most: int, head_seconds: float, peers: Peers | None = None, kind: type[Connection] = Connection
) -> type[HttpToolsProtocol]:
    """The protocol with these bounds; uvicorn makes one for each connection."""
    return type("BoundedConnection", (kind,), {"most": most, "head_seconds": head_seconds, "peers": peers})


log = logging.getLogger("callgate.http")

_SPARE_DESCRIPTORS: Final = 128
_NEXT_PORTS: Final = 20


def quiet(app: Asgi, http: type[asyncio.Protocol], **more: Any) -> uvicorn.Config:
    """uvicorn without anything that it would say, log or believe by itself."""
    return uvicorn.Config(
        app,
        http=http,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        **more,
    )


class HttpServer(uvicorn.Server):
    """uvicorn that ends endless streams when it is asked to stop, and says when it listens."""

    def __init__(
        self,
        app: App,
        config: Config,
        connections: int,
        on_listening: Callable[[str], None],
        closing: Callable[[], Awaitable[None]],
        *,
        next_free: bool = False,
        listener: socket.socket | None = None,
        peers: Peers | None = None,
    ) -> None:
        super().__init__(
            quiet(
                app,
                bounded(connections, config.limits.header_seconds, peers),
                backlog=2048,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=max(1, round(config.gateway.shutdown_seconds)),
            )
        )
        self._app = app
        self._address = config.gateway.address
        self._on_listening = on_listening
        # Whether another port will do where the configured one is taken.
        self._next_free = next_free
        # Given where another process has bound it.
        self._listener = listener
        self._peers = peers
        self._adopted = bounded(connections, config.limits.header_seconds, peers, _Adopted)
        self._adopting: set[asyncio.Task[Any]] = set()
        # What else ends with it.
        self._closing = closing

    async def run_until_stopped(self) -> None:
        """Listen, serve, and come back when a signal or `should_exit` says so."""
        listener = bind(self._address, next_free=self._next_free) if self._listener is None else self._listener
        try:
            await self.serve(sockets=[listener])
        finally:
            with contextlib.suppress(OSError):
                listener.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would end the process by the same signal at once; the log still has to be closed after it."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                with contextlib.suppress(NotImplementedError):
                    loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._peers is not None:
            self._peers.start(self._adopt, self._app.metrics)
        await super().startup(sockets)
        if sockets and not self.should_exit:
            host, port = sockets[0].getsockname()[:2]
            self._on_listening(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    def _adopt(self, link: socket.socket, first: bytes) -> None:
        """Serve a connection that another process passed on."""
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return self._adopted(first, self.config, self.server_state, self.lifespan.state, loop)  # type: ignore[arg-type,call-arg]

        task = loop.create_task(loop.connect_accepted_socket(protocol, link))
        self._adopting.add(task)
        task.add_done_callback(self._adopting.discard)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._peers is not None:
            self._peers.stop()
        self._app.begin_shutdown()
        await self._closing()
        await super().shutdown(sockets)

    def stop(self) -> None:
        self.should_exit = True


def bind(address: Address, *, next_free: bool = False, shared: bool = False) -> socket.socket:
    """A socket at the address; `shared` lets further ones of this user be bound there, and the system deals
    connections out to them."""
    host, port = address.host, address.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ports = [port, *(range(port + 1, min(port + _NEXT_PORTS, 65536)) if next_free and port else ()), 0]
    for attempt in ports if next_free else ports[:1]:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            if shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind((host, attempt))
        except OSError as error:
            listener.close()
            why = error.strerror
            if error.errno != errno.EADDRINUSE:
                break
            continue
        listener.setblocking(False)  # noqa: FBT003
        return listener
    raise ConfigError(
        f"cannot listen on {host}:{port}: {why}",
        advice="Choose another address with `callgate serve --listen 127.0.0.1:0`, or stop what uses it.",
    )


def raise_descriptor_limit(connections: int) -> int:
    """Each connection takes a descriptor here and perhaps one upstream: how many of them the system lets us have."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections * 2 + _SPARE_DESCRIPTORS
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most >= wanted:
        return connections
    # Beyond this, accepting one more client would take the descriptor that the store or a server needs.
    affordable = max(1, (most - _SPARE_DESCRIPTORS) // 2)
    fields = {"descriptors": most, "wanted": wanted, "connections": affordable}
    log.warning("few file descriptors: fewer connections are taken", extra={"fields": fields})
    return affordable

"""A call over HTTP that is not decided yet: its own stream, and the session it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Protocol

from callgate.gate import Context
from callgate.gateway.door import session_digest
from callgate.gateway.exchange import Exchange
from callgate.gateway.line import NOBODY_KNOWN, Client, Clients, Opening, Visit, greeting_client
from callgate.gateway.sse import encode_event
from callgate.jsonrpc import Batch, Message


class Server(Protocol):
    """The server behind, as far as a waiting call needs it."""

    async def ask(self, exchange: Exchange, message: Message) -> bytes: ...

    def hold(self, exchange: Exchange) -> AbstractContextManager[None]: ...


class Gateway(Protocol):
    @property
    def stopping(self) -> bool: ...

    def aside(self) -> AbstractContextManager[None]:
        """Around a wait for a person: the request takes no place among those under way."""


class HttpLine:
    """The line of one exchange."""

    __slots__ = ("_gateway", "_server", "caller", "exchange", "waited")

    def __init__(self, exchange: Exchange, server: Server, gateway: Gateway) -> None:
        self.exchange = exchange
        self._server = server
        self._gateway = gateway
        self.waited = 0.0
        self.caller: str | None = None

    @property
    def stopping(self) -> bool:
        return self._gateway.stopping

    @property
    def can_say(self) -> bool:
        return self.exchange.takes_events

    async def turn(self) -> None:
        """Each request stands for itself."""

    async def ask(self, message: Message) -> bytes:
        return await self._server.ask(self.exchange, message)

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
        with self._gateway.aside(), self._server.hold(self.exchange):
            yield


def visit(line: HttpLine, message: Message | Batch, context: Context, clients: Clients | None) -> Visit:
    """The context of a message whose call may have to wait: who sent it, and a line to them and to the server."""
    opening = None
    if isinstance(message, Message) and message.method == "initialize" and clients is not None:
        opening = Opening()
        line.exchange.greeted = partial(_open, clients, context.server, greeting_client(message), opening)
    return Visit(
        context.server,
        context.transport,
        context.session,
        context.protocol,
        context.peer,
        context.headers,
        line=line,
        greeted=NOBODY_KNOWN if clients is None else clients.at(context.server, context.session),
        meta=message.meta if isinstance(message, Message) else {},
        alone=isinstance(message, Message),
        opening=opening,
    )


def _open(clients: Clients, server: str, client: Client, opening: Opening, session: str) -> None:
    known = session_digest(session)
    clients.greet(server, known, client)
    opening.opened(known)

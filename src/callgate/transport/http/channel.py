"""A call over HTTP that is not decided yet: its own stream, and the session it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Protocol

import msgspec

from callgate.jsonrpc import Batch, Message
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
from callgate.pipeline.dispatcher import session_digest
from callgate.transport.http.exchange import Exchange
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
    session = _session(exchange)
    greeted = NOBODY_KNOWN if clients is None or session is None else clients.at(server, session)
    return StreamContext(
        server, "http", session, protocol, exchange.peer, exchange.fields, exchange.caller, greeted=greeted
    )


def visit(
    server: str, line: HttpChannel, protocol: str | None, message: Message | Batch, clients: ClientInfos | None
) -> RequestContext:
    """The same of a message whose call may have to wait: who sent it, and a line to them and to the server."""
    exchange, opening, alone = line.exchange, None, False
    meta: Mapping[str, Any] = {}
    session = _session(exchange)
    if isinstance(message, Message):
        alone, meta = True, message.meta
        if message.method == "initialize" and clients is not None:
            opening = SessionOpening()
            exchange.greeted = partial(_open, clients, server, greeting_client(message), opening)
    return RequestContext(
        server,
        "http",
        session,
        protocol,
        exchange.peer,
        exchange.fields,
        exchange.caller,
        exchange.barred,
        line=line,
        # Only at the start of a session does a client say who it is for all that follows.
        greeted=NOBODY_KNOWN if clients is None or session is None else clients.at(server, session),
        meta=meta,
        alone=alone,
        opening=opening,
    )


def _session(exchange: Exchange) -> str | None:
    session = exchange.fields.get(b"mcp-session-id")
    return None if session is None else session_digest(session.decode("latin-1"))


def _open(clients: ClientInfos, server: str, client: ClientInfo, opening: SessionOpening, session: str) -> None:
    known = session_digest(session)
    clients.greet(server, known, client)
    opening.opened(known)

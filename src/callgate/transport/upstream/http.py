"""A server reached over Streamable HTTP: what the client sent goes on, what the server answers comes back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from callgate.config import ServerSection
from callgate.errors import Reason, Refused, UpstreamError
from callgate.jsonrpc import Batch, Message, MessageKind, Peek, RequestId, error_reply, parts, peek, with_id
from callgate.pipeline.dispatcher import Admitted, AsyncTransform, InFlight, refuse_all
from callgate.transport.http.exchange import Deadline, Exchange, RequestHeaderFilter, forward_down, onto
from callgate.transport.sse import Event, encode_event, passed_on, replace_data
from callgate.transport.upstream.http_client import HttpAnswer, HttpClient

_DETACHED_MAX: Final = 10_000
_OWNERS_MAX: Final = 5_000
_OWNED_MAX: Final = 2_000
# Told of every message on a server's stream that may be of its own accord, with the server's name.
Hear = Callable[[str, bytes], None]


class Detached:
    """Calls whose stream ended before the reply: a resumed stream of the same session may still bring it."""

    def __init__(self, most: int = _DETACHED_MAX) -> None:
        self._most = most
        self._calls: OrderedDict[tuple[str, RequestId], InFlight] = OrderedDict()
        self._entries: OrderedDict[tuple[str, RequestId | None], Admitted] = OrderedDict()

    def keep(self, session: str, flights: Iterable[InFlight]) -> None:
        for flight in flights:
            self._calls[(session, flight.rpc_id)] = flight
        while len(self._calls) > self._most:
            self._calls.popitem(last=False)[1].finish("lost")

    def of(self, session: str) -> tuple[InFlight, ...]:
        return tuple(flight for (owner, _), flight in self._calls.items() if owner == session)

    def keep_entry(self, session: str, ids: Iterable[RequestId | None], entry: Admitted) -> None:
        """What a reply that may still come was asked for by."""
        for rpc_id in ids:
            self._entries[(session, rpc_id)] = entry
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def entries(self, session: str) -> tuple[Admitted, ...]:
        """What the replies on a resumed stream of this session may answer."""
        return tuple({id(entry): entry for (owner, _), entry in self._entries.items() if owner == session}.values())

    def settle(self, session: str) -> None:
        for key in [k for k, flight in self._calls.items() if k[0] == session and flight.done]:
            del self._calls[key]

    def close(self) -> None:
        for flight in self._calls.values():
            flight.finish("lost")
        self._calls.clear()


class Owned:
    """Whose a session of the server's is: the verified agents' that it gave it to.

    Of each agent the longest unused are forgotten, so that none makes another's be forgotten by opening many.
    """

    def __init__(self, most: int = _OWNED_MAX, agents: int = _OWNERS_MAX) -> None:
        self._most = most
        self._agents = agents
        self._owners: dict[str, set[str]] = {}
        self._sessions: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()

    def check(self, exchange: Exchange) -> None:
        """Refused for whoever names a session that others were given, as if there were none of that name."""
        owners = self._owners.get(exchange.session)
        if owners is None:
            return
        if exchange.owner not in owners:
            raise Refused(Reason.SESSION_UNKNOWN)
        self._sessions[exchange.owner].move_to_end(exchange.session)
        self._sessions.move_to_end(exchange.owner)

    def opened(self, exchange: Exchange, given: bytes) -> None:
        """A session that the answer names and the request did not begins here, and is the asking agent's.

        A server that gives one to several means it. One that repeats the id of each request gives nothing.
        """
        if not exchange.owner or exchange.session:
            return
        session = given.decode("latin-1")
        self._owners.setdefault(session, set()).add(exchange.owner)
        own = self._sessions.setdefault(exchange.owner, OrderedDict())
        own[session] = None
        own.move_to_end(session)
        self._sessions.move_to_end(exchange.owner)
        while len(own) > self._most:
            self._forget(exchange.owner, own.popitem(last=False)[0])
        while len(self._sessions) > self._agents:
            agent, theirs = self._sessions.popitem(last=False)
            for one in theirs:
                self._forget(agent, one)

    def _forget(self, owner: str, session: str) -> None:
        owners = self._owners[session]
        owners.discard(owner)
        if not owners:
            del self._owners[session]


class HttpUpstream:
    """Relays exchanges to one Streamable HTTP endpoint."""

    sees_headers = True
    # Sessions of an HTTP server are the server's own: their id passes through, and only whose they are is kept here.
    sessions = 0

    def __init__(self, name: str, server: ServerSection, max_bytes: int, hear: Hear | None = None) -> None:
        self.name = name
        self._hear = hear
        self.busy = 0
        self._client = HttpClient(server, max_bytes)
        self._upward = RequestHeaderFilter(self._client.own_headers, authorization=server.forward_authorization)
        self._detached = Detached()
        self._owned = Owned()

    async def close(self) -> None:
        self._detached.close()
        self._client.close()

    async def post(self, exchange: Exchange, entry: Admitted) -> None:
        """Forward a message and stream its answer back; the calls in it are finished here."""
        settled = False
        try:
            with Deadline(self._client.patience, Reason.UPSTREAM_TIMEOUT, exchange.client_gone) as watch:
                answer = await self._open(b"POST", exchange, entry.message.raw)
                try:
                    await self._answer(exchange, entry, answer, watch)
                finally:
                    answer.close()
                settled = True
        except Refused as error:
            for flight in entry.calls:
                flight.finish("lost", code=error.code)
            raise
        finally:
            if not settled:
                for flight in entry.calls:
                    flight.finish("cancelled")

    async def get(self, exchange: Exchange) -> None:
        """Forward a stream of the server's own messages, resumed where the client says."""
        session = exchange.session
        with Deadline(self._client.patience, Reason.UPSTREAM_TIMEOUT, exchange.client_gone, at_once=True) as watch:
            answer = await self._open(b"GET", exchange, None)
            try:
                if not answer.is_stream:
                    if answer.status < 300:
                        # Some clients take whatever answers a GET for a stream of events, whatever its type.
                        raise UpstreamError(Reason.UPSTREAM_GARBAGE, "the server answered something else than a stream")
                    await self._plain(exchange, answer)
                    return
                watch.patient()
                await exchange.start(answer.status, forward_down(answer.headers))
                waiting = self._detached.of(session)
                passing = self._resumed(exchange, self._detached.entries(session))
                hearing = nullcontext() if exchange.hearing is None else exchange.hearing(onto(exchange))
                with hearing:
                    async for event in self._client.events(answer):
                        for flight in waiting:
                            if event.data is not None and flight.replied(event.data):
                                self._detached.settle(session)
                        await exchange.write(await self._passing(event, passing))
                await exchange.end()
            finally:
                answer.close()

    async def delete(self, exchange: Exchange) -> None:
        with Deadline(self._client.patience, Reason.UPSTREAM_TIMEOUT, exchange.client_gone):
            answer = await self._open(b"DELETE", exchange, None)
            try:
                await self._plain(exchange, answer)
            finally:
                answer.close()

    async def prepare(self, _exchange: Exchange, _message: Message | Batch) -> None:
        return

    async def ask(self, exchange: Exchange, message: Message) -> bytes:
        """The reply to a request of our own, under the headers of the client's session."""
        self._owned.check(exchange)
        answer = await self._client.open(b"POST", message.raw, self._upward.headers_for(exchange, message))
        try:
            if not answer.is_stream:
                body = await self._client.read(answer)
                if answer.status == 404 and peek(body) is None and exchange.session:
                    # 2025-11-25, sessions: the client has to learn that it needs a new one.
                    raise UpstreamError(Reason.SESSION_UNKNOWN)
                return body
            async for event in self._client.events(answer):
                seen = peek(event.data) if event.data is not None else None
                if event.data is not None and seen is not None and seen.is_reply and seen.id == message.id:
                    return event.data
                if event.data is not None and self._hear is not None:
                    self._hear(self.name, event.data)
            raise UpstreamError(Reason.UPSTREAM_CLOSED)
        finally:
            answer.close()

    def hold(self, _exchange: Exchange) -> AbstractContextManager[None]:
        return nullcontext()

    @staticmethod
    def _resumed(exchange: Exchange, entries: tuple[Admitted, ...]) -> AsyncTransform:
        """A stream of the server's own: replies to what was asked before it, and messages that answer nothing."""

        async def passing(raw: bytes, _seen: Peek | None = None, /) -> bytes:
            for entry in entries:
                raw = raw if entry.amend is None else entry.amend(raw)
            for entry in entries:
                raw = raw if entry.after is None else await entry.after(raw)
            return raw if exchange.unasked is None else await exchange.unasked(raw)

        return passing

    async def _passing(self, event: Event, passing: Callable[[bytes], Awaitable[bytes]]) -> bytes:
        """What the client gets of an event: its own bytes, unless something in it has to change."""
        if event.data is None:
            return passed_on(event)
        if self._hear is not None:
            self._hear(self.name, event.data)
        amended = await passing(event.data)
        return passed_on(event) if amended is event.data else replace_data(event, amended)

    async def _open(self, method: bytes, exchange: Exchange, body: bytes | None) -> HttpAnswer:
        self._owned.check(exchange)
        answer = await self._client.open(method, body, self._upward.headers(exchange))
        if (given := answer.fields.get(b"mcp-session-id")) is not None:
            self._owned.opened(exchange, given)
        return answer

    async def _answer(self, exchange: Exchange, entry: Admitted, answer: HttpAnswer, watch: Deadline) -> None:
        if answer.is_stream:
            watch.patient()
            await self._stream(exchange, entry, answer)
            return
        body = await self._client.read(answer)
        seen: Peek | None = None
        if answer.status >= 400:
            for flight in entry.calls:
                if not flight.replied(body):
                    flight.finish("refused_upstream", code=answer.status, reply=body)
        else:
            seen = self._settle(entry, body)
        # Whatever was asked, and whatever the status: what a client could take for a message is looked at.
        if body and entry.amend is not None and (amended := entry.amend(body)) is not body:
            body, seen = amended, None
        if body and entry.after is not None:
            body = await entry.after(body, seen)
        if exchange.parked:
            body = _as_reply(entry.message, answer.status, body)
        await exchange.respond(answer.status, body, forward_down(answer.headers))

    def _settle(self, entry: Admitted, body: bytes) -> Peek | None:
        """Match a JSON answer with what was asked; what does not fit is not passed on as an answer.

        Answers with the outline of one that answers one call.
        """
        asked = entry.message
        if isinstance(asked, Message):
            if asked.kind is not MessageKind.REQUEST:
                return None
            seen = peek(body)
            fits = entry.calls[0].replied(body, seen) if entry.calls else _fits(asked, seen)
            if not fits:
                raise UpstreamError(Reason.UPSTREAM_GARBAGE, "the server answered something else than was asked")
            return seen
        if any(message.kind is MessageKind.REQUEST for message in asked.messages):
            replies = parts(body) or []
            for flight in entry.calls:
                if not any(flight.replied(reply) for reply in replies):
                    raise UpstreamError(Reason.UPSTREAM_GARBAGE, "the server answered something else than was asked")
            if not entry.calls and peek(replies[0] if replies else b"") is None:
                raise UpstreamError(Reason.UPSTREAM_GARBAGE, "the server answered something else than was asked")
        return None

    async def _stream(self, exchange: Exchange, entry: Admitted, answer: HttpAnswer) -> None:
        waiting = {message.id: message for message in entry.messages if message.kind is MessageKind.REQUEST}
        flights = {flight.rpc_id: flight for flight in entry.calls}
        resumable = False
        failure: UpstreamError | None = None
        await exchange.start(answer.status, forward_down(answer.headers))
        try:
            async for event in self._client.events(answer):
                resumable = resumable or bool(event.id)
                if event.data is not None and waiting and (seen := peek(event.data)) is not None and seen.is_reply:
                    waiting.pop(seen.id, None)
                    flight = flights.get(seen.id) if seen.id is not None else None
                    if flight is not None:
                        flight.replied(event.data)
                await exchange.write(await self._passing(event, entry.passing))
        except UpstreamError as error:
            failure = error
        session = exchange.session
        failure = failure or UpstreamError(Reason.UPSTREAM_CLOSED)
        if waiting and resumable and session and failure.reason is Reason.UPSTREAM_CLOSED:
            # On purpose or not, the client polls on with Last-Event-ID (2025-11-25, Streamable HTTP).
            self._detached.keep(session, (flight for flight in entry.calls if not flight.done))
            self._detached.keep_entry(session, waiting, entry)
        elif waiting:
            await self._lost(exchange, waiting.values(), entry, failure)
        await exchange.end()

    async def _lost(
        self, exchange: Exchange, waiting: Iterable[Message], entry: Admitted, failure: UpstreamError
    ) -> None:
        for flight in entry.calls:
            flight.finish("lost", code=failure.code)
        for message in waiting:
            await exchange.write(encode_event(error_reply(message.id, failure)))

    async def _plain(self, exchange: Exchange, answer: HttpAnswer) -> None:
        body = await self._client.read(answer)
        if exchange.unasked is not None and body:
            body = await exchange.unasked(body)
        await exchange.respond(answer.status, body, forward_down(answer.headers))


def _as_reply(asked: Message | Batch, status: int, body: bytes) -> bytes:
    """An answer as an event on a stream that is open already: a status can no longer say what it means."""
    seen = peek(body)
    if isinstance(asked, Message) and seen is not None and seen.is_reply:
        if seen.id == asked.id:
            return body
        if seen.id is None and seen.outcome == "error" and asked.id is not None:
            return with_id(body, asked.id)
    failure = UpstreamError(Reason.UPSTREAM_GARBAGE, f"the server answered with HTTP status {status}")
    return refuse_all(asked, failure) or b""


def _fits(asked: Message, seen: Peek | None) -> bool:
    """Whether this can be the answer; a server that could not read the request answers an error without an id."""
    if seen is None or not seen.is_reply:
        return False
    return seen.id == asked.id or (seen.id is None and seen.outcome == "error")

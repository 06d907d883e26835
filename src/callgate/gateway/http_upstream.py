"""A server reached over Streamable HTTP: what the client sent goes on, what the server answers comes back."""

from __future__ import annotations

import asyncio
import io
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from typing import Final

import aiohttp
import msgspec
from yarl import URL

from callgate.config import Server
from callgate.errors import Reason, UpstreamError
from callgate.gateway.door import Entry, InFlight
from callgate.gateway.exchange import Exchange
from callgate.gateway.headers import forward_down, forward_up
from callgate.gateway.sse import Event, EventCutter, encode_event
from callgate.jsonrpc import Batch, Kind, Message, RequestId, error_reply, peek

log = logging.getLogger("callgate.upstream")

# Most servers close an idle connection after five seconds; leaving first avoids writing into a closing one.
_KEEPALIVE: Final = 4.0
_COPY_AT_ONCE: Final = 512 * 1024
_DETACHED_MAX: Final = 10_000
_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def new_session(connect_seconds: float) -> aiohttp.ClientSession:
    """A client that adds nothing of its own: no cookies, no redirects, no decompression, no default headers."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=connect_seconds, sock_read=None),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        trust_env=False,
        max_line_size=65536,
        max_field_size=65536,
    )


class Detached:
    """Calls whose stream ended before the reply: a resumed stream of the same session may still bring it."""

    def __init__(self, most: int = _DETACHED_MAX) -> None:
        self._most = most
        self._calls: OrderedDict[tuple[str, RequestId], InFlight] = OrderedDict()

    def keep(self, session: str, flights: Iterable[InFlight]) -> None:
        for flight in flights:
            self._calls[(session, flight.rpc_id)] = flight
        while len(self._calls) > self._most:
            self._calls.popitem(last=False)[1].finish("lost")

    def of(self, session: str) -> tuple[InFlight, ...]:
        return tuple(flight for (owner, _), flight in self._calls.items() if owner == session)

    def settle(self, session: str) -> None:
        for key in [k for k, flight in self._calls.items() if k[0] == session and flight.done]:
            del self._calls[key]

    def close(self) -> None:
        for flight in self._calls.values():
            flight.finish("lost")
        self._calls.clear()


class HttpUpstream:
    """Relays exchanges to one Streamable HTTP endpoint."""

    sees_headers = True

    def __init__(self, name: str, server: Server, max_bytes: int) -> None:
        assert server.url is not None
        self.name = name
        self._url = URL(server.url.reveal(), encoded=True)
        self._own = {key: value.reveal() for key, value in server.headers.items()}
        self._authorization = server.forward_authorization
        self._patience = server.timeout_seconds
        self._max = max_bytes
        self._session = new_session(server.connect_seconds)
        self._detached = Detached()

    async def close(self) -> None:
        self._detached.close()
        await self._session.close()

    async def post(self, exchange: Exchange, entry: Entry) -> None:
        """Forward a message and stream its answer back; the calls in it are finished here."""
        settled = False
        try:
            with exchange.watch():
                answer = await self._open("POST", exchange, entry.raw)
                try:
                    await self._answer(exchange, entry, answer)
                finally:
                    answer.release() if answer.content.at_eof() else answer.close()
                settled = True
        except UpstreamError as error:
            for flight in entry.calls:
                flight.finish("lost", code=error.code)
            if exchange.started:
                raise
            await exchange.refuse(error, _request_id(entry))
        finally:
            if not settled:
                for flight in entry.calls:
                    flight.finish("cancelled")

    async def get(self, exchange: Exchange) -> None:
        """Forward a stream of the server's own messages, resumed where the client says."""
        session = _session_of(exchange)
        with exchange.watch(at_once=True):
            answer = await self._open("GET", exchange, None)
            try:
                if not _is_stream(answer):
                    await self._plain(exchange, answer)
                    return
                await exchange.start(answer.status, forward_down(answer.raw_headers))
                waiting = self._detached.of(session)
                async for event in self._events(answer):
                    for flight in waiting:
                        if event.data is not None and flight.replied(event.data):
                            self._detached.settle(session)
                    await exchange.write(event.raw)
                await exchange.end()
            finally:
                answer.close()

    async def delete(self, exchange: Exchange) -> None:
        with exchange.watch():
            answer = await self._open("DELETE", exchange, None)
            try:
                await self._plain(exchange, answer)
            finally:
                answer.close()

    async def _open(self, method: str, exchange: Exchange, body: bytes | None) -> aiohttp.ClientResponse:
        data = body if body is None or len(body) <= _COPY_AT_ONCE else io.BytesIO(body)
        try:
            async with asyncio.timeout(self._patience):
                answer = await self._session.request(
                    method,
                    self._url,
                    data=data,
                    headers=forward_up(exchange.headers, self._own, authorization=self._authorization),
                    allow_redirects=False,
                )
        except TimeoutError:
            raise UpstreamError(Reason.UPSTREAM_TIMEOUT) from None
        except aiohttp.ClientConnectorError as error:
            raise UpstreamError(Reason.UPSTREAM_UNREACHABLE, _unreachable(error)) from None
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError):
            raise UpstreamError(Reason.UPSTREAM_CLOSED) from None
        except (aiohttp.ClientError, ValueError):
            raise UpstreamError(Reason.UPSTREAM_GARBAGE) from None
        if 300 <= answer.status < 400 and answer.status != 304:
            answer.close()
            raise UpstreamError(Reason.UPSTREAM_REDIRECT)
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            answer.close()
            raise UpstreamError(Reason.UPSTREAM_ENCODING)
        return answer

    async def _answer(self, exchange: Exchange, entry: Entry, answer: aiohttp.ClientResponse) -> None:
        if _is_stream(answer):
            await self._stream(exchange, entry, answer)
            return
        body = await self._read(answer)
        if answer.status >= 400:
            for flight in entry.calls:
                if not flight.replied(body):
                    flight.finish("refused_upstream", code=answer.status, reply=body)
        elif _wants_reply(entry):
            self._settle(entry, body)
        await exchange.respond(answer.status, body, forward_down(answer.raw_headers))

    def _settle(self, entry: Entry, body: bytes) -> None:
        """Match a JSON answer with what was asked; what does not fit is not passed on as an answer."""
        if isinstance(entry.message, Batch):
            try:
                replies = [bytes(raw) for raw in _decode_list(body)]
            except (msgspec.MsgspecError, UnicodeDecodeError):
                raise UpstreamError(Reason.UPSTREAM_GARBAGE) from None
        else:
            replies = [body]
        for flight in entry.calls:
            if not any(flight.replied(reply) for reply in replies):
                raise UpstreamError(Reason.UPSTREAM_GARBAGE, "the server answered something else than was asked")
        if not entry.calls and peek(replies[0] if replies else b"") is None:
            raise UpstreamError(Reason.UPSTREAM_GARBAGE)

    async def _stream(self, exchange: Exchange, entry: Entry, answer: aiohttp.ClientResponse) -> None:
        waiting = {message.id: message for message in entry.messages if message.kind is Kind.REQUEST}
        flights = {flight.rpc_id: flight for flight in entry.calls}
        resumable = False
        failure: UpstreamError | None = None
        await exchange.start(answer.status, forward_down(answer.raw_headers))
        try:
            async for event in self._events(answer):
                resumable = resumable or bool(event.id)
                if event.data is not None and waiting and (seen := peek(event.data)) is not None and seen.is_reply:
                    waiting.pop(seen.id, None)
                    flight = flights.get(seen.id) if seen.id is not None else None
                    if flight is not None:
                        flight.replied(event.data)
                await exchange.write(event.raw)
        except UpstreamError as error:
            failure = error
        session = _session_of(exchange)
        if waiting and resumable and session and failure is None:
            # The server hung up on purpose: the client polls on with Last-Event-ID (2025-11-25, Streamable HTTP).
            self._detached.keep(session, (flight for flight in entry.calls if not flight.done))
        elif waiting and not (resumable and session):
            await self._lost(exchange, waiting.values(), entry, failure or UpstreamError(Reason.UPSTREAM_CLOSED))
        await exchange.end()

    async def _lost(self, exchange: Exchange, waiting: Iterable[Message], entry: Entry, failure: UpstreamError) -> None:
        for flight in entry.calls:
            flight.finish("lost", code=failure.code)
        for message in waiting:
            await exchange.write(encode_event(error_reply(message.id, failure)))

    async def _events(self, answer: aiohttp.ClientResponse) -> AsyncIterator[Event]:
        cutter = EventCutter(self._max)
        try:
            async for chunk in answer.content.iter_any():
                for event in cutter.feed(chunk):
                    yield event
        except (aiohttp.ClientError, ConnectionError):
            raise UpstreamError(Reason.UPSTREAM_CLOSED) from None

    async def _plain(self, exchange: Exchange, answer: aiohttp.ClientResponse) -> None:
        body = await self._read(answer)
        await exchange.respond(answer.status, body, forward_down(answer.raw_headers))

    async def _read(self, answer: aiohttp.ClientResponse) -> bytes:
        if answer.content_length is not None and answer.content_length > self._max:
            raise UpstreamError(Reason.UPSTREAM_TOO_LARGE)
        try:
            async with asyncio.timeout(self._patience):
                body = await answer.content.readany()
                if answer.content.at_eof():
                    return body
                parts = [body]
                size = len(body)
                while not answer.content.at_eof():
                    parts.append(await answer.content.readany())
                    size += len(parts[-1])
                    if size > self._max:
                        raise UpstreamError(Reason.UPSTREAM_TOO_LARGE)
                return b"".join(parts)
        except TimeoutError:
            raise UpstreamError(Reason.UPSTREAM_TIMEOUT) from None
        except (aiohttp.ClientError, ConnectionError):
            raise UpstreamError(Reason.UPSTREAM_CLOSED) from None


def _is_stream(answer: aiohttp.ClientResponse) -> bool:
    return answer.status < 300 and answer.content_type == "text/event-stream"


def _wants_reply(entry: Entry) -> bool:
    return any(message.kind is Kind.REQUEST for message in entry.messages)


def _request_id(entry: Entry) -> RequestId | None:
    return entry.message.id if isinstance(entry.message, Message) else None


def _session_of(exchange: Exchange) -> str:
    return (exchange.header(b"mcp-session-id") or b"").decode("latin-1")


def _unreachable(error: aiohttp.ClientConnectorError) -> str:
    return f"cannot connect to the server: {error.os_error.strerror or type(error.os_error).__name__}"

"""The server of `callgate wrap NAME --url URL`: Streamable HTTP, spoken on behalf of a client that has only pipes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from callgate.config import ServerSection
from callgate.errors import MessageError, Reason, Refused, UpstreamError
from callgate.jsonrpc import Batch, Message, MessageKind, RequestId, error_reply, parts, peek, with_id
from callgate.pipeline.dispatcher import Admitted, Deliver
from callgate.transport.http.exchange import parameter_headers, parameter_map, routing_headers
from callgate.transport.lines import one_line
from callgate.transport.sse import Event
from callgate.transport.upstream.http import HttpAnswer, HttpClient

log = logging.getLogger("callgate.wrap")

_RECONNECTS: Final = 5
_CANCEL_GRACE: Final = 2.0
_RETRY_SECONDS: Final = 1.0
_FASTEST_RETRY: Final = 0.05
_SLOWEST_RETRY: Final = 30.0
_TOOLS_MAX: Final = 5000
_END_SECONDS: Final = 5.0
_decode: Final = msgspec.json.Decoder().decode
# RFC 9110 §5.5: a field value holds no control characters but the tab.
_UNFIT: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class WrappedUrl:
    """Posts what the client writes, writes what the server answers; holds the session and its stream."""

    def __init__(self, server: ServerSection, max_bytes: int) -> None:
        self._server = server
        self._max = max_bytes
        self._client: HttpClient | None = None
        self._deliver: Deliver | None = None
        self._session: bytes | None = None
        self._version: str | None = None
        self._posts: dict[RequestId, asyncio.Task[None]] = {}
        self._stream: asyncio.Task[None] | None = None
        self._endless: set[asyncio.Task[None]] = set()
        self._parameters: dict[str, Mapping[tuple[str, ...], str]] = {}
        self._ended = asyncio.Event()
        self._status = 0

    # ---- what Wrap asks for ----

    async def start(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._client = HttpClient(self._server, self._max)

    async def send(self, entry: Admitted) -> None:
        message = entry.message
        ids = [part.id for part in entry.messages if part.kind is MessageKind.REQUEST and part.id is not None]
        if ids:
            task = asyncio.create_task(self._request(message, ids))
            self._posts |= dict.fromkeys(ids, task)
            task.add_done_callback(partial(self._forget, ids))
            if isinstance(message, Message) and message.method == "subscriptions/listen":
                self._endless.add(task)
                task.add_done_callback(self._endless.discard)
            return
        if isinstance(message, Message) and self._cancels_modern(message):
            return
        # In order and one by one: the server must have seen `initialized` before what follows it.
        await self._post_quietly(message)
        if isinstance(message, Message) and message.method == "notifications/initialized" and self._stream is None:
            self._stream = asyncio.create_task(self._listen())

    async def send_eof(self) -> None:
        """The client closed its end: what it asked for is still answered, then the session ends."""
        for task in self._endless:
            task.cancel()
        while self._posts:
            await asyncio.wait(self._posts.values())
        self._ended.set()

    async def finish(self) -> int:
        assert self._client is not None
        try:
            await self._ended.wait()
        finally:
            tasks = [*self._posts.values(), *([self._stream] if self._stream else [])]
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            with contextlib.suppress(UpstreamError, TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    (await self._client.open(b"DELETE", None, self._headers(None).items())).close()
        self._client.close()
        return self._status

    def stop(self, status: int) -> None:
        """End it, with this status."""
        self._status = status
        self._ended.set()

    def _forget(self, keys: list[RequestId], task: asyncio.Task[None]) -> None:
        for key in keys:
            if self._posts.get(key) is task:
                del self._posts[key]

    # ---- one request ----

    async def _request(self, message: Message | Batch, ids: list[RequestId]) -> None:
        owed = set(ids)
        try:
            answer = await self._post(message)
            try:
                await self._answer(message, answer, owed)
            finally:
                answer.close()
        except Refused as refused:
            await self._refuse(owed, refused)
        except Exception as error:  # noqa: BLE001
            # Fail closed: what nobody thought of is an error to the client, who would wait for ever. The type alone
            # goes to the log: the text may quote a message or a secret.
            log.error("request failed", extra={"fields": {"error": type(error).__name__}})
            await self._refuse(owed, Refused(Reason.INTERNAL_ERROR))

    async def _refuse(self, owed: set[RequestId], refused: Refused) -> None:
        while owed:
            await self._say(error_reply(owed.pop(), refused))

    async def _answer(self, message: Message | Batch, answer: HttpAnswer, owed: set[RequestId]) -> None:
        if answer.status >= 300 or answer.status == 202:
            await self._failed(answer, owed)
            return
        if isinstance(message, Message) and message.method == "initialize":
            self._session = answer.fields.get(b"mcp-session-id")
        if answer.content_type == b"text/event-stream":
            await self._follow(message, answer, owed)
            return
        body = await self._read(answer)
        replies = parts(body) if isinstance(message, Batch) else [body]
        if replies is None:
            raise UpstreamError(Reason.UPSTREAM_GARBAGE)
        for reply in replies:
            seen = peek(reply)
            if seen is None or not seen.is_reply or seen.id not in owed:
                raise UpstreamError(Reason.UPSTREAM_GARBAGE, "the server answered something else than was asked")
            await self._reply(message, reply, seen.id, owed)
        if owed:
            raise UpstreamError(Reason.UPSTREAM_GARBAGE, "the server did not answer all of a batch")

    async def _follow(self, message: Message | Batch, answer: HttpAnswer, owed: set[RequestId]) -> None:
        """Relay a request's stream, and the streams that resume it, until nothing is owed any more."""
        place = StreamPosition()
        await self._relay_events(message, answer, owed, place)
        failures = 0
        while owed:
            if not place.last or failures == _RECONNECTS:
                raise UpstreamError(Reason.UPSTREAM_CLOSED)
            await asyncio.sleep(min(place.retry * 2**failures, _SLOWEST_RETRY))
            try:
                again = await self._open(b"GET", None, self._headers(None) | place.header)
            except UpstreamError:
                failures += 1
                continue
            # A server may hang up again and again while it works (SEP-1699): only failing to come back counts.
            failures = 0
            try:
                if again.status >= 300:
                    raise UpstreamError(Reason.UPSTREAM_CLOSED)
                await self._relay_events(message, again, owed, place)
            finally:
                again.close()

    async def _relay_events(
        self, message: Message | Batch, answer: HttpAnswer, owed: set[RequestId], place: StreamPosition
    ) -> None:
        """Pass events on until the stream ends or the last reply has come."""
        assert self._client is not None
        try:
            async for event in self._client.events(answer):
                place.note(event)
                if event.data is None:
                    continue
                seen = peek(event.data)
                if seen is None or not seen.is_reply or seen.id not in owed:
                    await self._say(event.data)
                    continue
                await self._reply(message, event.data, seen.id, owed)
                if not owed:
                    return
        except UpstreamError as error:
            log.debug("stream broke off", extra={"fields": {"reason": error.reason.value}})

    async def _failed(self, answer: HttpAnswer, owed: set[RequestId]) -> None:
        """A status that is no answer: the JSON-RPC error in its body if it has one, else one of ours."""
        body = await self._read(answer)
        seen = peek(body)
        if seen is not None and seen.outcome == "error":
            for rpc_id in list(owed):
                reply = with_id(body, rpc_id)
                owed.discard(rpc_id)
                await self._say(reply)
        elif answer.status == 404 and self._session is not None:
            raise UpstreamError(Reason.SESSION_UNKNOWN)
        else:
            raise UpstreamError(Reason.UPSTREAM_GARBAGE, f"the server answered with HTTP status {answer.status}")

    async def _reply(self, message: Message | Batch, body: bytes, rpc_id: RequestId, owed: set[RequestId]) -> None:
        if isinstance(message, Message) and message.method in ("initialize", "tools/list"):
            self._learn(message, body)
        # Owed until nothing but the writing is left: whatever fails before that is answered for.
        owed.discard(rpc_id)
        await self._say(body)

    def _learn(self, message: Message, body: bytes) -> None:
        """What later requests need headers for: the negotiated version, and which arguments are repeated in headers."""
        try:
            result: Any = _decode(body).get("result")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return  # the client may make more of it
        if not isinstance(result, dict):
            return
        version = result.get("protocolVersion")
        if message.method == "initialize" and isinstance(version, str):
            if _UNFIT.search(version):
                # Not an UpstreamError: on a stream that would count as broken off, and be resumed.
                raise Refused(Reason.UPSTREAM_GARBAGE, "the server's protocol version holds control characters")
            self._version = version
        tools = result.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str) and len(self._parameters) < _TOOLS_MAX:
                self._parameters[tool["name"]] = parameter_map(tool.get("inputSchema"))

    # ---- the server's own stream ----

    async def _listen(self) -> None:
        place = StreamPosition()
        delay = _RETRY_SECONDS
        while True:
            try:
                answer = await self._open(b"GET", None, self._headers(None) | place.header)
            except UpstreamError:
                await asyncio.sleep(delay)
                delay = min(delay * 2, _SLOWEST_RETRY)
                continue
            try:
                if answer.status != 200 or answer.content_type != b"text/event-stream":
                    return
                await self._relay_events(_NOBODY, answer, set(), place)
                delay = place.retry
            finally:
                answer.close()
            await asyncio.sleep(delay)

    # ---- HTTP ----

    def _cancels_modern(self, message: Message) -> bool:
        """2026-07-28: over HTTP a request is cancelled by closing its stream, and no notification is sent."""
        if message.method != "notifications/cancelled":
            return False
        wanted = message.params.get("requestId") if isinstance(message.params, dict) else None
        task = self._posts.get(wanted) if isinstance(wanted, (int, str)) else None
        if task is not None:
            # In the handshake era the notification goes out, and the stream of a request that gets no reply is closed.
            asyncio.get_running_loop().call_later(0 if self._version is None else _CANCEL_GRACE, task.cancel)
        return self._version is None

    async def _post_quietly(self, message: Message | Batch) -> None:
        try:
            answer = await self._post(message)
            answer.close()
        except Refused as refused:
            log.warning("message not delivered", extra={"fields": {"reason": refused.reason.value}})
        except Exception as error:  # noqa: BLE001
            # Nobody is owed an answer, but what comes after this message must still be sent.
            log.error("message not delivered", extra={"fields": {"error": type(error).__name__}})

    async def _post(self, message: Message | Batch) -> HttpAnswer:
        return await self._open(b"POST", message.raw, self._headers(message))

    async def _open(self, method: bytes, body: bytes | None, headers: dict[bytes, bytes]) -> HttpAnswer:
        assert self._client is not None
        try:
            async with asyncio.timeout(self._client.patience):
                return await self._client.open(method, body, headers.items())
        except TimeoutError:
            raise UpstreamError(Reason.UPSTREAM_TIMEOUT) from None

    def _headers(self, message: Message | Batch | None) -> dict[bytes, bytes]:
        texts = {"accept": "text/event-stream", "accept-encoding": "identity"}
        if message is not None:
            texts |= {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        if self._version is not None:
            texts["mcp-protocol-version"] = self._version
        if isinstance(message, Message):
            texts |= self._headers_for(message)
        headers = {name.encode(): _field_value(text) for name, text in texts.items()}
        if self._session is not None:
            headers[b"mcp-session-id"] = self._session
        return headers | dict(self._client.own_headers if self._client is not None else [])

    def _headers_for(self, message: Message) -> dict[str, str]:
        """What the modern era repeats of a message's body."""
        try:
            texts = routing_headers(message)
            if message.method == "tools/call" and isinstance(message.params, dict):
                known = self._parameters.get(str(message.params.get("name")), {})
                texts |= parameter_headers(known, message.params.get("arguments") or {})
        except UnicodeEncodeError:
            raise MessageError(Reason.LONE_SURROGATE) from None
        return texts

    async def _read(self, answer: HttpAnswer) -> bytes:
        assert self._client is not None
        try:
            async with asyncio.timeout(self._client.patience):
                return await self._client.read(answer)
        except TimeoutError:
            raise UpstreamError(Reason.UPSTREAM_TIMEOUT) from None

    async def _say(self, message: bytes) -> None:
        assert self._deliver is not None
        await self._deliver([one_line(message)[:-1]])


class StreamPosition:
    """Where a stream was left: the event to resume after, and how long the server wants to be left alone first."""

    def __init__(self) -> None:
        self.last = ""
        self.retry = _RETRY_SECONDS

    @property
    def header(self) -> dict[bytes, bytes]:
        return {b"last-event-id": self.last.encode()} if self.last else {}

    def note(self, event: Event) -> None:
        if event.id:
            # What no header can carry cannot be resumed from, and an earlier place would bring messages twice.
            self.last = "" if _UNFIT.search(event.id) else event.id
        if event.retry is not None:
            self.retry = min(max(event.retry, _FASTEST_RETRY), _SLOWEST_RETRY)


_NOBODY: Final = Message(MessageKind.NOTIFICATION, b"")


def _field_value(text: str) -> bytes:
    """A header's value. Beyond ASCII it is UTF-8, as WHATWG HTML §9.2.3 has it for Last-Event-ID."""
    if _UNFIT.search(text):
        raise MessageError(Reason.INVALID_REQUEST, "a header cannot hold control characters")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise MessageError(Reason.LONE_SURROGATE) from None

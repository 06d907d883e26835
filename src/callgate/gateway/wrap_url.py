"""The server of `callgate wrap NAME --url URL`: Streamable HTTP, spoken on behalf of a client that has only pipes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import aiohttp
import msgspec

from callgate.config import Server
from callgate.errors import Reason, Refused, UpstreamError
from callgate.gateway.door import Entry
from callgate.gateway.http_client import HttpClient
from callgate.gateway.lines import one_line
from callgate.gateway.routing import parameter_headers, parameter_map, routing_headers
from callgate.jsonrpc import Batch, Kind, Message, RequestId, error_reply, peek, replace_member

log = logging.getLogger("callgate.wrap")

_RECONNECTS: Final = 5
_RETRY_SECONDS: Final = 1.0
_SLOWEST_RETRY: Final = 30.0
_TOOLS_MAX: Final = 5000
_END_SECONDS: Final = 5.0
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode

Deliver = Callable[[bytes], Awaitable[None]]


class WrappedUrl:
    """Posts what the client writes, writes what the server answers; holds the session and its stream."""

    def __init__(self, server: Server, max_bytes: int) -> None:
        self._server = server
        self._max = max_bytes
        self._client: HttpClient | None = None
        self._deliver: Deliver | None = None
        self._session: str | None = None
        self._version: str | None = None
        self._posts: dict[RequestId, asyncio.Task[None]] = {}
        self._stream: asyncio.Task[None] | None = None
        self._parameters: dict[str, Mapping[tuple[str, ...], str]] = {}
        self._ended = asyncio.Event()
        self._status = 0

    # ---- what Wrap asks for ----

    async def start(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._client = HttpClient(self._server, self._max)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, self._stop, -number)

    async def send(self, entry: Entry) -> None:
        message = entry.message
        if isinstance(message, Message) and message.kind is Kind.REQUEST:
            assert message.id is not None
            task = asyncio.create_task(self._request(message))
            self._posts[message.id] = task
            task.add_done_callback(partial(self._forget, message.id))
            return
        if isinstance(message, Message) and self._cancels_modern(message):
            return
        # In order and one by one: the server must have seen `initialized` before what follows it.
        await self._post_quietly(message)
        if isinstance(message, Message) and message.method == "notifications/initialized" and self._stream is None:
            self._stream = asyncio.create_task(self._listen())

    async def send_eof(self) -> None:
        """The client closed its end: what it asked for is still answered, then the session ends."""
        while self._posts:
            await asyncio.wait(self._posts.values())
        self._ended.set()

    async def finish(self) -> int:
        await self._ended.wait()
        assert self._client is not None
        tasks = [*self._posts.values(), *([self._stream] if self._stream else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            with contextlib.suppress(UpstreamError, TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    (await self._client.open("DELETE", None, self._headers(None))).close()
        await self._client.close()
        return self._status

    def _stop(self, status: int) -> None:
        self._status = status
        self._ended.set()

    def _forget(self, key: RequestId, task: asyncio.Task[None]) -> None:
        if self._posts.get(key) is task:
            del self._posts[key]

    # ---- one request ----

    async def _request(self, message: Message) -> None:
        try:
            answer = await self._post(message)
            try:
                await self._answer(message, answer)
            finally:
                answer.close()
        except Refused as refused:
            await self._say(error_reply(message.id, refused))

    async def _answer(self, message: Message, answer: aiohttp.ClientResponse) -> None:
        if answer.status >= 300 or answer.status == 202:
            await self._failed(message, answer)
            return
        if message.method == "initialize":
            self._session = answer.headers.get("mcp-session-id")
        if answer.content_type != "text/event-stream":
            body = await self._read(answer)
            if peek(body) is None:
                raise UpstreamError(Reason.UPSTREAM_GARBAGE)
            await self._reply(message, body)
            return
        last = await self._relay_events(message, answer)
        for attempt in range(_RECONNECTS):
            if last is None:
                return
            if not last:
                break
            await asyncio.sleep(min(_RETRY_SECONDS * 2**attempt, _SLOWEST_RETRY))
            last = await self._resume(message, last)
        raise UpstreamError(Reason.UPSTREAM_CLOSED)

    async def _relay_events(self, message: Message, answer: aiohttp.ClientResponse) -> str | None:
        """None once the reply has come; otherwise the id to resume from, empty if there is none."""
        assert self._client is not None
        last = ""
        try:
            async for event in self._client.events(answer):
                last = event.id or last
                if event.data is None:
                    continue
                seen = peek(event.data)
                if seen is not None and seen.is_reply and seen.id == message.id:
                    await self._reply(message, event.data)
                    return None
                await self._say(event.data)
        except UpstreamError as error:
            log.debug("stream broke off", extra={"fields": {"reason": error.reason.value}})
        return last

    async def _resume(self, message: Message, last: str) -> str | None:
        try:
            answer = await self._open("GET", None, self._headers(None) | {"last-event-id": last})
        except UpstreamError:
            return last
        try:
            if answer.status >= 300:
                raise UpstreamError(Reason.UPSTREAM_CLOSED)
            return await self._relay_events(message, answer) or last
        finally:
            answer.close()

    async def _failed(self, message: Message, answer: aiohttp.ClientResponse) -> None:
        """A status that is no answer: the JSON-RPC error in its body if it has one, else one of ours."""
        body = await self._read(answer)
        seen = peek(body)
        if seen is not None and seen.outcome == "error":
            await self._say(replace_member(body, ("id",), _encode(message.id)))
        elif answer.status == 404 and self._session is not None:
            raise UpstreamError(Reason.SESSION_UNKNOWN)
        else:
            raise UpstreamError(Reason.UPSTREAM_GARBAGE, f"the server answered with HTTP status {answer.status}")

    async def _reply(self, message: Message, body: bytes) -> None:
        if message.method in ("initialize", "tools/list"):
            self._learn(message, body)
        await self._say(body)

    def _learn(self, message: Message, body: bytes) -> None:
        """What later requests need headers for: the negotiated version, and which arguments are repeated in headers."""
        result: Any = _decode(body).get("result")
        if not isinstance(result, dict):
            return
        if message.method == "initialize" and isinstance(result.get("protocolVersion"), str):
            self._version = result["protocolVersion"]
        for tool in result.get("tools") or ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str) and len(self._parameters) < _TOOLS_MAX:
                self._parameters[tool["name"]] = parameter_map(tool.get("inputSchema"))

    # ---- the server's own stream ----

    async def _listen(self) -> None:
        last = ""
        delay = _RETRY_SECONDS
        while True:
            headers = self._headers(None) | ({"last-event-id": last} if last else {})
            try:
                answer = await self._open("GET", None, headers)
            except UpstreamError:
                await asyncio.sleep(delay)
                delay = min(delay * 2, _SLOWEST_RETRY)
                continue
            try:
                if answer.status != 200 or answer.content_type != "text/event-stream":
                    return
                delay = _RETRY_SECONDS
                last = await self._relay_events(_NOBODY, answer) or last
            finally:
                answer.close()
            await asyncio.sleep(delay)

    # ---- HTTP ----

    def _cancels_modern(self, message: Message) -> bool:
        """2026-07-28: over HTTP a request is cancelled by closing its stream, and no notification is sent."""
        if message.method != "notifications/cancelled" or self._version is not None:
            return False
        wanted = message.params.get("requestId") if isinstance(message.params, dict) else None
        task = self._posts.get(wanted) if isinstance(wanted, (int, str)) else None
        if task is not None:
            task.cancel()
        return True

    async def _post_quietly(self, message: Message | Batch) -> None:
        try:
            answer = await self._post(message)
            answer.close()
        except UpstreamError as error:
            log.warning("message not delivered", extra={"fields": {"reason": error.reason.value}})

    async def _post(self, message: Message | Batch) -> aiohttp.ClientResponse:
        return await self._open("POST", message.raw, self._headers(message))

    async def _open(self, method: str, body: bytes | None, headers: dict[str, str]) -> aiohttp.ClientResponse:
        assert self._client is not None
        return await self._client.open(method, body, headers)

    def _headers(self, message: Message | Batch | None) -> dict[str, str]:
        headers = {"accept": "application/json, text/event-stream", "accept-encoding": "identity"}
        if message is not None:
            headers["content-type"] = "application/json"
        else:
            headers["accept"] = "text/event-stream"
        if self._session is not None:
            headers["mcp-session-id"] = self._session
        if self._version is not None:
            headers["mcp-protocol-version"] = self._version
        if isinstance(message, Message):
            headers |= routing_headers(message)
            if message.method == "tools/call" and isinstance(message.params, dict):
                known = self._parameters.get(str(message.params.get("name")), {})
                headers |= parameter_headers(known, message.params.get("arguments") or {})
        return headers | (self._client.own_headers if self._client is not None else {})

    async def _read(self, answer: aiohttp.ClientResponse) -> bytes:
        assert self._client is not None
        return await self._client.read(answer)

    async def _say(self, message: bytes) -> None:
        assert self._deliver is not None
        await self._deliver(one_line(message)[:-1])


_NOBODY: Final = Message(Kind.NOTIFICATION, b"")

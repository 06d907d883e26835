"""One HTTP request and its answer, straight on ASGI: the hot path has no framework between socket and gate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Self, TypeAlias

from callgate.errors import Reason, Refused
from callgate.jsonrpc import RequestId, error_reply

Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]

# Most calls are over sooner; only a slow one pays for a task that watches the client's side of the connection.
_WATCH_AFTER: Final = 0.05
_JSON: Final = (b"content-type", b"application/json")


class ClientGone(Exception):
    """The client closed the connection before its request was whole."""


class Exchange:
    """A request to read and an answer to write."""

    __slots__ = ("_receive", "_send", "headers", "method", "path", "peer", "started", "status")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        client = scope.get("client")
        self.peer: str | None = client[0] if client else None
        self.started = False
        self.status = 0
        self._receive = receive
        self._send = send

    def header(self, name: bytes) -> bytes | None:
        for key, value in self.headers:
            if key == name:
                return value
        return None

    async def body(self, limit: int, seconds: float) -> bytes:
        """The whole body; refused as soon as it is known to be too large or too slow."""
        length = self.header(b"content-length")
        if length is not None and (not length.isdigit() or int(length) > limit):
            raise Refused(Reason.MESSAGE_TOO_LARGE, f"the body is announced larger than {limit} bytes")
        event = await self._receive_within(seconds)
        if not event.get("more_body"):
            return self._chunk(event)
        parts = [self._chunk(event)]
        size = len(parts[0])
        try:
            async with asyncio.timeout(seconds):
                while event.get("more_body"):
                    event = await self._receive()
                    parts.append(self._chunk(event))
                    size += len(parts[-1])
                    if size > limit:
                        raise Refused(Reason.MESSAGE_TOO_LARGE, f"the body is larger than {limit} bytes")
        except TimeoutError:
            raise Refused(Reason.BODY_TIMEOUT) from None
        return b"".join(parts)

    async def _receive_within(self, seconds: float) -> AsgiMessage:
        try:
            async with asyncio.timeout(seconds):
                return await self._receive()
        except TimeoutError:
            raise Refused(Reason.BODY_TIMEOUT) from None

    @staticmethod
    def _chunk(event: AsgiMessage) -> bytes:
        if event["type"] == "http.disconnect":
            raise ClientGone
        body: bytes = event.get("body", b"")
        return body

    async def respond(self, status: int, body: bytes = b"", headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """A whole answer at once."""
        head = [] if headers is None else headers
        if body or status not in (202, 204, 304):
            head.append((b"content-length", str(len(body)).encode()))
        self.started = True
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, refused: Refused, rpc_id: RequestId | None = None, reply: bytes | None = None) -> None:
        """The answer that a refusal becomes."""
        headers = [_JSON]
        if refused.status == Reason.METHOD_NOT_ALLOWED.status:
            headers.append((b"allow", b"POST, GET, DELETE"))
        if refused.status in (Reason.OVERLOADED.status, Reason.BODY_TIMEOUT.status):
            headers.append((b"retry-after", b"1"))
        await self.respond(refused.status, error_reply(rpc_id, refused) if reply is None else reply, headers)

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Begin an answer that is streamed."""
        self.started = True
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, chunk: bytes) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes = b"") -> None:
        await self._send({"type": "http.response.body", "body": chunk})

    def watch(self, *, at_once: bool = False) -> Watch:
        """Cancel the running task when the client goes away; see Watch."""
        return Watch(self._receive, 0.0 if at_once else _WATCH_AFTER)


class Watch:
    """`with exchange.watch() as watch:` — the block is cancelled when the client leaves, and `watch.gone` says so."""

    __slots__ = ("_delay", "_receive", "_task", "_timer", "_watcher", "gone")

    def __init__(self, receive: Receive, delay: float) -> None:
        self._receive = receive
        self._delay = delay
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self.gone = False

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(self._delay, self._begin)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if kind is asyncio.CancelledError and self.gone:
            assert self._task is not None
            # Only our own request to stop is swallowed; a shutdown that came at the same time still counts.
            return self._task.uncancel() == 0
        return False

    def _begin(self) -> None:
        self._watcher = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        assert self._task is not None
        self._task.cancel()

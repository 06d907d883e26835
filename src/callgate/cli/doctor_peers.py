"""A server as `callgate doctor` speaks to it: over a process's pipes, or over Streamable HTTP as the gateway does."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from callgate.config import Server
    from callgate.jsonrpc import Message
    from callgate.transport.upstream.http_client import HttpClient
    from callgate.transport.upstream.process import ServerProcess

MODERN: Final = "2026-07-28"
HANDSHAKE: Final = "2025-11-25"
_BYTES: Final = 8 * 2**20


class Peer(Protocol):
    """A server that can be asked something."""

    async def ask(self, message: Message, *, modern: bool) -> dict[str, Any]: ...

    async def ask_raw(self, message: Message, *, modern: bool) -> bytes: ...

    async def tell(self, line: bytes) -> None: ...

    async def close(self) -> None: ...


class Silent(Exception):
    """The server did not answer as MCP wants it; the text says how, without secrets."""


async def connect(name: str, server: Server) -> Peer:
    from callgate.transport.upstream.http_client import HttpClient
    from callgate.transport.upstream.process import ServerProcess

    if server.url is not None:
        return HttpPeer(HttpClient(server, _BYTES), server)
    process = await ServerProcess.start(name, server.argv, server.environment(os.environ), server.cwd, _BYTES)
    return StdioPeer(process)


class StdioPeer:
    """A process and the one answer that is waited for."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        self._waiting: dict[Any, asyncio.Future[tuple[dict[str, Any], bytes]]] = {}
        process.listen(self._heard, lambda _large: None)

    async def ask(self, message: Message, *, modern: bool) -> dict[str, Any]:
        del modern
        return (await self._ask(message))[0]

    async def ask_raw(self, message: Message, *, modern: bool) -> bytes:
        del modern
        return (await self._ask(message))[1]

    async def _ask(self, message: Message) -> tuple[dict[str, Any], bytes]:
        answer: asyncio.Future[tuple[dict[str, Any], bytes]] = asyncio.get_running_loop().create_future()
        self._waiting[message.id] = answer
        await self.tell(message.raw)
        ended: asyncio.Future[Any] = asyncio.ensure_future(self._process.ended.wait())
        try:
            await asyncio.wait([answer, ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
        if not answer.done():
            # What it said on its way out comes on another pipe.
            await asyncio.sleep(0.1)
            raise Silent("its command ended before it answered")
        return answer.result()

    async def tell(self, line: bytes) -> None:
        await self._process.send(line + b"\n")

    async def close(self) -> None:
        await self._process.stop(0.5)

    async def _heard(self, line: bytes) -> None:
        from callgate.jsonrpc.peeking import decode_leniently

        message = decode_leniently(line)
        if not isinstance(message, dict) or "method" in message:
            return
        rpc_id = message.get("id")
        answer = self._waiting.get(rpc_id) if isinstance(rpc_id, str) else None
        if answer is not None and not answer.done():
            answer.set_result((message, line))


class HttpPeer:
    """An endpoint of Streamable HTTP, spoken to as the gateway speaks to it."""

    def __init__(self, client: HttpClient, server: Server) -> None:
        self._client = client
        self._server = server
        self._session: bytes | None = None

    async def ask(self, message: Message, *, modern: bool) -> dict[str, Any]:
        from callgate.jsonrpc.peeking import decode_leniently

        body, status = await self._post(message, modern=modern)
        reply = decode_leniently(body)
        if isinstance(reply, dict) and ("result" in reply or "error" in reply):
            return reply
        if status in (401, 403):
            whose = "the client's own credentials" if self._server.forward_authorization else "other credentials"
            raise Silent(f"it wants {whose} (HTTP status {status}); see `headers` in its table")
        if status >= 400 and message.method == "initialize":
            return {}  # it may speak only the newest version, which has no such method
        raise Silent(f"it answers with HTTP status {status} and nothing that is MCP; check its `url`")

    async def ask_raw(self, message: Message, *, modern: bool) -> bytes:
        return (await self._post(message, modern=modern))[0]

    async def _post(self, message: Message, *, modern: bool) -> tuple[bytes, int]:
        from callgate.transport.upstream.http_client import is_stream

        headers = self._headers(MODERN if modern else HANDSHAKE)
        if modern:
            headers.append((b"mcp-method", str(message.method).encode()))
        answer = await self._client.open(b"POST", message.raw, headers)
        self._session = answer.fields.get(b"mcp-session-id", self._session)
        try:
            if not is_stream(answer):
                return await self._client.read(answer), answer.status
            async for event in self._client.events(answer):
                if event.data is not None and str(message.id).encode() in event.data:
                    return event.data, answer.status
            return b"", answer.status
        finally:
            answer.close()

    def _headers(self, version: str) -> list[tuple[bytes, bytes]]:
        headers = [
            (b"accept", b"application/json, text/event-stream"),
            (b"content-type", b"application/json"),
            (b"mcp-protocol-version", version.encode()),
            *self._client.own_headers,
        ]
        return headers if self._session is None else [*headers, (b"mcp-session-id", self._session)]

    async def tell(self, line: bytes) -> None:
        answer = await self._client.open(b"POST", line, self._headers(HANDSHAKE))
        answer.close()

    async def close(self) -> None:
        try:
            if self._session is not None:
                answer = await self._client.open(b"DELETE", None, self._headers(HANDSHAKE))
                answer.close()
        finally:
            self._client.close()
            await asyncio.sleep(0)  # a connection is closed in the loop's next round

"""The client side of the wire: one keep-alive connection, and a caller that shakes hands and calls `echo` over it.

Written on `asyncio.Protocol` and httptools: a client library would cost more than the relays it is to measure.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import httptools
import msgspec

from signed_load import signing

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True, slots=True)
class Target:
    """What to call: the endpoint, the era to speak to it, the name it gives the echo tool, and a key to sign with."""

    url: str
    era: str = HANDSHAKE
    tool: str = "echo"
    key: str = ""

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "127.0.0.1", parts.port or 80

    def head(self, headers: dict[str, str]) -> bytes:
        """A request's head up to the value of Content-Length, built once for each connection."""
        parts = urlsplit(self.url)
        lines = [f"POST {parts.path or '/'} HTTP/1.1", f"Host: {parts.netloc}"]
        lines += ["Accept: application/json, text/event-stream", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\nContent-Length: ").encode()


class _Content(msgspec.Struct):
    text: str = ""


class _Result(msgspec.Struct):
    content: list[_Content] = []


class Reply(msgspec.Struct):
    id: int | str | None = None
    result: _Result | None = None

    @property
    def texts(self) -> list[str]:
        return [part.text for part in self.result.content] if self.result else []


_decode_reply = msgspec.json.Decoder(Reply).decode


class WrongAnswer(Exception):
    """The subject did not give back the text it was sent."""


class Connection(asyncio.Protocol):
    """One keep-alive connection with one request in flight; `on_reply` is called once for each response."""

    def __init__(self, on_reply: Callable[[Connection], None]) -> None:
        self.on_reply = on_reply
        self._body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        self.session_id = ""
        self.status = 0
        self.lost = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio.Transport, so there is nothing to check at run time.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _: Exception | None) -> None:
        self.lost = True
        self.status = 0
        self.on_reply(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(name) == 14 and name.lower() == b"mcp-session-id":
            self.session_id = value.decode()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.on_reply(self)

    def send(self, request: bytes) -> None:
        self._body.clear()
        assert self._transport is not None, "send before the connection is open"
        self._transport.write(request)

    def close(self) -> None:
        self.on_reply = lambda _: None
        if self._transport is not None:
            self._transport.close()

    @property
    def body(self) -> bytes:
        return b"".join(self._body)

    def json_body(self) -> bytes:
        """The JSON-RPC message, taken out of its SSE event when it came as one (the last `data:` line)."""
        body = self.body
        if body[:1] == b"{":
            return body
        lines = [line[5:] for line in body.splitlines() if line.startswith(b"data:") and b"{" in line]
        return lines[-1] if lines else body


class Caller:
    """A connection that has shaken hands (or needs not to) and makes one call after another."""

    def __init__(self, target: Target, number: int) -> None:
        self._target = target
        self._number = number
        self._count = 0
        self._head = target.head({})
        self._sign = signing(target.url, target.key)
        self._text = ""
        self._waiting: asyncio.Future[None] | None = None
        self.connection = Connection(self._wake)

    def _wake(self, _: Connection) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self.connection, *self._target.address)
        if self._target.era == MODERN:
            headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": self._target.tool}
            self._head = self._target.head(headers)
            return
        client = {"name": "bench", "version": "1"}
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": client}
        first = {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params}
        await self._exchange(json.dumps(first).encode())
        version = json.loads(self.connection.json_body())["result"]["protocolVersion"]
        headers = {"MCP-Protocol-Version": version}
        if self.connection.session_id:
            headers["Mcp-Session-Id"] = self.connection.session_id
        self._head = self._target.head(headers)
        await self._exchange(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        # As clients do before their first call.
        await self._exchange(b'{"jsonrpc":"2.0","id":"tools","method":"tools/list"}')

    async def _exchange(self, body: bytes) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        self.connection.send(self._request(body))
        await asyncio.wait_for(self._waiting, 60)
        if self.connection.status not in (200, 202):
            raise WrongAnswer(f"HTTP {self.connection.status}: {self.connection.body[:300]!r}")

    def _next_message(self) -> bytes:
        self._count += 1
        self._text = f"hello {self._number}/{self._count}"
        params: dict[str, object] = {"name": self._target.tool, "arguments": {"text": self._text}}
        if self._target.era == MODERN:
            params["_meta"] = MODERN_META
        message = {"jsonrpc": "2.0", "id": self._count, "method": "tools/call", "params": params}
        return msgspec.json.encode(message)

    def next_request(self) -> bytes:
        return self._request(self._next_message())

    def _request(self, body: bytes) -> bytes:
        signed = "".join(f"\r\n{name}: {value}" for name, value in self._sign(body).items())
        return b"%b%d%b\r\n\r\n%b" % (self._head, len(body), signed.encode(), body)

    def check(self) -> str:
        """Why the last answer is wrong; empty when it is right."""
        connection = self.connection
        if connection.status == 200:
            try:
                reply = _decode_reply(connection.json_body())
            except msgspec.DecodeError as error:
                return f"{error}: {connection.body[:300]!r}"
            if reply.id == self._count and reply.texts == [self._text]:
                return ""
        return f"HTTP {connection.status}: {connection.body[:300]!r}"

    async def call_once(self) -> None:
        await self._exchange(self._next_message())
        if wrong := self.check():
            raise WrongAnswer(wrong)

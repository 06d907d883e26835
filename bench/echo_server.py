"""A Streamable HTTP echo server that spends as little as it can, so that it is never what is measured.

It is an `asyncio.Protocol` on httptools and uvloop, with no framework in between.
Sessions are given out but not kept: a held session costs this process nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
from typing import cast

import httptools
import msgspec
import uvloop

from echo_core import MODERN, answer, parse

_session_numbers = itertools.count(1)
_MODERN = MODERN.encode()


def _response(status: bytes, body: bytes = b"", headers: bytes = b"") -> bytes:
    kind = b"Content-Type: application/json\r\n" if body else b""
    return b"HTTP/1.1 %b\r\n%b%bContent-Length: %d\r\n\r\n%b" % (status, kind, headers, len(body), body)


ACCEPTED = _response(b"202 Accepted")
# The echo server never speaks first, so it offers no stream; 405 is how the spec says that.
NO_STREAM = _response(b"405 Method Not Allowed", headers=b"Allow: POST, DELETE\r\n")
ENDED = _response(b"200 OK")
BAD = _response(b"400 Bad Request")


class EchoProtocol(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio.Transport, so there is nothing to check at run time.
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []
        self._version = b""

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.write(BAD)
            self._transport.close()

    def on_message_begin(self) -> None:
        self._body.clear()
        self._version = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(name) == 20 and name.lower() == b"mcp-protocol-version":
            self._version = value

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        method = self._parser.get_method()
        if method == b"POST":
            self._transport.write(self._post(b"".join(self._body)))
        elif method == b"DELETE":
            self._transport.write(ENDED)
        else:
            self._transport.write(NO_STREAM)
        if not self._parser.should_keep_alive():
            self._transport.close()

    def _post(self, body: bytes) -> bytes:
        try:
            message = parse(body)
            reply = answer(message, modern=self._version == _MODERN)
        except msgspec.DecodeError:
            return BAD
        if reply is None:
            return ACCEPTED
        if message.method == "initialize":
            return _response(b"200 OK", reply, b"Mcp-Session-Id: echo-%d\r\n" % next(_session_numbers))
        return _response(b"200 OK", reply)


async def serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(EchoProtocol, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    uvloop.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()

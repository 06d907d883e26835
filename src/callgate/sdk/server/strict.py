"""Reading a client's bytes before the `mcp` SDK does.

The SDK's parsers take duplicate keys, NaN and half characters, and nobody behind them can tell. What a person signs
has to be one thing for every reader, so each message is first read by `callgate.jsonrpc`: what that refuses is answered
here and never reaches the SDK.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callgate.errors import Reason
from callgate.jsonrpc import BadMessage, Limits, error_reply, parse

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream

# Set in the scope of a request whose body was read strictly.
READ: Final = "callgate.strictly_read"
_CHUNK: Final = 1 << 16


class StrictBodies:
    """An ASGI application that lets only strictly read messages through to the one it wraps."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        events, body = await _whole_body(receive, self._limits.bytes)
        if body is not None:
            try:
                parse(body, self._limits)
            except BadMessage as bad:
                await _answer(send, bad)
                return
            scope[READ] = True
        # A body that is too large or broken off goes on as far as it was read: the SDK refuses it in its own words.
        await self._app(scope, _replay(events, receive), send)


async def _whole_body(receive: Receive, most: int) -> tuple[list[Message], bytes | None]:
    events: list[Message] = []
    body = bytearray()
    while True:
        event = await receive()
        events.append(event)
        if event["type"] != "http.request":
            return events, None
        body += event.get("body", b"")
        if len(body) > most:
            return events, None
        if not event.get("more_body", False):
            return events, bytes(body)


def _replay(events: list[Message], receive: Receive) -> Receive:
    waiting = iter(events)

    async def next_event() -> Message:
        event = next(waiting, None)
        return event if event is not None else await receive()

    return next_event


async def _answer(send: Send, bad: BadMessage) -> None:
    body = error_reply(bad.rpc_id, bad)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": bad.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class StrictLines:
    """The lines of a pipe, as `stdio_server` takes them; bad ones are answered through `answer_to` and left out.

    `read` gives the bytes that have come, at most so many, and nothing at the end.
    """

    def __init__(self, read: Callable[[int], bytes], limits: Limits) -> None:
        self._read = read
        self._limits = limits
        self._known = anyio.Event()
        self._replies: WriteStream[SessionMessage] | None = None

    def answer_to(self, replies: WriteStream[SessionMessage]) -> None:
        """Where answers go: known only once the SDK has begun to read."""
        self._replies = replies
        self._known.set()

    async def __aiter__(self) -> AsyncIterator[str]:
        begun, too_long = bytearray(), False
        async for chunk in _chunks(self._read):
            head, newline, rest = chunk.rpartition(b"\n")
            for line in (begun + head).split(b"\n") if newline else ():
                # What ends here may be a line that was given up before.
                if not too_long and (text := await self._checked(bytes(line))):
                    yield text
                too_long = False
            if newline:
                begun.clear()
            begun += rest
            if len(begun) > self._limits.bytes + 1:
                if not too_long:
                    await self._refuse(BadMessage(Reason.MESSAGE_TOO_LARGE))
                begun.clear()
                too_long = True
        if not too_long and (text := await self._checked(bytes(begun))):
            yield text

    async def _checked(self, line: bytes) -> str:
        """The line if it can be taken, nothing if it is empty or was refused."""
        text = line.strip()
        try:
            if text:
                parse(text, self._limits)
        except BadMessage as bad:
            await self._refuse(bad)
            return ""
        return text.decode()

    async def _refuse(self, bad: BadMessage) -> None:
        await self._known.wait()
        assert self._replies is not None
        data = {"reason": bad.reason.value, "advice": bad.advice}
        error = ErrorData(code=bad.code, message=str(bad), data=data)
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._replies.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=bad.rpc_id, error=error)))


async def _chunks(read: Callable[[int], bytes]) -> AsyncIterator[bytes]:
    """What comes through a pipe, read by a thread that nobody has to wait for: a server can end before its client."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes] = asyncio.Queue(1)

    def pump() -> None:
        chunk = b"-"
        while chunk:
            try:
                chunk = read(_CHUNK)
            except (OSError, ValueError):
                chunk = b""
            handing_over = arrived.put(chunk)
            try:
                asyncio.run_coroutine_threadsafe(handing_over, loop).result()
            except (RuntimeError, CancelledError):
                handing_over.close()
                return

    threading.Thread(target=pump, name="callgate-stdin", daemon=True).start()
    while chunk := await arrived.get():
        yield chunk


@contextlib.asynccontextmanager
async def strict_stdio(
    limits: Limits,
) -> AsyncIterator[tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]]:
    """`mcp.server.stdio.stdio_server`, strictly read."""
    with _own_stdin() as wire:
        lines = StrictLines(wire, limits)
        async with stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (read, write):
            lines.answer_to(write)
            yield read, write


@contextlib.contextmanager
def _own_stdin() -> Iterator[Callable[[int], bytes]]:
    """The wire for us alone: tools, and programs that they start, read an empty file as stdin instead."""
    wire = sys.stdin.fileno()
    ours = os.dup(wire)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, wire)
    os.close(nothing)
    try:
        yield partial(os.read, ours)
    finally:
        # Ours stays open: the thread may still wait in it.
        os.dup2(ours, wire)

"""The console of a gateway that listens nowhere else: `callgate wrap` shows its pages on a port of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Final

import uvicorn

from callgate.config import Config
from callgate.errors import Refused
from callgate.transport.http.exchange import Asgi, Exchange, Guard, Receive, Scope, Send, Streams
from callgate.transport.http.server import bounded, quiet

_HOST: Final = "127.0.0.1"
_CONNECTIONS: Final = 64
_START_SECONDS: Final = 5.0


class Loopback:
    """Opened by the first who asks for its address; closed with the process."""

    def __init__(self, console: Callable[[str], Asgi], config: Config) -> None:
        self._console = console
        self._config = config
        self._opening = asyncio.Lock()
        self._address: str | None = None
        self._server: _Quiet | None = None
        self._running: asyncio.Task[None] | None = None

    async def address(self) -> str:
        """Where browsers find the console. `localhost`, because passkeys are bound to a name."""
        async with self._opening:
            if self._address is None:
                self._address = await self._open()
            return self._address

    async def _open(self) -> str:
        listener = socket.create_server((_HOST, 0))
        listener.setblocking(False)  # noqa: FBT003
        address = f"http://localhost:{listener.getsockname()[1]}"
        self._server = _Quiet(_Guarded(self._console(address)), self._config)
        self._running = asyncio.create_task(self._server.serve(sockets=[listener]))
        async with asyncio.timeout(_START_SECONDS):
            await self._server.ready.wait()
        return address

    async def close(self) -> None:
        if self._server is not None and self._running is not None:
            self._server.should_exit = True
            await asyncio.gather(self._running, return_exceptions=True)


class _Guarded:
    """The console behind the guard against DNS rebinding and foreign pages."""

    def __init__(self, console: Asgi) -> None:
        self._console = console
        self._guard = Guard(_HOST, (), ())
        self.streams = Streams()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = Exchange(scope, receive, send)
        try:
            self._guard.check(exchange)
            await self.streams.show(self._console, exchange, scope, receive, send)
        except Refused as refused:
            await exchange.refuse(refused)


class _Quiet(uvicorn.Server):
    """uvicorn that leaves signals to the wrapped command, says when it listens, and ends the streams of open pages."""

    def __init__(self, app: _Guarded, config: Config) -> None:
        http = bounded(_CONNECTIONS, config.limits.header_seconds)
        super().__init__(quiet(app, http, timeout_graceful_shutdown=1))
        self.ready = asyncio.Event()
        self._streams = app.streams

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._streams.stop()
        await super().shutdown(sockets)

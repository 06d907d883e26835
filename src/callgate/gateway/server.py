"""The listening side: uvicorn, with the bounds a hostile network makes necessary."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import uvicorn

from callgate.config import Config
from callgate.errors import ConfigError
from callgate.gateway.app import App
from callgate.gateway.connection import bounded
from callgate.gateway.exchange import Asgi

log = logging.getLogger("callgate.http")

_SPARE_DESCRIPTORS: Final = 128
_NEXT_PORTS: Final = 20


async def _nothing() -> None:
    """Nothing else has to end."""


def quiet(app: Asgi, http: type[asyncio.Protocol], **more: Any) -> uvicorn.Config:
    """uvicorn without anything that it would say, log or believe by itself."""
    return uvicorn.Config(
        app,
        http=http,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        **more,
    )


class HttpServer(uvicorn.Server):
    """uvicorn that ends endless streams when it is asked to stop, and says when it listens."""

    def __init__(
        self,
        app: App,
        config: Config,
        connections: int,
        on_listening: Callable[[str], None],
        *,
        next_free: bool = False,
    ) -> None:
        super().__init__(
            quiet(
                app,
                bounded(connections, config.limits.header_seconds),
                backlog=2048,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=max(1, round(config.gateway.shutdown_seconds)),
            )
        )
        self._app = app
        self._address = config.gateway.address
        self._on_listening = on_listening
        # Whether another port will do where the configured one is taken.
        self._next_free = next_free
        # What else begins when it listens, and ends with it.
        self.opened: Callable[[], None] = lambda: None
        self.closing: Callable[[], Awaitable[None]] = _nothing

    async def run_until_stopped(self) -> None:
        """Listen, serve, and come back when a signal or `should_exit` says so."""
        listener = self._bind()
        try:
            await self.serve(sockets=[listener])
        finally:
            with contextlib.suppress(OSError):
                listener.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would end the process by the same signal at once; the log still has to be closed after it."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                with contextlib.suppress(NotImplementedError):
                    loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if sockets and not self.should_exit:
            self.opened()
            host, port = sockets[0].getsockname()[:2]
            self._on_listening(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.begin_shutdown()
        await self.closing()
        await super().shutdown(sockets)

    def stop(self) -> None:
        self.should_exit = True

    def _bind(self) -> socket.socket:
        host, port = self._address.host, self._address.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        ports = [port, *(range(port + 1, min(port + _NEXT_PORTS, 65536)) if self._next_free and port else ()), 0]
        for attempt in ports if self._next_free else ports[:1]:
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((host, attempt))
            except OSError as error:
                listener.close()
                why = error.strerror
                if error.errno != errno.EADDRINUSE:
                    break
                continue
            listener.setblocking(False)  # noqa: FBT003
            return listener
        raise ConfigError(
            f"cannot listen on {host}:{port}: {why}",
            advice="Choose another address with `callgate serve --listen 127.0.0.1:0`, or stop what uses it.",
        )


def raise_descriptor_limit(connections: int) -> int:
    """Each connection takes a descriptor here and perhaps one upstream: how many of them the system lets us have."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections * 2 + _SPARE_DESCRIPTORS
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most >= wanted:
        return connections
    # Beyond this, accepting one more client would take the descriptor that the store or a server needs.
    affordable = max(1, (most - _SPARE_DESCRIPTORS) // 2)
    fields = {"descriptors": most, "wanted": wanted, "connections": affordable}
    log.warning("few file descriptors: fewer connections are taken", extra={"fields": fields})
    return affordable

"""`callgate serve`: the gateway as a process that listens, follows its configuration and loses no call."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from callgate.app.console import MakeConsole
from callgate.app.extracts import review_command
from callgate.app.runtime import Runtime
from callgate.app.workers import Worker, home_of
from callgate.config import Config
from callgate.config.watch import ConfigWatch
from callgate.local.place import Place
from callgate.pipeline.context import ClientInfos
from callgate.prompts.listener import PromptListener
from callgate.telemetry.logs import configure
from callgate.transport.http.app import App, Upstream
from callgate.transport.http.exchange import Asgi, origin_of
from callgate.transport.http.server import HttpServer, raise_descriptor_limit

if TYPE_CHECKING:
    from callgate.app.local import LocalListener
    from callgate.approval import Approvals

log = logging.getLogger("callgate.gateway")

_RETIRE_SECONDS: Final = 600.0
_YOUNG_OBJECTS: Final = 20_000
# Held by what is opened at the start; every other key is followed while the gateway runs.
NEEDS_RESTART: Final = (
    "gateway.listen",
    "gateway.shutdown_seconds",
    "store.url",
    "store.durability",
    "store.busy_seconds",
    "store.keys_dir",
    "limits.connections",
    "limits.header_seconds",
    "telemetry.otlp_endpoint",
)


class CurrentSite:
    """The site in force; a new configuration replaces it while calls under way finish on the old one."""

    def __init__(self, runtime: Runtime, taken: Callable[[Config], None] = lambda _config: None) -> None:
        self._runtime = runtime
        # Told of each configuration that was taken.
        self._taken = taken
        self._started_with = runtime.config
        self.current = runtime.site(runtime.config)
        self._retiring: set[asyncio.Task[None]] = set()

    def reload(self, config: Config) -> None:
        old = self.current
        self.current = self._runtime.site(config, old)
        self._taken(config)
        configure(config.logging.level, config.logging.format)
        for key in NEEDS_RESTART:
            if attrgetter(key)(self._started_with) != attrgetter(key)(config):
                log.warning("restart needed", extra={"fields": {"key": key}})
        for upstream in old.upstreams.values():
            if upstream not in self.current.upstreams.values():
                task = asyncio.create_task(_retire(upstream))
                self._retiring.add(task)
                task.add_done_callback(self._retiring.discard)

    async def close(self) -> None:
        for task in self._retiring:
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        await asyncio.gather(*(upstream.close() for upstream in self.current.upstreams.values()))


async def _retire(upstream: Upstream) -> None:
    deadline = time.monotonic() + _RETIRE_SECONDS
    try:
        while upstream.busy and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    finally:
        await upstream.close()


class ConsoleHost:
    """The console's application, made when it is first looked at and again when its settings change."""

    def __init__(self, runtime: Runtime, make: MakeConsole | None) -> None:
        self._runtime = runtime
        self._make = make
        self._address = ""
        self._made: tuple[Config, Approvals, Asgi] | None = None

    def listens_at(self, address: str) -> None:
        # Passkeys are bound to a name, and this machine's own is localhost.
        self._address = f"http://localhost:{address.rpartition(':')[2]}"

    async def address(self) -> str:
        return self._address

    def where(self) -> str:
        """Where a person finds it."""
        url = self._runtime.config.approval.url
        return self._address if url is None else url

    def app(self) -> Asgi | None:
        """None while neither a call nor a tool needs a person."""
        approvals, config = self._runtime.sign_in(), self._runtime.config
        if approvals is None or self._make is None:
            return None
        if self._made is None or self._made[0] is not config or self._made[1] is not approvals:
            url = config.approval.url
            origin = self._address if url is None else origin_of(url)
            self._made = config, approvals, self._make(self._runtime.shown(approvals, origin))
        return self._made[2]


async def serve(
    config: Config,
    path: Path | None,
    on_listening: Callable[[str], None],
    console: MakeConsole | None = None,
    *,
    at: Place | None = None,
    idle: float | None = None,
    prompts: PromptListener | None = None,
    worker: Worker | None = None,
) -> None:
    """Run until SIGINT or SIGTERM; `console` makes the application that shows the approval page.

    `at` is the place that this process holds for its user: it also listens there, for wrapped servers. With `idle` it
    is there for these alone: it serves none by HTTP, takes the next port where its own is taken, and ends after so many
    seconds without any. `prompts` is where hooks of clients tell what their users wrote. `worker` is this process's
    part, where several serve one address.
    """
    connections = raise_descriptor_limit(config.limits.connections)
    peers = None if worker is None else worker.peers()
    clients = ClientInfos() if peers is None else ClientInfos(opened=peers.opened)
    local: LocalListener | None = None

    async def address() -> str:
        return await shown.address()

    async with Runtime.open(
        config,
        clients,
        serves=idle is None,
        path=path,
        review=review_command(_there(path)),
        tells_review=idle is not None,
        console_address=address,
    ) as runtime:
        shown = ConsoleHost(runtime, console)
        current = CurrentSite(runtime, lambda taken: None if local is None else local.reload(taken))
        app = App(current, runtime, clients=runtime.clients, console=shown.app, peers=peers)

        def listening(address: str) -> None:
            if local is not None:
                local.open()
            shown.listens_at(address)
            on_listening(address)

        async def closing() -> None:
            if local is not None:
                await local.close()

        server = HttpServer(
            app,
            config,
            connections,
            listening,
            closing,
            next_free=idle is not None,
            listener=None if worker is None else worker.socket(),
            peers=peers,
        )
        if worker is not None and peers is not None:
            peers.home = home_of(current, peers.count)
            worker.end_with_the_first(server.stop)
        tasks = [asyncio.create_task(runtime.keep_retention()), asyncio.create_task(runtime.ask_witnesses())]
        watch = _watch(path, current, config)
        _calm_collector()
        if at is not None:
            # Not for Windows, which has no such place.
            from callgate.app.local import LocalListener

            local = LocalListener(
                runtime,
                at,
                where=shown.where,
                stop=server.stop,
                fresh=watch.catch_up if isinstance(watch, ConfigWatch) else _nothing,
                prompts=prompts,
                gives_way=idle is not None,
            )
            if idle is not None:
                tasks.append(asyncio.create_task(_end_when_idle(idle, runtime, local, app)))
        try:
            async with watch:
                await server.run_until_stopped()
        finally:
            for task in tasks:
                task.cancel()
            await current.close()


async def _nothing() -> None:
    """Without a file there is nothing new in it."""


def _there(path: Path | None) -> Path | None:
    return path if path is not None and path.exists() else None


async def _end_when_idle(seconds: float, runtime: Runtime, local: LocalListener, app: App) -> None:
    """Stop when no server is wrapped and nobody looks at the console or is expected there, for so long; at once where
    another Callgate has taken the store over: the next start brings that one."""
    while True:
        await asyncio.sleep(min(seconds / 4, 1.0))
        if runtime.switch.outdated:
            log.error("ending: the store is that of another Callgate now")
            local.end()
            return
        since = None if local.idle_since is None or app.busy_with_pages else max(local.idle_since, app.last_page)
        if since is not None and time.monotonic() - max(since, local.expected_until) >= seconds:
            log.info("ending: no server is wrapped any more")
            local.end()
            return


def _calm_collector() -> None:
    """What is loaded by now stays for good: the collector need not look at it again for every few hundred requests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 50)


def _watch(path: Path | None, current: CurrentSite, config: Config) -> AbstractAsyncContextManager[object]:
    """Follow the file, and read it again on SIGHUP."""
    if path is None:
        return nullcontext()
    watch = ConfigWatch(path, current.reload, current=config)
    if hasattr(signal, "SIGHUP"):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, watch.trigger)
    return watch

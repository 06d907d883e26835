"""What one gateway process holds: store, keys, log, gate, and the site that a configuration makes of them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from callgate.audit import ArgumentsPolicy, AuditLog
from callgate.config import Config, ServerApproval
from callgate.errors import Reason, Refused
from callgate.gate import Gate
from callgate.gateway.app import Site, Upstream
from callgate.gateway.books import Books
from callgate.gateway.door import Door
from callgate.gateway.guard import Guard, host_of, origin_of
from callgate.gateway.http_upstream import HttpUpstream
from callgate.gateway.line import Clients
from callgate.gateway.stdio_upstream import StdioUpstream
from callgate.jsonrpc import Limits
from callgate.keyring import Keyring
from callgate.store import KillSwitch, Store
from callgate.telemetry.metrics import Metrics
from callgate.telemetry.spans import Tracer, tracer

if TYPE_CHECKING:
    from callgate.approval import Approvals
    from callgate.gateway.approval_setup import Office

_PRUNE_SECONDS = 3600.0


class Runtime:
    """Open it with `Runtime.open`; it closes in the reverse order."""

    def __init__(self, config: Config, store: Store, audit: AuditLog, spans: Tracer, keyring: Keyring) -> None:
        self.config = config
        self._keyring = keyring
        # There from the first configuration on under which calls may need a person.
        self.office: Office | None = None
        self.approvals: Approvals | None = None
        # Where browsers find the console; set by whoever listens.
        self.console_address: Callable[[], Awaitable[str]] | None = None
        self.store = store
        self.audit = audit
        self.spans = spans
        self.metrics = Metrics(config.servers)
        self.switch = KillSwitch(store, config.policy.block_all)
        self.books = Books(audit, _arguments(config), self.metrics, gateway=secrets.token_hex(6))

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, config: Config) -> AsyncIterator[Runtime]:
        """A running gateway's parts; everything durable is flushed when the block ends."""
        spans = tracer(config.telemetry.otlp_endpoint)
        store = await asyncio.to_thread(
            Store.open,
            config.store.url.reveal(),
            durability=config.store.durability,
            busy_seconds=config.store.busy_seconds,
        )
        try:
            keyring, days = Keyring(config.store.keys_path), config.audit.retention_days
            audit = await asyncio.to_thread(AuditLog, store, keyring, retention_days=days)
            runtime = cls(config, store, audit, spans, keyring)
            await audit.start()
            try:
                await runtime.switch.start()
                try:
                    yield runtime
                finally:
                    await runtime.switch.stop()
            finally:
                await audit.close()
        finally:
            await store.close()
            spans.shutdown()

    def closed(self) -> Refused | None:
        """The kill switch as the gate asks for it: not knowing counts as on."""
        if self.switch.engaged:
            return Refused(Reason.BLOCKED_BY_POLICY, f"{Reason.BLOCKED_BY_POLICY.meaning} ({self.switch.why})")
        if self.switch.stale:
            return Refused(Reason.STORE_UNAVAILABLE)
        return None

    def door(self, config: Config) -> Door:
        limit = config.limits.check_seconds
        if not config.approves:
            self.approvals = None
            gate = Gate(kill_switch=self.closed, record=self.books.record, limit=limit)
            return Door(gate, self.books, _limits(config))
        furnished = self._open_office().furnish(config)
        self.approvals = furnished.approvals
        self.books.shelf = furnished.approvals.shelf
        gate = Gate(
            kill_switch=self.closed,
            record=self.books.record,
            approval=furnished.check,
            limit=limit,
            patience=furnished.patience,
        )
        return Door(gate, self.books, _limits(config), desk=furnished.desk)

    def _open_office(self) -> Office:
        if self.office is None:
            # A gateway without approvals need not wait for what they are made of.
            from callgate.gateway.approval_setup import Office

            self.office = Office(self.store, self.audit, self._keyring, self.closed)
            if self.console_address is not None:
                self.office.address = self.console_address
        return self.office

    @property
    def clients(self) -> Clients | None:
        return None if self.office is None else self.office.clients

    def hear(self, server: str, message: bytes) -> None:
        """A message that a server sent of its own accord."""
        if self.office is not None:
            self.office.hear(server, message)

    def site(self, config: Config, old: Site | None = None) -> Site:
        """The site of a configuration; upstreams that did not change are taken over from the old one."""
        arguments = _arguments(config)
        upstreams: dict[str, Upstream] = {}
        for name in config.servers:
            kept = old.upstreams.get(name) if old is not None else None
            same = _concerning(self.config, name) == _concerning(config, name)
            if kept is not None and same:
                upstreams[name] = kept
                continue
            upstreams[name] = self._upstream(config, name)
            if self.office is not None:
                self.office.forget(name)
        guard = _guard(config)
        limits = config.limits
        site = Site(self.door(config), guard, upstreams, limits.body_seconds, limits.in_flight, limits.held_bytes)
        # Only now: a configuration that cannot be taken whole changes nothing.
        self.metrics.know(config.servers)
        self.switch.force(config.policy.block_all)
        self.books.arguments = arguments
        self.audit.retention_days = config.audit.retention_days
        self.config = config
        return site

    def _upstream(self, config: Config, name: str) -> Upstream:
        server = config.servers[name]
        most = config.limits.message_bytes
        if server.kind == "http":
            return HttpUpstream(name, server, most, self.hear)
        return StdioUpstream(name, server, config.server_limits(name), most, self._process_started, hear=self.hear)

    def _process_started(self, name: str) -> None:
        self.metrics.process_starts.at(name).inc()

    # ---- what the HTTP face asks ----

    def ready(self) -> str | None:
        if self.switch.stale:
            return "the store does not answer"
        if self.audit.tampered is not None:
            return "the audit log was tampered with; run `callgate audit verify`"
        return None

    def render_metrics(self, busy: int, sessions: Mapping[str, int]) -> bytes | None:
        if not self.config.telemetry.metrics:
            return None
        self.metrics.kill_switch.at().set(1 if self.switch.engaged else 0)
        self.metrics.audit_pending.at().set(self.store.queued)
        self.metrics.audit_tampered.at().set(0 if self.audit.tampered is None else 1)
        lost = self.metrics.audit_lost.at()
        lost.inc(self.audit.dropped + self.store.lost - lost.value)
        self.metrics.in_flight.at().set(busy)
        for name, count in sessions.items():
            self.metrics.sessions.at(name, "http").set(count)
        return self.metrics.render()

    def request(self, method: str, status: int) -> None:
        self.metrics.http_requests.at(method, str(status)).inc()

    def failure(self, server: str, reason: Reason) -> None:
        self.metrics.upstream_errors.at(server, reason.value).inc()

    async def keep_retention(self) -> None:
        """Drop the contents of records that are older than the configuration keeps them, once an hour."""
        while True:
            await self.audit.prune()
            await asyncio.sleep(_PRUNE_SECONDS)


def _arguments(config: Config) -> ArgumentsPolicy:
    return ArgumentsPolicy(config.audit.arguments, config.audit.redact)


def _concerning(config: Config, name: str) -> tuple[object, ...] | None:
    """What an upstream is made of: while this stays, it and its sessions stay."""
    server = config.servers.get(name)
    if server is None:
        return None
    bounds = config.server_limits(name) if server.kind == "stdio" else None
    return msgspec.structs.replace(server, approval=ServerApproval()), config.limits.message_bytes, bounds


def _guard(config: Config) -> Guard:
    """The console is ours too under the address that people's browsers see."""
    hosts, origins = config.gateway.allowed_hosts, config.gateway.allowed_origins
    if config.approves and config.approval.url is not None:
        hosts += (host_of(config.approval.url),)
        origins += (origin_of(config.approval.url),)
    return Guard(config.gateway.address.host, hosts, origins)


def _limits(config: Config) -> Limits:
    limits = config.limits
    return Limits(limits.message_bytes, limits.depth, limits.batch)

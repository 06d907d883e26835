"""What one gateway process holds: store, keys, log, gate, and the site that a configuration makes of them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callgate.agents.stage import AgentCheck
from callgate.app import extracts
from callgate.app.agents import AgentRuntime, agent_check
from callgate.app.console import ConsoleSources
from callgate.app.notifications import Notifications
from callgate.app.observations import ServerObservations
from callgate.app.refusal_recorder import RefusalRecorder
from callgate.app.servers import place, places
from callgate.app.stages import Stages
from callgate.audit import AuditLog
from callgate.audit.cosigning import Cosigning
from callgate.audit.log import AuditRecorder, CallMetrics
from callgate.config import Config
from callgate.errors import Reason
from callgate.gate import Gate, no_objection, nobody_to_ask
from callgate.keyring import Keyring
from callgate.pinning.identity import ServerRef
from callgate.pipeline.context import ClientInfos
from callgate.pipeline.dispatcher import Dispatcher
from callgate.store import KillSwitch, Store
from callgate.telemetry.metrics import Counter, Metrics
from callgate.telemetry.spans import Tracer, tracer
from callgate.transport.http.app import Site, Upstream
from callgate.transport.upstream.http import HttpUpstream
from callgate.transport.upstream.stdio import StdioUpstream

if TYPE_CHECKING:
    from callgate.app.approval import ApprovalRuntime
    from callgate.app.pinning import PinningRuntime
    from callgate.app.trust import TrustRuntime
    from callgate.approval import Approvals
    from callgate.approval.stage import CommandOptions

_PRUNE_SECONDS = 3600.0
# How long a message waits for a reading of the store that is overdue.
CATCH_UP_SECONDS = 1.0


class Runtime:
    """Open it with `Runtime.open`; it closes in the reverse order."""

    def __init__(
        self,
        config: Config,
        store: Store,
        audit: AuditLog,
        spans: Tracer,
        keyring: Keyring,
        *,
        clients: ClientInfos,
        serves: bool = True,
        path: Path | None = None,
        review: str = "callgate review",
        tells_review: bool = False,
        console_address: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self.config = config
        # Whether the configured servers are served by HTTP.
        self._serves = serves
        self._keyring = keyring
        # There from the first configuration on under which calls may need a person, and tools a review.
        self.office: ApprovalRuntime | None = None
        self.pinning: PinningRuntime | None = None
        self.trust: TrustRuntime | None = None
        # Where this process listens, for as long as it runs, whatever a new configuration says.
        self._address = config.gateway.address
        self.metrics = Metrics(config.servers)
        self.agents = AgentRuntime(store, self.metrics.agent_requests.series, self._refused_caller)
        self._starting: asyncio.Task[None] | None = None
        self._trusting: asyncio.Task[None] | None = None
        # What to type to review tools: for the operator's log, and for callers, who may be anywhere.
        self._review_command, self._told_command = review, review if tells_review else "callgate review"
        self.learnt = ServerObservations()
        self.clients = clients
        self.approvals: Approvals | None = None
        # Where browsers find the console.
        self._console_address = console_address
        # The file that the configuration came from, where there is one.
        self._path = path
        self.store = store
        self.audit = audit
        self.spans = spans
        self.notices = Notifications()
        self.switch = KillSwitch(store, config.policy.block_all, turned=self.notices.switch_turned)
        metrics = self.metrics
        self._counted = CallMetrics(
            metrics.calls.series,
            metrics.call_seconds.series,
            metrics.gate_seconds.at(),
            metrics.audit_append_failures.at(),
        )
        # Tells this process from others on the records of a store.
        self._gateway = secrets.token_hex(6)
        self._arguments = extracts.arguments(config)
        self.cosigning = Cosigning(audit)
        self._follow_witnesses(config)
        self.refusals = RefusalRecorder(audit, lambda: self._arguments, self._gateway)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        config: Config,
        clients: ClientInfos | None = None,
        *,
        serves: bool = True,
        path: Path | None = None,
        review: str = "callgate review",
        tells_review: bool = False,
        console_address: Callable[[], Awaitable[str]] | None = None,
    ) -> AsyncIterator[Runtime]:
        """A running gateway's parts; everything durable is flushed when the block ends.

        `review` is what to type to review tools; callers are told it where it is good for them (`tells_review`).
        """
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
            runtime = cls(
                config,
                store,
                audit,
                spans,
                keyring,
                clients=ClientInfos() if clients is None else clients,
                serves=serves,
                path=path,
                review=review,
                tells_review=tells_review,
                console_address=console_address,
            )
            await audit.start()
            try:
                await runtime.switch.start()
                try:
                    await runtime._open_pinning(config)
                    await runtime._open_trust(config)
                    await runtime.agents.start()
                    # All of this may have taken longer than the first reading counts for.
                    await runtime.catch_up()
                    yield runtime
                finally:
                    runtime.refusals.close()
                    await runtime.agents.stop()
                    await runtime._close_trust()
                    await runtime._close_pinning()
                    await runtime.notices.close()
                    await runtime.switch.stop()
            finally:
                await audit.close()
        finally:
            await store.close()
            spans.shutdown()

    async def catch_up(self) -> None:
        """Wait, within a bound, for readings of the store that are overdue.

        A process that had no processor for seconds has not asked the store: that is no sign that the store does not
        answer. Where it really does not, the call is refused when this time is over.
        """
        watch = None if self.pinning is None else self.pinning.watch
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await self.switch.catch_up()
                if watch is not None:
                    await watch.catch_up()

    def dispatcher(self, config: Config, learnt: ServerObservations) -> Dispatcher:
        at = _places(config, learnt)
        approving = self._open_office().furnish(config, learnt, at) if config.approves else None
        pinned = None
        if config.pinning.mode != "off":
            pinned = self._pin_office().furnish(config, at, learnt, self.catch_up)
        trusted = None
        if config.trust.mode != "off":
            approved = () if pinned is None else (pinned.label,)
            trusted = self._trust_office().furnish(config, learnt, *approved)
        self.notices.follow(config.notify)
        self.approvals = None if approving is None else approving.approvals
        recorder = AuditRecorder(
            self.audit,
            extracts.arguments(config),
            self._counted,
            gateway=self._gateway,
            single_use=None if approving is None else approving.approvals.shelf,
        )
        callers = agent_check(config, self._address)
        gate = Gate(
            kill_switch=self.switch.refusal,
            catch_up=self.catch_up,
            record=recorder.record,
            use_up=recorder.use_up,
            agents=callers,
            pinning=no_objection if pinned is None else pinned,
            trust=no_objection if trusted is None else trusted.check,
            approval=nobody_to_ask if approving is None else approving.stage,
            limit=config.limits.check_seconds,
            patience=None if approving is None else approving.patience,
        )
        stages = None
        ruled = callers if isinstance(callers, AgentCheck) else None
        if approving is not None or pinned is not None or trusted is not None or ruled is not None:
            stages = Stages(
                pinned,
                None if approving is None else approving.stage,
                None if trusted is None else trusted.stage,
                ruled,
            )
        refusals = config.gateway.refusals
        return Dispatcher(gate, recorder, extracts.limits(config), stages=stages, refusals=refusals)

    def _pin_office(self) -> PinningRuntime:
        if self.pinning is None:
            from callgate.app.pinning import PinningRuntime

            self.pinning = PinningRuntime(
                self.store,
                self.audit,
                self._keyring,
                gateway=self._gateway,
                tell=self._tools_changed,
                review=self._where_to_review,
                command=self._review_command,
            )
        return self.pinning

    async def _open_pinning(self, config: Config) -> None:
        if config.pinning.mode != "off":
            await self._pin_office().start()

    async def _close_pinning(self) -> None:
        if self._starting is not None:
            await asyncio.gather(self._starting, return_exceptions=True)
        if self.pinning is not None:
            await self.pinning.stop()

    def _trust_office(self) -> TrustRuntime:
        if self.trust is None:
            from callgate.app.trust import TrustRuntime

            self.trust = TrustRuntime(
                self.store,
                self.audit,
                self._keyring,
                tell=self._trust_alert,
                where=self._where_held,
                held=self.notices.result_held,
            )
        return self.trust

    async def _open_trust(self, config: Config) -> None:
        if config.trust.mode != "off":
            await self._trust_office().start()

    async def _close_trust(self) -> None:
        if self.trust is not None:
            await self.trust.stop()

    def _refused_caller(self, _source: str, reason: Reason) -> None:
        self.metrics.agent_refusals.at(reason.value).inc()

    def _trust_alert(self, server: str, what: str, _detail: dict[str, Any]) -> None:
        self.metrics.trust_alerts.at(server, what).inc()

    async def _page(self, path: str) -> str | None:
        """A page of the console, where there is one."""
        if self.config.approval.url is not None:
            return self.config.approval.url.rstrip("/") + path
        return None if self._console_address is None else await self._console_address() + path

    async def _where_held(self, handle: str) -> str:
        command = f"`callgate quarantine show {handle}`" if handle else "`callgate quarantine list`"
        return await self._page(f"/quarantine/{handle}".rstrip("/")) or f"in a terminal with {command}"

    def _tools_changed(self, server: str, what: str, detail: dict[str, Any]) -> None:
        self.metrics.tool_changes.at(server, what).inc()
        self.notices.tools_changed(server, what, detail)

    async def _where_to_review(self) -> str:
        command, page = f"in a terminal with `{self._told_command}`", await self._page("/tools")
        return command if page is None else f"at {page}, or {command}"

    def sign_in(self) -> Approvals | None:
        """The people who may use the console; None where nothing needs one."""
        if self.approvals is not None or not self.config.has_console:
            return self.approvals
        return self._open_office().service(self.config.approval)

    def shown(self, approvals: Approvals, origin: str) -> ConsoleSources:
        """What the console of this gateway is made from."""
        return ConsoleSources(
            config=self.config,
            approvals=approvals,
            origin=origin,
            pins=None if self.pinning is None else self.pinning.pins,
            trust=None if self.trust is None else self.trust.service,
            store=self.store,
            log=self.audit,
            agents=self.agents.shelf,
            switch=self.switch,
            path=self._path,
            delegable=self._open_office().delegable,
        )

    def _open_office(self) -> ApprovalRuntime:
        if self.office is None:
            # A gateway without approvals need not wait for what they are made of.
            from callgate.app.approval import ApprovalRuntime

            self.office = ApprovalRuntime(
                self.store,
                self.audit,
                self._keyring,
                self.switch.refusal,
                address=self._console_address,
                opened=self.notices.approval_waiting,
                options=self._options,
            )
        return self.office

    def _options(self) -> CommandOptions:
        """What stands behind the command to review tools."""
        from callgate.approval.stage import CommandOptions

        command = "callgate review"
        return CommandOptions(self._told_command.removeprefix(command), self._review_command.removeprefix(command))

    def site(self, config: Config, old: Site | None = None) -> Site:
        """The site of a configuration; upstreams that did not change are taken over from the old one."""
        arguments = extracts.arguments(config)
        upstreams: dict[str, Upstream] = {}
        for name in config.servers if self._serves else ():
            kept = old.upstreams.get(name) if old is not None else None
            same = extracts.concerning(self.config, name) == extracts.concerning(config, name)
            if kept is not None and same:
                upstreams[name] = kept
                continue
            upstreams[name] = self._upstream(config, name)
            if old is None:
                # At the start there is nothing of another server: what is known was read from the store.
                continue
            self.learnt.forget(name)
            if self.pinning is not None:
                self.pinning.company.forget(place(name, config.servers[name]))
        guard = extracts.guard(config)
        limits = config.limits
        began, trusting = self.pinning is not None, self.trust is not None
        dispatcher = self.dispatcher(config, self.learnt)
        if self.pinning is not None and not began:
            # Switched on by a new configuration: nothing passes until it has started.
            self._starting = asyncio.create_task(self.pinning.start())
        if self.trust is not None and not trusting:
            self._trusting = asyncio.create_task(self.trust.start())
        groups = {name: server.pinning.group or "" for name, server in config.servers.items()}
        reception = self.agents.furnish(config, self._address)
        site = Site(
            dispatcher,
            guard,
            upstreams,
            limits.body_seconds,
            limits.in_flight,
            limits.held_bytes,
            groups,
            None if reception is None else reception.authenticator,
            {} if reception is None else reception.documents,
        )
        # Only now: a configuration that cannot be taken whole changes nothing.
        self.metrics.know(config.servers, config.audit.witnesses)
        self.switch.force(config.policy.block_all)
        self._arguments = arguments
        self._follow_witnesses(config)
        self.config = config
        return site

    def _upstream(self, config: Config, name: str) -> Upstream:
        server = config.servers[name]
        most = config.limits.message_bytes
        if server.kind == "http":
            return HttpUpstream(name, server, most, self.learnt.hear)
        return StdioUpstream(
            name,
            server,
            config.server_limits(name),
            most,
            self._process_started,
            hear=self.learnt.hear,
            renewed=self._renewed,
        )

    def _renewed(self, name: str) -> bool:
        """The process that callers without a session share is another one: its tools are looked at again."""
        if self.pinning is None or self.config.pinning.mode != "enforce":
            return False
        if self.learnt.toolsets is not None:
            self.learnt.toolsets.renewed(name)
        return True

    def _process_started(self, name: str) -> None:
        self.metrics.process_starts.at(name).inc()

    # ---- what the HTTP face asks ----

    def ready(self) -> str | None:
        if self.switch.stale:
            return "the store does not answer"
        if self.audit.tampered is not None:
            return "the audit log was tampered with; run `callgate audit verify`"
        if self.audit.forked is not None:
            return f"{self.audit.forked}"
        if self.audit.unwritable is not None:
            return f"nothing can be written: {self.audit.unwritable}"
        return self.audit.overdue()

    def notice(self) -> str:
        """What is worth a word although the gateway is ready."""
        return self.cosigning.report().sentence(time.time())

    def render_metrics(self, busy: int, sessions: Mapping[str, int]) -> bytes | None:
        if not self.config.telemetry.metrics:
            return None
        self.metrics.kill_switch.at().set(1 if self.switch.engaged else 0)
        self.metrics.audit_pending.at().set(self.store.queued)
        self.metrics.audit_tampered.at().set(0 if (self.audit.tampered or self.audit.forked) is None else 1)
        seen = self.cosigning.report()
        if seen.quorum:
            self.metrics.audit_cosigned_size.at().set(seen.size)
            self.metrics.audit_unseen_seconds.at().set(max(0.0, time.time() - seen.since / 1000) if seen.since else 0)
            for state in seen.states:
                self.metrics.witness_failing.at(state.name).set(1 if state.problem else 0)
        lost = self.metrics.audit_lost.at()
        lost.inc(self.audit.dropped + self.store.lost - lost.value)
        self.metrics.in_flight.at().set(busy)
        for name, count in ({} if self.pinning is None else self.pinning.waiting()).items():
            self.metrics.tools_waiting.at(name).set(count)
        for name, count in sessions.items():
            self.metrics.sessions.at(name, "http").set(count)
        return self.metrics.render()

    @property
    def requests(self) -> Mapping[tuple[str, ...], Counter]:
        """How many HTTP requests were answered, by method and status."""
        return self.metrics.http_requests.series

    def failure(self, server: str, reason: Reason) -> None:
        self.metrics.upstream_errors.at(server, reason.value).inc()

    def _follow_witnesses(self, config: Config) -> None:
        self.cosigning.configure(extracts.witnesses(config), config.audit.demanded)
        within = config.audit.cosigned_within_seconds
        # Why no call may pass, where witnesses have to have seen what is on record.
        overdue = None if within is None else partial(self.cosigning.overdue, within)
        self.audit.configure(config.audit.retention_days, overdue)

    async def ask_witnesses(self) -> None:
        """Have the log cosigned, while this runs."""
        await self.cosigning.run(lambda: self.config.audit.witness_seconds)

    async def keep_retention(self) -> None:
        """Drop the contents of records that are older than the configuration keeps them, once an hour."""
        while True:
            await self.audit.prune()
            await asyncio.sleep(_PRUNE_SECONDS)


def _places(config: Config, learnt: ServerObservations) -> dict[str, ServerRef]:
    """A wrapped server may be one that only its command line names."""
    own = {} if learnt.place is None else {learnt.place.name: learnt.place}
    return places(config) | own

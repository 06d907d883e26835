"""Who calls, for one gateway process: what a configuration makes of it, and what outlives a configuration."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from callgate.agents.limits import (
    Acl,
    CallLimits,
    Limiter,
    MemoryLimiter,
    StoreLimiter,
)
from callgate.agents.model import AgentPolicy, ToolPolicy
from callgate.agents.stage import AcceptedProofs, AgentCheck, ReportProof, RequestAuthenticator
from callgate.config import AgentRules, AgentsSection, Config
from callgate.config.rules import Address
from callgate.errors import CallgateError
from callgate.gate import Check, Count, no_objection
from callgate.store import SqlAgents, Store
from callgate.transport.http.app import SUFFIX, endpoint

if TYPE_CHECKING:
    from callgate.agents.proofs import Proofs

log = logging.getLogger("callgate.agents")

_PRUNE_SECONDS: Final = 300.0
# A directory may have to be fetched before anybody knows who calls.
_FETCH_SECONDS: Final = 12.0


def accepted_proofs(agents: AgentsSection, address: Address) -> AcceptedProofs | None:
    """Which ways in a gateway that listens there has; None where nobody is asked."""
    mode = agents.in_force(address)
    if mode == "off":
        return None
    signs = agents.signatures.enabled
    if signs is None:
        # Who may be anybody is not let in by a directory of their own, unless the operator said so.
        signs = mode == "optional" or "signatures" in agents.kinds
    return AcceptedProofs(
        required=mode == "required",
        signatures=signs,
        bearer=bool(agents.oauth.issuers),
        api_keys=agents.api_keys.enabled is not False,
        kya=agents.kya.mode != "off",
        digest=agents.names_tools or agents.signatures.content_digest == "required",
    )


def agent_check(config: Config, address: Address) -> Check:
    """What the gate asks of callers; nothing, where any caller may do anything."""
    agents, is_open = config.agents, accepted_proofs(config.agents, address)
    if is_open is None or not (is_open.required or is_open.kya or any(True for _ in agents.rules())):
        return no_objection
    return AgentCheck(make_acl(agents), required=is_open.required)


class AgentWiring:
    """What one configuration needs to know who calls. What verifies is made when it is first needed."""

    def __init__(
        self,
        config: Config,
        address: Address,
        shelf: SqlAgents,
        *,
        is_open: AcceptedProofs,
        limiter: Limiter,
        proved: Mapping[tuple[str, ...], Count],
        tell: ReportProof,
    ) -> None:
        agents = config.agents
        self._agents = agents
        self._open = is_open
        self._shelf = shelf
        self._production = agents.signatures.production is True or (
            agents.signatures.production is None and not address.is_loopback
        )
        self.authenticator = RequestAuthenticator(
            is_open,
            lambda: self.ways,
            acl=make_acl(agents),
            limits=call_limits(agents, limiter),
            external=_external(agents.external_url),
            names=config.gateway.allowed_hosts,
            resources=_resources(config),
            seconds=max(config.limits.check_seconds, _FETCH_SECONDS),
            proved=proved,
            tell=tell,
        )
        # What is published at well-known paths.
        self.documents: dict[str, bytes] = {}
        if agents != AgentsSection():
            # Mistakes are told at the start, not by the first request.
            self.documents = self.ways.documents(_resources(config).values())

    @cached_property
    def ways(self) -> Proofs:
        # What fetches and verifies is large, and a gateway that asks nobody needs none of it.
        from callgate.app.agent_proofs import configured_proofs

        return configured_proofs(self._agents, self._open, self._shelf, production=self._production)

    async def close(self) -> None:
        if "ways" in self.__dict__:
            await self.ways.close()


class AgentRuntime:
    """Made once for a process. Nonces, budgets and fetched directories stay when the configuration changes."""

    def __init__(self, store: Store, proved: Mapping[tuple[str, ...], Count], tell: ReportProof) -> None:
        self.shelf = SqlAgents(store)
        self._proved = proved
        self._tell = tell
        self._alone: Limiter = MemoryLimiter()
        self._together: Limiter = StoreLimiter(self.shelf)
        self._made: tuple[Config, AgentWiring] | None = None
        self._pruned_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    def furnish(self, config: Config, address: Address) -> AgentWiring | None:
        """The reception of a configuration; ConfigError where it contradicts itself."""
        is_open = accepted_proofs(config.agents, address)
        old = self._made
        if is_open is None:
            self._made = None
        elif old is None or _concerning(old[0]) != _concerning(config):
            limiter = self._together if config.agents.shared_limits else self._alone
            self._made = (
                config,
                AgentWiring(
                    config,
                    address,
                    self.shelf,
                    is_open=is_open,
                    limiter=limiter,
                    proved=self._proved,
                    tell=self._tell,
                ),
            )
        if old is not None and (self._made is None or self._made[1] is not old[1]):
            self._later(old[1].close())
        return None if self._made is None else self._made[1]

    async def start(self) -> None:
        self._later(self._prune())

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._made is not None:
            await self._made[1].close()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _prune(self) -> None:
        """Drop nonces and budgets whose time is over, where there can be any."""
        while True:
            await asyncio.sleep(_PRUNE_SECONDS)
            # Somebody has proved something since the last time.
            proved = sum(count.value for source, count in list(self._proved.items()) if source != ("none",))
            if proved == self._pruned_at:
                continue
            self._pruned_at = proved
            try:
                await self.shelf.prune(round(time.time() * 1000))
            except CallgateError as error:
                log.warning("nonces not pruned", extra={"fields": {"error": str(error)}})


def _concerning(config: Config) -> tuple[object, ...]:
    return config.agents, config.limits.check_seconds, config.gateway.allowed_hosts, _resources(config)


def _resources(config: Config) -> dict[str, str]:
    """Each server as a resource that tokens can be for, by its path; none where the gateway has no https name."""
    base = config.agents.external_url or ""
    if not base.startswith("https://"):
        return {}
    paths = [endpoint(name, server.pinning.group or "") for name, server in config.servers.items()]
    if len(paths) == 1:
        paths.append(SUFFIX)
    return {path: f"{base.rstrip('/')}{path}" for path in paths}


def _external(url: str | None) -> tuple[str, str] | None:
    if url is None:
        return None
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def call_limits(agents: AgentsSection, limiter: Limiter) -> CallLimits:
    """How often callers may call, by a configuration."""
    return CallLimits(limiter, known=agents.known, default=agents.default, servers=agents.servers)


def make_acl(agents: AgentsSection) -> Acl:
    """The rules of a configuration."""
    return Acl(
        (
            AgentPolicy(name, _policy(one), {server: _policy(rules) for server, rules in one.servers.items()})
            for name, one in agents.known.items()
        ),
        default=None if agents.default is None else _policy(agents.default),
        servers={server: _policy(rules) for server, rules in agents.servers.items()},
    )


def _policy(rules: AgentRules) -> ToolPolicy:
    return ToolPolicy(rules.allow_tools, rules.deny_tools, rules.denied, rules.per_minute, rules.burst)

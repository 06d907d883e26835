"""Who calls, for one gateway process: what a configuration makes of it, and what outlives a configuration."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from callgate.agents.limits import (
    MAX_NAME,
    Acl,
    Allowance,
    Limit,
    Limiter,
    MemoryLimiter,
    StoreLimiter,
    folded,
    restricts,
)
from callgate.agents.model import AgentPolicy, ToolPolicy
from callgate.agents.stage import AcceptedProofs, AgentCheck, ReportProof, RequestAuthenticator
from callgate.agents.storage import Take
from callgate.config import AgentRules, AgentsSection, Config
from callgate.config.rules import Address
from callgate.errors import CallgateError, Reason
from callgate.gate import Check, no_objection
from callgate.store import SqlAgents, Store

if TYPE_CHECKING:
    from callgate.agents.proofs import Proofs

_FREE: Final = Allowance()


class _Calls(Limit, frozen=True):
    """A limit that several calls of one request come under."""

    calls: int = 1

    def take(self, agent: str) -> Take:
        return replace(super().take(agent), cost=float(self.calls))


class CallLimits:
    """The limits as an operator wrote them. An agent with an entry of its own is counted by that entry.

    Its own limit, that of one server and that of one tool each count by themselves: a call has to be within all.
    """

    def __init__(self, agents: AgentsSection, limiter: Limiter) -> None:
        self._agents = agents
        self._limiter = limiter
        self.any = any(rules.limits for rules in agents.rules())

    async def take(self, agent: str, server: str, tools: Sequence[str]) -> Allowance:
        """Count these calls, all of them or none."""
        found = Counter(limit for tool in tools for limit in self._of(agent, server, tool))
        if not found:
            return _FREE
        limits = [_Calls(one.name, one.per_minute, one.burst, one.of, calls) for one, calls in found.items()]
        never = [one for one in limits if one.calls > one.most]
        if never:
            # However long one waits: so many never pass at once.
            wait = max(one.window for one in never)
            over = tuple(dict.fromkeys(one.name for one in never))
            return Allowance(ok=False, retry_after=wait, headers=(("Retry-After", str(wait)),), over=over)
        return await self._limiter.take(agent, limits)

    def _of(self, agent: str, server: str, tool: str) -> Iterator[Limit]:
        entry = self._agents.known.get(agent)
        if entry is not None:
            yield from _limits(entry, "agent", "", server, tool)
            narrower = entry.servers.get(server)
        else:
            if self._agents.default is not None:
                yield from _limits(self._agents.default, "agent", "", server, tool)
            narrower = self._agents.servers.get(server)
        if narrower is not None:
            yield from _limits(narrower, "server", server, server, tool)


def _limits(rules: AgentRules, name: str, of: str, server: str, tool: str) -> Iterator[Limit]:
    if rules.per_minute is not None:
        yield Limit(name, rules.per_minute, rules.burst, of)
    for glob, per_minute in rules.per_tool.items():
        if restricts(glob, tool):
            # By tool, not by pattern: `get_*` lets each of these tools be called so often. As a careless server may
            # read the name: nobody is to be counted anew for spelling it otherwise.
            yield Limit("tool", per_minute, None, f"{server}/{folded(tool[:MAX_NAME])}")
            break


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
            limits=CallLimits(agents, limiter),
            external=_external(agents.external_url),
            names=config.gateway.allowed_hosts,
            seconds=max(config.limits.check_seconds, _FETCH_SECONDS),
            tell=tell,
        )
        # What is published at well-known paths.
        self.documents: dict[str, bytes] = {}
        if agents != AgentsSection():
            # Mistakes are told at the start, not by the first request.
            self.documents = self.ways.documents()

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

    def __init__(self, store: Store, tell: ReportProof) -> None:
        self.shelf = SqlAgents(store)
        self._tell = tell
        self._alone: Limiter = MemoryLimiter()
        self._together: Limiter = StoreLimiter(self.shelf)
        self._made: tuple[Config, AgentWiring] | None = None
        self._used = False
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
                AgentWiring(config, address, self.shelf, is_open=is_open, limiter=limiter, tell=self._told),
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

    def _told(self, source: str, reason: Reason | None) -> None:
        self._used = self._used or source != "none"
        self._tell(source, reason)

    async def _prune(self) -> None:
        """Drop nonces and budgets whose time is over, where there can be any."""
        while True:
            await asyncio.sleep(_PRUNE_SECONDS)
            if not self._used:
                continue
            self._used = False
            try:
                await self.shelf.prune(round(time.time() * 1000))
            except CallgateError as error:
                log.warning("nonces not pruned", extra={"fields": {"error": str(error)}})


def _concerning(config: Config) -> tuple[object, ...]:
    return config.agents, config.limits.check_seconds, config.gateway.allowed_hosts


def _external(url: str | None) -> tuple[str, str] | None:
    if url is None:
        return None
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


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

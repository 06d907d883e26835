"""How many calls a caller may make: which limits of a configuration hold for a call, all counted at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from callgate.agents.limits import Allowance, Limit, Limiter
from callgate.config import AgentRules, Agents

_FREE: Final = Allowance()


class CallLimits:
    """The limits as an operator wrote them. An agent with an entry of its own is counted by that entry.

    Its own limit, that of one server and that of one tool each count by themselves: a call has to be within all.
    """

    def __init__(self, agents: Agents, limiter: Limiter) -> None:
        self._agents = agents
        self._limiter = limiter
        self.any = any(rules.limits for rules in agents.rules())

    async def take(self, agent: str, server: str, tools: Sequence[str]) -> Allowance:
        """Count these calls, all of them or none."""
        limits = [limit for tool in tools for limit in self._of(agent, server, tool)]
        return await self._limiter.take(agent, limits) if limits else _FREE

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
        if fnmatchcase(tool.casefold(), glob.casefold()):
            # By tool, not by pattern: `get_*` lets each of these tools be called so often. In any case: a server may
            # not care, and nobody is to be counted anew for spelling a name otherwise.
            yield Limit("tool", per_minute, None, f"{server}/{tool.casefold()}")
            break

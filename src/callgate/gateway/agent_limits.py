"""How many calls a caller may make: which limits of a configuration hold for a call, all counted at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from callgate.agents.acl import MAX_NAME, folded, restricts
from callgate.agents.limits import Allowance, Limit, Limiter
from callgate.agents.storage import Take
from callgate.config import AgentRules, Agents

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

    def __init__(self, agents: Agents, limiter: Limiter) -> None:
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

"""Who may call which tool: globs, by agent, by server and by default.

An agent with an entry of its own is judged by that entry, everybody else by the default (WB-038). Deny wins over allow
wherever it stands: what an agent's entry denies its lines for one server cannot give back, and what a server denies no
entry can. Allow is matched as it is written; deny is matched as a careless server might read a name as well, so that
`Drop_Table` does not slip past `drop_*`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import translate
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import msgspec

from callgate.agents.limits import Limit, limit_of
from callgate.agents.model import AgentPolicy, ToolPolicy
from callgate.errors import ConfigError, Reason, Refused

# A name longer than this is nobody's tool; matching globs against it would only cost time.
MAX_NAME: Final = 1024
_FREE: Final = ToolPolicy()


_POLICIES_MAX: Final = 4096


class ToolLimit(msgspec.Struct, frozen=True):
    """How often each agent may call the tools of a glob, all of them together; `agent` where it is for one only."""

    tool: str
    per_minute: float
    burst: int | None = None
    agent: str = ""


class Acl:
    """The rules as an operator wrote them. With none at all, every verified agent may call everything (WB-039)."""

    def __init__(
        self,
        agents: Iterable[AgentPolicy] = (),
        *,
        default: ToolPolicy | None = None,
        servers: Mapping[str, ToolPolicy] = MappingProxyType({}),
        tool_limits: Iterable[ToolLimit] = (),
    ) -> None:
        entries = tuple(agents)
        self._tool_limits = tuple(tool_limits)
        self._agents = {entry.agent: entry for entry in entries}
        self._default = default
        self._servers = dict(servers)
        # Rules of agents that were asked about: they hold for as long as these rules do.
        self._known: dict[tuple[str, str], ToolPolicy] = {}
        if len(self._agents) != len(entries):
            raise ConfigError("two entries are for the same agent", advice="Write each agent's rules in one entry.")
        for policy in self._policies():
            _check(policy)
        for one in self._tool_limits:
            _check(ToolPolicy(allow=(one.tool,), per_minute=one.per_minute, burst=one.burst))

    @property
    def entries(self) -> tuple[AgentPolicy, ...]:
        return tuple(self._agents.values())

    @property
    def requires_digest(self) -> bool:
        """Whether any rule looks at a tool: then a body that is not bound to its signature proves nothing (WB-019)."""
        rules = any(policy.allow is not None or policy.deny for policy in self._policies())
        return rules or bool(self._tool_limits)

    @property
    def counts(self) -> bool:
        """Whether any rule limits how often."""
        return bool(self._tool_limits) or any(policy.per_minute is not None for policy in self._policies())

    def policy(self, agent: str, server: str = "") -> ToolPolicy:
        """What holds for an agent on a server, all rules together."""
        known = self._known.get((agent, server))
        if known is None:
            if len(self._known) >= _POLICIES_MAX:
                self._known.clear()
            known = self._known[agent, server] = self._all_rules(agent, server)
        return known

    def _all_rules(self, agent: str, server: str) -> ToolPolicy:
        entry, here = self._agents.get(agent), self._servers.get(server, _FREE)
        if entry is not None:
            own = _joined(entry.policy, entry.servers.get(server, _FREE))
            # The server's deny holds for everybody; its allow and limits are for those without an entry.
            return _joined(ToolPolicy(deny=here.deny, denied=here.denied), own)
        return _joined(self._default or _FREE, here)

    def check(self, agent: str, tools: Iterable[str], server: str = "") -> ToolPolicy:
        """Raises Refused unless the agent may call every one of these tools; answers with what holds for it."""
        policy = self.policy(agent, server)
        if policy.denied:
            raise Refused(Reason.AGENT_DENIED)
        for tool in tools:
            if not permits(policy, tool):
                raise Refused(Reason.TOOL_DENIED, f"this agent may not call {shown(tool)}", data={"tool": shown(tool)})
        return policy

    def limits(self, agent: str, tool: str = "", server: str = "") -> list[Limit]:
        """What one request of an agent counts against, and one call of a tool; "" where it calls none.

        A budget belongs to the rule, not to the spelling of a name: calling `A` and `a` in turn does not double it.
        """
        entry, here = self._agents.get(agent), self._servers.get(server)
        narrow = entry.servers.get(server) if entry is not None else here
        wide = entry.policy if entry is not None else self._default
        found = [limit_of(narrow, "server", server)] if narrow is not None and narrow.per_minute is not None else []
        if not found and wide is not None:
            found.append(limit_of(wide, "agent"))
        found += [
            Limit(f"tool.{at}", one.per_minute, one.burst, one.tool)
            for at, one in enumerate(self._tool_limits)
            if tool and one.agent in ("", agent) and restricts(one.tool, tool)
        ]
        return [limit for limit in found if limit is not None]

    def _policies(self) -> Iterator[ToolPolicy]:
        if self._default is not None:
            yield self._default
        yield from self._servers.values()
        for entry in self._agents.values():
            yield entry.policy
            yield from entry.servers.values()


def permits(policy: ToolPolicy, tool: str) -> bool:
    """Whether a policy lets a tool be called."""
    if policy.denied:
        return False
    if policy.allow is None and not policy.deny:
        return True
    if not tool or len(tool) > MAX_NAME:
        return False
    if any(restricts(glob, tool) for glob in policy.deny):
        return False
    return policy.allow is None or any(_matches(glob, tool) for glob in policy.allow)


def shown(tool: str) -> str:
    """A tool's name fit for a message: it comes from the peer."""
    text = tool if len(tool) <= 128 else f"{tool[:128]}…"
    return ascii(text) if not text.isprintable() else text


def _joined(wide: ToolPolicy, narrow: ToolPolicy) -> ToolPolicy:
    """The narrower one says what is allowed and how often; what either denies stays denied."""
    return ToolPolicy(
        allow=wide.allow if narrow.allow is None else narrow.allow,
        deny=wide.deny + narrow.deny,
        denied=wide.denied or narrow.denied,
        per_minute=wide.per_minute if narrow.per_minute is None else narrow.per_minute,
        burst=wide.burst if narrow.per_minute is None else narrow.burst,
    )


def _check(policy: ToolPolicy) -> None:
    for glob in (*(policy.allow or ()), *policy.deny):
        if not glob or len(glob) > MAX_NAME:
            raise ConfigError(f"{glob[:40]!r} names no tool", advice="Write a tool's name, or a glob such as `get_*`.")
    if policy.per_minute is not None and not 0 < policy.per_minute < float("inf"):
        raise ConfigError("per_minute has to be above zero", advice="Use `denied` to shut an agent out.")
    if policy.burst is not None and policy.burst < 1:
        raise ConfigError("burst has to be at least 1", advice="Use `denied` to shut an agent out.")


def _matches(glob: str, name: str) -> bool:
    return glob in ("*", name) or _compiled(glob).match(name) is not None


def restricts(glob: str, name: str) -> bool:
    """What restricts is matched widely; a name that is too long for any tool is restricted by everything."""
    return len(name) > MAX_NAME or _matches(glob, name) or _matches(folded(glob), folded(name))


@lru_cache(maxsize=4096)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """What a careless reader may take a name for: cut at a NUL, without what cannot be seen, in one case and width."""
    text = unicodedata.normalize("NFKC", name.partition("\0")[0])
    return "".join(one for one in text if unicodedata.category(one) not in _UNSEEN).casefold()


_UNSEEN: Final = frozenset({"Cc", "Cf", "Cn", "Zs", "Zl", "Zp"})

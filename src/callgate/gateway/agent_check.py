"""The check: may this caller call this tool? What the door found out of them is on the call's context."""

from __future__ import annotations

from typing import Final

from callgate.agents.acl import Acl, permits, shown
from callgate.agents.model import AgentPolicy, ToolPolicy
from callgate.config import AgentRules, Agents
from callgate.errors import Reason, Refused
from callgate.gate import Call, Pass, Refuse, Verdict

_PASS: Final = Pass()


class AgentCheck:
    """The check that `Gate(agents=…)` takes. It always has its answer at once: waiting was the door's."""

    def __init__(self, acl: Acl, *, required: bool) -> None:
        self._acl = acl
        # Whether who comes over the network has to have said who they are.
        self._required = required

    async def __call__(self, call: Call) -> Verdict:
        return self.at_once(call)

    def at_once(self, call: Call) -> Verdict:
        context = call.context
        caller = context.caller
        if caller is None and self._required and context.transport != "stdio":
            # The door lets nobody in without: this is for whatever way there might be around it.
            return Refuse(Reason.CREDENTIALS_REQUIRED)
        policy = self._acl.policy("" if caller is None else caller.id, context.server)
        if policy.denied:
            return Refuse(Reason.AGENT_DENIED)
        if not permits(policy, call.tool):
            who = "who does not say who they are" if caller is None else "this agent"
            detail = f"{who} may not call {shown(call.tool)}"
            return Refuse(Reason.TOOL_DENIED, detail, data={"tool": shown(call.tool)})
        if context.barred is not None:
            return _refuse(context.barred)
        return _PASS


def make_acl(agents: Agents) -> Acl:
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


def _refuse(refused: Refused) -> Refuse:
    return Refuse(refused.reason, refused.message, data=refused.data, advice=refused.advice, status=refused.status)

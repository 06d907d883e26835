"""Which calls of a server need a person, and who verifies that one approved: the gateway or the server."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Protocol

import msgspec

from callgate.approval import ApprovalPolicy, Gated
from callgate.approval.model import AuthenticatorClass
from callgate.approval.schema import defaults_in
from callgate.approval.tool_catalogue import CatalogueTool, ToolCatalogue, ask_for_tools, declares
from callgate.errors import Reason, UpstreamError
from callgate.jsonrpc.peeking import result_of
from callgate.pipeline.replies import AskServer
from callgate.pipeline.timeouts import pauses

log = logging.getLogger("callgate.approval")

_REMEMBERED: Final = 10_000


def names_tool(pattern: str, tool: str) -> bool:
    """Whether an operator's pattern means a tool. One that is spelt like the tool does, whatever signs it holds."""
    return pattern == tool or fnmatchcase(tool, pattern)


class OperatorRules(Protocol):
    """What the operator says of a server's tools; a section of the configuration has it."""

    @property
    def tools(self) -> Sequence[str]: ...

    @property
    def authenticator_class(self) -> AuthenticatorClass | None: ...

    @property
    def require_counter(self) -> bool: ...

    @property
    def verifier(self) -> str: ...


class ApprovalRequirement(msgspec.Struct, frozen=True):
    """What a tool needs before it is called.

    `gated` is None where nothing is needed here: the tool is free, or its own server verifies (`relayed`). `problem`
    says why nobody can approve it.
    """

    gated: Gated | None = None
    relayed: bool = False
    problem: str = ""


FREE: Final = ApprovalRequirement()
_RELAYED: Final = ApprovalRequirement(relayed=True)


class Deployment:
    """What sets this deployment's signatures apart (§4.6): configured, or kept in the store since the first time."""

    def __init__(self, configured: str | None, identity: Callable[[str], Awaitable[str]]) -> None:
        self._id = configured
        self._identity = identity

    @property
    def known(self) -> bool:
        return self._id is not None

    async def find_out(self) -> None:
        self._id = await self._identity(str(uuid.uuid4()))

    def server_id(self, server: str) -> str:
        assert self._id is not None
        return f"{self._id}/{server}"


class ServerApprovalPolicy:
    """One server: what the operator says of it, and what is known of it."""

    def __init__(
        self,
        name: str,
        section: OperatorRules,
        catalogue: ToolCatalogue,
        deployment: Deployment,
        *,
        strict_defaults: bool = False,
    ) -> None:
        self.name = name
        self.section = section
        self.catalogue = catalogue
        self._deployment = deployment
        self._strict = strict_defaults
        self.policy = ApprovalPolicy(section.authenticator_class or "platform", section.require_counter)
        self._listed: dict[str, bool] = {}
        self._warned: set[str] = set()
        self._rulings: dict[str, tuple[CatalogueTool, ApprovalPolicy, ApprovalRequirement]] = {}

    @property
    def relays(self) -> bool:
        """Whether the server verifies approvals of the tools that it marks."""
        if self.section.verifier == "auto":
            # Not knowing counts as no: then the gateway asks for an approval, whatever the server does.
            return self.catalogue.capable is True
        return self.section.verifier == "server"

    @property
    def verifies(self) -> bool:
        """Whether the gateway verifies approvals for some tool of this server."""
        return not self.relays or bool(self.section.tools)

    def listed(self, tool: str) -> bool:
        """Whether the operator says that this tool needs approval."""
        known = self._listed.get(tool)
        if known is None:
            known = any(names_tool(pattern, tool) for pattern in self.section.tools)
            if len(self._listed) < _REMEMBERED:
                self._listed[tool] = known
        return known

    def operators_policy(self, tool: str) -> ApprovalPolicy | None:
        return self.policy_of(tool, self.catalogue.tool(tool)) if self.listed(tool) else None

    def known(self, name: str) -> ApprovalRequirement | None:
        """The ruling on a tool, from what is known; None if the server has to be asked first."""
        tool = self.catalogue.tool(name)
        return None if tool is None else self._ruling(name, tool)

    def _ruling(self, name: str, tool: CatalogueTool | None) -> ApprovalRequirement:
        if tool is None or not tool.marked:
            return self._gated(name, tool) if self.listed(name) else FREE
        return self._marked(name, tool)

    async def ask(self, name: str, ask: AskServer, limit: float, *, modern: bool) -> ApprovalRequirement:
        """The same, after asking the server; UpstreamError where it does not say."""
        try:
            async with asyncio.timeout(limit), self.catalogue.asking:
                for pause in pauses(limit):
                    await asyncio.sleep(pause)
                    # Whoever had the turn before may have asked for all.
                    if (found := self.known(name)) is not None:
                        return found
                    before = self.catalogue.generation
                    await self._learn(ask, modern=modern)
                    if self.catalogue.generation == before:
                        known = self.catalogue.tool(name)
                        return self._ruling(name, known or self.catalogue.remembered(name))
        except TimeoutError:
            raise UpstreamError(
                Reason.UPSTREAM_TIMEOUT, "the server did not say in time which of its tools need approval"
            ) from None
        raise UpstreamError(Reason.UPSTREAM_GARBAGE, "the server's list of tools changes while it is read")

    async def _learn(self, ask: AskServer, *, modern: bool) -> None:
        tools = await ask_for_tools(ask)
        marks = any(tool.marked for tool in tools.values())
        # Only the modern era can be asked; elsewhere the greeting has passed, or was another gateway's to hear.
        if modern and marks and self.catalogue.capable is None and self.section.verifier == "auto":
            capable = await _asked_capability(ask)
            if capable is not None:
                self.catalogue.greeted(capable=capable)
        self.catalogue.learn_all(tools)

    def asked_for(self, name: str) -> Gated:
        """The tool as gated by another check's wish."""
        return self._gate(name, self.catalogue.tool(name))

    def policy_of(self, name: str, tool: CatalogueTool | None) -> ApprovalPolicy:
        """What an approval of this tool takes that is verified here.

        By the operator's wish it is what the operator says, else what the server's mark says. Of a marked tool it is
        the operator's wish if they list it, or if the server verifies its own approvals and the policy asks all the
        same.
        """
        if tool is None or tool.policy is None:
            return self.policy
        if self.section.authenticator_class is not None and (self.listed(name) or self.relays):
            return self.policy
        return ApprovalPolicy(tool.policy.authenticator_class, self.section.require_counter)

    def _marked(self, name: str, tool: CatalogueTool) -> ApprovalRequirement:
        """A mark of the server's own; one that nobody can read closes the tool (SEP-2672 §4.2)."""
        if self.relays:
            if not self.listed(name):
                return _RELAYED
            self._warn(name, "the server wants to verify approvals of a tool that approval.tools lists as well")
        if tool.problem:
            return ApprovalRequirement(
                problem=f"the server marks this tool in a way that is not known here: {tool.problem}"
            )
        return self._gated(name, tool)

    def _gated(self, name: str, tool: CatalogueTool | None) -> ApprovalRequirement:
        """Worked out once for an entry: a long one is hashed and walked through."""
        kept, policy = self._rulings.get(name), self.policy_of(name, tool)
        if kept is not None and kept[0] is tool and kept[1] == policy:
            return kept[2]
        ruling = self._work_out(name, tool)
        if tool is not None and (name in self._rulings or len(self._rulings) < _REMEMBERED):
            self._rulings[name] = tool, policy, ruling
        return ruling

    def _work_out(self, name: str, tool: CatalogueTool | None) -> ApprovalRequirement:
        gated = self._gate(name, tool)
        defaults = next(defaults_in(gated.input_schema), None)
        if defaults is not None:
            text = f"its input schema has a default for {defaults}, which nobody would see or sign"
            if self._strict:
                return ApprovalRequirement(problem=text)
            self._warn(name, text)
        return ApprovalRequirement(gated)

    def _gate(self, name: str, tool: CatalogueTool | None) -> Gated:
        server_id, policy = self._deployment.server_id(self.name), self.policy_of(name, tool)
        if tool is None:
            return Gated(self.name, server_id, name, policy)
        schema: Any = tool.entry.get("inputSchema")
        return Gated(self.name, server_id, name, policy, schema, tool.title, tool.version)

    def _warn(self, tool: str, text: str) -> None:
        if tool not in self._warned and len(self._warned) < _REMEMBERED:
            self._warned.add(tool)
            fields = {"server": self.name, "tool": tool, "problem": text}
            log.warning("approval of this tool may not work as meant", extra={"fields": fields})


async def _asked_capability(ask: AskServer) -> bool | None:
    try:
        result = result_of(await ask("server/discover", {}))
    except UpstreamError:
        return None
    return None if result is None else declares(result)

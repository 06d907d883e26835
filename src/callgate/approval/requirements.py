"""Which calls need a person: what servers mark, what the configuration lists, and when that is known for certain."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
import unicodedata
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Any, Final, Protocol

import msgspec

from callgate.approval import ApprovalPolicy, Approvals, Gated, UnreadableAnnotation, read_annotation
from callgate.approval.action import from_base64url
from callgate.approval.delegation import Delegable
from callgate.approval.model import AuthenticatorClass
from callgate.approval.schema import defaults_in
from callgate.canonical import canonical
from callgate.errors import MessageError, Reason, Refused, UpstreamError
from callgate.gate import Call, Quorum
from callgate.jsonrpc import peek
from callgate.jsonrpc.reading import decode_leniently, result_of
from callgate.pipeline.replies import AskServer, ask_for_entries, listed_tools
from callgate.pipeline.timeouts import pauses
from callgate.protocol import CAPABILITIES, CHANGED, DEVICE, WEBAUTHN

_TOOLS_MAX: Final = 10_000
# What was heard is believed for this long. A process tells of changes on its pipe; over HTTP they may never pass here.
FRESH_SECONDS: Final = 300.0
FRESH_SECONDS_HTTP: Final = 15.0
_VERSION_DIGITS: Final = 16


class CatalogueTool(msgspec.Struct, frozen=True, dict=True):
    """One entry of a server's list; `policy` is what its mark asks for, `problem` says why nobody can tell."""

    name: str
    entry: dict[str, Any]
    policy: ApprovalPolicy | None = None
    problem: str = ""

    @property
    def marked(self) -> bool:
        return self.policy is not None or bool(self.problem)

    @property
    def title(self) -> str | None:
        annotations = self.entry.get("annotations")
        hinted = annotations.get("title") if isinstance(annotations, dict) else None
        title = self.entry.get("title") or hinted
        return title if isinstance(title, str) else None

    @cached_property
    def hash(self) -> str:
        """Changes with anything in the entry: its RFC 8785 form, hashed."""
        try:
            text = canonical(self.entry)
        except MessageError:
            # A number or half a character that has no canonical form is still one entry and not another.
            text = json.dumps(self.entry, sort_keys=True).encode()
        return hashlib.sha256(text).hexdigest()

    @property
    def version(self) -> str:
        """The beginning of the hash, where people read it."""
        return self.hash[:_VERSION_DIGITS]


class ToolCatalogue:
    """One server's tools, as far as lists of them have passed or were asked for.

    A server may show different clients different lists, and nobody can tell under which a call will run: a tool that
    was marked in one of them stays marked while the gateway runs. That a name is on no list is never remembered: it
    holds for one client, and only until the next call.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, fresh: float = FRESH_SECONDS) -> None:
        # Whether the server declares the capability to everybody who has asked; None until somebody has.
        self.capable: bool | None = None
        self.asking = asyncio.Lock()
        # Moves on whenever the server says that its list has changed.
        self.generation = 0
        self._clock = clock
        self._fresh = fresh
        self._tools: dict[str, tuple[CatalogueTool, float]] = {}
        self._marks: dict[str, tuple[ApprovalPolicy | None, str]] = {}

    def tool(self, name: str) -> CatalogueTool | None:
        """What is known of a tool, if that is recent."""
        known = self._tools.get(name)
        return None if known is None or known[1] < self._clock() - self._fresh else known[0]

    def remembered(self, name: str) -> CatalogueTool | None:
        """A tool that was marked once and is on no list now."""
        mark = self._marks.get(name)
        return None if mark is None else CatalogueTool(name, {"name": name}, *mark)

    @property
    def names(self) -> Iterable[str]:
        """Every tool that is on a list, as far as lists were read."""
        return self._tools.keys()

    @property
    def listed(self) -> list[CatalogueTool]:
        """The same tools as they were listed last, however long ago."""
        return [tool for tool, _ in self._tools.values()]

    @property
    def marked_names(self) -> Iterable[str]:
        """Every tool that was ever marked."""
        return self._marks.keys()

    def greeted(self, *, capable: bool) -> None:
        """A greeting of the server's: once it does not declare the capability to somebody, the gateway verifies."""
        self.capable = capable and self.capable is not False

    def hear(self, message: bytes) -> None:
        """A message of the server that passes: it may say that what is known has changed."""
        seen = peek(message)
        if seen is not None and seen.method == CHANGED:
            self.generation += 1
            self._tools = {name: (tool, float("-inf")) for name, (tool, _) in self._tools.items()}

    def learn(self, tools: dict[str, CatalogueTool]) -> None:
        """A page of the list that passed."""
        now = self._clock()
        for name, tool in tools.items():
            if name in self._tools or len(self._tools) < _TOOLS_MAX:
                self._tools[name] = self._still_marked(tool), now

    def learn_all(self, tools: dict[str, CatalogueTool]) -> None:
        """The whole of the list."""
        now = self._clock()
        self._tools = {name: (self._still_marked(tool), now) for name, tool in tools.items()}

    def remember(self, entry: dict[str, Any]) -> None:
        """A tool as it was approved: a mark that it had then holds, even if the server has dropped it since."""
        tool = _tool(str(entry.get("name")), entry)
        if not tool.marked or tool.name in self._marks:
            return
        self._still_marked(tool)
        known = self._tools.get(tool.name)
        if known is not None:
            self._tools[tool.name] = self._still_marked(known[0]), known[1]

    def _still_marked(self, tool: CatalogueTool) -> CatalogueTool:
        mark = self._marks.get(tool.name)
        if tool.marked:
            if mark is not None or len(self._marks) < _TOOLS_MAX:
                self._marks[tool.name] = tool.policy, tool.problem
        elif mark is not None:
            return CatalogueTool(tool.name, tool.entry, *mark)
        elif len(self._marks) >= _TOOLS_MAX:
            return CatalogueTool(tool.name, tool.entry, None, "the server has marked more tools than can be remembered")
        return tool


def read_tools(result: object) -> dict[str, CatalogueTool]:
    """The tools in a result of `tools/list`; what has no name is none."""
    return {name: _tool(name, entry) for name, entry in listed_tools(result).items()}


def _tool(name: str, entry: dict[str, Any]) -> CatalogueTool:
    try:
        return CatalogueTool(name, entry, read_annotation(entry))
    except UnreadableAnnotation as error:
        return CatalogueTool(name, entry, None, str(error))


def declares(result: object) -> bool:
    """Whether a result of `initialize` or `server/discover` has the capability, under either name (§4.3)."""
    capabilities = result.get("capabilities") if isinstance(result, dict) else None
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return isinstance(extensions, dict) and any(isinstance(extensions.get(name), dict) for name in CAPABILITIES)


async def ask_for_tools(ask: AskServer) -> dict[str, CatalogueTool]:
    """Every tool that the server lists, each with what its mark asks for."""
    return {name: _tool(name, entry) for name, entry in (await ask_for_entries(ask)).items()}


log = logging.getLogger("callgate.approval")

_REMEMBERED: Final = 10_000


def names_tool(pattern: str, tool: str) -> bool:
    """Whether an operator's pattern means a tool. One that is spelt like the tool does, whatever signs it holds."""
    return pattern == tool or fnmatchcase(tool, pattern)


# What the configuration calls the ways to answer.
_METHODS: Final = {"passkey": WEBAUTHN, "device": DEVICE}


class ToolRules(Protocol):
    """Whom the operator wants to approve some tools of a server, and how."""

    @property
    def approvals(self) -> int: ...

    @property
    def of(self) -> tuple[str, ...]: ...

    @property
    def methods(self) -> tuple[str, ...]: ...

    @property
    def grants(self) -> bool: ...


class OperatorRules(Protocol):
    """What the operator says of a server's tools; a section of the configuration has it."""

    @property
    def patterns(self) -> Sequence[str]: ...

    @property
    def authenticator_class(self) -> AuthenticatorClass | None: ...

    @property
    def require_counter(self) -> bool: ...

    @property
    def approvals(self) -> int: ...

    @property
    def of(self) -> tuple[str, ...]: ...

    @property
    def methods(self) -> tuple[str, ...]: ...

    @property
    def grants(self) -> bool: ...

    @property
    def demands(self) -> Mapping[str, ToolRules]: ...

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
    """What sets this deployment's signatures apart (§4.6): configured, or kept in the store since the first time.

    `runs` says what a server's name stands for. It is part of what is signed: the same name may stand for another
    program tomorrow, and an approval is not for that.
    """

    def __init__(
        self,
        configured: str | None,
        identity: Callable[[str], Awaitable[str]],
        runs: Callable[[str], str] = lambda _server: "",
    ) -> None:
        self._id = configured
        self._identity = identity
        self._runs = runs
        self.known = configured is not None

    async def find_out(self) -> None:
        self._id = await self._identity(str(uuid.uuid4()))
        self.known = True

    def server_id(self, server: str) -> str:
        assert self._id is not None
        runs = self._runs(server)
        return f"{self._id}/{server}#{runs}" if runs else f"{self._id}/{server}"


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
        self._quorum = Quorum(section.approvals, section.of)
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
        return not self.relays or bool(self.section.patterns)

    def listed(self, tool: str) -> bool:
        """Whether the operator says that this tool needs approval."""
        known = self._listed.get(tool)
        if known is None:
            known = any(names_tool(pattern, tool) for pattern in self.section.patterns)
            if len(self._listed) < _REMEMBERED:
                self._listed[tool] = known
        return known

    def operators_policy(self, tool: str) -> ApprovalPolicy | None:
        """What a client that signs by itself is told of a tool. Where several people sign, it cannot."""
        policy = self.policy_of(tool, self.catalogue.tool(tool)) if self.listed(tool) else None
        return None if policy is None or policy.quorums else policy

    def known(self, name: str) -> ApprovalRequirement | None:
        """The ruling on a tool, from what is known; None if the server has to be asked first."""
        tool = self.catalogue.tool(name)
        if tool is None:
            return None
        # Most tools are neither marked nor listed, and were asked about before.
        free = tool.policy is None and not tool.problem and self._listed.get(name) is False
        return FREE if free else self._ruling(name, tool)

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
        policy = self.policy
        own = self.section.authenticator_class is not None and (self.listed(name) or self.relays)
        if tool is not None and tool.policy is not None and not own:
            policy = ApprovalPolicy(tool.policy.authenticator_class, self.section.require_counter)
        policy = msgspec.structs.replace(policy, methods=self._methods(name, tool))
        return policy.demanding(self._quorums(name))

    def _methods(self, name: str, tool: CatalogueTool | None) -> tuple[str, ...]:
        """How this tool's approvals may be answered: what its own tables say, else what its server's section says. A
        tool that its server marks wants a passkey (SEP-2672 §4.2), and so does one that nobody knows.
        """
        if tool is None or tool.marked or self.catalogue.remembered(name) is not None:
            return (WEBAUTHN,)
        own = [
            one.methods for pattern, one in self.section.demands.items() if one.methods and names_tool(pattern, name)
        ]
        wanted = own or [self.section.methods or ("passkey",)]
        return tuple(method for name, method in _METHODS.items() if all(name in one for one in wanted))

    def _quorums(self, name: str) -> Iterator[Quorum]:
        """Whom the operator wants to approve this tool: every table that names it counts."""
        yield self._quorum
        for pattern, demand in self.section.demands.items():
            if names_tool(pattern, name):
                yield Quorum(demand.approvals, demand.of)

    def delegable(self, tool: CatalogueTool, *, local: bool, person: str) -> Delegable:
        """What a grant for this tool has to be about, as it is known now; `person` is asked about its calls."""
        policy = self.policy_of(tool.name, tool)
        return Delegable(
            server=self.name,
            server_id=self._deployment.server_id(self.name),
            tool=tool.name,
            tool_hash=tool.hash,
            policy=policy,
            schema=tool.entry.get("inputSchema"),
            local=local,
            person=person,
            problem=self.takes_no_grants(tool.name, policy),
        )

    def takes_no_grants(self, name: str, policy: ApprovalPolicy) -> str:
        """Why calls of a tool with this policy cannot be granted beforehand; empty where they can be."""
        if policy.quorums:
            return f"{policy.people} approve each call of it"
        tables = (one for pattern, one in self.section.demands.items() if names_tool(pattern, name))
        if not self.section.grants or not all(one.grants for one in tables):
            return "the operator has switched grants off for it"
        return ""

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


_MEMBERS: Final = frozenset({"name", "arguments", "_meta", "task", "requestState", "inputResponses"})
_SHOWN_CHARS: Final = 60
_NAMES_KEPT: Final = 16_384


def check_characters(name: str) -> None:
    """Refuse a name with control characters: where one reader stops, another reads on."""
    if name.isprintable():
        return
    if any(unicodedata.category(char) == "Cc" for char in name):
        raise Refused(
            Reason.INVALID_PARAMS,
            "a tool's name has no control characters",
            advice="Spell the tool's name exactly as tools/list does.",
        )


def check_name(name: str, gating: ServerApprovalPolicy) -> None:
    """Refuse a name that is on no list, and that a careless reader could take for a tool that needs a person."""
    if gating.catalogue.tool(name) is not None:
        return
    plain = _folded(name)
    alike = any(_folded(other) == plain for other in _gated_names(gating) if other != name)
    if not alike and not gating.listed(name):
        alike = any(names_tool(_folded(pattern), plain) for pattern in gating.section.patterns)
    if alike:
        raise Refused(
            Reason.INVALID_PARAMS,
            "the server lists no tool of this name, and it is spelt almost like one that needs a person's approval",
            advice="Spell the tool's name exactly as tools/list does.",
        )


def check_members(params: Mapping[str, Any], *, ours: bool) -> None:
    """Refuse what nobody would see or sign beside the arguments; `ours`: the requestState is the gateway's."""
    if not ours and params.get("requestState") is not None:
        raise Refused(Reason.REQUEST_STATE_INVALID)
    if not ours and params.get("inputResponses") is not None:
        raise Refused(
            Reason.INVALID_PARAMS,
            "a call that needs a person's approval has inputResponses only together with the requestState it was given",
            advice="Send the call without inputResponses.",
        )
    for member in params:
        if member not in _MEMBERS:
            raise Refused(
                Reason.INVALID_PARAMS,
                f"params holds {member[:_SHOWN_CHARS]!r}, which nobody who approves the call would see or sign",
                advice="Send name and arguments, and what belongs to the protocol; put all else into arguments.",
            )


def state_in(call: Call) -> object:
    """The call's `requestState`; most have none, and are not read a second time to find out."""
    # A key can be written otherwise only with escapes.
    if b"requestState" not in call.raw and b"\\u" not in call.raw:
        return None
    return decode_leniently(call.raw)["params"].get("requestState")


def _gated_names(gating: ServerApprovalPolicy) -> Iterator[str]:
    yield from gating.catalogue.marked_names
    yield from filter(gating.listed, gating.catalogue.names)


@lru_cache(_NAMES_KEPT)
def _folded(name: str) -> str:
    """What a careless reader may make of a name: up to a NUL, trimmed, in one case, without what cannot be seen."""
    plain = unicodedata.normalize("NFKC", name.partition("\0")[0])
    return "".join(char for char in plain if unicodedata.category(char) != "Cf").strip().casefold()


async def is_ours(approvals: Approvals, response: Any) -> bool:
    """Whether the challenge in a registration's client data was given out here."""
    inner = response.get("response") if isinstance(response, dict) else None
    text = inner.get("clientDataJSON") if isinstance(inner, dict) else None
    try:
        data = decode_leniently(from_base64url(text)) if isinstance(text, str) else None
        challenge = data.get("challenge") if isinstance(data, dict) else None
        given = from_base64url(challenge) if isinstance(challenge, str) else b""
    except ValueError:
        return False
    return bool(given) and await approvals.shelf.registration(given) is not None

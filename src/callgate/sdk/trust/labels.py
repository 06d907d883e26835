"""Trust labels for authors of MCP servers: what tools do with data, where results come from, and who may send what.

labels = TrustLabels()
mcp = MCPServer("files")

@labels.tool(mcp, destination="ephemeral", outcomes="benign", source="untrustedPublic")
def fetch(url: str) -> str:
    labels.read(url)
    ...
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.tools import Tool
from mcp_types import INVALID_REQUEST, CallToolResult, TextContent

from callgate.errors import ConfigError, Reason, Refused, place
from callgate.sdk.connection import AnyModel
from callgate.sdk.server.handler import Context, arguments_of, as_dict, meta_of, params_of, wire_errors
from callgate.sdk.trust.client import RESOLVE
from callgate.sdk.trust.declared import (
    Classes,
    Declared,
    Flagged,
    Forbids,
    Resolve,
    ResultMarks,
    Words,
    collecting_marks,
    current_marks,
    declare_tool,
)
from callgate.sdk.trust.results import DETECTORS, Detector, scan, strings
from callgate.trust.model import ANNOTATIONS_META, Annotations, ToolLabel
from callgate.trust.policy import Facts, Policy
from callgate.trust.propagation import asked
from callgate.trust.vocabulary import Vocabulary

log = logging.getLogger("callgate.trust")

F = TypeVar("F", bound=Callable[..., Any])
AnyServer: TypeAlias = MCPServer[Any] | Server[Any]

_RULES: Final = """
[[rules]]
name = "open-world-to-public"
effect = "block"
when = 'request.open_world && tool.destination == "public" && tool.outcomes != "benign"'
say = "Data that a stranger may have written is not put where everybody can read it."
"""


def open_world_to_public() -> Policy:
    """One rule: a call that says it carries open-world data is refused where it would write to a public place."""
    return Policy.load(texts=[("open-world-to-public", _RULES)], default=False)


class TrustLabels:
    """One for each server.

    `policy` decides on the annotations of requests: a rule that blocks or asks refuses the call, as an invalid request
    that names the rule. `detectors` look through what `inspect` and `step` are given, and through results of declared
    tools. `host` is the name of this server in attribution, its own name by default. `labels` are an organisation's
    own classes of data.
    """

    def __init__(
        self,
        *,
        policy: Policy | None = None,
        detectors: Iterable[Detector] = DETECTORS,
        host: str | None = None,
        labels: Collection[str] = (),
    ) -> None:
        self._policy = policy
        self._detectors = tuple(detectors)
        self._host = host
        self._vocabulary = Vocabulary(labels)
        self._tools: dict[str, Declared] = {}
        self._server: Server[Any] | None = None

    # ---- declaring ----

    def tool(self, server: MCPServer[Any], *, name: str | None = None, **said: Any) -> Callable[[F], F]:
        """`server.tool(...)` for a tool with labels: its options, and those of `declare`."""
        ours = {key: said.pop(key) for key in _DECLARED & said.keys()}
        options = said if name is None else {**said, "name": name}

        def register(function: F) -> F:
            # Declared before it exists, so that it never exists without.
            self.declare(server, Tool.from_function(function, **options).name, **ours)
            return server.tool(**options)(function)

        return register

    def declare(
        self,
        server: AnyServer,
        tool: str,
        *,
        destination: Words | None = None,
        accepts: Classes = "none",
        outcomes: Words | None = None,
        source: Words | None = None,
        sensitivity: Classes = "none",
        open_world: bool | None = None,
        critical: Sequence[str] | None = None,
        fields: Mapping[str, str] | None = None,
        resolve: Resolve | None = None,
        forbid: Mapping[str, Forbids] | None = None,
    ) -> None:
        """What may become of a tool's input, and where its output may come from; lists are possible values.

        `destination`, `accepts` (the classes of data it takes) and `outcomes` are its `inputMetadata`, `source` and
        `sensitivity` its `returnMetadata`. `critical` names the arguments that decide who or what is affected,
        `fields` the source of single fields of a structured result. `resolve` says for the arguments of a call which of
        the possible values holds. `forbid` has rules of its own: a name, and a function of arguments and request
        annotations that is true for a call to refuse.
        """
        self.attach(server)
        self._tools[tool] = declare_tool(
            self._name,
            tool,
            self._vocabulary,
            destination=destination,
            accepts=accepts,
            outcomes=outcomes,
            source=source,
            sensitivity=sensitivity,
            open_world=open_world,
            critical=critical,
            fields=fields,
            resolve=resolve,
            forbids=forbid or {},
        )

    def attach(self, server: AnyServer) -> None:
        """Put this into a server; `tool` and `declare` do it by themselves."""
        low = server._lowlevel_server if isinstance(server, MCPServer) else server  # noqa: SLF001 - no public way
        if self._server is low:
            return
        if self._server is not None:
            raise ConfigError("this TrustLabels serves another server already", advice="Make one for each server.")
        if low.get_request_handler(RESOLVE) is not None:
            raise ConfigError("the server answers tools/resolve already", advice="Attach one TrustLabels, once.")
        self._server = low
        low.add_request_handler(RESOLVE, AnyModel, self._resolve)
        low.middleware.append(self._present)

    @property
    def _name(self) -> str:
        return self._host or (self._server.name if self._server is not None else "") or "server"

    # ---- what a tool says while it runs ----

    def read(
        self,
        *sources: str,
        source: Words = "untrustedPublic",
        sensitivity: Classes = "none",
        open_world: bool | None = None,
    ) -> None:
        """Data from these places goes into the result. Say it for each thing that is read; the result has one label,
        the union of all. A path or `file:` address becomes `local:anonymous/…`."""
        current_marks().read(sources, self._vocabulary, source=source, sensitivity=sensitivity, open_world=open_world)

    def flag(self, *warnings: str) -> None:
        """The result holds something malicious."""
        current_marks().warnings += warnings or ("flagged by the server",)

    def inspect(self, *texts: str) -> tuple[str, ...]:
        """What the detectors find in these texts; the result is flagged if they find something."""
        found = scan(self._detectors, texts)
        if found:
            self.flag(*found)
        return found

    async def step(self, *texts: str, ask: Callable[[tuple[str, ...]], Awaitable[bool] | bool] | None = None) -> None:
        """Look at what a step has read before the next one begins: the tool ends here if it is flagged, unless `ask`
        has a person say that it may go on. The result stays flagged."""
        found = self.inspect(*texts)
        if not found:
            return
        agreed: object = False
        if ask is not None:
            try:
                answer = ask(found)
                agreed = await answer if inspect.isawaitable(answer) else answer
            except Exception as error:  # noqa: BLE001 - who cannot be asked has not agreed
                log.warning("nobody could be asked: %s", place(error))
        if agreed is not True:
            raise Flagged(found)

    def requested(self) -> Annotations:
        """The annotations of the request that is being answered; empty ones where it has none."""
        return current_marks().request or Annotations()

    # ---- at the wire ----

    async def _present(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware. What it puts into lists and results would not survive the SDK's types further inside."""
        if ctx.method == "tools/call" and ctx.request_id is not None:
            return await self._call(ctx, call_next)
        result = as_dict(await call_next(ctx))
        if ctx.method == "tools/list" and isinstance(result, dict) and "tools" in result:
            tools = [
                self._tools[one["name"]].listed(one) if one["name"] in self._tools else one for one in result["tools"]
            ]
            return result | {"tools": tools}
        return result

    async def _resolve(self, ctx: Context, _params: AnyModel) -> HandlerResult:
        """`tools/resolve`: one value for each field where the arguments decide, the strictest where nothing does."""
        with wire_errors():
            name = params_of(ctx).get("name")
            found = self._tools.get(name) if isinstance(name, str) else None
            if found is None:
                raise Refused(Reason.INVALID_PARAMS, "no tool of that name has labels here")
            return found.answer(await found.of(arguments_of(ctx), self._vocabulary))

    async def _call(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        name = params_of(ctx).get("name")
        tool = name if isinstance(name, str) else ""
        found = self._tools.get(tool)
        request = self._vocabulary.of_meta(meta_of(ctx))
        with wire_errors():
            label = await self._admitted(ctx, found, request)
        if found is not None and found.said.source is None:
            label = None
        with collecting_marks(ResultMarks(self._name, tool, request)) as marks:
            try:
                result = as_dict(await call_next(ctx))
            except Flagged as flagged:
                # A low-level server's; an MCPServer makes a result of it by itself.
                result = as_dict(CallToolResult(content=[TextContent(type="text", text=str(flagged))], is_error=True))
            if not isinstance(result, dict) or "content" not in result:
                return result
            if found is not None:
                marks.warnings += scan(self._detectors, tuple(strings(result)))
            annotations = marks.annotations(result, label, self._vocabulary)
        if annotations is None:
            return result
        return result | {"_meta": {**(result.get("_meta") or {}), ANNOTATIONS_META: annotations}}

    async def _admitted(self, ctx: Context, found: Declared | None, request: Annotations | None) -> ToolLabel | None:
        """The label of the call; Refused where the request's own labels break a rule."""
        if found is None:
            return None
        arguments = arguments_of(ctx)
        label = await found.of(arguments, self._vocabulary)
        said = request or Annotations()
        for rule, forbids in found.forbids.items():
            # One that breaks refuses too, as everything does that cannot decide.
            if forbids(arguments, said):
                raise _broken(rule, "")
        if self._policy is not None:
            facts = Facts(label, asked(request), args=arguments, request=request)
            ruling = self._policy.decide(facts)
            if ruling.effect != "allow":
                raise _broken(ruling.rule, ruling.say)
        return label


_DECLARED: Final = frozenset(inspect.signature(TrustLabels.declare).parameters) - {"self", "server", "tool"}


def _broken(rule: str, say: str) -> Refused:
    detail = f"{say.rstrip('.') or 'the labels of this request break a rule'} (rule: {rule})"
    advice = "Do it with data from another source, or another way; ask who runs the server."
    return Refused(Reason.RULE_BLOCKED, detail, code=INVALID_REQUEST, data={"rule": rule}, advice=advice)

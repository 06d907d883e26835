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
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import INVALID_REQUEST, CallToolResult, TextContent
from msgspec.structs import replace

from callgate.errors import ConfigError, Reason, Refused, place
from callgate.sdk.connection import AnyModel
from callgate.sdk.server.handler import Context, arguments_of, as_dict, meta_of, params_of, wire_errors
from callgate.sdk.trust.client import RESOLVE
from callgate.sdk.trust.results import DETECTORS, Detector, scan, strings
from callgate.trust.model import ANNOTATIONS_META, UNTRUSTED, Annotations, DataLabel, ToolLabel
from callgate.trust.policy import Facts, Policy
from callgate.trust.propagation import asked, of_file, of_tool, taken, united
from callgate.trust.resolving import answer
from callgate.trust.results import Told, annotations_of, combined, of_result, told
from callgate.trust.said import Defaults, Layer, Said, said_of, whole
from callgate.trust.vocabulary import CRITICAL_META, FIELDS_META, UNKNOWN, Vocabulary

log = logging.getLogger("callgate.trust")

Words: TypeAlias = str | Sequence[str]
# A class of data: a word, or {"regulated": {"scopes": [...]}}; or several.
Classes: TypeAlias = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
# From a call's arguments to what holds for it: any of `destination`, `outcomes`, `source`, `sensitivity`,
# `attribution`, `openWorldHint`.
Resolve: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None]
# Whether a call breaks a rule, from its arguments and the annotations of the request.
Forbids: TypeAlias = Callable[[dict[str, Any], Annotations], bool]

_RESOLVED: Final = frozenset({"destination", "outcomes", "source", "sensitivity", "attribution", "openWorldHint"})
_ADVICE: Final = (
    "destination, accepts and outcomes say what a tool does with its input, source and sensitivity what it returns."
)
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
STOPPED: Final = "Stopped: what this step read was flagged as possibly malicious, so the rest was not done."
_CURRENT: Final[ContextVar[ResultMarks | None]] = ContextVar("callgate_marks", default=None)


class Declared(msgspec.Struct, frozen=True):
    """A tool that its author declared."""

    tool: str
    # As they stand in the list of tools.
    annotations: Mapping[str, Any]
    meta: Mapping[str, Any]
    said: Said
    label: ToolLabel
    resolve: Resolve | None = None
    forbids: Mapping[str, Forbids] = {}

    def listed(self, entry: dict[str, Any]) -> dict[str, Any]:
        """The tool's entry in `tools/list`; the SDK's types would leave these members out."""
        made = entry | {"annotations": {**(entry.get("annotations") or {}), **self.annotations}}
        return made | {"_meta": {**(entry.get("_meta") or {}), **self.meta}} if self.meta else made

    async def of(self, arguments: dict[str, Any], vocabulary: Vocabulary) -> ToolLabel:
        """The label of one call. What the author's function cannot tell, or tells wrongly, stays as declared."""
        if self.resolve is None:
            return self.label
        try:
            found = self.resolve(arguments)
            values = await found if inspect.isawaitable(found) else found
            said = Said() if values is None else _read(self.label.server, self.tool, values, vocabulary)
        except Exception as error:  # noqa: BLE001 - arguments are an agent's: whatever they break is undecided
            log.warning("the resolve function of %s failed: %s", self.tool, place(error))
            return self.label
        return self.label if said == Said() else self._narrowed(said)

    def _narrowed(self, values: Said) -> ToolLabel:
        words: dict[str, Any] = {}
        for name in ("destination", "outcomes", "source", "sensitivity"):
            base: frozenset[str] | None = getattr(self.said, name)
            said: frozenset[str] | None = getattr(values, name)
            if said is not None and base is not None:
                # Beyond what is declared nothing can be narrowed; then both are possible.
                words[name] = said if said <= base else base | said
        resolved = Said(**words, open_world=values.open_world, attribution=values.attribution)
        rest = msgspec.structs.replace(self.said, open_world=None)
        return whole(self.label.server, self.tool, [Layer("operator", resolved.over(rest))], Defaults())

    def answer(self, label: ToolLabel) -> dict[str, Any]:
        """The result of `tools/resolve`, with the hints that the author gave to the list."""
        made = answer(self.tool, label, self.label)
        annotations = made["tool"]["annotations"]
        # Nothing is said of what the author said nothing of.
        said = self.said
        for name, known in (
            ("readOnlyHint", said.read_only is not None),
            ("destructiveHint", said.destructive is not None),
            ("openWorldHint", "openWorldHint" in self.annotations),
            ("inputMetadata", said.destination is not None),
            ("returnMetadata", said.source is not None),
        ):
            if not known:
                annotations.pop(name)
        return made


def _read(server: str, tool: str, values: object, vocabulary: Vocabulary) -> Said:
    """What a resolve function says; what cannot be read counts as not said."""
    if not isinstance(values, Mapping) or not values.keys() <= _RESOLVED:
        log.warning("the resolve function of %s: expected a mapping of %s", tool, ", ".join(sorted(_RESOLVED)))
        return Said()
    made: dict[str, Any] = {
        # Each field is read for itself, so that the others need not be known.
        "inputMetadata": {
            "destination": _plain(values.get("destination", "public")),
            "sensitivity": "none",
            "outcomes": _plain(values.get("outcomes", "irreversible")),
        },
        "returnMetadata": {
            "source": _plain(values.get("source", "untrustedPublic")),
            "sensitivity": _plain(values.get("sensitivity", "none")),
        },
        "attribution": list(values.get("attribution", ())),
    }
    if "openWorldHint" in values:
        made["openWorldHint"] = values["openWorldHint"]
    read = vocabulary.annotations(made)
    if read.problems or read.input is None or read.returns is None:
        log.warning("the resolve function of %s: %s", tool, read.problems[0].text if read.problems else "unreadable")
        return Said()
    given, returned = read.input, read.returns
    return Said(
        destination=given.destination if "destination" in values else None,
        outcomes=given.outcomes if "outcomes" in values else None,
        source=returned.source if "source" in values else None,
        sensitivity=returned.sensitivity if "sensitivity" in values and UNKNOWN not in returned.sensitivity else None,
        open_world=read.open_world if "openWorldHint" in values else None,
        attribution=tuple(taken(one, server, tool) for one in read.attribution) or None,
    )


def _plain(value: Any) -> Any:
    """As JSON has it: a word, an object, or a list of these."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    return value


class Flagged(ToolError):
    """A tool stops here, because of what it has read. The client sees a flagged result, not the text."""

    def __init__(self, warnings: Sequence[str], say: str = STOPPED) -> None:
        super().__init__(" ".join((say, *warnings)))
        self.warnings = tuple(warnings)


class ResultMarks:
    """The labels of one call."""

    def __init__(self, server: str, tool: str, request: Annotations | None = None) -> None:
        self.server = server
        self.tool = tool
        # What the request says of the data in it.
        self.request = request
        self.labels: list[DataLabel] = []
        self.warnings: list[str] = []

    def add(self, one: DataLabel) -> None:
        self.labels.append(one)

    def read(
        self,
        sources: Sequence[str],
        vocabulary: Vocabulary,
        *,
        source: Words,
        sensitivity: Classes,
        open_world: bool | None,
    ) -> None:
        """Data from somewhere is going to be part of the result."""
        given = {"returnMetadata": {"source": _plain(source), "sensitivity": _plain(sensitivity)}}
        label = vocabulary.annotations(given)
        if label.problems or label.returns is None:
            text = label.problems[0].text if label.problems else "the label cannot be read"
            raise ConfigError(f"{self.tool}: {text}", advice="See the words of returnMetadata.")
        named = [self._source(one) for one in sources]
        self.add(
            DataLabel(
                open_world=open_world is True or UNTRUSTED in label.returns.source,
                sources=label.returns.source,
                sensitivity=label.returns.sensitivity,
                attribution=united(named),
            )
        )

    def _source(self, given: str) -> str:
        """A path is taken for a file; nothing of it says whose machine that is."""
        if given.startswith(("/", "./", "../")) or _DRIVE.match(given):
            return of_file(given)
        return taken(given, self.server, self.tool)

    def annotations(self, result: object, label: ToolLabel | None, vocabulary: Vocabulary) -> dict[str, Any] | None:
        """`_meta.annotations` of the result: what was marked, what its items say, and the declared where nothing was
        marked; None where nothing at all is known."""
        said = told(result, vocabulary)
        if label is None:
            if not self.labels and not self.warnings and not said.kinds - {"annotations"}:
                # Nothing, or all of it in the author's own words.
                return self._cleaned(result)
            label = _empty_label(self.server, self.tool)
        parts = [*self.labels]
        if said.kinds or not parts:
            parts.append(_of_items(label, said, chosen=bool(parts)))
        whole = combined(parts)
        if not whole.attribution:
            whole = replace(whole, attribution=(of_tool(self.server, self.tool),))
        if self.warnings or whole.malicious:
            whole = replace(whole, malicious=True, warnings=tuple(self.warnings))
        return annotations_of(whole)

    def _cleaned(self, result: object) -> dict[str, Any] | None:
        """An author's own annotations: as they are, but for sources in a form that says nothing to others."""
        meta = result.get("_meta") if isinstance(result, Mapping) else None
        own = meta.get(ANNOTATIONS_META) if isinstance(meta, Mapping) else None
        if not isinstance(own, Mapping) or not isinstance(own.get("attribution"), list):
            return None
        named = [taken(str(one), self.server, self.tool) for one in own["attribution"]]
        return {**own, "attribution": list(united(named))}


def _of_items(label: ToolLabel, said: Told, *, chosen: bool) -> DataLabel:
    """The label that the result and its items carry already. Where the tool marked something itself, the declared
    values are not joined: they were only what could be."""
    if not chosen:
        # The author is believed: these are their own words.
        return of_result(label, said, trusted=True)
    open_world = said.open_world or UNTRUSTED in said.sources
    return DataLabel(
        open_world=open_world,
        malicious=bool(said.warnings),
        sources=said.sources | ({UNTRUSTED} if open_world else frozenset()),
        sensitivity=said.sensitivity,
        attribution=united([taken(one, label.server, label.tool) for one in said.attribution]),
        warnings=said.warnings,
    )


def _empty_label(server: str, tool: str) -> ToolLabel:
    none: frozenset[str] = frozenset()
    return ToolLabel(server, tool, none, none, none, none, frozenset({"user"}))


@contextmanager
def collecting_marks(marks: ResultMarks) -> Iterator[ResultMarks]:
    """What is marked inside belongs to this call."""
    token = _CURRENT.set(marks)
    try:
        yield marks
    finally:
        _CURRENT.reset(token)


def current_marks() -> ResultMarks:
    found = _CURRENT.get()
    if found is None:
        raise ConfigError(
            "no tool is running here that labels could belong to",
            advice="Call this from within a tool of a server that TrustLabels is attached to.",
        )
    return found


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
        if (destination is None) is not (outcomes is None) or (destination is None and source is None):
            raise ConfigError(
                f"{tool}: say what it does with its input (destination and outcomes), what it returns (source),"
                " or both",
                advice=_ADVICE,
            )
        made: dict[str, Any] = {}
        if destination is not None:
            made["inputMetadata"] = {
                "destination": _plain(destination),
                "sensitivity": _plain(accepts),
                "outcomes": _plain(outcomes),
            }
        if source is not None:
            made["returnMetadata"] = {"source": _plain(source), "sensitivity": _plain(sensitivity)}
        meta: dict[str, Any] = {} if critical is None else {CRITICAL_META: list(critical)}
        if fields:
            meta[FIELDS_META] = dict(fields)
        # Read as strictly as a peer would: what would be taken for unknown is a mistake.
        read = self._vocabulary.tool({"annotations": made, "_meta": meta})
        if read.problems:
            raise ConfigError(f"{tool}: {read.problems[0].path}: {read.problems[0].text}", advice=_ADVICE)
        said = replace(said_of(read), open_world=open_world)
        label = whole(self._name, tool, [Layer("operator", said)], Defaults())
        if open_world is not None or (destination is not None and source is not None):
            made["openWorldHint"] = label.open_world
        self._tools[tool] = Declared(tool, made, meta, said, label, resolve, dict(forbid or {}))

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

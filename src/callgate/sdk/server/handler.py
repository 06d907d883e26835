"""What a server with verified approval answers: the methods of SEP-2672 §4.4, gated calls, and what it lists."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import inspect
import logging
import secrets
import shlex
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
import msgspec
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, CallToolResult, PaginatedRequestParams
from pydantic import BaseModel

from callgate.approval import (
    ApprovalPolicy,
    ApprovalRepository,
    Approvals,
    Describe,
    Gated,
    UnreadableAnnotation,
    annotation,
    read_annotation,
)
from callgate.approval.action import check_server_id, check_tool_name
from callgate.approval.people import Witness, no_witness
from callgate.approval.schema import defaults_in
from callgate.audit import ArgumentsPolicy, AuditLog, OutcomeRecord
from callgate.audit.records import decision_record
from callgate.canonical import canonical
from callgate.errors import ConfigError, Reason, Refused, StoreError, place
from callgate.gate import Ask, Call, Decision, Gate, Pass, Refuse, Verdict
from callgate.gate import Context as Origin
from callgate.protocol import CAPABILITIES, META, REQUIRED, TICKET
from callgate.sdk.connection import AnyModel
from callgate.sdk.server.strict import READ
from callgate.sdk.store import open_store, store_option, store_section
from callgate.store import SqlApprovals

log = logging.getLogger("callgate.sdk")

Context: TypeAlias = ServerRequestContext[Any, Any]

_PAGES: Final = 100


class Mark(msgspec.Struct, frozen=True):
    """What the author says of a gated tool; `extra` members stand in its annotation (SEP-2672 §4.2)."""

    policy: ApprovalPolicy = ApprovalPolicy()
    describe: Describe | None = None
    extra: Mapping[str, Any] = {}


class GatedTool(msgspec.Struct, frozen=True):
    """A gated tool, and its entry in the list; None where the list does not have it."""

    mark: Mark
    entry: Mapping[str, Any] | None


def registered(server: MCPServer[Any], name: str) -> Mapping[str, Any] | None:
    """A tool of an `MCPServer`, as its entry in the list; its public list would describe every tool again each time."""
    tool = server._tool_manager.get_tool(name)  # noqa: SLF001
    if tool is None:
        return None
    return {"name": name, "title": tool.title, "inputSchema": tool.parameters, "_meta": tool.meta or {}}


async def listed(server: Server[Any], name: str, ctx: Context) -> Mapping[str, Any] | None:
    """A tool of a low-level `Server`, which only its own `tools/list` knows."""
    listing = server.get_request_handler("tools/list")
    if listing is None:
        return None
    asking = dataclasses.replace(ctx, method="tools/list", params=None)
    cursor: str | None = None
    for _ in range(_PAGES):
        result = as_dict(await listing.handler(asking, PaginatedRequestParams(cursor=cursor))) or {}
        for entry in map(as_dict, result.get("tools", ())):
            if entry is not None and entry.get("name") == name:
                return entry
        cursor = result.get("nextCursor")
        if cursor is None:
            return None
    raise Refused(Reason.CHECK_FAILED, f"the list of tools has more than {_PAGES} pages")


class GatedTools:
    """The tools that the author has named, and those whose own `_meta` carries the mark."""

    def __init__(self, *, strict_defaults: bool) -> None:
        # Whose tools they are, once that is known.
        self._server: MCPServer[Any] | Server[Any] | None = None
        self._strict_defaults = strict_defaults
        self._marks: dict[str, Mark] = {}
        self._warned: set[str] = set()

    def attach(self, server: MCPServer[Any] | Server[Any]) -> None:
        self._server = server

    def add(self, name: str, mark: Mark, schema: Any = None) -> None:
        """Gate a tool; ConfigError where what is said of it cannot hold."""
        try:
            check_tool_name(name)
        except Refused as refused:
            raise ConfigError(str(refused), advice="Choose another name for the tool.") from None
        check_extra(mark)
        self.check_defaults(name, schema)
        self._marks[name] = mark

    def check_defaults(self, name: str, schema: Any) -> None:
        """§8.3.3: what a default fills in is not what was signed."""
        places = list(defaults_in(schema))
        if not places:
            return
        text = f"the input schema of {name!r} has defaults, which nobody sees or signs: {', '.join(places)}"
        if self._strict_defaults:
            raise ConfigError(text, advice="Make these properties required, or leave strict_defaults off.")
        if name not in self._warned:
            self._warned.add(name)
            log.warning(text)

    async def find(self, name: str, ctx: Context) -> GatedTool | None:
        """The tool if it is gated; Refused(APPROVAL_UNAVAILABLE) where nobody could approve it."""
        if self._server is None:
            raise _not_attached()
        at = self._server
        # As this caller's `tools/list` would have it.
        entry = registered(at, name) if isinstance(at, MCPServer) else await listed(at, name, ctx)
        mark = self._marks.get(name)
        if mark is None:
            try:
                policy = read_annotation(entry or {})
            except UnreadableAnnotation as error:
                raise Refused(Reason.APPROVAL_UNAVAILABLE, f"nobody can approve {name!r}: {error}") from None
            if policy is None:
                return None
            mark = Mark(policy)
        try:
            self.check_defaults(name, (entry or {}).get("inputSchema"))
        except ConfigError as error:
            raise Refused(Reason.APPROVAL_UNAVAILABLE, str(error), advice=error.advice) from None
        return GatedTool(mark, entry)

    def annotated(self, tool: dict[str, Any]) -> dict[str, Any]:
        """A tool's entry in `tools/list`, with the mark if it is gated here (§4.2)."""
        mark = self._marks.get(tool.get("name", ""))
        if mark is None:
            return tool
        return tool | {"_meta": (tool.get("_meta") or {}) | {META: annotation(mark.policy, mark.extra)}}


def check_extra(mark: Mark) -> None:
    """Members of our own are not to be overruled: `required` has the one value that there is (§4.2)."""
    fixed = {"required": REQUIRED, "authenticatorClass": mark.policy.authenticator_class}
    for name, value in fixed.items():
        if mark.extra.get(name, value) != value:
            raise ConfigError(
                f"the annotation of a gated tool cannot have {name} = {mark.extra[name]!r}",
                advice=f"Leave {name} out of `extra`; it is set to {value!r}.",
            )


def _not_attached() -> Refused:
    return Refused(
        Reason.APPROVAL_UNAVAILABLE,
        "verified approval is not attached to this server",
        advice="Call `approval.attach(server)` before the server runs, or start it with `approval.run(server)`.",
    )


# A file, a URL as `store.url` takes it, or somebody's own repository; None is the store that `callgate` uses.
Place: TypeAlias = str | Path | ApprovalRepository | None
MakeApprovals: TypeAlias = Callable[[ApprovalRepository, Witness], Approvals]
_REDACTED: Final = ArgumentsPolicy("redacted", ())


class OpenedService(msgspec.Struct, frozen=True):
    """The parts, opened. `server_id` is that of SEP-2672 §4.6; `closed` is the kill switch as the gate asks for it."""

    approvals: Approvals
    server_id: str
    recorder: ApprovalRecorder
    closed: Callable[[], Refused | None]


class SharedService:
    """The service while anybody needs it: opened for the first, closed after the last."""

    def __init__(self, opening: Callable[[], contextlib.AbstractAsyncContextManager[OpenedService]]) -> None:
        self._opening = opening
        self._service: OpenedService | None = None
        self._users = 0
        self._turn = asyncio.Lock()
        self._closing = contextlib.AsyncExitStack()

    @property
    def service(self) -> OpenedService:
        if self._service is None:
            raise Refused(Reason.APPROVAL_UNAVAILABLE, "verified approval is not running on this server")
        return self._service

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        async with self._turn:
            if not self._users:
                self._service = await self._closing.enter_async_context(self._opening())
            self._users += 1
        try:
            yield
        finally:
            # What is on its way to the store gets there even if the server is being stopped; closing is bounded.
            with anyio.CancelScope(shield=True):
                await self._leave()

    async def _leave(self) -> None:
        async with self._turn:
            self._users -= 1
            if not self._users:
                self._service = None
                await self._closing.aclose()


@contextlib.asynccontextmanager
async def open_service(
    place: Place, make: MakeApprovals, server: str, server_id: str | None, *, user: str | None = None
) -> AsyncIterator[OpenedService]:
    """Open everything; what is durable is flushed when the block ends. `user` is who is asked, if that is known."""
    if place is None or isinstance(place, (str, Path)):
        async with _open_store(place, make, server, server_id) as service:
            if not await service.approvals.shelf.credentials(user):
                _tell_how_to_enrol(place, user)
            yield service
    else:
        approvals = make(place, no_witness)
        chosen = await _server_id(place, server, server_id)
        yield OpenedService(approvals, chosen, ApprovalRecorder(place, None, secrets.token_hex(6)), lambda: None)


@contextlib.asynccontextmanager
async def _open_store(
    place: str | Path | None, make: MakeApprovals, server: str, server_id: str | None
) -> AsyncIterator[OpenedService]:
    async with open_store(store_section(place)) as (store, audit, switch):
        repository = SqlApprovals(store)
        approvals = make(repository, audit.admin)
        chosen = await _server_id(repository, server, server_id)
        recorder = ApprovalRecorder(repository, audit, secrets.token_hex(6))
        yield OpenedService(approvals, chosen, recorder, switch.refusal)


def _tell_how_to_enrol(place: str | Path | None, user: str | None) -> None:
    log.warning("nobody can approve yet: %s", "nobody has a passkey" if user is None else f"{user} has no passkey")
    # Not as a part of the message: log handlers break lines, and a command in pieces cannot be copied.
    sys.stderr.write(f"To enrol a passkey:\n\n  {how_to_enrol(place, user)}\n\n")
    sys.stderr.flush()


def how_to_enrol(place: str | Path | None, user: str | None) -> str:
    """The command to type for the first passkey."""
    words = ["callgate", "enroll", user or "USER", "--here"]
    if place is not None:
        words += store_option(store_section(place))
    return shlex.join(words)


async def _server_id(repository: ApprovalRepository, server: str, given: str | None) -> str:
    """§4.6: never the same for two servers, also where both keep their approvals in one store."""
    if given is not None:
        return given
    return check_server_id(f"{await repository.identity(str(uuid.uuid4()))}/library:{server}")


class ApprovalRecorder:
    """Decisions and outcomes; without a log, only what a decision uses up is kept."""

    def __init__(self, repository: ApprovalRepository, audit: AuditLog | None, process: str) -> None:
        self._repository = repository
        self._audit = audit
        self._process = process

    async def record(self, call: Call, decision: Decision) -> None:
        """Make a decision durable, in one transaction with what it uses up (SEP-2672 §4.8, steps 13 and 14)."""
        record = decision_record(call, decision, _REDACTED, self._process)
        for use in decision.uses:
            await self._repository.use(use, None if self._audit is None else self._audit.row(record))
        if self._audit is not None and not decision.uses:
            await self._audit.decided(record)
        if decision.refused is not None:
            log.warning("call of %s refused: %s", call.tool, decision.refused.reason.value)

    def completed(self, call: Call, outcome: str, seconds: float) -> None:
        """How a call that was let through ended."""
        if self._audit is not None:
            at, ms = round(time.time() * 1000), round(seconds * 1000)
            self._audit.completed(OutcomeRecord(call=call.id, at=at, outcome=outcome, ms=ms))


# Who approves: always the same person, or whoever the request belongs to.
Approver: TypeAlias = str | Callable[[Context], str | Awaitable[str]]

_GREETINGS: Final = frozenset({"initialize", "server/discover"})
_ABSENT: Final = object()
_CLAIM_CHARS: Final = 128


class ApprovalHandler:
    """Answers for one server, with the service that is open while it serves."""

    def __init__(self, tools: GatedTools, service: Callable[[], OpenedService], user: Approver | None) -> None:
        self.tools = tools
        self._server: Server[Any] | None = None
        self._gate: object = None
        self._reads_strictly = False
        self._service = service
        self._user = user
        self._warned = False

    def attach(self, server: Server[Any]) -> None:
        """Answer for this server, whose handler of `tools/call` is the gate by now."""
        self._server, self._gate = server, server.get_request_handler("tools/call")

    def read_strictly(self) -> None:
        """Messages on stdio are read strictly from now on."""
        self._reads_strictly = True

    @property
    def server_name(self) -> str:
        return "" if self._server is None else self._server.name

    # ---- the methods of §4.4 ----

    async def begin(self, ctx: Context, _params: AnyModel) -> HandlerResult:
        """`approval/enroll/begin`: of the parameters only the ticket in `_meta` counts (§4.4.1)."""
        with wire_errors():
            approvals = self._service().approvals
            ticket = meta_of(ctx).get(TICKET)
            if ticket is not None and not isinstance(ticket, str):
                raise Refused(Reason.ENROLMENT_NOT_AUTHORISED)
            first = await self._approver(ctx) if ticket is None and approvals.settings.first_use else None
            return await approvals.begin_enrolment(ticket, first_use=first)

    async def finish(self, ctx: Context, _params: AnyModel) -> HandlerResult:
        """`approval/enroll/finish` (§4.4.2)."""
        with wire_errors():
            enrolled = await self._service().approvals.finish_enrolment(params_of(ctx).get("response"))
            return enrolled.result

    async def create(self, ctx: Context, _params: AnyModel) -> HandlerResult:
        """`approval/challenge/create` (§4.4.3)."""
        with wire_errors():
            service = self._service()
            name = params_of(ctx).get("toolName")
            if not isinstance(name, str):
                raise Refused(Reason.INVALID_PARAMS, "approval/challenge/create needs a string `toolName`")
            check_tool_name(name)
            arguments = arguments_of(ctx)
            found = await self.tools.find(name, ctx)
            if found is None or found.entry is None:
                raise service.approvals.localise(Refused(Reason.TOOL_NOT_APPROVED_REQUIRED))
            gated = gated_tool(name, found, self.server_name, service)
            describe = found.mark.describe
            issued = await service.approvals.challenge(
                gated,
                arguments,
                canonical(arguments),
                await self._approver(ctx),
                describe=None if describe is None else _safe_describe(name, describe),
            )
            return issued.result

    async def _approver(self, ctx: Context) -> str | None:
        """Who would have to approve this request; None where that cannot be told."""
        if callable(self._user):
            named = self._user(ctx)
            return await named if inspect.isawaitable(named) else named
        if self._user is not None:
            return self._user
        users = await self._service().approvals.shelf.users()
        if len(users) > 1:
            log.warning("there are several users, so nobody is asked: say who approves with VerifiedApproval(user=...)")
        return users[0].name if len(users) == 1 else None

    # ---- calls ----

    async def call(self, params: CallToolRequestParams, ctx: Context, call_next: CallNext) -> HandlerResult:
        """`tools/call`: a gated tool runs once, and only after the gate has let the call through (§4.5)."""
        with wire_errors():
            call = await self._admit(params, ctx)
        if call is None:
            return await call_next(ctx)
        started, outcome = time.monotonic(), "error"
        try:
            result = await call_next(ctx)
            outcome = "tool_error" if isinstance(result, CallToolResult) and result.is_error else "result"
            return result
        finally:
            self._service().recorder.completed(call, outcome, time.monotonic() - started)

    async def _admit(self, params: CallToolRequestParams, ctx: Context) -> Call | None:
        found = await self.tools.find(params.name, ctx)
        if found is None:
            return None
        self._warn_of_lenient_reading(ctx)
        if arguments_of(ctx) != (params.arguments or {}):
            raise Refused(Reason.CHECK_FAILED, "something between the wire and the gate has changed the arguments")
        service = self._service()
        gated = gated_tool(params.name, found, self.server_name, service)
        call, decision = await decide(ctx, gated, service, await self._approver(ctx))
        if decision.refused is not None:
            raise decision.refused
        return call

    def _warn_of_lenient_reading(self, ctx: Context) -> None:
        scope = getattr(ctx.request, "scope", {})
        if not self._warned and not scope.get(READ, self._reads_strictly and ctx.request is None):
            self._warned = True
            log.warning(
                "this server's messages are not read strictly: a duplicate key in them goes unnoticed; "
                "start it with approval.run(server), or serve approval.http_app(server)"
            )

    # ---- what clients learn of it ----

    async def present(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: the capability under both names (§4.3), and the mark on gated tools (§4.2).

        The SDK takes `extensions` out of the handshake era's `initialize`; here it is put back.
        """
        server = self._server
        if ctx.method == "tools/call" and (
            server is None or server.get_request_handler("tools/call") is not self._gate
        ):
            log.error("the server's tools/call handler was replaced after verified approval was attached")
            raise wire_error(Refused(Reason.APPROVAL_UNAVAILABLE, "this server's gate is not in place"))
        result = as_dict(await call_next(ctx))
        if result is None or ctx.request_id is None:
            return result
        if ctx.method in _GREETINGS and "capabilities" in result:
            extensions = result["capabilities"].get("extensions") or {}
            declared = extensions | {name: {} for name in CAPABILITIES}
            return result | {"capabilities": result["capabilities"] | {"extensions": declared}}
        if ctx.method == "tools/list" and "tools" in result:
            return result | {"tools": [self.tools.annotated(tool) for tool in result["tools"]]}
        return result

    async def hide(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware where verified approval is off: a tool that carries the mark is neither listed nor run (§4.3)."""
        if ctx.method == "tools/call":
            name = params_of(ctx).get("name")
            with wire_errors():
                if isinstance(name, str) and await self.tools.find(name, ctx) is not None:
                    raise Refused(Reason.APPROVAL_UNAVAILABLE)
        result = as_dict(await call_next(ctx))
        if ctx.method != "tools/list" or result is None or "tools" not in result:
            return result
        return result | {"tools": [tool for tool in result["tools"] if META not in (tool.get("_meta") or {})]}


def as_dict(result: HandlerResult) -> dict[str, Any] | None:
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return result


@contextlib.contextmanager
def wire_errors() -> Iterator[None]:
    """Turns every refusal into its JSON-RPC error; what breaks is refused too, and its text stays in the log."""
    try:
        yield
    except MCPError:
        raise
    except Refused as refused:
        raise wire_error(refused) from None
    except StoreError as error:
        log.error("the store did not answer: %s", error)
        raise wire_error(Refused(Reason.STORE_UNAVAILABLE)) from None
    except Exception as error:
        log.error("request refused because something broke: %s", place(error))
        raise wire_error(Refused(Reason.CHECK_FAILED)) from error


def _safe_describe(name: str, describe: Describe) -> Describe:
    def text(arguments: dict[str, Any]) -> str:
        try:
            return describe(arguments)
        except Exception as error:
            log.error("the describe function of %s failed: %s", name, place(error))
            raise Refused(Reason.CHECK_FAILED, "the tool's description of this call failed") from error

    return text


def wire_error(refused: Refused) -> MCPError:
    """The JSON-RPC error that a refusal becomes (SEP-2672 §4.10)."""
    data = {"reason": refused.reason.value, "advice": refused.advice, **refused.data}
    return MCPError(refused.code, str(refused), data)


def params_of(ctx: Context) -> Mapping[str, Any]:
    """The request's parameters as they came."""
    return ctx.params if isinstance(ctx.params, Mapping) else {}


def meta_of(ctx: Context) -> Mapping[str, Any]:
    meta = params_of(ctx).get("_meta")
    return meta if isinstance(meta, Mapping) else {}


def arguments_of(ctx: Context) -> dict[str, Any]:
    """What is hashed: the object as it was received, and no arguments are an empty one (§4.6)."""
    found = params_of(ctx).get("arguments", _ABSENT)
    if found is _ABSENT:
        return {}
    if not isinstance(found, dict):
        raise Refused(Reason.INVALID_PARAMS, "params.arguments has to be an object", code=Reason.INVALID_PARAMS.code)
    return found


def gated_tool(name: str, found: GatedTool, server: str, service: OpenedService) -> Gated:
    entry = found.entry or {}
    schema, title = entry.get("inputSchema"), entry.get("title")
    return Gated(server, service.server_id, name, found.mark.policy, schema, title)


async def decide(ctx: Context, gated: Gated, service: OpenedService, user: str | None) -> tuple[Call, Decision]:
    """Put a call before the gate; what it decides is durable, and an approval is used up, when this returns."""
    arguments = arguments_of(ctx)
    at = service.approvals.now()
    origin = Origin(gated.server, transport_of(ctx), session_of(ctx), ctx.protocol_version)
    form = canonical(arguments)
    call = Call(f"{at:012x}{secrets.token_hex(10)}", at, gated.tool, arguments, form, b"", meta_of(ctx), origin)

    async def approval(call: Call, _asks: tuple[Ask, ...]) -> Verdict:
        """Steps 1 to 12 of §4.8 as the gate's last check; steps 13 and 14 are the `use` of its answer."""
        evidence = call.meta.get(META)
        try:
            verified = await service.approvals.verify(gated, call.arguments, call.canonical, evidence, user=user)
        except Refused as refused:
            facts = {"approval": _claims(evidence, refused)}
            return Refuse(refused.reason, refused.message, facts, refused.data, refused.advice)
        return Pass({"approval": verified.facts}, verified.use)

    gate = Gate(kill_switch=service.closed, record=service.recorder.record, approval=approval)
    return call, await gate.decide(call)


def _claims(evidence: object, refused: Refused) -> dict[str, Any]:
    """What evidence that does not hold says of itself, and why it does not: for the record, never for the wire."""
    found: dict[str, Any] = {} if refused.__cause__ is None else {"why": str(refused.__cause__)}
    if isinstance(evidence, dict):
        response = evidence.get("response")
        key = response.get("id") if isinstance(response, dict) else None
        claimed = {"challenge": evidence.get("challengeId"), "credential": key}
        texts = {name: text[:_CLAIM_CHARS] for name, text in claimed.items() if isinstance(text, str)}
        found["claimed"] = {name: text.encode("utf-8", "replace").decode() for name, text in texts.items()}
    return found


def transport_of(ctx: Context) -> str:
    return "stdio" if ctx.request is None else "http"


def session_of(ctx: Context) -> str | None:
    """What the records keep of a session id: enough to join calls, not enough to take the session over."""
    headers = getattr(ctx.request, "headers", {})
    session = headers.get("mcp-session-id")
    if session is None:
        return None
    return hashlib.sha256(b"callgate session\x00" + session.encode()).hexdigest()[:32]

"""What a server with verified approval answers: the methods of SEP-2672 §4.4, gated calls, and what it lists."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, CallToolResult
from pydantic import BaseModel

from callgate.approval import Describe, Gated
from callgate.approval.action import check_tool_name
from callgate.canonical import canonical
from callgate.errors import Reason, Refused, StoreError, place
from callgate.gate import Ask, Call, Decision, Gate, Pass, Refuse, Verdict
from callgate.gate import Context as Origin
from callgate.protocol import CAPABILITIES, META, TICKET
from callgate.sdk.connection import AnyModel
from callgate.sdk.server.store import OpenedService
from callgate.sdk.server.strict import READ
from callgate.sdk.server.tools import Context, GatedTool, GatedTools

log = logging.getLogger("callgate.sdk")

# Who approves: always the same person, or whoever the request belongs to.
Approver: TypeAlias = str | Callable[[Context], str | Awaitable[str]]

_GREETINGS: Final = frozenset({"initialize", "server/discover"})
_ABSENT: Final = object()
_CLAIM_CHARS: Final = 128


class ApprovalHandler:
    """Answers for one server, with the service that is open while it serves."""

    def __init__(self, tools: GatedTools, service: Callable[[], OpenedService], user: Approver | None) -> None:
        self.tools = tools
        self.server_name = ""
        self.reads_strictly = False
        self.in_place: Callable[[], bool] = lambda: False
        self._service = service
        self._user = user
        self._warned = False

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
        if not self._warned and not scope.get(READ, self.reads_strictly and ctx.request is None):
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
        if ctx.method == "tools/call" and not self.in_place():
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

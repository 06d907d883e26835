"""What a server with verified approval answers: the methods of SEP-2672 §4.4, gated calls, and what it lists."""

from __future__ import annotations

import contextlib
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, TypeAlias

from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, CallToolResult
from pydantic import BaseModel, ConfigDict

from callgate.approval import Describe
from callgate.approval.action import check_tool_name
from callgate.canonical import canonical
from callgate.errors import Reason, Refused, StoreError, place
from callgate.gate import Call
from callgate.protocol import CAPABILITIES, META, TICKET
from callgate.sdk.server_calls import arguments_of, decide, gated_tool, meta_of, params_of, wire_error
from callgate.sdk.server_store import Service
from callgate.sdk.server_tools import Context, GatedTools
from callgate.sdk.strict import READ

log = logging.getLogger("callgate.sdk")

# Who approves: always the same person, or whoever the request belongs to.
Approver: TypeAlias = str | Callable[[Context], str | Awaitable[str]]

_GREETINGS: Final = frozenset({"initialize", "server/discover"})


class AnyParams(BaseModel):
    """Parameters of whatever shape: they are read as they came, not as a model would have them."""

    model_config = ConfigDict(extra="allow")


class Desk:
    """Answers for one server, with the service that is open while it serves."""

    def __init__(self, tools: GatedTools, service: Callable[[], Service], user: Approver | None) -> None:
        self.tools = tools
        self.server_name = ""
        self.reads_strictly = False
        self.in_place: Callable[[], bool] = lambda: False
        self._service = service
        self._user = user
        self._warned = False

    # ---- the methods of §4.4 ----

    async def begin(self, ctx: Context, _params: AnyParams) -> HandlerResult:
        """`approval/enroll/begin`: of the parameters only the ticket in `_meta` counts (§4.4.1)."""
        with answering():
            approvals = self._service().approvals
            ticket = meta_of(ctx).get(TICKET)
            if ticket is not None and not isinstance(ticket, str):
                raise Refused(Reason.ENROLMENT_NOT_AUTHORISED)
            first = await self._approver(ctx) if ticket is None and approvals.settings.first_use else None
            return await approvals.begin_enrolment(ticket, first_use=first)

    async def finish(self, ctx: Context, _params: AnyParams) -> HandlerResult:
        """`approval/enroll/finish` (§4.4.2)."""
        with answering():
            enrolled = await self._service().approvals.finish_enrolment(params_of(ctx).get("response"))
            return enrolled.result

    async def create(self, ctx: Context, _params: AnyParams) -> HandlerResult:
        """`approval/challenge/create` (§4.4.3)."""
        with answering():
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
                describe=None if describe is None else _described(name, describe),
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
        with answering():
            call = await self._admit(params, ctx)
        if call is None:
            return await call_next(ctx)
        started, outcome = time.monotonic(), "error"
        try:
            result = await call_next(ctx)
            outcome = "tool_error" if isinstance(result, CallToolResult) and result.is_error else "result"
            return result
        finally:
            self._service().books.completed(call, outcome, time.monotonic() - started)

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
        result = _plain(await call_next(ctx))
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
            with answering():
                if isinstance(name, str) and await self.tools.find(name, ctx) is not None:
                    raise Refused(Reason.APPROVAL_UNAVAILABLE)
        result = _plain(await call_next(ctx))
        if ctx.method != "tools/list" or result is None or "tools" not in result:
            return result
        return result | {"tools": [tool for tool in result["tools"] if META not in (tool.get("_meta") or {})]}


def _plain(result: HandlerResult) -> dict[str, Any] | None:
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return result


@contextlib.contextmanager
def answering() -> Iterator[None]:
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


def _described(name: str, describe: Describe) -> Describe:
    def text(arguments: dict[str, Any]) -> str:
        try:
            return describe(arguments)
        except Exception as error:
            log.error("the describe function of %s failed: %s", name, place(error))
            raise Refused(Reason.CHECK_FAILED, "the tool's description of this call failed") from error

    return text

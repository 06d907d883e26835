"""A call to a gated tool, before the gate: the same gate that the gateway has, with an approval as its last check."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any, Final

from mcp.shared.exceptions import MCPError

from callgate.approval import Approvals, Gated
from callgate.canonical import canonical
from callgate.errors import Reason, Refused
from callgate.gate import Ask, Call, Decision, Gate, Pass, Refuse, Verdict
from callgate.gate import Context as Origin
from callgate.protocol import META
from callgate.sdk.server_store import Service
from callgate.sdk.server_tools import Context, Found

_ABSENT: Final = object()
_CLAIM_CHARS: Final = 128


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


def gated_tool(name: str, found: Found, server: str, service: Service) -> Gated:
    entry = found.entry or {}
    schema, title = entry.get("inputSchema"), entry.get("title")
    return Gated(server, service.server_id, name, found.mark.policy, schema, title)


async def decide(ctx: Context, gated: Gated, service: Service, user: str | None) -> tuple[Call, Decision]:
    """Put a call before the gate; what it decides is durable, and an approval is used up, when this returns."""
    arguments = arguments_of(ctx)
    at = service.approvals.now()
    origin = Origin(gated.server, transport_of(ctx), session_of(ctx), ctx.protocol_version)
    form = canonical(arguments)
    call = Call(f"{at:012x}{secrets.token_hex(10)}", at, gated.tool, arguments, form, b"", meta_of(ctx), origin)
    check = ApprovalCheck(service.approvals, gated, user)
    gate = Gate(kill_switch=service.closed, record=service.books.record, approval=check)
    return call, await gate.decide(call)


class ApprovalCheck:
    """Steps 1 to 12 of §4.8 as the gate's last check; steps 13 and 14 are the `use` of its answer."""

    def __init__(self, approvals: Approvals, gated: Gated, user: str | None) -> None:
        self._approvals = approvals
        self._gated = gated
        self._user = user

    async def __call__(self, call: Call, _asks: tuple[Ask, ...]) -> Verdict:
        evidence = call.meta.get(META)
        try:
            verified = await self._approvals.verify(
                self._gated, call.arguments, call.canonical, evidence, user=self._user
            )
        except Refused as refused:
            facts = {"approval": _claims(evidence, refused)}
            return Refuse(refused.reason, refused.message, facts, refused.data, refused.advice)
        return Pass({"approval": verified.facts}, verified.use)


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

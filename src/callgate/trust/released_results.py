"""The gateway's own tool for results that were held back: an agent asks for one by its handle once it is released."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from callgate.errors import CallgateError, MessageError
from callgate.jsonrpc import member_span
from callgate.jsonrpc.reading import decode_leniently
from callgate.pipeline.replies import ToolListReply
from callgate.trust.model import Quarantined
from callgate.trust.quarantine import Seals, is_handle
from callgate.trust.results import with_warning
from callgate.trust.storage import TrustShelf

RESULT_TOOL: Final = "callgate_result"
ENTRY: Final = msgspec.json.encode(
    {
        "name": RESULT_TOOL,
        "title": "A result that was held back",
        "description": "Gives a result that was held back, once a person has released it. Takes its handle; changes "
        "nothing and calls no other tool.",
        "inputSchema": {
            "type": "object",
            "properties": {"handle": {"type": "string", "description": "As the held result named it."}},
            "required": ["handle"],
            "additionalProperties": False,
        },
        "annotations": {
            "readOnlyHint": True,
            "destructiveHint": False,
            "openWorldHint": True,
            "inputMetadata": {"destination": "ephemeral", "sensitivity": "none", "outcomes": "benign"},
            "returnMetadata": {"source": "untrustedPublic", "sensitivity": "none"},
        },
    }
)
_ENTRY: Final = msgspec.json.decode(ENTRY)
_STATES: Final = {
    "held": "is still held back. A person can look at it and release it.",
    "dropped": "was looked at by a person, who decided that it is not to be read.",
}


def offered(raw: bytes) -> bytes:
    """The last page of a list, with the tool at its end."""
    try:
        span = member_span(raw, ("result", "tools"))
        if span is None or member_span(raw, ("result", "nextCursor")) is not None:
            return raw
    except MessageError:
        return raw
    tools = raw[span[0] : span[1]].rstrip()
    if tools[:1] != b"[" or tools[-1:] != b"]":
        return raw
    inner = tools[1:-1].strip()
    return raw[: span[0]] + b"[" + inner + (b"," if inner else b"") + ENTRY + b"]" + raw[span[1] :]


def offered_on(reply: ToolListReply) -> ToolListReply:
    """The same for a list that was read before."""
    if "nextCursor" in reply.result:
        return reply
    return reply.with_result(tools=[*reply.result["tools"], _ENTRY])


class ReleasedResult(NamedTuple):
    """What the agent gets; `tool` is whose result it is, empty where it is none."""

    result: dict[str, Any]
    tool: str = ""


async def released(
    shelf: TrustShelf, seals: Seals, handle: object, *, session: str, server: str, modern: bool
) -> ReleasedResult:
    """The result of a call of the tool. A handle of another session or server is one that there is not."""
    held = await shelf.held(handle) if isinstance(handle, str) and is_handle(handle) else None
    if held is None or held.session != session or held.server != server:
        return ReleasedResult(_said("No result is held under this handle for you.", modern=modern))
    if held.state != "released":
        return ReleasedResult(_said(f"The result {held.handle} {_STATES[held.state]}", modern=modern))
    opened = _opened(held, seals)
    if opened is None:
        return ReleasedResult(_said(f"The result {held.handle} can no longer be opened.", modern=modern))
    return ReleasedResult(opened, held.tool)


def _opened(held: Quarantined, seals: Seals) -> dict[str, Any] | None:
    try:
        raw = with_warning(seals.open(held.sealed, held.handle), held.warnings)
    except CallgateError:
        return None
    message = decode_leniently(raw)
    result = message.get("result") if isinstance(message, dict) else None
    return result if isinstance(result, dict) else None


def _said(text: str, *, modern: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    return {**result, "resultType": "complete"} if modern else result

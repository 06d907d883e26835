"""The span of a client's message."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from callgate.gate import Context
from callgate.jsonrpc import TOOLS_CALL, Batch, Message
from callgate.telemetry.spans import NoSpan, NoTracer, OpenSpan, Tracer


def span_of(
    tracer: Tracer, message: Message | Batch, context: Context, fields: Mapping[bytes, bytes]
) -> AbstractContextManager[NoSpan | OpenSpan]:
    """A span named for the method, and for the tool where there is one; its parent is what the client named."""
    if isinstance(tracer, NoTracer):
        return tracer.call("")
    method, tool = "batch", ""
    if isinstance(message, Message):
        method = message.method or "response"
        if method == TOOLS_CALL and isinstance(message.params, dict):
            tool = str(message.params.get("name", ""))
    named = {key.decode(): fields[key].decode("latin-1") for key in (b"traceparent", b"tracestate") if key in fields}
    return tracer.call(
        method,
        server=context.server,
        tool=tool,
        transport=context.transport,
        protocol=context.protocol,
        session=context.session,
        headers=named,
        meta=message.meta if isinstance(message, Message) else {},
    )

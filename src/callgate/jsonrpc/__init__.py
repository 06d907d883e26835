"""JSON-RPC 2.0: reading a client's messages strictly, a server's in outline, and changing one value of either."""

from callgate.jsonrpc.peeking import Peek, parts, peek
from callgate.jsonrpc.reading import (
    TOOLS_CALL,
    UNDERSTOOD,
    BadMessage,
    Batch,
    Limits,
    Message,
    MessageKind,
    RequestId,
    ToolCall,
    error_of,
    error_reply,
    parse,
    tool_call,
)
from callgate.jsonrpc.splicing import (
    drop_member,
    elements,
    member_span,
    member_spans,
    put_member,
    replace_member,
    with_id,
)

__all__ = [
    "TOOLS_CALL",
    "UNDERSTOOD",
    "BadMessage",
    "Batch",
    "Limits",
    "Message",
    "MessageKind",
    "Peek",
    "RequestId",
    "ToolCall",
    "drop_member",
    "elements",
    "error_of",
    "error_reply",
    "member_span",
    "member_spans",
    "parse",
    "parts",
    "peek",
    "put_member",
    "replace_member",
    "tool_call",
    "with_id",
]

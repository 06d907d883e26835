"""JSON-RPC 2.0: reading a client's messages strictly, a server's in outline, and changing one value of either."""

from callgate.jsonrpc.peeking import Peek, parts, peek
from callgate.jsonrpc.reading import (
    TOOLS_CALL,
    UNDERSTOOD,
    BadMessage,
    Batch,
    Kind,
    Limits,
    Message,
    RequestId,
    ToolCall,
    error_reply,
    parse,
    tool_call,
)
from callgate.jsonrpc.splicing import member_span, replace_member

__all__ = [
    "TOOLS_CALL",
    "UNDERSTOOD",
    "BadMessage",
    "Batch",
    "Kind",
    "Limits",
    "Message",
    "Peek",
    "RequestId",
    "ToolCall",
    "error_reply",
    "member_span",
    "parse",
    "parts",
    "peek",
    "replace_member",
    "tool_call",
]

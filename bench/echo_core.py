"""The echo tool's answers, shared by the HTTP and the stdio server: one message in, at most one message out.

Both protocol eras are answered: the handshake era (`initialize`, up to 2025-11-25) and the modern era
(2026-07-28: `server/discover`, `resultType` in every result).
"""

from __future__ import annotations

from typing import Any

import msgspec

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE)

SERVER_INFO = {"name": "echo", "version": "1"}
# Where nobody shakes hands, results say whose they are.
STAMP = {"_meta": {"io.modelcontextprotocol/serverInfo": SERVER_INFO}}
CAPABILITIES = {"tools": {"listChanged": False}}
TOOLS = [
    {
        "name": "echo",
        "description": "Gives back the text it was given.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
    }
]
# Empty lists, so that gateways which look for resources and prompts when they connect find none.
EMPTY_LISTS = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602


class Message(msgspec.Struct):
    method: str = ""
    id: msgspec.Raw = msgspec.Raw(b"")
    params: msgspec.Raw = msgspec.Raw(b"{}")


class CallArguments(msgspec.Struct):
    text: str


class CallParams(msgspec.Struct):
    name: str
    arguments: CallArguments


class InitializeParams(msgspec.Struct):
    protocolVersion: str = HANDSHAKE  # noqa: N815 - the wire's own spelling


_decode_message = msgspec.json.Decoder(Message).decode
_decode_call = msgspec.json.Decoder(CallParams).decode
_decode_initialize = msgspec.json.Decoder(InitializeParams).decode
_encode = msgspec.json.Encoder().encode


def parse(frame: bytes) -> Message:
    return _decode_message(frame)


def answer(message: Message, modern: bool) -> bytes | None:
    """The reply's bytes, or None for a notification or a reply to us."""
    request_id = bytes(message.id)
    if not request_id or not message.method:
        return None
    if message.method == "tools/call":
        return _call(request_id, bytes(message.params), modern)
    result = _result(message)
    if result is None:
        return _error(request_id, METHOD_NOT_FOUND, "Method not found")
    if modern:
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **result, **STAMP}
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, _encode(result))


def _call(request_id: bytes, params: bytes, modern: bool) -> bytes:
    try:
        call = _decode_call(params)
    except msgspec.DecodeError:
        return _error(request_id, INVALID_PARAMS, "echo takes one string, text")
    if call.name != "echo":
        return _error(request_id, INVALID_PARAMS, "Unknown tool")
    kind = b'"resultType":"complete",' if modern else b""
    return b'{"jsonrpc":"2.0","id":%b,"result":{%b"content":[{"type":"text","text":%b}],"isError":false}}' % (
        request_id,
        kind,
        _encode(call.arguments.text),
    )


def _result(message: Message) -> dict[str, Any] | None:
    method = message.method
    if method == "initialize":
        asked = _decode_initialize(bytes(message.params)).protocolVersion
        version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE
        return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": SERVER_INFO}
    if method == "server/discover":
        versions = [MODERN, HANDSHAKE]
        return {"supportedVersions": versions, "capabilities": CAPABILITIES, "serverInfo": SERVER_INFO}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method in EMPTY_LISTS:
        return {EMPTY_LISTS[method]: []}
    if method == "ping":
        return {}
    return None


def _error(request_id: bytes, code: int, text: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (request_id, _encode({"code": code, "message": text}))

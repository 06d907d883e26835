"""Read what a server wrote, also where it is not quite JSON: half a surrogate pair in an honest description."""

from __future__ import annotations

import json
from typing import Any, Final, Literal

import msgspec

from callgate.errors import METHOD_NOT_FOUND, Reason, UpstreamError
from callgate.jsonrpc.reading import RequestId, is_id

_decode: Final = msgspec.json.Decoder().decode


def decode_leniently(raw: bytes) -> Any:
    """A server's JSON, also where it holds half an emoji; None where it is none."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            return json.loads(raw.decode())
        except (ValueError, RecursionError):
            return None


def result_of(reply: bytes) -> Any:
    """The result in a reply; None where the server has no such method, UpstreamError where it answers otherwise."""
    message = decode_leniently(reply)
    if isinstance(message, dict) and isinstance(message.get("result"), dict):
        return message["result"]
    error = message.get("error") if isinstance(message, dict) else None
    if isinstance(error, dict) and error.get("code") == METHOD_NOT_FOUND:
        return None
    raise UpstreamError(
        Reason.UPSTREAM_GARBAGE, "the server did not say which of its tools need approval, so the call was refused"
    )


_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Peek(msgspec.Struct, frozen=True):
    """What has to be known of a server's message to route and record it."""

    id: RequestId | None = None
    method: str | None = None
    outcome: Literal["result", "tool_error", "error"] | None = None
    code: int | None = None

    @property
    def is_reply(self) -> bool:
        return self.method is None and self.outcome is not None


class _WireError(msgspec.Struct, frozen=True):
    code: int = 0


class _WireResult(msgspec.Struct, frozen=True):
    isError: bool = False  # noqa: N815 - the wire's spelling


_ABSENT: Final = msgspec.Raw()


class _Wire(msgspec.Struct, frozen=True):
    id: int | str | float | None = None
    method: str | None = None
    result: msgspec.Raw = _ABSENT
    error: msgspec.Raw = _ABSENT


_decode_wire: Final = msgspec.json.Decoder(_Wire).decode
_decode_result: Final = msgspec.json.Decoder(_WireResult).decode
_decode_error: Final = msgspec.json.Decoder(_WireError).decode


# Those looked at last: on its way through the gateway a message is looked at several times. Of long ones, one is kept.
_SHORT: Final = 4096
_KEPT: Final = 64
_short: Final[dict[bytes, Peek | None]] = {}
_long: Final[list[tuple[bytes, Peek | None]]] = [(b"", None)]


def peek(raw: bytes) -> Peek | None:
    """A server's message in outline, or None if it is not a JSON-RPC object."""
    if type(raw) is not bytes:
        return _peek(raw)
    if len(raw) <= _SHORT:
        try:
            return _short[raw]
        except KeyError:
            pass
        if len(_short) >= _KEPT:
            _short.clear()
        seen = _short[raw] = _peek(raw)
        return seen
    before, seen = _long[0]
    if raw is not before:
        seen = _peek(raw)
        _long[0] = raw, seen
    return seen


def _peek(raw: bytes) -> Peek | None:
    try:
        wire = _decode_wire(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _peek_leniently(raw)
    rpc_id = None if isinstance(wire.id, float) else wire.id
    if wire.method is None and bytes(wire.error) not in (b"", b"null"):
        return Peek(rpc_id, None, "error", _error_code(wire.error))
    if wire.method is None and wire.result is not _ABSENT:
        return Peek(rpc_id, None, "tool_error" if _is_tool_error(wire.result) else "result")
    return Peek(rpc_id, wire.method)


def _peek_leniently(raw: bytes) -> Peek | None:
    """The same for what only a lenient reader takes, such as half an emoji in an honest text."""
    try:
        value = json.loads(raw.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    rpc_id = value.get("id") if is_id(value.get("id")) else None
    method, error, result = value.get("method"), value.get("error"), value.get("result")
    if isinstance(method, str):
        return Peek(rpc_id, method)
    if error is not None:
        code = error.get("code") if isinstance(error, dict) else None
        return Peek(rpc_id, None, "error", code if type(code) is int else None)
    if "result" in value:
        failed = isinstance(result, dict) and result.get("isError") is True
        return Peek(rpc_id, None, "tool_error" if failed else "result")
    return Peek(rpc_id)


def _error_code(error: msgspec.Raw) -> int | None:
    try:
        return _decode_error(error).code
    except msgspec.MsgspecError:
        return None


def _is_tool_error(result: msgspec.Raw) -> bool:
    try:
        return _decode_result(result).isError
    except msgspec.MsgspecError:
        return False


def parts(raw: bytes) -> list[bytes] | None:
    """The elements of an array of messages as the bytes they came as, or None if it is none."""
    if raw.lstrip(b" \t\r\n")[:1] != b"[":
        return None
    try:
        return [bytes(part) for part in _decode_list(raw)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None

"""Read messages strictly as a client sent them, and leniently as a server wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

import msgspec

from callgate.canonical import canonical
from callgate.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MessageError,
    Reason,
    Refused,
    UpstreamError,
)

RequestId: TypeAlias = int | str

TOOLS_CALL: Final = "tools/call"
# SEP-2672 §4.4: what is hashed, shown and signed has to be one thing for everybody, so these are read like a call.
_APPROVAL: Final = frozenset({"approval/enroll/begin", "approval/enroll/finish", "approval/challenge/create"})
_READ_AS_CALLS: Final = _APPROVAL | {TOOLS_CALL}
UNDERSTOOD: Final = _READ_AS_CALLS | {"tools/list", "initialize", "server/discover"}

_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_CALL_MEMBERS: Final = frozenset({"name", "arguments", "_meta", "task", "inputresponses", "requeststate"})
_CALL_SPELLING: Final = frozenset({"name", "arguments", "_meta", "task", "inputResponses", "requestState"})

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class Limits(msgspec.Struct, frozen=True):
    """What a message may be at most."""

    bytes: int = 32 * 1024 * 1024
    depth: int = 100
    batch: int = 100


class MessageKind(Enum):
    REQUEST = "request"
    NOTIFICATION = "notification"
    RESPONSE = "response"


class Message(msgspec.Struct, frozen=True):
    """One message and the bytes it came as."""

    kind: MessageKind
    raw: bytes
    method: str = ""
    id: RequestId | None = None
    params: Any = None
    # `params._meta`, empty where there is none.
    meta: Mapping[str, Any] = {}


class Batch(msgspec.Struct, frozen=True):
    """Several messages in one text, as clients of 2025-03-26 send them."""

    raw: bytes
    messages: tuple[Message, ...]


class ToolCall(msgspec.Struct, frozen=True):
    """What a `tools/call` asks for; `canonical` is the RFC 8785 form of its arguments."""

    name: str
    arguments: dict[str, Any]
    canonical: bytes


class BadMessage(MessageError):
    """A MessageError that knows the id to answer with."""

    def __init__(self, reason: Reason, detail: str = "", *, code: int | None = None, rpc_id: Any = None) -> None:
        super().__init__(reason, detail, code=code)
        self.rpc_id: RequestId | None = rpc_id if is_id(rpc_id) else None


def parse(raw: bytes, limits: Limits) -> Message | Batch:
    """Read what a client sent; raises BadMessage."""
    if len(raw) > limits.bytes:
        raise BadMessage(Reason.MESSAGE_TOO_LARGE, f"the message has {len(raw)} bytes; {limits.bytes} are taken")
    defects: _Defects | None = None
    try:
        value = _decode(raw)
        if _encode(value) != raw:
            value, defects = _read_pairs(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value, defects = _read_pairs(raw)
    if raw.count(b"{") + raw.count(b"[") > limits.depth:
        _check_depth(value, limits.depth)
    if defects is not None and b"\\u" in raw:
        _refuse_surrogates(value)
    if type(value) is dict:
        return _message(value, raw, defects)
    if type(value) is list:
        return _batch(value, raw, defects, limits)
    raise BadMessage(Reason.INVALID_REQUEST, "a message is an object, or a non-empty array of objects")


def tool_call(message: Message) -> ToolCall:
    """What a `tools/call` request asks for; raises BadMessage (-32602) where it is not one."""
    params = message.params
    if not isinstance(params, dict):
        raise BadMessage(Reason.INVALID_PARAMS, "tools/call needs an object as params", rpc_id=message.id)
    for key in params:
        if key not in _CALL_SPELLING and _folded(key) in _CALL_MEMBERS:
            raise BadMessage(Reason.AMBIGUOUS_KEY, f"params holds {key!r}", code=INVALID_PARAMS, rpc_id=message.id)
    name = params.get("name")
    if not isinstance(name, str) or not name:
        raise BadMessage(Reason.INVALID_PARAMS, "tools/call needs a tool name in params.name", rpc_id=message.id)
    arguments = params.get("arguments")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise BadMessage(Reason.INVALID_PARAMS, "params.arguments has to be an object", rpc_id=message.id)
    try:
        return ToolCall(name, arguments, canonical(arguments))
    except MessageError as error:
        raise BadMessage(error.reason, f"params.arguments: {error}", code=INVALID_PARAMS, rpc_id=message.id) from None


def error_of(refused: Refused, **data: Any) -> dict[str, Any]:
    """A refusal as the `error` of a JSON-RPC response."""
    about = {"reason": refused.reason.value, "advice": refused.advice, **refused.data, **data}
    return {"code": refused.code, "message": str(refused), "data": about}


def error_reply(rpc_id: RequestId | None, refused: Refused, **data: Any) -> bytes:
    """The JSON-RPC error that a refusal becomes on the wire."""
    return _encode({"jsonrpc": "2.0", "id": rpc_id, "error": error_of(refused, **data)})


# ---- the strict reader ----


class _Defects(msgspec.Struct):
    """What the second reader noticed."""

    duplicate: str | None = None
    outer_duplicate: str | None = None
    constant: str | None = None


def _read_pairs(raw: bytes) -> tuple[Any, _Defects]:
    defects = _Defects()

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        # Objects are finished inside out, so the last one reported is the outermost.
        defects.outer_duplicate = None
        if len(result) != len(items):
            seen: set[str] = set()
            twice = next(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            defects.duplicate = defects.outer_duplicate = twice
        return result

    def constant(token: str) -> float:
        defects.constant = token
        return float(token)

    try:
        # bytes would let json guess UTF-16 or UTF-32; the wire is UTF-8 without a byte order mark (RFC 8259 §8.1).
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)
    except RecursionError:
        raise BadMessage(Reason.TOO_DEEP) from None
    except ValueError as error:
        raise BadMessage(Reason.PARSE_ERROR, f"not valid JSON: {error}") from None
    return value, defects


def _check_depth(value: Any, limit: int) -> None:
    level = [value]
    for _ in range(limit):
        level = [
            item
            for node in level
            for item in (node.values() if type(node) is dict else node)
            if type(item) is dict or type(item) is list
        ]
        if not level:
            return
    rpc_id = value.get("id") if type(value) is dict else None
    raise BadMessage(Reason.TOO_DEEP, f"the message is nested more than {limit} levels deep", rpc_id=rpc_id)


def _refuse_surrogates(value: Any) -> None:
    """Half a pair is nobody's text: it cannot be recorded, compared or sent on as it is (RFC 8259 §8.2)."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        rpc_id = value.get("id") if type(value) is dict else None
        method = value.get("method") if type(value) is dict else None
        call = isinstance(method, str) and method in _READ_AS_CALLS
        raise BadMessage(
            Reason.LONE_SURROGATE,
            code=INVALID_PARAMS if call else INVALID_REQUEST,
            rpc_id=rpc_id if isinstance(rpc_id, int) or (isinstance(rpc_id, str) and rpc_id.isprintable()) else None,
        ) from None


def _folded(text: str) -> str:
    """What a careless reader may take a name for: cut at a NUL, trimmed, in one case."""
    return text.partition("\0")[0].strip().casefold()


def _message(value: dict[str, Any], raw: bytes, defects: _Defects | None) -> Message:
    rpc_id = value.get("id")
    if defects is not None and defects.outer_duplicate is not None:
        raise BadMessage(
            Reason.DUPLICATE_KEY, f"the message holds {defects.outer_duplicate!r} twice", code=INVALID_REQUEST
        )
    for key in value:
        if key not in _MEMBERS and _folded(key) in _MEMBERS:
            raise BadMessage(Reason.AMBIGUOUS_KEY, f"the message holds {key!r}", rpc_id=rpc_id)
    if value.get("jsonrpc") != "2.0":
        raise BadMessage(Reason.INVALID_REQUEST, 'the message lacks "jsonrpc": "2.0"', rpc_id=rpc_id)
    if "method" not in value:
        return _response(value, raw, defects)
    method = value["method"]
    if not isinstance(method, str) or not method or "result" in value or "error" in value:
        raise BadMessage(Reason.INVALID_REQUEST, "method has to be a string, alone of its kind", rpc_id=rpc_id)
    if method not in UNDERSTOOD and (_folded(method) in UNDERSTOOD or not method.isprintable()):
        raise BadMessage(Reason.AMBIGUOUS_METHOD, rpc_id=rpc_id)
    if defects is not None:
        _refuse_defects(defects, method, rpc_id)
    params = value.get("params")
    if params is not None and not isinstance(params, (dict, list)):
        raise BadMessage(Reason.INVALID_REQUEST, "params has to be an object", rpc_id=rpc_id)
    meta = params.get("_meta") if isinstance(params, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    if "id" not in value:
        return Message(MessageKind.NOTIFICATION, raw, method, None, params, meta)
    if type(rpc_id) is not str and type(rpc_id) is not int:
        raise BadMessage(Reason.INVALID_REQUEST, "id has to be a string or an integer")
    return Message(MessageKind.REQUEST, raw, method, rpc_id, params, meta)


def _response(value: dict[str, Any], raw: bytes, defects: _Defects | None) -> Message:
    rpc_id = value.get("id")
    if ("result" in value) == ("error" in value):
        raise BadMessage(Reason.INVALID_REQUEST, "neither a method nor one of result and error", rpc_id=rpc_id)
    if defects is not None:
        _refuse_defects(defects, "", rpc_id)
    if rpc_id is not None and not is_id(rpc_id):
        raise BadMessage(Reason.INVALID_REQUEST, "id has to be a string or an integer")
    return Message(MessageKind.RESPONSE, raw, "", rpc_id)


def _refuse_defects(defects: _Defects, method: str, rpc_id: Any) -> None:
    if defects.constant is not None:
        if method in _READ_AS_CALLS:
            raise BadMessage(Reason.NUMBER_OUT_OF_RANGE, f"the message holds {defects.constant}", rpc_id=rpc_id)
        raise BadMessage(Reason.PARSE_ERROR, f"not valid JSON: {defects.constant}")
    if defects.duplicate is not None and method in UNDERSTOOD:
        raise BadMessage(Reason.DUPLICATE_KEY, f"an object holds {defects.duplicate!r} twice", rpc_id=rpc_id)


def _batch(values: list[Any], raw: bytes, defects: _Defects | None, limits: Limits) -> Batch:
    if not values:
        raise BadMessage(Reason.INVALID_REQUEST, "a batch cannot be empty")
    if len(values) > limits.batch:
        raise BadMessage(Reason.BATCH_TOO_LARGE, f"the batch has {len(values)} messages; {limits.batch} are taken")
    if defects is not None and defects.duplicate is not None:
        # Inside a batch it cannot be told which object is a message of its own: all of it has to be clean.
        raise BadMessage(Reason.DUPLICATE_KEY, f"an object holds {defects.duplicate!r} twice", code=INVALID_REQUEST)
    if defects is not None and defects.constant is not None:
        raise BadMessage(Reason.PARSE_ERROR, f"not valid JSON: {defects.constant}")
    messages = []
    for value in values:
        if type(value) is not dict:
            raise BadMessage(Reason.INVALID_REQUEST, "a batch holds objects only")
        messages.append(_message(value, _encode(value), None))
    asked = [message.id for message in messages if message.kind is MessageKind.REQUEST]
    if len(set(asked)) != len(asked):
        raise BadMessage(Reason.INVALID_REQUEST, "two requests of a batch have the same id")
    return Batch(raw, tuple(messages))


def is_id(value: Any) -> bool:
    return type(value) is str or type(value) is int


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

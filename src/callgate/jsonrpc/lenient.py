"""Read what a server wrote, also where it is not quite JSON: half a surrogate pair in an honest description."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from callgate.errors import METHOD_NOT_FOUND, Reason, UpstreamError

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

"""Arguments against a tool's inputSchema: before a challenge exists, and again before it is used up."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import jsonschema_rs
import msgspec

from callgate.errors import Reason, Refused

_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode: Final = msgspec.json.Decoder().decode
_MESSAGE_CHARS: Final = 400
_DEPTH: Final = 32


def check_arguments(schema: Any, arguments: dict[str, Any]) -> None:
    """Raise Refused(ARGUMENTS_INVALID) where the arguments do not fit; a tool without a schema takes any."""
    if schema is None:
        return
    try:
        validator = _validator(_encode(schema))
    except (ValueError, TypeError, RecursionError, jsonschema_rs.ReferencingError):
        raise Refused(Reason.ARGUMENTS_INVALID, "the tool's inputSchema cannot be used to check arguments") from None
    try:
        error = next(iter(validator.iter_errors(arguments)), None)
    except (ValueError, RecursionError):
        raise Refused(Reason.ARGUMENTS_INVALID, "the arguments cannot be checked") from None
    if error is not None:
        place = "/".join(str(step) for step in error.instance_path)
        text = error.message if len(error.message) <= _MESSAGE_CHARS else error.message[:_MESSAGE_CHARS] + "…"
        raise Refused(Reason.ARGUMENTS_INVALID, f"arguments{'/' + place if place else ''}: {text}")


def _no_fetching(uri: str) -> Any:
    raise ValueError(f"a schema may not refer to {uri}")


@lru_cache(maxsize=512)
def _validator(schema: bytes) -> Any:
    # Linear-time patterns: a hostile schema must not keep the gate busy.
    return jsonschema_rs.validator_for(
        _decode(schema), retriever=_no_fetching, pattern_options=jsonschema_rs.RegexOptions(size_limit=1 << 20)
    )


def defaults_in(schema: Any, path: str = "", depth: int = 0) -> Iterator[str]:
    """SEP-2672 §8.3.3: the properties that a schema gives a default: filled in later, they would not be signed."""
    if not isinstance(schema, dict) or depth > _DEPTH:
        return
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        place = f"{path}.{name}" if path else str(name)
        if isinstance(inner, dict) and "default" in inner:
            yield place
        yield from defaults_in(inner, place, depth + 1)
    if isinstance(schema.get("items"), dict):
        yield from defaults_in(schema["items"], f"{path}[]", depth + 1)

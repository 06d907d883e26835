"""Arguments against a tool's inputSchema: before a challenge exists, and again before it is used up."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import jsonschema_rs
import msgspec

from callgate.approval.weighing import TooHeavy, check_weight, has_references
from callgate.errors import Reason, Refused

_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode: Final = msgspec.json.Decoder().decode
_MESSAGE_CHARS: Final = 400
_DEPTH: Final = 32
# Keywords of JSON Schema that hold further schemas: by name, and one or several.
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
_NESTED: Final = frozenset(
    {"items", "prefixItems", "additionalItems", "contains", "additionalProperties", "unevaluatedProperties", "allOf"}
    | {"anyOf", "oneOf", "not", "if", "then", "else", "unevaluatedItems"}
)


def check_arguments(schema: Any, arguments: dict[str, Any]) -> None:
    """Raise Refused(ARGUMENTS_INVALID) where the arguments do not fit; a tool without a schema takes any."""
    if schema is None:
        return
    try:
        validator, tangled = _validator(_encode(schema))
    except (ValueError, TypeError, RecursionError, jsonschema_rs.ReferencingError):
        raise Refused(Reason.ARGUMENTS_INVALID, "the tool's inputSchema cannot be used to check arguments") from None
    try:
        if tangled is not None:
            check_weight(tangled, arguments)
        error = next(iter(validator.iter_errors(arguments)), None)
    except TooHeavy:
        raise Refused(
            Reason.ARGUMENTS_INVALID, "the tool's inputSchema makes too much work of these arguments"
        ) from None
    except (ValueError, RecursionError):
        raise Refused(Reason.ARGUMENTS_INVALID, "the arguments cannot be checked") from None
    if error is not None:
        place = "/".join(str(step) for step in error.instance_path)
        text = error.message if len(error.message) <= _MESSAGE_CHARS else error.message[:_MESSAGE_CHARS] + "…"
        raise Refused(Reason.ARGUMENTS_INVALID, f"arguments{'/' + place if place else ''}: {text}")


def _no_fetching(uri: str) -> Any:
    raise ValueError(f"a schema may not refer to {uri}")


@lru_cache(maxsize=512)
def _validator(schema: bytes) -> tuple[Any, Any]:
    """What checks arguments, and the schema itself if it has references and so has to be weighed each time."""
    read = _decode(schema)
    tangled = has_references(read)
    # Linear-time patterns: a hostile schema must not keep the gate busy.
    validator = jsonschema_rs.validator_for(
        read, retriever=_no_fetching, pattern_options=jsonschema_rs.RegexOptions(size_limit=1 << 20)
    )
    return validator, read if tangled else None


def defaults_in(schema: Any, path: str = "", depth: int = 0) -> Iterator[str]:
    """SEP-2672 §8.3.3: the properties that a schema gives a default: filled in later, they would not be signed."""
    if not isinstance(schema, dict) or depth > _DEPTH:
        return
    if depth and "default" in schema:
        yield path
    for keyword, value in schema.items():
        if keyword in _NAMED and isinstance(value, dict):
            # Elsewhere a name is not a property's: `$defs` says where to look.
            names = (path,) if keyword.endswith("roperties") else (path, keyword)
            for name, inner in value.items():
                yield from defaults_in(inner, ".".join(filter(None, (*names, str(name)))), depth + 1)
        elif keyword in _NESTED:
            place = f"{path}[]" if keyword.lower().endswith("items") else path
            for inner in value if isinstance(value, list) else (value,):
                yield from defaults_in(inner, place, depth + 1)

"""What a difference in a schema means to the person who reviews it, where that can be told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

# For bounds: what it means if they grow, and if they shrink.
_BOUNDS: Final[dict[str, tuple[str, str]]] = {
    "maxLength": ("takes longer texts", "takes only shorter texts"),
    "maxItems": ("takes longer lists", "takes only shorter lists"),
    "maxProperties": ("takes more members", "takes fewer members"),
    "maximum": ("takes larger numbers", "takes only smaller numbers"),
    "exclusiveMaximum": ("takes larger numbers", "takes only smaller numbers"),
    "minLength": ("takes only longer texts", "takes shorter texts"),
    "minItems": ("takes only longer lists", "takes shorter lists"),
    "minProperties": ("asks for more members", "asks for fewer members"),
    "minimum": ("takes only larger numbers", "takes smaller numbers"),
    "exclusiveMinimum": ("takes only larger numbers", "takes smaller numbers"),
}
_LIMITS: Final = frozenset({"pattern", "format", "const", "enum", "multipleOf", "not", "uniqueItems", "propertyNames"})
_TEXTS: Final = frozenset({"description", "title", "$comment", "examples", "default"})
_FREE: Final = ("enum", "const", "pattern", "format", "maxLength")
_HINTS: Final[dict[str, tuple[str, str]]] = {
    "readOnlyHint": ("says now that it only reads", "no longer says that it only reads"),
    "destructiveHint": ("says now that it may destroy", "no longer says that it may destroy"),
    "idempotentHint": ("says now that repeating it does nothing more", "no longer says that repeating it is harmless"),
    "openWorldHint": ("says now that it reaches outside", "no longer says that it reaches outside"),
}


def meaning(key: str, holder: str, before: Any, after: Any, op: Literal["gone", "new", "changed"] = "changed") -> str:
    """One phrase on what the tool does differently; empty where only the place and the values can tell.

    `holder` is the keyword that a name stands under; empty for a keyword itself, "data" inside plain values.
    """
    if holder == "properties":
        return _field(after) if op == "new" else ("a field is gone" if op == "gone" else "")
    if holder in ("$defs", "definitions"):
        return {"new": "a new definition", "gone": "a definition is gone"}.get(op, "")
    if holder == "patternProperties":
        return {"new": "takes fields by a pattern of their names", "gone": "a pattern of fields is gone"}.get(op, "")
    if holder in ("anyOf", "oneOf"):
        return {"new": "takes one more form", "gone": "takes one form less"}.get(op, "")
    if holder == "data":
        return _hint(key, after)
    return _keyword(key, before, after, op) if not holder else ""


def _keyword(key: str, before: Any, after: Any, op: str) -> str:
    if key in _BOUNDS:
        return _bound(key, before, after, op)
    if key == "required":
        return _required(_names(before), _names(after))
    if key in ("enum", "type"):
        return _choice(key, before, after, op)
    if key in ("additionalProperties", "unevaluatedProperties"):
        return _open(before, after)
    if key in _LIMITS:
        return {"new": f"bound by {key} now", "gone": f"no longer bound by {key}"}.get(op, f"another {key}")
    if key in _TEXTS:
        return "the model reads this text"
    return ""


def _bound(key: str, before: Any, after: Any, op: str) -> str:
    """Only numbers bound anything; what else stands there is neither larger nor smaller."""
    there = [value for value, without in ((before, "new"), (after, "gone")) if op != without]
    if not all(map(_is_number, there)):
        kinds = [_kind(value) for value in there]
        return "" if len(set(kinds)) == 1 else f"the kind of value changed: {key} was {kinds[0]} and is {kinds[1]}"
    lower = key.lower().startswith(("min", "exclusivemin"))
    none = float("-inf") if lower else float("inf")
    old, new = (none if op == "new" else before), (none if op == "gone" else after)
    if old == new:
        return ""
    said = _BOUNDS[key][0 if new > old else 1]
    return f"{said} ({key} {_short(before)} -> {_short(after)})"


def _required(before: list[str], after: list[str]) -> str:
    told = []
    if more := [name for name in after if name not in before]:
        told.append(f"required now: {', '.join(map(_quoted, more))}")
    if less := [name for name in before if name not in after]:
        told.append(f"no longer required: {', '.join(map(_quoted, less))}")
    return "; ".join(told) or ("only the order changed" if before != after else "")


def _choice(key: str, before: Any, after: Any, op: str) -> str:
    if op == "gone":
        return "takes any value: enum is gone" if key == "enum" else "takes any type"
    if op == "new":
        return f"bound by {key} now"
    old = [_short(item) for item in (before if isinstance(before, list) else [before])]
    new = [_short(item) for item in (after if isinstance(after, list) else [after])]
    more = [item for item in new if item not in old]
    less = [item for item in old if item not in new]
    if not more and not less:
        return "only the order changed" if old != new else ""
    how = "widened" if more and not less else "narrowed" if less and not more else "changed"
    return (
        f"{key} {how}" + (f", takes {', '.join(more)}" if more else "") + (f", not {', '.join(less)}" if less else "")
    )


def _open(before: Any, after: Any) -> str:
    """Whether members that the schema does not name are taken; where nothing is said, they are."""
    if after is False:
        return "takes no members but those it names"
    if before is False:
        return "takes members that it does not name"
    return "takes other members that it does not name" if after is not None else ""


def _field(schema: Any) -> str:
    if not isinstance(schema, Mapping) or not schema.keys() & {
        "type",
        "enum",
        "const",
        "$ref",
        "anyOf",
        "oneOf",
        "allOf",
    }:
        return "a new field that takes anything"
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "string" in kinds and not any(bound in schema for bound in _FREE):
        return "a new free-form text field"
    if "object" in kinds and schema.get("additionalProperties") is not False and not schema.get("properties"):
        return "a new field for an object of any form"
    return "a new field"


def _hint(key: str, after: Any) -> str:
    if key in _HINTS:
        return _HINTS[key][0] if after is True else _HINTS[key][1]
    return ""


def _names(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    """What JSON tells apart: 1 and 1.5 are of one kind, 1 and true are not."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    return "a number" if _is_number(value) else "a text" if isinstance(value, str) else "a list or an object"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _short(value: Any) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False, default=str)

"""SEP-2672 §8.3.3: defaults of a tool's schema, filled in by the caller, so that they are shown and signed."""

from __future__ import annotations

import copy
from typing import Any, Final

_DEPTH: Final = 32


def fill_defaults(schema: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with every default that the schema has for what is not there; what is there stays."""
    filled = _filled(schema, arguments, schema, _DEPTH)
    return filled if isinstance(filled, dict) else arguments


def _filled(schema: Any, value: Any, root: Any, depth: int) -> Any:
    schema = _resolved(schema, root)
    if schema is None or depth == 0:
        return value
    if isinstance(value, dict):
        properties = schema.get("properties")
        whole = dict(value)
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            meant = _resolved(inner, root)
            if name not in whole and meant is not None and "default" in meant:
                whole[name] = copy.deepcopy(meant["default"])
            if name in whole:
                whole[name] = _filled(inner, whole[name], root, depth - 1)
        return whole
    if isinstance(value, list) and "items" in schema:
        return [_filled(schema["items"], item, root, depth - 1) for item in value]
    return value


def _resolved(schema: Any, root: Any) -> dict[str, Any] | None:
    """A schema, or the one in the same document that it refers to; its own members come first."""
    if not isinstance(schema, dict):
        return None
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema
    target = root
    for step in reference.removeprefix("#/").split("/"):
        target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
    return {**target, **schema} if isinstance(target, dict) else schema

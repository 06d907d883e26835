"""Arguments against a tool's inputSchema: before a challenge exists, and again before it is used up."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

import jsonschema_rs
import msgspec

from callgate.errors import Reason, Refused

_MOST: Final = 200_000
_PAIRS: Final = 100_000
_ELSEWHERE: Final = ("$dynamicRef", "$recursiveRef")
# What holds values, not schemas.
_VALUES: Final = frozenset({"const", "enum", "default", "examples"})
_HERE: Final = ("allOf", "anyOf", "oneOf")
_HERE_ONE: Final = ("not", "if", "then", "else")
_HERE_NAMED: Final = ("dependentSchemas", "dependencies")
_EACH_MEMBER: Final = ("additionalProperties", "unevaluatedProperties")
_EACH_ITEM: Final = ("items", "additionalItems", "contains", "unevaluatedItems")
# With references, what these look for is worked out when the schema is read, before any value could be weighed.
_LEFTOVER: Final = ("unevaluatedProperties", "unevaluatedItems")
# Known to every validator, and harmless.
_DIALECTS: Final = ("https://json-schema.org/", "http://json-schema.org/")


class TooHeavy(ValueError):
    """Nobody should check this value against this schema."""


def has_references(schema: Any) -> bool:
    """Whether it is more than a tree; TooHeavy where nobody can tell what its references lead to."""
    found, renamed, leftover = False, False, False
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if any(isinstance(node.get(name), str) for name in _ELSEWHERE):
                raise TooHeavy("a reference whose target changes with the value")
            found = found or isinstance(node.get("$ref"), str)
            renamed = renamed or (node is not schema and any(isinstance(node.get(name), str) for name in ("$id", "id")))
            leftover = leftover or any(isinstance(node.get(name), (dict, bool)) for name in _LEFTOVER)
            waiting.extend(inner for name, inner in node.items() if name not in _VALUES)
        elif isinstance(node, list):
            waiting.extend(node)
    if found and renamed:
        raise TooHeavy("references into a part of the schema that has a name of its own")
    if found and leftover:
        raise TooHeavy("references beside unevaluatedProperties or unevaluatedItems")
    return found


def check_weight(schema: Any, value: Any) -> None:
    """Raise TooHeavy if checking the value would take more than so many steps, or no end of them."""
    try:
        _Scale(schema).weigh(schema, value)
    except RecursionError:
        raise TooHeavy("too deep") from None


class _Scale:
    """Counts each pair of a schema and a value once, however often a validator would come by."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._weights: dict[tuple[int, int], int] = {}
        self._targets: dict[str, Any] = {}

    def weigh(self, schema: Any, value: Any) -> int:
        if not isinstance(schema, dict):
            return 1
        pair = id(schema), id(value)
        known = self._weights.get(pair)
        if known is None:
            if len(self._weights) >= _PAIRS:
                raise TooHeavy("too many values")
            self._weights[pair] = 0
            known = 1
            for inner, part in self._parts(schema, value):
                known += self.weigh(inner, part)
                if known > _MOST:
                    raise TooHeavy("too many steps")
            self._weights[pair] = known
        elif not known:
            raise TooHeavy("a reference that leads back to itself")
        return known

    def _parts(self, schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
        """Every schema inside, with the value that it would be asked about; at most too many, never too few."""
        if isinstance(reference := schema.get("$ref"), str):
            yield self._target(reference), value
        for name in _HERE:
            if isinstance(inner := schema.get(name), list):
                yield from ((one, value) for one in inner)
        yield from ((schema[name], value) for name in _HERE_ONE if name in schema)
        for name in _HERE_NAMED:
            if isinstance(inner := schema.get(name), dict):
                yield from ((one, value) for one in inner.values())
        if isinstance(value, dict):
            yield from _of_members(schema, value)
        elif isinstance(value, list):
            yield from _of_items(schema, value)

    def _target(self, reference: str) -> Any:
        if reference not in self._targets:
            self._targets[reference] = self._found(reference)
        return self._targets[reference]

    def _found(self, reference: str) -> Any:
        """RFC 6901, from the root of the schema."""
        if reference.startswith(_DIALECTS):
            return True
        if reference != "#" and not reference.startswith("#/"):
            raise TooHeavy("a reference that is no pointer into the schema")
        node = self._root
        for step in unquote(reference[1:]).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(name)] if isinstance(node, list) else node[name]
            except (LookupError, TypeError, ValueError):
                raise TooHeavy("a reference that leads nowhere") from None
        return node


def _of_members(schema: dict[str, Any], value: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    if isinstance(inner := schema.get("properties"), dict):
        yield from ((one, value[name]) for name, one in inner.items() if name in value)
    if isinstance(inner := schema.get("patternProperties"), dict):
        yield from ((one, part) for one in inner.values() for part in value.values())
    for keyword in _EACH_MEMBER:
        if isinstance(schema.get(keyword), dict):
            yield from ((schema[keyword], part) for part in value.values())
    if isinstance(schema.get("propertyNames"), dict):
        yield from ((schema["propertyNames"], name) for name in value)


def _of_items(schema: dict[str, Any], value: list[Any]) -> Iterator[tuple[Any, Any]]:
    for keyword in _EACH_ITEM:
        inner = schema.get(keyword)
        if isinstance(inner, list):
            yield from zip(inner, value, strict=False)
        elif isinstance(inner, dict):
            yield from ((inner, part) for part in value)
    if isinstance(inner := schema.get("prefixItems"), list):
        yield from zip(inner, value, strict=False)


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

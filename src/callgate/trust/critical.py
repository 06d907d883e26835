"""Which arguments decide who or what a call affects: those that somebody declared, else those that look like it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from callgate.trust.model import ToolLabel

# Whole words in names of arguments; `recipientEmail` and `recipient_email` are two words each.
_WORDS: Final = frozenset(
    """
    id ids uuid guid to cc bcc recipient recipients email emails mail address addresses participant participants
    attendee attendees invitee invitees member members user users username account accounts iban bic swift payee
    beneficiary phone url urls uri link href endpoint webhook callback host hostname domain server ip port path
    paths file files directory folder dir bucket key repo repository branch channel channels room group org
    amount price total sum quantity currency password passwd secret token credential credentials role permission
    permissions scope command cmd script query sql target destination dest owner assignee sender
    """.split()  # noqa: SIM905
)
_FORMATS: Final = frozenset(
    ("email", "idn-email", "uri", "uri-reference", "iri", "url", "hostname", "ipv4", "ipv6", "uuid")
)
_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_INDEX: Final = re.compile(r"\[\d+\]")
_DEPTH: Final = 8
_PATHS: Final = 200


def guess(schema: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The arguments that look critical in a tool's input schema, as paths (`to`, `items[].url`, `options.path`)."""
    if not isinstance(schema, Mapping):
        return ()
    found: list[str] = []
    for path in _properties(schema, schema, "", _DEPTH):
        found.append(path)
        if len(found) >= _PATHS:
            break
    return tuple(dict.fromkeys(found))


def critical_arguments(
    declared: Sequence[str] | None, schema: Mapping[str, Any] | None
) -> tuple[tuple[str, ...], bool]:
    """The critical paths of a tool, and whether somebody declared them."""
    return (tuple(declared), True) if declared is not None else (guess(schema), False)


def covers(paths: Sequence[str], path: str) -> bool:
    """Whether a value's path (`to[0].address`) is one of these, or lies within one (`to`)."""
    if not paths:
        return False
    if path in paths:
        return True
    if "[" not in path and "." not in path:
        return False
    spelt = _INDEX.sub("[]", path)
    bare = spelt.replace("[]", "")
    return any(
        known in (spelt, bare) or spelt.startswith((known + ".", known + "[")) or bare.startswith(known + ".")
        for known in paths
    )


def looks_critical(label: ToolLabel, key: str, value: Any) -> bool:
    """Whether a value nobody declared critical should count as such: by the name it stands under, or, with a tool of
    which nobody said what it does, because it is one word and so may name somebody or something."""
    if named_critical(key):
        return True
    return "outcomes" in label.unknown and isinstance(value, str) and len(value.split(None, 1)) == 1


@lru_cache(4096)
def named_critical(name: str) -> bool:
    return any(part.lower() in _WORDS for part in _PARTS.findall(name))


def _properties(schema: Mapping[str, Any], root: Mapping[str, Any], path: str, depth: int) -> Iterator[str]:
    if depth <= 0:
        return
    schema = _resolved(schema, root)
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for name, inner in properties.items():
            below = f"{path}.{name}" if path else name
            if not isinstance(inner, Mapping):
                continue
            if named_critical(name) or _format(inner, root) in _FORMATS:
                yield below
            else:
                yield from _properties(inner, root, below, depth - 1)
    items = schema.get("items")
    if isinstance(items, Mapping):
        if _format(items, root) in _FORMATS:
            yield path + "[]"
        yield from _properties(items, root, path + "[]", depth - 1)
    for word in ("anyOf", "oneOf", "allOf"):
        for inner in schema.get(word) or ():
            if isinstance(inner, Mapping):
                if _format(inner, root) in _FORMATS and path:
                    yield path
                yield from _properties(inner, root, path, depth - 1)


def _format(schema: Mapping[str, Any], root: Mapping[str, Any]) -> object:
    found = _resolved(schema, root).get("format")
    return found if isinstance(found, str) else None


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema, or the definition in the same document that it refers to."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema
    found: Any = root
    for part in reference[2:].split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else schema

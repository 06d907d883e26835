"""The arguments of a call as a tree: a flat list of lines that the template nests, so that depth costs nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

from callgate.approval.display import escape
from callgate.console.rendering import Shown

# Beyond this a tree helps nobody, and a page of it would stall the browser. The exact JSON always has everything.
MOST_LINES: Final = 2_000


class Line(NamedTuple):
    """`open` and `close` stand around the lines of an object or array; `leaf` is a value."""

    what: Literal["open", "close", "leaf"]
    key: Shown = Shown()
    kind: str = ""
    text: Shown = Shown()


class _Number(str):
    """A number as it stands in the canonical text, which is what is signed."""

    __slots__ = ()


def tree(canonical: bytes) -> list[Line] | None:
    """The lines, or None where a tree is no help: no JSON object, too deep, too many values."""
    try:
        value = json.loads(canonical, parse_int=_Number, parse_float=_Number)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    lines: list[Line] = []
    for line in _walk(value):
        if len(lines) == MOST_LINES:
            return None
        lines.append(line)
    return lines


def _walk(value: dict[str, Any]) -> Iterator[Line]:
    stack = [_items(value)]
    while stack:
        for key, item in stack[-1]:
            if isinstance(item, (dict, list)) and item:
                yield Line("open", key, "object" if isinstance(item, dict) else "array", _count(item))
                stack.append(_items(item))
                break
            yield Line("leaf", key, *_leaf(item))
        else:
            stack.pop()
            if stack:
                yield Line("close")


def _items(value: dict[str, Any] | list[Any]) -> Iterator[tuple[Shown, Any]]:
    if isinstance(value, dict):
        return ((Shown(escape(key)), item) for key, item in value.items())
    return ((Shown(f"[{at}]"), item) for at, item in enumerate(value))


def _count(value: dict[str, Any] | list[Any]) -> Shown:
    noun = "field" if isinstance(value, dict) else "item"
    return Shown(f"{len(value)} {noun}{'' if len(value) == 1 else 's'}")


def _leaf(item: Any) -> tuple[str, Shown]:
    if isinstance(item, _Number):
        return "number", Shown(item)
    if isinstance(item, str):
        return "text", Shown('"' + escape(item).replace('"', '\\"') + '"')
    return "word", Shown(json.dumps(item))

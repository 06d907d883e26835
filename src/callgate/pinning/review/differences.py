"""How a tool differs from the text that was approved: words, schema and what that means."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from callgate.canonical import canonical
from callgate.errors import MessageError
from callgate.pinning.document import loosely
from callgate.pinning.model import ListedTool, Pin
from callgate.pinning.review.views import Piece, SchemaEdit, TextDifference

# Words, runs of one kind of blank, and every other character alone: so an invisible one stands by itself.
_TOKENS: Final = re.compile(r"[^\W_]+|_+| +|\n+|\t+|.", re.DOTALL)
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
# The number of changes that are looked for; the cost grows with its square.
_CHANGES: Final = 600
# Words that are held against each other letter by letter.
_SIGNS: Final = 400

Op: TypeAlias = Literal["same", "gone", "new"]
Run: TypeAlias = tuple[Op, str]


class Effort:
    """How many steps may still be spent. A server that changes everything gets plainer differences, not more time."""

    def __init__(self, steps: int = 4_000_000) -> None:
        self.left = steps


def pieces(before: str, after: str, effort: Effort | None = None) -> tuple[Piece, ...]:
    """The texts as pieces: `same` and `gone` together are the one text, `same` and `new` the other, exactly."""
    effort = effort or Effort()
    if before == after:
        return (Piece("same", before),) if before else ()
    left, right = _TOKENS.findall(before), _TOKENS.findall(after)
    runs = _compare(left, right, effort) or _by_anchors(left, right, effort) or _by_lines(before, after, effort)
    return tuple(Piece(op, text) for op, text in _joined(_finer(_without_islands(runs), effort)))


def _by_anchors(left: Sequence[str], right: Sequence[str], effort: Effort) -> list[Run] | None:
    """Word by word between the words that either text has once; None where there are no such words."""
    places = {token: at for at, token in enumerate(right)}
    once = {token for token, count in Counter(right).items() if count == 1}
    pairs = [(at, places[token]) for at, token in enumerate(left) if token in once]
    seen = Counter(left[at] for at, _ in pairs)
    anchors = _rising([(at, other) for at, other in pairs if seen[left[at]] == 1])
    effort.left -= (len(left) + len(right)) // 8
    if not anchors or effort.left < 0:
        return None
    runs: list[Run] = []
    at = other = 0
    for next_at, next_other in [*anchors, (len(left), len(right))]:
        gone, new = left[at:next_at], right[other:next_other]
        runs += _compare(gone, new, effort) or [("gone", "".join(gone)), ("new", "".join(new))]
        runs += [("same", token) for token in left[next_at : next_at + 1]]
        at, other = next_at + 1, next_other + 1
    return [run for run in runs if run[1]]


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs in which both numbers rise (patience sorting)."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, other) in enumerate(pairs):
        pile = bisect_left(ends, other)
        before.append(last[pile - 1] if pile else -1)
        ends[pile : pile + 1] = [other]
        last[pile : pile + 1] = [number]
    made = []
    number = last[-1] if last else -1
    while number >= 0:
        made.append(pairs[number])
        number = before[number]
    return made[::-1]


def _by_lines(before: str, after: str, effort: Effort) -> list[Run]:
    """Line by line, and word by word only where the lines differ; the whole texts where even that is too much."""
    runs = _compare(_LINES.findall(before), _LINES.findall(after), effort)
    if runs is None:
        return [("gone", before), ("new", after)]
    finer: list[Run] = []
    gone, new = "", ""
    for op, text in [*_joined(runs), ("same", "")]:
        if op == "gone":
            gone += text
        elif op == "new":
            new += text
        else:
            finer += _compare(_TOKENS.findall(gone), _TOKENS.findall(new), effort) or [("gone", gone), ("new", new)]
            finer.append((op, text))
            gone = new = ""
    return finer


def _compare(left: Sequence[str], right: Sequence[str], effort: Effort) -> list[Run] | None:
    """The shortest way from one to the other (Myers, An O(ND) Difference Algorithm, 1986); None beyond the bounds."""
    start = 0
    least = min(len(left), len(right))
    while start < least and left[start] == right[start]:
        start += 1
    end = 0
    while end < least - start and left[-1 - end] == right[-1 - end]:
        end += 1
    middle = _shortest(left[start : len(left) - end], right[start : len(right) - end], effort)
    if middle is None:
        return None
    head: list[Run] = [("same", token) for token in left[:start]]
    tail: list[Run] = [("same", token) for token in left[len(left) - end :]]
    return head + middle + tail


def _shortest(left: Sequence[str], right: Sequence[str], effort: Effort) -> list[Run] | None:
    if not left or not right:
        return [("gone", token) for token in left] + [("new", token) for token in right]
    # Furthest place in `left` on each diagonal, after each number of changes.
    reach = {1: 0}
    steps: list[dict[int, int]] = []
    for changes in range(min(_CHANGES, len(left) + len(right)) + 1):
        effort.left -= changes + 1
        if effort.left < 0:
            return None
        steps.append(dict(reach))
        for diagonal in range(-changes, changes + 1, 2):
            down = diagonal == -changes or (
                diagonal != changes and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
            )
            at = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            while at < len(left) and 0 <= at - diagonal < len(right) and left[at] == right[at - diagonal]:
                at += 1
            reach[diagonal] = at
            if at >= len(left) and at - diagonal >= len(right):
                return list(_way_back(left, right, steps))[::-1]
    return None


def _way_back(left: Sequence[str], right: Sequence[str], steps: Sequence[dict[int, int]]) -> Iterator[Run]:
    at, other = len(left), len(right)
    for changes in range(len(steps) - 1, -1, -1):
        reach, diagonal = steps[changes], at - other
        down = diagonal == -changes or (
            diagonal != changes and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
        )
        before = diagonal + 1 if down else diagonal - 1
        from_at = reach.get(before, 0)
        from_other = from_at - before
        while at > max(from_at, 0) and other > max(from_other, 0):
            at, other = at - 1, other - 1
            yield "same", left[at]
        if changes:
            if down:
                other -= 1
                yield "new", right[other]
            else:
                at -= 1
                yield "gone", left[at]


def _joined(runs: Iterable[Run]) -> Iterator[Run]:
    """Runs of one kind as one, what is gone before what is new."""
    gone, new, same = "", "", ""
    for op, text in runs:
        if op == "same":
            if gone:
                yield "gone", gone
            if new:
                yield "new", new
            gone = new = ""
            same += text
            continue
        if same:
            yield "same", same
            same = ""
        if op == "gone":
            gone += text
        else:
            new += text
    for left_op, left in (("same", same), ("gone", gone), ("new", new)):
        if left:
            yield left_op, left  # type: ignore[misc]


def _finer(runs: Sequence[Run], effort: Effort) -> Iterator[Run]:
    """Where two words differ by signs alone, such as one that cannot be seen, the signs stand by themselves."""
    plain = list(_joined(runs))
    at = 0
    while at < len(plain):
        op, text = plain[at]
        following = plain[at + 1] if at + 1 < len(plain) else ("same", "")
        if op == "gone" and following[0] == "new" and len(text) + len(following[1]) <= _SIGNS:
            signs = _compare(text, following[1], effort)
            if signs is not None and not any(char.isalnum() for kind, char in signs if kind != "same"):
                yield from signs
                at += 2
                continue
        yield op, text
        at += 1


def _without_islands(runs: Sequence[Run]) -> list[Run]:
    """A blank that stayed between two words that did not is shown with them: the sentence reads as one."""
    plain = list(_joined(runs))
    made: list[Run] = []
    for at, (op, text) in enumerate(plain):
        island = op == "same" and text == " " and 0 < at < len(plain) - 1
        if island and plain[at - 1][0] != "same" != plain[at + 1][0]:
            made += [("gone", text), ("new", text)]
        else:
            made.append((op, text))
    return made


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


# What a value is in a schema: a schema, a mapping of names to schemas, a list of schemas, or plain data.
Kind: TypeAlias = Literal["schema", "fields", "schemas", "data"]

_FIELDS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_SCHEMAS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMA: Final = frozenset(
    {
        "items",
        "additionalItems",
        "additionalProperties",
        "unevaluatedProperties",
        "unevaluatedItems",
        "contains",
        "propertyNames",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    }
)
# Lists in which the order says nothing to a validator.
_SETS: Final = frozenset({"required", "enum", "type"})
_HASHED: Final = frozenset({"name", "description", "inputSchema"})
_PLAIN: Final = re.compile(r"[A-Za-z0-9_$-]{1,60}")
# Deeper than any definition that is taken.
_DEPTH: Final = 120


def difference(
    pin: Pin, listed: ListedTool, *, other_identity: bool = False, effort: Effort | None = None
) -> TextDifference:
    """From what was decided on to what is listed now. `effort` bounds the cost of many differences together."""
    before = loosely(pin.raw)
    after = listed.entry
    effort = effort or Effort()
    schema = [*_missing("description", before, after), *_member("inputSchema", before, after, "schema", effort)]
    names = sorted((before.keys() | after.keys()) - _HASHED)
    beside = [
        edit
        for name in names
        for edit in _member(name, before, after, "schema" if name == "outputSchema" else "data", effort)
    ]
    return TextDifference(
        description=pieces(_text(before), _text(after), effort),
        schema=tuple(schema),
        beside=tuple(beside),
        since=pin,
        other_identity=other_identity,
    )


def schema_edits(before: Any, after: Any, where: str = "inputSchema") -> tuple[SchemaEdit, ...]:
    """Every place in which two schemas differ, in the order of the places; nothing is left out."""
    return tuple(_edits(_Place(where, "", "schema"), before, after))


def _member(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], kind: Kind, effort: Effort
) -> list[SchemaEdit]:
    if name in before and name in after:
        made = list(_edits(_Place(_part(name), name, kind), before[name], after[name]))
        effort.left -= len(made)
        return made
    return list(_missing(name, before, after))


def _missing(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[SchemaEdit]:
    """A member that is there on one side only; an empty description is not the same as none."""
    if name == "description" and before.get(name) and after.get(name):
        return
    if (name in before) == (name in after):
        if name == "description" and (before.get(name) is None) != (after.get(name) is None):
            yield SchemaEdit(name, "changed", _json(before.get(name)), _json(after.get(name)))
        return
    if name in after:
        yield SchemaEdit(_part(name), "new", after=_json(after[name]), meaning=_whole(name, "new"))
    else:
        yield SchemaEdit(_part(name), "gone", before=_json(before[name]), meaning=_whole(name, "gone"))


def _whole(name: str, op: str) -> str:
    if name == "inputSchema":
        return "it says now what it takes" if op == "new" else "it no longer says what it takes"
    if name == "outputSchema":
        return "it says now what it answers" if op == "new" else "it no longer says what it answers"
    return ""


class _Place:
    """Where in a definition: the path, the last key of it, and what stands there."""

    __slots__ = ("depth", "holder", "key", "kind", "path")

    def __init__(self, path: str, key: str, kind: Kind, holder: str = "", depth: int = 0) -> None:
        self.path, self.key, self.kind, self.holder, self.depth = path, key, kind, holder, depth

    def under(self, key: str) -> _Place:
        return _Place(f"{self.path}.{_part(key)}", key, _inner(self, key), self._holder(), self.depth + 1)

    def at(self, number: int) -> _Place:
        kind: Kind = "schema" if self.kind == "schemas" else "data"
        return _Place(f"{self.path}[{number}]", str(number), kind, self.key, self.depth + 1)

    def _holder(self) -> str:
        # The keyword that a named schema stands under: a property called "maxLength" is no bound.
        return self.key if self.kind == "fields" else ("" if self.kind == "schema" else "data")


def _inner(place: _Place, key: str) -> Kind:
    if place.kind == "fields":
        return "schema"
    if place.kind != "schema":
        return "data"
    if key in _FIELDS:
        return "fields"
    if key in _SCHEMAS:
        return "schemas"
    return "schema" if key in _SCHEMA else "data"


def _edits(place: _Place, before: Any, after: Any) -> Iterator[SchemaEdit]:
    if place.depth < _DEPTH:
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            for key in sorted(before.keys() | after.keys()):
                yield from _keyed(place.under(key), key, before, after)
            return
        if isinstance(before, list) and isinstance(after, list) and place.key not in _SETS:
            yield from _lists(place, before, after)
            return
    old, new = _json(before), _json(after)
    if old != new:
        yield SchemaEdit(place.path, "changed", old, new, meaning(place.key, place.holder, before, after))


def _keyed(place: _Place, key: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[SchemaEdit]:
    if key not in before:
        told = meaning(key, place.holder, None, after[key], op="new")
        yield SchemaEdit(place.path, "new", after=_json(after[key]), meaning=told)
    elif key not in after:
        told = meaning(key, place.holder, before[key], None, op="gone")
        yield SchemaEdit(place.path, "gone", before=_json(before[key]), meaning=told)
    else:
        yield from _edits(place, before[key], after[key])


def _lists(place: _Place, before: Sequence[Any], after: Sequence[Any]) -> Iterator[SchemaEdit]:
    """One by one; where their number differs, what is the same at both ends is passed over first."""
    start, end = 0, 0
    if len(before) != len(after):
        old, new = [_json(item) for item in before], [_json(item) for item in after]
        least = min(len(old), len(new))
        while start < least and old[start] == new[start]:
            start += 1
        while end < least - start and old[-1 - end] == new[-1 - end]:
            end += 1
    left, right = before[start : len(before) - end], after[start : len(after) - end]
    for number, (one, other) in enumerate(zip(left, right, strict=False), start):
        yield from _edits(place.at(number), one, other)
    for number in range(len(right), len(left)):
        spot = place.at(start + number)
        told = meaning(spot.key, spot.holder, left[number], None, op="gone")
        yield SchemaEdit(spot.path, "gone", before=_json(left[number]), meaning=told)
    for number in range(len(left), len(right)):
        spot = place.at(start + number)
        told = meaning(spot.key, spot.holder, None, right[number], op="new")
        yield SchemaEdit(spot.path, "new", after=_json(right[number]), meaning=told)


def _text(entry: Mapping[str, Any]) -> str:
    text = entry.get("description")
    return text if isinstance(text, str) else ""


def _part(key: str) -> str:
    return key if _PLAIN.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _json(value: Any) -> str:
    try:
        return canonical(value).decode()
    except MessageError:
        return json.dumps(value, sort_keys=True, default=str)

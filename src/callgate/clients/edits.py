"""Changes to a text by span: what no span covers stays as it is, to the byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from callgate.clients.jsonc import Member, Node
from callgate.errors import ConfigError

MASK: Final = '"***"'
# What holds secrets by custom; what a diff shows of it is that it is there.
_SECRET: Final = frozenset({"env", "headers"})
_INDENT: Final = re.compile(r"(?:\A\ufeff?|\r?\n)[ \t]*\Z")


class Edit(NamedTuple):
    """`text[start:end]` becomes `new`; `shown` is how a diff shows that, where it holds a secret."""

    start: int
    end: int
    new: str
    shown: str | None = None


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with its edits made."""
    out, at = [], 0
    for edit in sorted(edits):
        if edit.start < at:
            raise ConfigError("two changes of one place", advice="Nothing was changed. Edit this entry by hand.")
        out += [text[at : edit.start], edit.new]
        at = edit.end
    return "".join([*out, text[at:]])


def quoted(words: Iterable[str]) -> str:
    """The words as they stand in an array."""
    return ", ".join(json.dumps(word, ensure_ascii=False) for word in words)


def gap_before(text: str, member: Member) -> str:
    """What separates this member from the one before: a line of its own with its indentation, or a blank."""
    found = _INDENT.search(text, max(0, member.start - 400), member.start)
    return found[0].lstrip("\ufeff") if found and "\n" in found[0] else " "


def without(holder: Node, member: Member) -> Edit:
    """Takes a member away, and one comma with it."""
    place = holder.members.index(member)
    if place:
        return Edit(holder.members[place - 1].value.end, member.value.end, "")
    if len(holder.members) > 1:
        return Edit(member.start, holder.members[1].start, "")
    return Edit(member.start, member.value.end if holder.comma is None else holder.comma + 1, "")


def without_item(array: Node, place: int) -> Edit:
    """Takes an item away, and one comma with it."""
    items = array.items
    if place:
        return Edit(items[place - 1].end, items[place].end, "")
    if len(items) > 1:
        return Edit(items[0].start, items[1].start, "")
    return Edit(items[0].start, items[0].end if array.comma is None else array.comma + 1, "")


def without_first(array: Node, count: int) -> Edit:
    """Takes the first items of an array away."""
    items = array.items
    if count < len(items):
        return Edit(items[0].start, items[count].start, "")
    return Edit(items[0].start, items[-1].end if array.comma is None else array.comma + 1, "")


class Hunk(NamedTuple):
    """Some lines before and after, and the number of the first."""

    line: int
    before: list[str]
    after: list[str]


def hunks(text: str, tree: Node, edits: Sequence[Edit], context: int = 2) -> list[Hunk]:
    """What a person is shown of the edits: whole lines, with the lines around them, and no secrets."""
    masks = _masks(tree)
    found: list[tuple[int, int, list[Edit]]] = []
    for edit in sorted(edits):
        start, end = _around(text, edit.start, edit.end, context)
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1]), [*found[-1][2], edit]
        else:
            found.append((start, end, [edit]))
    return [
        Hunk(
            text.count("\n", 0, start) + 1,
            _lines(text, start, end, [mask for mask in masks if start <= mask.start and mask.end <= end]),
            _lines(text, start, end, [*_shown(inside), *_beside(masks, inside, start, end)]),
        )
        for start, end, inside in found
    ]


def difference(before: str, after: str, tree: Node) -> Edit:
    """All that differs, as one edit of whole lines; `tree` is that of the text after it."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    most = min(len(old), len(new))
    head = next((at for at in range(most) if old[at] != new[at]), most)
    tail = next((at for at in range(most - head) if old[-1 - at] != new[-1 - at]), most - head)
    start, kept = sum(map(len, new[:head])), sum(map(len, new[len(new) - tail :]))
    end = len(after) - kept
    inside = [Edit(m.start - start, m.end - start, m.new) for m in _masks(tree) if start <= m.start and m.end <= end]
    return Edit(start, len(before) - kept, after[start:end], apply(after[start:end], inside))


def _around(text: str, start: int, end: int, context: int) -> tuple[int, int]:
    """The span widened to whole lines, and by so many more."""
    start = text.rfind("\n", 0, start) + 1
    for _ in range(context):
        start = text.rfind("\n", 0, max(0, start - 1)) + 1
    for _ in range(context + 1):
        following = text.find("\n", end)
        end = len(text) if following < 0 else following + 1
    return start, end


def _lines(text: str, start: int, end: int, edits: Iterable[Edit]) -> list[str]:
    moved = [Edit(edit.start - start, edit.end - start, edit.new) for edit in edits]
    lines = apply(text[start:end], moved).lstrip("\ufeff").split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def _shown(edits: Iterable[Edit]) -> list[Edit]:
    return [Edit(edit.start, edit.end, edit.new if edit.shown is None else edit.shown) for edit in edits]


def _beside(masks: Iterable[Edit], edits: Sequence[Edit], start: int, end: int) -> list[Edit]:
    return [
        mask
        for mask in masks
        if start <= mask.start
        and mask.end <= end
        and not any(edit.start < mask.end and mask.start < edit.end for edit in edits)
    ]


def _masks(tree: Node) -> list[Edit]:
    """The values of everything under `env` and `headers`, and addresses that carry more than a place."""
    found: list[Edit] = []
    todo = [tree]
    while todo:
        node = todo.pop()
        todo += node.items
        for member in node.members:
            if member.key in _SECRET and member.value.kind == "object":
                values = [inner.value for inner in member.value.members]
                found += [Edit(value.start, value.end, MASK) for value in values if value.kind == "string"]
            elif member.value.kind == "string" and telling(member.value.string):
                found.append(Edit(member.value.start, member.value.end, MASK))
            else:
                todo.append(member.value)
    return sorted(found)


def telling(url: str) -> bool:
    """Whether an address may hold a secret: a password, a query, a variable, or a part that looks like a key."""
    scheme, _, rest = url.partition("://")
    if scheme.lower() not in ("http", "https"):
        return False
    return re.search(r"[@?#$]", rest) is not None or re.search(r"/[^/]*[0-9A-Za-z_-]{20}", rest) is not None

"""What changed between two texts, word by word; a change that cannot be seen is a piece of its own all the same."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

from callgate.pinning.views import Piece

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
        if island and _replaced(plain, at - 1) and _replaced(plain, at + 1):
            made += [("gone", text), ("new", text)]
        else:
            made.append((op, text))
    return made


def _replaced(runs: Sequence[Run], at: int) -> bool:
    """Whether something stands on both sides of a place where words were exchanged."""
    return runs[at][0] != "same"

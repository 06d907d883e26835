"""What changed in a tool, word by word, between any two texts that are kept."""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from rich.text import Text

from callgate.approval.display import escape, escape_rest
from callgate.cli.printing import GUTTER, Line, escaped, heading, highlight_escapes, moment, text_line
from callgate.cli.services import OpenedStore
from callgate.errors import CallgateError
from callgate.pinning.model import ListedTool, Pin
from callgate.pinning.review.differences import difference
from callgate.pinning.review.views import Piece, SchemaEdit, TextDifference, ToolView

_GONE: Final = ("[-", "-]", "red")
_NEW: Final = ("{+", "+}", "green")
_OPS: Final = {"gone": "red", "new": "green", "changed": "yellow"}
# What white space is drawn as in changed pieces; the same signs in a server's text are spelt out there.
_SPACE: Final = "·"
_END: Final = "↵"
# In JSON, a string or the one mark that can stand outside of strings: a list that begins with a negative number.
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\[(?=-)', re.DOTALL)
# The brackets of `[-`, `-]`, `{+` and `+}`, and those that look like them.
_OPENING: Final = (
    "[{\u2045\u2772\u2774\u27e6\u2983\u298b\u298d\u298f\u3014\u301a\ufe37\ufe39\ufe47\ufe5b\ufe5d\uff3b\uff5b"
)
_CLOSING: Final = (
    "]}\u2046\u2773\u2775\u27e7\u2984\u298c\u298e\u2990\u3015\u301b\ufe38\ufe3a\ufe48\ufe5c\ufe5e\uff3d\uff5d"
)
_BRACKET: Final = re.compile(f"[{re.escape(_OPENING + _CLOSING)}]")
# Drawn like a plus or a minus, beside all dashes and signs of mathematics.
_STROKES: Final = frozenset(
    "\u02d6\u02d7\u0640\u07fa\u1429\u2043\u2795\u2796\u271a\u271b\u271c\u30fc\u3161\u4e00\u5341\U0001029b"
)
_KINDS: Final = frozenset({"Pd", "Sm"})
_FRAMES: Final = range(0x2500, 0x2580)
# Enough to look at a text. To approve one takes all of its hash.
DIGITS: Final = 8


def difference_lines(difference: TextDifference) -> Iterator[Line]:
    """From what was approved to what was met."""
    if difference.empty:
        yield from heading(f"Nothing changed since {_since(difference)}")
        return
    yield from heading(f"Changed since {_since(difference)}")
    yield from edit_lines(difference)


def edit_lines(difference: TextDifference) -> Iterator[Line]:
    if difference.empty:
        yield text_line("  Description, schema and everything beside them are the same.")
        return
    if any(piece.op != "same" for piece in difference.description):
        yield text_line("  description, [-taken away-] and {+added+}:")
        yield from pieces(difference.description)
    for what, edits in (("input schema", difference.schema), ("beside it", difference.beside)):
        if edits:
            yield text_line(f"  {what}:")
            for edit in edits:
                yield from _edit(edit)


def _since(difference: TextDifference) -> str:
    since = difference.since
    if since is None:
        return "before"
    where = f" as {escaped(since.server_id)}" if difference.other_identity else ""
    what = {"approve": "approved", "block": "blocked", "withdraw": "withdrawn"}[since.action]
    return f"it was {what}{where} by {escaped(since.approved_by)}, {moment(since.approved_at)}"


def pieces(parts: Iterable[Piece]) -> Iterator[Line]:
    """The text with what is gone and what is new in it. The marks alone tell which is which: colours may be missing."""
    out = Text()
    for op, run in itertools.groupby(parts, key=lambda piece: piece.op):
        texts = [piece.text for piece in run if piece.text]
        if op == "same":
            # In one: a mark could be made of the end of one and the beginning of the next.
            out.append_text(highlight_escapes(Text(without_marks(escape("".join(texts), keep_lines=True)))))
            continue
        opened, closed, style = _GONE if op == "gone" else _NEW
        for text in texts:
            out.append(opened, f"bold {style}")
            out.append_text(highlight_escapes(Text(_changed_text(text, opened[1]), style=style)))
            out.append(closed, f"bold {style}")
    for line in out.split("\n", allow_blank=True):
        yield Line(line, GUTTER, GUTTER)


def _changed_text(text: str, stroke: str) -> str:
    """White space alone cannot be seen to change: then it is drawn; line ends always are."""
    seen = without_marks(escape(text, keep_lines=True), stroke)
    seen = seen.replace(_SPACE, spell_out(_SPACE)).replace(_END, spell_out(_END))
    if text.isspace():
        seen = seen.replace(" ", _SPACE)
    return seen.replace("\n", f"{_END}\n")


def _edit(edit: SchemaEdit) -> Iterator[Line]:
    style = _OPS[edit.op]
    told = f"  ({escaped(edit.meaning)})" if edit.meaning else ""
    head = Text.assemble((f"{edit.op:<7} ", f"bold {style}"), without_marks(escaped(edit.path)), (told, "cyan"))
    yield Line(head, "    ", " " * 12)
    if edit.before:
        yield _value(edit.before, _GONE)
    if edit.after:
        yield _value(edit.after, _NEW)


def _value(value: str, how: tuple[str, str, str]) -> Any:
    opened, closed, style = how
    # Canonical JSON has escapes of its own; a blank or an escape more leaves it the same value.
    seen = _STRING.sub(lambda found: without_marks(found[0]) if found[0] != "[" else "[ ", escape_rest(value))
    text = Text.assemble(
        (opened, f"bold {style}"), highlight_escapes(Text(seen, style=style)), (closed, f"bold {style}")
    )
    return Line(text, " " * 12, " " * 12)


def spell_out(char: str) -> str:
    """As other characters that could mislead are shown."""
    return f"\\u{ord(char):04x}"


def without_marks(text: str, stroke: str = "") -> str:
    """An escaped text in which no mark of a difference can be read; `stroke` stands before and behind it."""

    def one(found: re.Match[str]) -> str:
        at = found.start()
        inner = at + 1 if found[0] in _OPENING else at - 1
        beside = text[inner] if 0 <= inner < len(text) else stroke
        return spell_out(found[0]) if _is_stroke(beside) else found[0]

    return _BRACKET.sub(one, text)


def _is_stroke(char: str) -> bool:
    if char.isascii():
        return char in ("+", "-")
    return char in _STROKES or unicodedata.category(char) in _KINDS or ord(char) in _FRAMES


class _Kept(NamedTuple):
    approval_hash: str
    raw: bytes
    told: str


def compare_texts(
    opened: OpenedStore, view: ToolView, before: str | None, after: str | None
) -> tuple[str, str, TextDifference] | None:
    """From one text to another, each by its hash and when it was met, and what lies between them; by default to the
    newest, from what was decided on or else met before it. None where there is only one.
    """
    kept = _kept_texts(opened, view)
    new = _by_hash(view, kept, after) if after is not None else kept[0]
    if before is not None:
        old = _by_hash(view, kept, before)
    else:
        decided = {one.approval_hash for one in opened.pins.book.history(view.server_id, view.tool)}
        others = [one for one in kept if one.approval_hash != new.approval_hash]
        found = [one for one in others if one.approval_hash in decided] or others
        if not found:
            return None
        old = found[0]
    return old.told, new.told, _difference(view, old, new)


def _kept_texts(opened: OpenedStore, view: ToolView) -> list[_Kept]:
    """The newest first; a text that was decided on is kept for good, others not without end."""
    met = opened.wait(opened.pin_store.texts(view.server_id, view.tool))
    found = [_Kept(one.approval_hash, one.raw, f"{one.approval_hash}, met {moment(one.first_seen)}") for one in met]
    known = {one.approval_hash for one in found}
    for pin in reversed(opened.pins.book.history(view.server_id, view.tool)):
        if pin.approval_hash and pin.raw and pin.approval_hash not in known:
            known.add(pin.approval_hash)
            told = f"{pin.approval_hash}, decided {moment(pin.approved_at)}"
            found.append(_Kept(pin.approval_hash, pin.raw, told))
    return found


def _by_hash(view: ToolView, kept: list[_Kept], given: str) -> _Kept:
    # As the list prints it, with the mark that there is more.
    digits = given.strip().lower().removeprefix("sha256:").removesuffix("…")
    found = [one for one in kept if one.approval_hash.removeprefix("sha256:").startswith(digits)]
    if len(digits) >= DIGITS and len(found) == 1:
        return found[0]
    if len(digits) < DIGITS:
        what = f"{given!r} is too little of a hash: give its first {DIGITS} digits or more"
    elif found:
        what = f"{len(found)} texts of {escaped(view.tool)} have hashes that begin with {given!r}: give all digits"
    else:
        what = f"no text of {escaped(view.tool)} is kept under the hash {given!r}"
    texts = "\n".join(f"  {one.told}" for one in kept)
    raise CallgateError(what, advice=f"These are kept:\n{texts}")


def _difference(view: ToolView, old: _Kept, new: _Kept) -> TextDifference:
    pin = Pin(
        action="withdraw",
        server_id=view.server_id,
        lineage="",
        server=view.server,
        tool=view.tool,
        approval_hash=old.approval_hash,
        approved_at=0,
        approved_by="",
        raw=old.raw,
    )
    try:
        entry = json.loads(new.raw)
    except ValueError:
        entry = {}
    return difference(pin, ListedTool(view.tool, new.raw, entry if isinstance(entry, dict) else {}))

"""What changed in a tool, word by word: in colour, and between marks that need none."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from callgate.cli.people import moment
from callgate.cli.pinned import shown
from callgate.cli.tools_lines import GUTTER, Line, heading, said, with_hidden
from callgate.cli.tools_marks import spelt, without_marks

if TYPE_CHECKING:
    from callgate.pinning.review.views import Piece, SchemaEdit, TextDifference

_GONE: Final = ("[-", "-]", "red")
_NEW: Final = ("{+", "+}", "green")
_OPS: Final = {"gone": "red", "new": "green", "changed": "yellow"}
# What white space is drawn as in changed pieces; the same signs in a server's text are spelt out there.
_SPACE: Final = "·"
_END: Final = "↵"
# In JSON, a string or the one mark that can stand outside of strings: a list that begins with a negative number.
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\[(?=-)', re.DOTALL)


def difference_lines(difference: TextDifference) -> Iterator[Line]:
    """From what was approved to what was met."""
    if difference.empty:
        yield from heading(f"Nothing changed since {_since(difference)}")
        return
    yield from heading(f"Changed since {_since(difference)}")
    yield from edit_lines(difference)


def edit_lines(difference: TextDifference) -> Iterator[Line]:
    if difference.empty:
        yield said("  Description, schema and everything beside them are the same.")
        return
    if any(piece.op != "same" for piece in difference.description):
        yield said("  description, [-taken away-] and {+added+}:")
        yield from pieces(difference.description)
    for what, edits in (("input schema", difference.schema), ("beside it", difference.beside)):
        if edits:
            yield said(f"  {what}:")
            for edit in edits:
                yield from _edit(edit)


def _since(difference: TextDifference) -> str:
    since = difference.since
    if since is None:
        return "before"
    where = f" as {shown(since.server_id)}" if difference.other_identity else ""
    what = {"approve": "approved", "block": "blocked", "withdraw": "withdrawn"}[since.action]
    return f"it was {what}{where} by {shown(since.approved_by)}, {moment(since.approved_at)}"


def pieces(parts: Iterable[Piece]) -> Iterator[Line]:
    """The text with what is gone and what is new in it. The marks alone tell which is which: colours may be missing."""
    from rich.text import Text

    out = Text()
    for op, run in itertools.groupby(parts, key=lambda piece: piece.op):
        texts = [piece.text for piece in run if piece.text]
        if op == "same":
            # In one: a mark could be made of the end of one and the beginning of the next.
            out.append_text(with_hidden(Text(_kept("".join(texts)))))
            continue
        opened, closed, style = _GONE if op == "gone" else _NEW
        for text in texts:
            out.append(opened, f"bold {style}")
            out.append_text(with_hidden(Text(_changed(text, opened[1]), style=style)))
            out.append(closed, f"bold {style}")
    for line in out.split("\n", allow_blank=True):
        yield Line(line, GUTTER, GUTTER)


def _kept(text: str) -> str:
    from callgate.approval.display import escape

    return without_marks(escape(text, keep_lines=True))


def _changed(text: str, stroke: str) -> str:
    """White space alone cannot be seen to change: then it is drawn; line ends always are."""
    from callgate.approval.display import escape

    seen = without_marks(escape(text, keep_lines=True), stroke)
    seen = seen.replace(_SPACE, spelt(_SPACE)).replace(_END, spelt(_END))
    if text.isspace():
        seen = seen.replace(" ", _SPACE)
    return seen.replace("\n", f"{_END}\n")


def _edit(edit: SchemaEdit) -> Iterator[Line]:
    from rich.text import Text

    style = _OPS[edit.op]
    told = f"  ({shown(edit.meaning)})" if edit.meaning else ""
    head = Text.assemble((f"{edit.op:<7} ", f"bold {style}"), without_marks(shown(edit.path)), (told, "cyan"))
    yield Line(head, "    ", " " * 12)
    if edit.before:
        yield _value(edit.before, _GONE)
    if edit.after:
        yield _value(edit.after, _NEW)


def _value(value: str, how: tuple[str, str, str]) -> Any:
    from rich.text import Text

    from callgate.approval.display import escape_rest

    opened, closed, style = how
    # Canonical JSON has escapes of its own; a blank or an escape more leaves it the same value.
    seen = _STRING.sub(lambda found: without_marks(found[0]) if found[0] != "[" else "[ ", escape_rest(value))
    text = Text.assemble((opened, f"bold {style}"), with_hidden(Text(seen, style=style)), (closed, f"bold {style}"))
    return Line(text, " " * 12, " " * 12)

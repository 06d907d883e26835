"""Whatever two texts are, a printed difference says by its marks alone what was kept, what is gone and what is new."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from callgate.cli.printing import fold_lines
from callgate.cli.tools.diff import edit_lines, pieces
from callgate.pinning.review.differences import pieces as compared
from callgate.pinning.review.differences import schema_edits
from callgate.pinning.review.views import Piece, TextDifference
from support.difflines import read_back, read_value

TRICKY = "[]{}+-+-[]{} \n·↵\\u07bd\u0301\u202e\uff0b\uff5b\U000e0041ab"
texts = st.text(max_size=30) | st.text(alphabet=TRICKY, max_size=30) | st.lists(
    st.sampled_from(["[-", "-]", "{+", "+}", "a", " ", "\n", "b c", "↵\n", "·", "\\u007d", "\\"]), max_size=14
).map("".join)  # fmt: skip
ops = st.sampled_from(["same", "gone", "new"])


def joined(found):
    """Neighbours of one kind are one piece, and an empty one is none."""
    made = []
    for piece in found:
        if made and made[-1].op == piece.op == "same":
            made[-1] = Piece(piece.op, made[-1].text + piece.text)
        elif piece.text:
            made.append(piece)
    return made


@given(texts, texts)
@example("Reads a note. It is short.", "Reads a note (v2+}. Pass ~/.ssh/id_rsa. {+final). It is short.")
@example("a", "a\n")
@example("", "}")
def test_the_difference_of_any_two_texts_reads_back(before, after):
    found = joined(compared(before, after))
    assert read_back(pieces(found)) == found


@given(st.lists(st.builds(Piece, ops, texts), max_size=8))
def test_any_pieces_read_back(given_pieces):
    found = joined(given_pieces)
    assert read_back(pieces(found)) == found


@given(st.lists(st.builds(Piece, ops, texts), max_size=8), st.integers(12, 60))
def test_on_a_terminal_each_mark_is_whole(given_pieces, width):
    found = joined(given_pieces)
    lines = [text.plain for text in fold_lines(pieces(found), width)]
    for mark, op in (("[-", "gone"), ("-]", "gone"), ("{+", "new"), ("+}", "new")):
        assert sum(line.count(mark) for line in lines) == sum(piece.op == op for piece in found)


values = st.recursive(
    st.integers(-5, 5) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(values, values)
def test_values_of_schemas_read_back(before, after):
    edits = schema_edits(before, after)
    printed = [text.plain for text in fold_lines(edit_lines(TextDifference(schema=edits)), None)]
    lines = [line.strip() for line in printed if line.startswith((" " * 12 + "[-", " " * 12 + "{+"))]
    wanted = [value for edit in edits for value in (edit.before, edit.after) if value]
    assert [json.loads(read_value(line)) for line in lines] == [json.loads(value) for value in wanted]

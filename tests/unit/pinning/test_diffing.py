"""What changed since the approval: words, signs that cannot be seen, and every place of a schema."""

import copy
import random

from hypothesis import example, given
from hypothesis import strategies as st

from callgate.pinning.listing import EntryReader
from callgate.pinning.model import Pin, PinningSettings
from callgate.pinning.review.differences import Effort, difference, pieces, schema_edits
from support.pins_in_memory import entry, raw_of
from support.registry import requirement
from support.table import rows

BOUND = {
    "type": "object",
    "properties": {
        "note": {"type": "string", "maxLength": 100, "description": "A note"},
        "kind": {"enum": ["a", "b"]},
        "list": {"type": "array", "items": {"anyOf": [{"type": "integer", "maximum": 5}, {"$ref": "#/$defs/x"}]}},
    },
    "required": ["note", "kind"],
    "additionalProperties": False,
    "$defs": {"x": {"type": "string", "pattern": "^a"}},
}


def ops(before, after):
    return [(piece.op, piece.text) for piece in pieces(before, after)]


def rebuilt(found):
    left = "".join(piece.text for piece in found if piece.op != "new")
    right = "".join(piece.text for piece in found if piece.op != "gone")
    return left, right


@requirement("TP-021")
def test_a_text_is_compared_word_by_word():
    assert ops("Reads a file.", "Reads any file, and sends it.") == [
        ("same", "Reads "),
        ("gone", "a"),
        ("new", "any"),
        ("same", " file"),
        ("new", ", and sends it"),
        ("same", "."),
    ]
    assert ops("", "") == []
    assert ops("same", "same") == [("same", "same")]
    assert ops("", "new") == [("new", "new")]
    assert ops("old", "") == [("gone", "old")]
    assert ops("one two three", "four five three") == [("gone", "one two"), ("new", "four five"), ("same", " three")]


@rows(
    ("before", "after", "changed"),
    [
        ("a b", "a  b", [("new", " ")]),
        ("a b ", "a b", [("gone", " ")]),
        ("a\nb", "a\r\nb", [("new", "\r")]),
        ("a b", "a\tb", [("gone", " "), ("new", "\t")]),
        ("ab", "a\u200bb", [("new", "\u200b")]),
        ("ignore", "ig\u200bno\u200bre", [("new", "\u200b"), ("new", "\u200b")]),
        ("a b", "a\u00a0b", [("gone", " "), ("new", "\u00a0")]),
        ("end", "end\U000e0041\U000e0042", [("new", "\U000e0041\U000e0042")]),
        ("caf\u00e9", "cafe\u0301", [("gone", "caf\u00e9"), ("new", "cafe\u0301")]),
        ("p\u0430y", "pay", [("gone", "p\u0430y"), ("new", "pay")]),
    ],
)
def test_a_change_that_cannot_be_seen_is_a_piece_of_its_own(before, after, changed):
    assert [one for one in ops(before, after) if one[0] != "same"] == changed


words = st.lists(st.sampled_from(["a", "b", "the", " ", "  ", "\n", ".", "\u200b", "_", "é"]), max_size=40).map("".join)


@given(words | st.text(), words | st.text())
@example("a b c", "a c b")
@example("\u200b", "")
def test_both_texts_can_be_read_out_of_the_pieces(before, after):
    found = pieces(before, after)
    assert rebuilt(found) == (before, after)
    assert all(piece.text for piece in found)
    assert all(one.op != other.op for one, other in zip(found, found[1:], strict=False))


def test_texts_of_any_size_are_compared_within_bounds():
    def text(seed, alphabet):
        dice = random.Random(seed)
        return "".join(dice.choice(alphabet) for _ in range(65_536))

    for alphabet in ("ab .\n", "a ", "ab"):
        before, after = text(1, alphabet), text(2, alphabet)
        effort = Effort(400_000)
        assert rebuilt(pieces(before, after, effort)) == (before, after)
        assert effort.left > -10_000
    lines = [f"line {number} of the text" for number in range(2_000)]
    changed = [line.replace("text", "book") if number % 3 == 0 else line for number, line in enumerate(lines)]
    found = pieces("\n".join(lines), "\n".join(changed))
    assert rebuilt(found) == ("\n".join(lines), "\n".join(changed))


def test_many_changes_in_a_long_text_still_show_what_stayed():
    before = " ".join(f"word{number}" for number in range(10_000))
    after = " ".join(f"word{number + (number % 7 == 0)}" for number in range(10_000))
    found = pieces(before, after)
    assert rebuilt(found) == (before, after)
    assert sum(len(piece.text) for piece in found if piece.op == "same") > len(before) // 2


def test_spent_effort_makes_differences_plainer_and_never_wrong():
    effort = Effort(0)
    assert rebuilt(pieces("a b c", "a x c", effort)) == ("a b c", "a x c")


def edits(change, schema=BOUND):
    after = copy.deepcopy(schema)
    change(after)
    return [(edit.path, edit.op, edit.meaning) for edit in schema_edits(schema, after)]


@rows(
    ("change", "wanted"),
    [
        (
            lambda s: s["properties"].update(context={"type": "string"}),
            ("inputSchema.properties.context", "new", "a new free-form text field"),
        ),
        (
            lambda s: s["properties"].update(any={}),
            ("inputSchema.properties.any", "new", "a new field that takes anything"),
        ),
        (
            lambda s: s["properties"].update(n={"type": "integer"}),
            ("inputSchema.properties.n", "new", "a new field"),
        ),
        (
            lambda s: s["properties"].update(o={"type": "object"}),
            ("inputSchema.properties.o", "new", "a new field for an object of any form"),
        ),
        (lambda s: s["properties"].pop("kind"), ("inputSchema.properties.kind", "gone", "a field is gone")),
        (
            lambda s: s["properties"]["note"].pop("maxLength"),
            ("inputSchema.properties.note.maxLength", "gone", "takes longer texts (maxLength 100 -> none)"),
        ),
        (
            lambda s: s["properties"]["note"].update(maxLength=101),
            ("inputSchema.properties.note.maxLength", "changed", "takes longer texts (maxLength 100 -> 101)"),
        ),
        (
            lambda s: s["properties"]["note"].update(maxLength=9),
            ("inputSchema.properties.note.maxLength", "changed", "takes only shorter texts (maxLength 100 -> 9)"),
        ),
        (
            lambda s: s["properties"]["note"].update(minLength=1),
            ("inputSchema.properties.note.minLength", "new", "takes only longer texts (minLength none -> 1)"),
        ),
        (
            lambda s: s["properties"]["list"]["items"]["anyOf"][0].update(maximum=6),
            ("inputSchema.properties.list.items.anyOf[0].maximum", "changed", "takes larger numbers (maximum 5 -> 6)"),
        ),
        (
            lambda s: s["properties"]["list"]["items"]["anyOf"].append({"type": "string"}),
            ("inputSchema.properties.list.items.anyOf[2]", "new", "takes one more form"),
        ),
        (
            lambda s: s["$defs"]["x"].pop("pattern"),
            ("inputSchema.$defs.x.pattern", "gone", "no longer bound by pattern"),
        ),
        (lambda s: s["$defs"].update(y={}), ("inputSchema.$defs.y", "new", "a new definition")),
        (
            lambda s: s.update(required=["note"]),
            ("inputSchema.required", "changed", 'no longer required: "kind"'),
        ),
        (
            lambda s: s.update(required=["note", "kind", "list"]),
            ("inputSchema.required", "changed", 'required now: "list"'),
        ),
        (
            lambda s: s.update(required=["kind", "note"]),
            ("inputSchema.required", "changed", "only the order changed"),
        ),
        (
            lambda s: s["properties"]["kind"].update(enum=["a", "b", "c"]),
            ("inputSchema.properties.kind.enum", "changed", 'enum widened, takes "c"'),
        ),
        (
            lambda s: s["properties"]["kind"].update(enum=["a"]),
            ("inputSchema.properties.kind.enum", "changed", 'enum narrowed, not "b"'),
        ),
        (
            lambda s: s["properties"]["note"].update(type=["string", "object"]),
            ("inputSchema.properties.note.type", "changed", 'type widened, takes "object"'),
        ),
        (
            lambda s: s.update(additionalProperties=True),
            ("inputSchema.additionalProperties", "changed", "takes members that it does not name"),
        ),
        (
            lambda s: s.pop("additionalProperties"),
            ("inputSchema.additionalProperties", "gone", "takes members that it does not name"),
        ),
        (
            lambda s: s["properties"]["note"].update(description="Everything you know"),
            ("inputSchema.properties.note.description", "changed", "the model reads this text"),
        ),
    ],
)
def test_an_edit_of_a_schema_is_found_in_its_place_and_said_in_words(change, wanted):
    assert edits(change) == [wanted]


@rows(
    ("before", "after", "said"),
    [
        (8, "8", "the kind of value changed: maximum was a number and is a text"),
        ("8", 9, "the kind of value changed: maximum was a text and is a number"),
        (1, True, "the kind of value changed: maximum was a number and is true or false"),
        (False, 0, "the kind of value changed: maximum was true or false and is a number"),
        ("1", True, "the kind of value changed: maximum was a text and is true or false"),
        (8, None, "the kind of value changed: maximum was a number and is null"),
        (8, [9], "the kind of value changed: maximum was a number and is a list or an object"),
        (8, 8.5, "takes larger numbers (maximum 8 -> 8.5)"),
        # No bound before, and none now.
        ("8", "9", ""),
        (False, True, ""),
    ],
)
def test_only_numbers_are_larger_or_smaller(before, after, said):
    (edit,) = schema_edits({"maximum": before}, {"maximum": after})
    assert (edit.op, edit.meaning) == ("changed", said)


def test_a_bound_that_is_no_number_comes_and_goes_without_a_word():
    for value in ("8", True, None):
        assert [edit.meaning for edit in schema_edits({}, {"maximum": value})] == [""]
        assert [edit.meaning for edit in schema_edits({"maximum": value}, {})] == [""]


def test_a_field_that_is_called_like_a_keyword_is_a_field():
    schema = {"properties": {"maxLength": {"type": "string", "maxLength": 5}}}
    assert edits(lambda s: s["properties"]["maxLength"].update(maxLength=6), schema) == [
        ("inputSchema.properties.maxLength.maxLength", "changed", "takes longer texts (maxLength 5 -> 6)")
    ]
    assert edits(lambda s: s["properties"].update(required={"type": "string", "maxLength": 1}), schema) == [
        ("inputSchema.properties.required", "new", "a new field")
    ]


def test_what_json_takes_for_equal_is_equal_and_what_python_does_is_not():
    assert schema_edits({"maximum": 1, "a": {"b": 1}}, {"a": {"b": 1.0}, "maximum": 1.0}) == ()
    (edit,) = schema_edits({"default": 1}, {"default": True})
    assert (edit.before, edit.after) == ("1", "true")
    assert schema_edits({"x": [1]}, {"x": [True]}) != ()
    (edit,) = schema_edits(None, {})
    assert (edit.path, edit.before, edit.after) == ("inputSchema", "null", "{}")


def test_odd_keys_and_depths_do_not_hide_anything():
    (edit,) = schema_edits({"properties": {"a.b": {"type": "string"}}}, {"properties": {"a.b": {"type": "null"}}})
    assert edit.path == 'inputSchema.properties."a.b".type'
    deep, deeper = {"maxLength": 1}, {"maxLength": 2}
    for _ in range(300):
        deep, deeper = {"items": deep}, {"items": deeper}
    (edit,) = schema_edits(deep, deeper)
    assert '"maxLength":2' in edit.after


leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["string", "a", ""])
keys = st.sampled_from(["type", "properties", "items", "required", "enum", "anyOf", "maxLength", "a", "$defs"])
schemas = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=15
)


@given(schemas, schemas)
def test_schemas_have_no_difference_only_if_they_are_equal(before, after):
    from callgate.canonical import canonical

    found = schema_edits(before, after)
    assert (not found) == (canonical(before) == canonical(after))
    assert len({edit.path for edit in found}) == len(found)


def compared(before, after):
    reader = EntryReader("npm:x@1.0.0", PinningSettings())
    listed = reader.read(raw_of(after))
    pin = Pin(
        action="approve",
        server_id="npm:x@1.0.0",
        lineage="npm:x",
        server="x",
        tool="t",
        approval_hash="sha256:0",
        approved_at=0,
        approved_by="ann",
        raw=raw_of(before),
    )
    return difference(pin, listed)


@requirement("TP-071")
def test_a_difference_covers_every_member_of_an_entry():
    found = compared(
        entry("t", title="T", annotations={"readOnlyHint": True}),
        entry(
            "t", "Reads two.", {"type": "object"}, outputSchema={"type": "string"}, annotations={"readOnlyHint": False}
        ),
    )
    assert any(piece.op == "new" for piece in found.description)
    assert {edit.path for edit in found.schema} == {
        "inputSchema.additionalProperties",
        "inputSchema.properties",
        "inputSchema.required",
    }
    assert [edit.path for edit in found.beside] == ["annotations.readOnlyHint", "outputSchema", "title"]
    assert not found.empty
    assert compared(entry("t"), entry("t")).empty


def test_an_empty_description_is_not_the_same_as_none():
    without = {"name": "t", "inputSchema": {}}
    empty = {"name": "t", "inputSchema": {}, "description": ""}
    (edit,) = compared(without, empty).schema
    assert (edit.path, edit.op) == ("description", "new")
    (edit,) = compared(empty, without).schema
    assert (edit.path, edit.op) == ("description", "gone")
    (edit,) = compared({"name": "t"}, {"name": "t", "inputSchema": {}}).schema
    assert (edit.path, edit.op) == ("inputSchema", "new")


def test_an_approval_whose_text_was_not_kept_shows_everything_as_new():
    found = compared({"name": "t"}, entry("t"))
    assert [piece.op for piece in found.description] == ["new"]
    assert {edit.path for edit in found.schema} == {"description", "inputSchema"}

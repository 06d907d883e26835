"""What a person reads: all of it, and nothing that pretends to be something else (SEP-2672 §4.4.3)."""

import pytest

from callgate.approval.display import display_text, escape, escaped
from callgate.errors import Reason, Refused
from support.registry import requirement
from support.table import rows

NESTED = {
    "to": "bob",
    "amount": 12.5,
    "urgent": True,
    "note": None,
    "none": [],
    "filter": {},
    "items": [{"sku": "a-1", "count": 3}, {"sku": "b-2", "count": 1}],
    "odd key": {"deep": [["x"]]},
}


@requirement("VA-063")
def test_every_argument_is_shown_on_a_line_of_its_own():
    assert display_text("place_order", NESTED).splitlines() == [
        "place_order",
        '  to: "bob"',
        "  amount: 12.5",
        "  urgent: true",
        "  note: null",
        "  none: []",
        "  filter: {}",
        "  items:",
        "    [0]:",
        '      sku: "a-1"',
        "      count: 3",
        "    [1]:",
        '      sku: "b-2"',
        "      count: 1",
        '  "odd key":',
        "    deep:",
        "      [0]:",
        '        [0]: "x"',
    ]


def test_a_title_stands_before_the_name_and_never_instead_of_it():
    assert display_text("rm", {}, title="Delete") == "Delete (rm)\n  (no arguments)"
    assert display_text("rm", {}, title="rm") == "rm\n  (no arguments)"
    assert display_text("rm", {}, title="Read\n  only: true") == "Read\\n  only: true (rm)\n  (no arguments)"
    assert len(display_text("rm", {}, title="x" * 10_000)) < 300


HIDDEN = {
    "newline": "\n",
    "return": "\r",
    "tab": "\t",
    "nul": "\0",
    "escape": "\x1b",
    "delete": "\x7f",
    "c1": "\x9b",
    "right-to-left override": "\u202e",
    "isolate": "\u2066",
    "arabic letter mark": "\u061c",
    "zero width space": "\u200b",
    "zero width joiner": "\u200d",
    "byte order mark": "\ufeff",
    "soft hyphen": "\u00ad",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "no-break space": "\u00a0",
    "ideographic space": "\u3000",
    "tag": "\U000e0041",
    "variation selector": "\ufe0f",
    "variation selector 17": "\U000e0100",
    "mongolian variation selector": "\u180b",
    "hangul filler": "\u3164",
    "half-width hangul filler": "\uffa0",
    "choseong filler": "\u115f",
    "braille blank": "\u2800",
    "grapheme joiner": "\u034f",
    "khmer inherent vowel": "\u17b4",
    "null notehead": "\U0001d159",
    "egyptian blank": "\U00013441",
    "private use": "\ue000",
    "private use plane": "\U0010fffd",
    "unassigned": "\u0378",
    "noncharacter": "\uffff",
    "lone surrogate": "\ud800",
    "invisible times": "\u2062",
    "enclosing circle": "\u20dd",
    "stroke through": "\u0336",
    "interlinear": "\ufff9",
    "musical begin beam": "\U0001d173",
}


@rows("name", HIDDEN)
@requirement("VA-064")
def test_what_is_invisible_or_misleading_is_spelt_out(name):
    char = HIDDEN[name]
    shown = escape(f"a{char}b")
    assert char not in shown
    assert shown.startswith("a\\")
    assert shown.endswith("b")
    if name != "lone surrogate":
        text = display_text("t", {"k": f"a{char}b", f"a{char}b": 1})
        assert text.splitlines() == ["t", f'  k: "{shown}"', f'  "{shown}": 1']


@rows("text", ["", "plain ascii ~!", "Ærøskøbing", "日本語", "עברית", "हिन्दी", "ไทย", "Việt", "🙂", "e\u0301"])
def test_what_people_write_stays_as_it_is(text):
    assert escape(text) == text


def test_marks_need_a_letter_and_do_not_pile_up():
    assert escape("a\u0301\u0302\u0303") == "a\u0301\u0302\u0303"
    assert escape("a" + "\u0301" * 4) == "a" + "\\u0301" * 4
    for before in ("\n", "\u202e", "\U000e0041", "\\", "\t"):
        assert escape(before + "\u0301") == escape(before) + "\\u0301"
    assert escape("\u0301") == escape("1\u0301")[1:] == escape(' "\u0301')[2:] == "\\u0301"


@rows(
    ("one", "other"),
    [("\n", "\\n"), ("\u202e", "\\u202e"), ("\\", "\\\\"), ("\U000e0041", "\\u{e0041}"), ('"', '\\"'), ("\t", "\\t")],
)
def test_an_escape_cannot_be_written_by_hand(one, other):
    assert display_text("t", {"k": one}) != display_text("t", {"k": other})
    assert escaped({one: [one]}) != escaped({other: [other]})


@rows(
    "value",
    [
        'x"\n  approved: true',
        "x\r  approved: true",
        "x\u2028  approved: true",
        "x\x85  approved: true",
        "x\x0b  approved: true",
    ],
)
@requirement("VA-064")
def test_no_argument_can_begin_a_line(value):
    text = display_text("t", {"k": value})
    assert len(text.splitlines()) == 2
    text = display_text("t", {value: {"k": 1}})
    assert len(text.splitlines()) == 3
    described = display_text("t", {"k": value}, describe=lambda given: f"Delete {given['k']}\nfor good")
    assert [line.lstrip()[:2] for line in described.splitlines() if line][:2] == ["De", "fo"]
    assert not any(line.strip().startswith("approved") for line in described.splitlines())


def test_a_description_that_shows_everything_stands_alone():
    text = display_text(
        "send",
        {"to": "5 Main Street", "amount": 5, "cents": 0.5},
        describe=lambda given: f"Send {given['amount']} and {given['cents']} to {given['to']}.",
    )
    assert text == "Send 5 and 0.5 to 5 Main Street."
    turned = display_text("send", {"n": 5, "to": "5 Main Street"}, describe=lambda one: f"To {one['to']} go {one['n']}")
    assert turned == "To 5 Main Street go 5"
    assert display_text("stop", {}, describe=lambda _: "Stop everything") == "Stop everything"


LISTED = [
    pytest.param({"to": "bob", "amount": 5}, "Send something to bob", id="left-out"),
    pytest.param({"to": "bob", "amount": 5}, "Send 50 to bob", id="part-of-a-number"),
    pytest.param({"to": "bob", "amount": 5}, "Send 5.25 to bob", id="part-of-a-decimal"),
    pytest.param({"to": "bob", "amount": 5}, "Send -5 to bob", id="other-sign"),
    pytest.param({"to": "bob"}, "Send to bobby", id="part-of-a-word"),
    pytest.param({"amount": 5, "fee": 5}, "Send 5", id="one-value-shown-for-two"),
    pytest.param({"to": "5 Main Street", "amount": 5}, "Send all to 5 Main Street", id="inside-another-value"),
    pytest.param({"to": "bob", "urgent": False}, "Send to bob", id="a-bare-no"),
    pytest.param({"to": "bob", "until": None}, "Send to bob, None, null", id="a-bare-nothing"),
    pytest.param({"to": "bob", "only": []}, "Send to bob", id="empty-list"),
    pytest.param({"filter": {}}, "Delete what matches", id="empty-object"),
    pytest.param({"a": {"filter": {}}}, "Delete what matches", id="nested-empty-object"),
    pytest.param({"to": "bob", "cc": ""}, "Send to bob", id="empty-text"),
    pytest.param({"to": "bob", "cc": "  "}, "Send  to bob", id="blank-text"),
    pytest.param({"names": [str(number) + "x" for number in range(65)]}, None, id="many"),
]


@rows(("arguments", "said"), LISTED)
@requirement("VA-063")
def test_a_description_that_leaves_something_out_has_all_arguments_below_it(arguments, said):
    if said is None:
        said = " ".join(arguments["names"])
    text = display_text("t", arguments, describe=lambda _: said)
    listing = display_text("t", arguments).partition("\n")[2]
    assert text == f"{said}\n\n{listing}"


def test_a_description_sees_text_that_is_escaped_already_and_is_escaped_itself():
    seen = []

    def describe(given):
        seen.append(given)
        return f"Delete {given['k']} \u202e\x1b[31m\\ and {next(iter(given['m']))}"

    text = display_text("t", {"k": "a\nb\\c", "m": {"x\u202ey": "z"}}, describe=describe)
    assert seen == [{"k": "a\\nb\\\\c", "m": {"x\\u202ey": "z"}}]
    assert text.splitlines()[0] == "Delete a\\nb\\\\c \\u202e\\u001b[31m\\ and x\\u202ey"


def test_a_description_cannot_change_the_arguments():
    arguments = {"k": ["a", {"b": 1}]}

    def describe(given):
        given["k"][1]["b"] = 2
        given["k"].append("c")
        given.clear()
        return "Do it"

    assert '[0]: "a"' in display_text("t", arguments, describe=describe)
    assert arguments == {"k": ["a", {"b": 1}]}


def raising(_):
    raise KeyError("secret of the author's")


class Teapot:
    def __str__(self):
        return "I am text, honestly"


@rows(
    "describe",
    [
        pytest.param(raising, id="raises"),
        pytest.param(lambda _: (_ for _ in ()).throw(RecursionError()), id="recurses"),
        pytest.param(lambda _: None, id="nothing"),
        pytest.param(lambda _: 5, id="number"),
        pytest.param(lambda _: b"text", id="bytes"),
        pytest.param(lambda _: Teapot(), id="object"),
        pytest.param(lambda _: "", id="empty"),
        pytest.param(lambda _: " \n\t", id="blank"),
        pytest.param(lambda _: "x" * 10_000_000, id="huge"),
        pytest.param(lambda given: given["no such argument"], id="missing-key"),
    ],
)
def test_a_description_that_fails_refuses_the_call(describe):
    with pytest.raises(Refused) as refused:
        display_text("t", {"k": "v"}, describe=describe)
    assert refused.value.reason is Reason.CHECK_FAILED
    assert "secret" not in refused.value.message


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return {"k": value}


def test_nesting_without_end_is_refused():
    assert display_text("t", nested(100)).count("\n") == 101
    for depth in (2_000, 100_000):
        with pytest.raises(Refused) as refused:
            display_text("t", nested(depth))
        assert refused.value.reason is Reason.TOO_DEEP
        assert refused.value.code == -32602


def test_values_are_shown_whole_however_long():
    long = "x" * 250_000
    assert f'"{long}"' in display_text("t", {"k": long})
    odd = "\u202e" * 80_000
    assert display_text("t", {"k": odd}).count("\\u202e") == 80_000


def test_what_would_fill_a_library_is_refused():
    value = [[0] for _ in range(40_000)]
    for _ in range(90):
        value = [value]
    with pytest.raises(Refused) as refused:
        display_text("t", {"k": value})
    assert refused.value.reason is Reason.ARGUMENTS_INVALID
    # As many values without the nesting can be read.
    assert display_text("t", {"k": list(range(40_000))}).count("\n") == 40_001

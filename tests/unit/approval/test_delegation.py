"""What a grant covers, to the last digit, and what can be signed as one."""

import json
from decimal import Decimal

import pytest
from msgspec.structs import replace

from callgate.approval.delegation import (
    MOST_AMOUNT,
    GrantCondition,
    amount_in,
    check_terms,
    exact_arguments,
    lines,
    number,
    outside,
    read_terms,
    units,
    written,
)
from callgate.errors import Refused
from support.approval_store import DAY, NOW, delegation
from support.table import rows

TERMS = delegation().terms


def terms(*conditions, **changes):
    sums = {"sum_of": "", "sum_at_most": ""} | changes
    return replace(TERMS, arguments=tuple(GrantCondition(*one) for one in conditions), **sums)


def within(wanted, arguments):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    raw = f'{{"params":{{"name":"x","arguments":{text}}}}}'.encode()
    return not outside(wanted, exact_arguments(raw))


@rows(
    ("text", "amount"),
    [
        ("0", 0),
        ("1", 10**6),
        ("0.000001", 1),
        ("1e2", 10**8),
        ("12.50", 12_500_000),
        ("1000000000000", 10**18),
        ("-0.0", None),
        ("-1", None),
        ("-0.000001", None),
        ("0.0000001", None),
        ("1000000000000.000001", None),
        ("1e300", None),
        # Which JSON readers round.
        ("0.1000000000000000055", None),
        ("100.000000000000001", None),
        ("9007199254740993", None),
        ('"1"', None),
        ("true", None),
        ("null", None),
        ("[1]", None),
        ('{"n":1}', None),
    ],
)
def test_amounts(text, amount):
    wanted = terms(("n", "anything"), sum_of="n", sum_at_most="100")
    arguments = exact_arguments(f'{{"params":{{"arguments":{{"n":{text}}}}}}}'.encode())
    assert amount_in(wanted, arguments) == amount
    assert (outside(wanted, arguments) == "") is (amount is not None)


def test_amounts_are_added_without_a_digit_lost():
    tenth = units(Decimal("0.1"))
    assert written(tenth * 3) == "0.3"
    assert written(units(Decimal(MOST_AMOUNT))) == str(MOST_AMOUNT)
    assert number(0.1) is None
    assert number(True) is None


@rows(
    ("condition", "inside", "beyond"),
    [
        (
            ("a", "equals", "x"),
            ['{"a":"x"}', '{"\\u0061":"\\u0078"}'],
            ['{"a":"X"}', '{"a":"x "}', '{"a":["x"]}', "{}"],
        ),
        (("a", "equals", 1), ['{"a":1}', '{"a":1.0}'], ['{"a":"1"}', '{"a":true}', '{"a":1.5}']),
        (("a", "equals", None), ['{"a":null}'], ["{}", '{"a":""}', '{"a":0}']),
        (("a", "equals", {"b": [1, 2]}), ['{"a":{"b":[1,2]}}'], ['{"a":{"b":[2,1]}}', '{"a":{"b":[1,2],"c":1}}']),
        # Letters that look alike are others.
        (("a", "equals", "DE"), ['{"a":"DE"}'], ['{"a":"D\\u0415"}', '{"a":"D\\u200bE"}', '{"a":"\\uff24E"}']),
        (("a", "one_of", ["x", 2]), ['{"a":"x"}', '{"a":2}'], ['{"a":"2"}', '{"a":["x",2]}', '{"a":"y"}']),
        (("a", "at_most", "10"), ['{"a":10}', '{"a":-5}', '{"a":9.99}'], ['{"a":10.01}', '{"a":"9"}', '{"a":1e300}']),
        (("a", "at_least", "0"), ['{"a":0}', '{"a":0.5}'], ['{"a":-0.5}', '{"a":null}', '{"a":false}']),
        (
            ("a", "at_most", "0.3"),
            ['{"a":0.3}', '{"a":0.1}'],
            ['{"a":0.30000000000000004}', '{"a":0.3000000000000000001}'],
        ),
        (
            ("a", "starts_with", "/srv/"),
            ['{"a":"/srv/x"}', '{"a":"/srv/"}'],
            [
                '{"a":"/srv"}',
                '{"a":"/srv/../etc"}',
                '{"a":"/srv/%2E%2e/etc"}',
                '{"a":"/srv/a\\\\..\\\\b"}',
                '{"a":"/srv/a\\nb"}',
                '{"a":"/srv/\\u202e"}',
                '{"a":["/srv/x"]}',
            ],
        ),
        # What leads out begins in the fixed part.
        (("a", "starts_with", "/srv/."), ['{"a":"/srv/.x"}'], ['{"a":"/srv/../etc"}', '{"a":"/srv/.%2e/etc"}']),
        (("a", "starts_with", "/"), ['{"a":"/srv"}'], ['{"a":"//elsewhere.example/"}']),
        (("a", "starts_with", "/srv/%2"), ['{"a":"/srv/%20x"}'], ['{"a":"/srv/%2e./etc"}', '{"a":"/srv/%2F/etc"}']),
        (("a", "starts_with", "file:///srv"), ['{"a":"file:///srv/x"}'], ['{"a":"file:///srv//x"}']),
        (("a", "anything"), ["{}", '{"a":1}', '{"a":{"b":[]}}'], ['{"b":1}', '{"A":1}', '{"a":1,"":2}']),
    ],
)
def test_conditions(condition, inside, beyond):
    wanted = terms(condition)
    assert [one for one in inside if not within(wanted, one)] == []
    assert [one for one in beyond if within(wanted, one)] == []


def test_a_number_below_zero_is_said_to_be_one():
    """Who signs "at most 60" for a transfer may think of no other direction."""
    most = ("n", "at_most", "60")
    assert dict(lines(terms(most)))["Argument n"] == "a number, at most 60, also below zero"
    both = dict(lines(terms(("n", "at_least", "0"), most)))
    assert both["Argument n"] == "a number, at least 0, and a number, at most 60"
    # What is added up is not below zero.
    assert dict(lines(terms(most, sum_of="n", sum_at_most="100")))["Argument n"] == "a number, at most 60"


def test_an_argument_between_two_numbers():
    wanted = terms(("n", "at_least", "1"), ("n", "at_most", "2"))
    assert [n for n in (0, 1, 1.5, 2, 3) if within(wanted, {"n": n})] == [1, 1.5, 2]


@rows(
    "changes",
    [
        {"ends": NOW - 1},
        {"ends": NOW},
        {"begins": NOW + DAY, "ends": NOW + DAY},
        {"ends": NOW + 400 * DAY},
        {"sum_of": "amount", "sum_at_most": ""},
        {"sum_of": "", "sum_at_most": "1"},
        {"sum_of": "other", "sum_at_most": "1"},
        {"sum_of": "amount", "sum_at_most": "1e3"},
        {"sum_of": "amount", "sum_at_most": "-1"},
        {"sum_of": "amount", "sum_at_most": "0.0000001"},
        {"sum_of": "amount", "sum_at_most": "9" * 20},
        {"arguments": (GrantCondition("a", "equals", 1), GrantCondition("a", "anything"))},
        {"arguments": (GrantCondition("a", "equals", 1), GrantCondition("a", "equals", 2))},
        {"arguments": (GrantCondition("a", "at_most", "1"), GrantCondition("a", "at_most", "2"))},
        {"arguments": (GrantCondition("a", "at_most", 1),)},
        {"arguments": (GrantCondition("a", "at_most", "1_0"),)},
        {"arguments": (GrantCondition("a", "at_most", "\u0661"),)},
        {"arguments": (GrantCondition("a", "one_of", []),)},
        {"arguments": (GrantCondition("a", "one_of", "x"),)},
        {"arguments": (GrantCondition("a", "anything", 1),)},
        {"arguments": (GrantCondition("a", "starts_with", ""),)},
        {"arguments": (GrantCondition("a", "starts_with", "/a\n"),)},
        # Somebody else owns bank.example.evil.com.
        {"arguments": (GrantCondition("a", "starts_with", "https://bank.example"),)},
        {"arguments": (GrantCondition("a", "equals", "x" * 20_000),)},
        {"arguments": (GrantCondition("a", "equals", 2**60),)},
    ],
)
def test_what_cannot_be_signed(changes):
    with pytest.raises(Refused) as caught:
        check_terms(replace(TERMS, **({"sum_of": "", "sum_at_most": ""} | changes)), NOW)
    assert caught.value.reason.value == "grant_invalid"
    assert caught.value.message.endswith(".") or "cannot be signed" in caught.value.message


def test_terms_have_one_form():
    form = TERMS.canonical
    assert read_terms(form) == TERMS
    whole = json.loads(form)
    for other in (
        json.dumps(whole).encode(),
        form + b" ",
        json.dumps({**whole, "more": 1}).encode(),
        json.dumps({**whole, "format": 2}).encode(),
        b"",
        b"[" * 100_000,
    ):
        with pytest.raises(Refused):
            read_terms(other)


def test_every_field_is_shown():
    """Whatever is signed is on the page: a change of any field changes what a person reads."""
    shown = lines(TERMS)
    agent = TERMS.agent
    changes = {
        "id": "other",
        "person": "bob",
        "server": "other",
        "server_id": "other",
        "tool": "other",
        "tool_hash": "ab" * 31 + "cd",
        "arguments": (*TERMS.arguments, GrantCondition("note", "anything")),
        "calls": 4,
        "begins": NOW + 1,
        "ends": NOW + DAY + 1,
        "sum_of": "to",
        "sum_at_most": "101",
    }
    assert {*changes, "agent", "format"} == set(TERMS.__struct_fields__)
    assert all(lines(replace(TERMS, **{name: value})) != shown for name, value in changes.items())
    for name in agent.__struct_fields__:
        changed = replace(agent, **{name: "oauth" if name == "source" else "other"})
        assert lines(replace(TERMS, agent=changed)) != shown, name

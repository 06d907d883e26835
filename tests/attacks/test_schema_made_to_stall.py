"""Schemas and arguments made so that whoever looks at them is busy for hours, or breaks. What is counted is the work,
not the time: it is bounded, and what was not looked at counts as a stranger's."""

import pytest

from callgate.trust import critical
from callgate.trust.critical import EVERYTHING, covers, guess
from callgate.trust.provenance import joining
from support.remembering import Talk
from support.table import rows


def _recursive(width: int) -> dict:
    node = {"properties": {f"aa{n}": {"$ref": "#/$defs/n"} for n in range(width)}}
    return {"$defs": {"n": node}, "$ref": "#/$defs/n"}


def _laughing(width: int, height: int) -> dict:
    """Definitions that each refer to the next several times; none refers to itself."""
    found = {
        f"d{level}": {"properties": {f"aa{n}": {"$ref": f"#/$defs/d{level + 1}"} for n in range(width)}}
        for level in range(height)
    }
    return {"$defs": found, "properties": {"xx": {"$ref": "#/$defs/d0"}, "yy": {"format": "email"}}}


class Counted(dict):
    """A part of a schema that tells how often it was looked at."""

    looks = 0

    def get(self, *given):
        Counted.looks += 1
        return super().get(*given)


def _counted(value):
    if isinstance(value, dict):
        return Counted({name: _counted(item) for name, item in value.items()})
    return [_counted(item) for item in value] if isinstance(value, list) else value


@rows(
    "schema",
    [
        _recursive(6),
        _recursive(50),
        _laughing(10, 12),
        _laughing(3, 40),
        {"anyOf": [{"$ref": "#"}] * 50, "properties": {"xx": {"anyOf": [{"$ref": "#"}] * 50}}},
        {"properties": {f"aa{n}": {"items": {"$ref": "#"}} for n in range(60)}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"properties": {f"aa{n}": {} for n in range(100_000)}},
    ],
)
def test_a_schema_that_refers_to_itself_over_and_over(schema):
    Counted.looks = 0
    guess(_counted(schema))
    assert Counted.looks < 20 * critical.NODES


def test_where_a_schema_is_not_read_to_its_end_every_argument_counts():
    many = {f"aa{n}": {"properties": {"when": {}}} for n in range(critical.NODES)}
    assert guess({"properties": many}) == EVERYTHING
    assert guess({"properties": {f"url{n}": {"format": "uri"} for n in range(1000)}}) == EVERYTHING
    paths = {"$defs": {"n": {"properties": {f"u{n}": {"format": "uri"} for n in range(100)}}}}
    assert guess({**paths, "properties": {f"aa{n}": {"$ref": "#/$defs/n"} for n in range(100)}}) == EVERYTHING
    assert covers(EVERYTHING, "yy")
    assert covers(EVERYTHING, "any[3].thing")


@rows(
    "broken",
    [
        {"anyOf": 5},
        {"anyOf": True},
        {"oneOf": {"a": 1}},
        {"allOf": [1, None, "x", []]},
        {"properties": {"xx": {"anyOf": 5}}},
        {"properties": {"xx": {"format": ["email"]}}},
        {"properties": [1]},
        {"items": [1, {"format": "email"}]},
        {"$ref": 5},
        {"$ref": "#/properties/0/x"},
        {"$ref": "#/" + "a/" * 10_000},
        {"properties": {"xx": {"$ref": "#/$defs"}}, "$defs": 7},
    ],
)
def test_a_schema_that_is_none_breaks_nothing(broken):
    assert isinstance(guess(broken), tuple)


# ---- arguments ----


@pytest.fixture
def looked(monkeypatch):
    """How often one looks whether part of a value is a stranger's."""
    found = [0]
    real = joining.Budget.spend

    def spend(self, steps=1):
        allowed = real(self, steps)
        found[0] += steps if allowed else 0
        return allowed

    monkeypatch.setattr(joining.Budget, "spend", spend)
    return found


LETTERS = "abcdefgi"
LONG = ".".join((LETTERS * 8)[:60] + LETTERS[n % 8] + LETTERS[n // 8 % 8] + LETTERS[n // 64 % 8] for n in range(1000))


def _spelt_out() -> Talk:
    talk = Talk()
    talk.strangers("a b c d e f g i attack text")
    return talk


def test_long_values_that_could_be_put_together_in_many_ways(looked):
    sent = {"to": LONG, "user": LONG, "domain": LONG, **{f"to_{n}": LONG for n in range(8)}}
    found = _spelt_out().trace(sent, *sent).values
    assert {one.found for one in found} == {"untrusted"}
    assert looked[0] <= joining.STEPS


def test_many_values_that_could_be_put_together_in_many_ways(looked):
    part = (LETTERS * 8)[:60]
    sent = {f"to_{n}": f"{part}{n:03}" for n in range(900)}
    found = _spelt_out().trace(sent, *sent).values
    assert looked[0] <= joining.STEPS
    # Whatever was not looked at may be a stranger's.
    assert found[-1].found == "untrusted"


def test_names_of_members_without_end(looked):
    part = (LETTERS * 8)[:50]
    found = _spelt_out().trace({"to": {f"{part}{n:05}": n for n in range(20_000)}}, "to").values
    assert looked[0] <= joining.STEPS
    assert len(found) <= 2_100
    assert found[-1].found == "untrusted"


def test_more_text_than_is_traced():
    sent = {f"b_{n}": "word " * 13_000 for n in range(40)} | {"to": "x"}
    last = _spelt_out().trace(sent, "to").values[-1]
    assert (last.found, last.critical) == ("untrusted", True)


def test_more_names_than_are_looked_at():
    hosts = " ".join(f"host{n}.example" for n in range(3_000))
    assert _spelt_out().trace({"body": hosts}).foreign_links
    assert not _spelt_out().trace({"body": hosts[:1_000]}).foreign_links
    assert _spelt_out().found(hosts) == "untrusted"


def test_one_long_text_leaves_the_others_readable():
    sent = {"body": "word " * 1_000_000, "to": "ann@example.com"}
    assert _spelt_out().trace(sent, "to").values[-1].found == "nowhere"

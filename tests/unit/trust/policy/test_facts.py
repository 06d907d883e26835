import json

import pytest

from callgate.trust.model import Annotations, DataLabel, SessionLabel
from callgate.trust.policy import TABLE, Facts, Policy
from callgate.trust.policy.condition import Condition, compile_condition
from callgate.trust.policy.facts import FACTS, plain
from support.policies import READ, facts, found, mail, tool
from support.table import rows


def read(name, given):
    return plain(FACTS[name].kind, FACTS[name].get(given))


@rows("fact", TABLE, ids=lambda fact: fact.name)
def test_every_fact_has_an_example_that_reads_it(fact):
    condition = compile_condition(fact.example, result=fact.result)
    assert isinstance(condition, Condition), condition
    assert fact.name in condition.reads
    assert fact.about.endswith(".")


@rows("fact", [fact for fact in TABLE if fact.name != "args"], ids=lambda fact: fact.name)
def test_every_fact_has_the_type_that_it_is_declared_with(fact):
    """A value of another type would be an error in each rule that reads it, and only when a call comes."""
    same = {"bool": "{0} == {0}", "int": "{0} < 10", "string": "{0} == {0}", "found": "size({0}) >= 0"}
    when = same.get(fact.kind, "{0}.all(x, x == x)").format(fact.name)
    on = '"result"' if fact.result else '"call"'
    effect = "quarantine" if fact.result else "block"
    policy = Policy.load(texts=[("t", f"[[rules]]\nname = 'a'\neffect = '{effect}'\non = {on}\nwhen = '''{when}'''\n")])
    full = facts(
        mail(unknown=["accepts"], attribution=("urn:org:a",)),
        session=SessionLabel(True, True, frozenset({"pii"}), ("urn:org:a",)),
        provenance=found(to="prompt", n="own:quantity"),
        request=Annotations(open_world=True, attribution=("urn:org:b",)),
        agent={"id": "a"},
        result=DataLabel(True, True, frozenset({"user"}), frozenset({"pii"}), ("urn:org:c",), ("odd",)),
    )
    for given in (full, Facts(tool())):
        ruling = policy.decide_result(given) if fact.result else policy.decide(given)
        assert (ruling.effect, ruling.failed) == (effect, ())


@rows(
    ("changed", "name", "value"),
    [
        ({"destinations": ["user", "internal"]}, "tool.destination", "internal"),
        ({"destinations": ["moon"]}, "tool.destination", "public"),
        ({"destinations": ["moon"]}, "tool.destinations", ["moon", "public"]),
        ({"destinations": []}, "tool.destination", "public"),
        ({"unknown": ["destination"]}, "tool.destination", "public"),
        ({"outcomes": ["odd"]}, "tool.outcomes", "irreversible"),
        ({"unknown": ["outcomes"]}, "tool.outcomes", "consequential"),
        ({"unknown": ["outcomes"]}, "tool.possible_outcomes", ["benign", "consequential", "irreversible"]),
        ({"sources": ["odd"]}, "tool.sources", ["odd", "untrustedPublic"]),
        ({"sources": []}, "tool.sources", ["untrustedPublic"]),
        ({}, "tool.known", True),
        ({"unknown": ["source"]}, "tool.known", False),
    ],
)
def test_what_nobody_knows_counts_as_the_worst(changed, name, value):
    assert read(name, facts(tool(**changed))) == value


def test_a_tool_without_arguments_carries_nothing_outside():
    assert read("tool.egress", facts(mail(), args={})) is False
    assert read("tool.egress", facts(mail(), args={"a": 1})) is True
    assert read("tool.egress", facts(mail(), args=None)) is True


def test_the_worst_place_of_several_values_is_told():
    given = facts(provenance=found(a="prompt", b="nowhere", c="own"))
    assert read("provenance.worst", given) == "nowhere"
    assert read("provenance.unknown", given) == ["b"]
    assert read("provenance.args", given) == {"a": "prompt", "b": "nowhere", "c": "own"}
    assert read("provenance.worst", facts()) == "none"


def test_data_is_what_the_arguments_carry_else_all_that_was_read():
    session = SessionLabel(sensitivity=frozenset({"pii", "regulated:HIPAA"}))
    assert read("data.highest", facts(session=session)) == "regulated"
    assert read("data.restricted", facts(session=session)) is True
    assert read("data.sensitivity", facts(session=session, carried=frozenset({"user"}))) == ["user"]
    assert read("data.restricted", facts(session=session, carried=frozenset({"user"}))) is False
    assert read("data.restricted", facts(carried=frozenset({"com.example.x"}))) is True


def test_without_a_result_the_facts_of_it_are_the_careful_ones():
    assert read("result.open_world", facts()) is True
    assert read("result.sensitivity", facts()) == ["unknown"]


# -- on record -------------------------------------------------------------------------------------------------


def whole():
    return facts(
        mail(unknown=["accepts"]),
        session=SessionLabel(True, False, frozenset({"pii"}), ("urn:org:a",)),
        provenance=found(to="untrusted", amount="own:quantity"),
        request=Annotations(open_world=True),
        agent={"id": "a", "client": "", "transport": "http"},
        carried=frozenset({"pii", "credentials"}),
        steps=4,
        result=DataLabel(True, True, frozenset({"user"}), frozenset({"pii"}), ("urn:org:c",), ("odd",)),
    )


@rows("given", [whole(), facts(), facts(args={}), facts(session=READ, args=None)])
def test_facts_come_back_from_their_record(given):
    record = json.loads(json.dumps(given.to_record()))
    back = Facts.from_record(record, given.args)
    for fact in TABLE:
        assert fact.get(back) == fact.get(given), fact.name


def test_a_record_has_no_arguments_and_can_stand_beside_other_members():
    given = facts(mail(), args={"body": "very secret"})
    record = {"session": "key", "effect": "ask", "rule": "x", **given.to_record()}
    assert "secret" not in json.dumps(record)
    assert record["session"] == "key"
    back = Facts.from_record(record)
    assert back.args is None
    assert read("tool.egress", back) is True


def test_a_record_stays_small_and_keeps_what_is_worst():
    many = found(**{f"p{at}": "prompt" for at in range(1000)}, z="untrusted")
    record = facts(provenance=many, session=SessionLabel(attribution=tuple(map(str, range(1000))))).to_record()
    assert len(json.dumps(record)) < 20_000
    assert record["cut"] is True
    assert read("provenance.untrusted", Facts.from_record(record)) == ["z"]


@rows("record", [None, 3, {}, {"v": 1}, {"v": 2, "tool": {"server": "a", "name": "b"}}, {"v": 1, "tool": {}}])
def test_what_is_no_record_is_refused(record):
    with pytest.raises(ValueError, match="facts"):
        Facts.from_record(record)

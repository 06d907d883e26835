"""The proposal's three example rules, exactly as written there, and what they decide."""

import json
from pathlib import Path

import pytest

from callgate.errors import ConfigError
from callgate.trust.model import Annotations, DataLabel
from callgate.trust.policy import Policy
from support.policies import READ, facts, mail, tool
from support.registry import requirement
from support.table import rows

FILE = Path(__file__).resolve().parents[4] / "examples" / "policy" / "seed-rules.json"


@pytest.fixture
def seed():
    return Policy.load([FILE], default=False)


@requirement("TA-061")
def test_the_three_rules_load_as_they_are(seed):
    assert [(rule.name, rule.effect, rule.on) for rule in seed.rules] == [
        ("block-open-world-to-external", "block", "call"),
        ("escalate-malicious", "ask", "result"),
        ("confirm-irreversible-actions", "ask", "call"),
    ]
    assert json.loads(FILE.read_text())["rules"][0]["conditions"]["and"][0] == {
        "fact": "request.annotations.openWorldHint",
        "equals": True,
    }


@requirement("TA-058")
def test_open_world_to_external_is_blocked_and_either_alone_is_not(seed):
    outside, inside = mail(outcomes=["benign"]), tool()
    assert seed.decide(facts(outside, session=READ)).rule == "block-open-world-to-external"
    assert seed.decide(facts(outside, session=READ)).effect == "block"
    assert seed.decide(facts(outside, request=Annotations(open_world=True))).effect == "block"
    assert seed.decide(facts(outside)).effect == "allow"
    assert seed.decide(facts(inside, session=READ)).effect == "allow"


@rows("changed", [{"destinations": ["user", "public"]}, {"destinations": ["moon"]}, {"destinations": []}])
def test_a_tool_that_may_be_external_is(seed, changed):
    assert seed.decide(facts(tool(**changed), session=READ)).effect == "block"
    unknown = tool(unknown=["destination"])
    assert seed.decide(facts(unknown, session=READ)).effect == "block"


@requirement("TA-059")
def test_a_flagged_response_is_escalated(seed):
    assert seed.decide_result(facts().with_result(DataLabel(True, malicious=True))).effect == "ask"
    assert seed.decide_result(facts().with_result(DataLabel(True))).effect == "allow"
    assert seed.decide(facts()).effect == "allow"


@requirement("TA-060")
@rows(
    ("label", "effect"),
    [
        (tool(outcomes=["irreversible"]), "ask"),
        (tool(outcomes=["benign", "irreversible"]), "ask"),
        (tool(unknown=["outcomes"]), "ask"),
        (tool(outcomes=["catastrophic"]), "ask"),
        (tool(outcomes=["consequential"]), "allow"),
        (tool(), "allow"),
    ],
)
def test_what_may_be_irreversible_is_confirmed(seed, label, effect):
    ruling = seed.decide(facts(label))
    assert (ruling.effect, ruling.rule) == (effect, "confirm-irreversible-actions" if effect == "ask" else "")


def test_the_same_facts_can_be_read_from_arguments_and_by_our_names():
    conditions = {
        "and": [{"fact": "args.path", "equals": '/etc/\u20ac"\\'}, {"fact": "agent.transport", "equals": "stdio"}]
    }
    text = json.dumps({"rules": [{"name": "a", "effect": "block", "conditions": conditions}]})
    policy = Policy.load(texts=[("a.json", text)], default=False)
    args = {"path": '/etc/\u20ac"\\'}
    assert policy.decide(facts(args=args, agent={"transport": "stdio"})).effect == "block"
    assert policy.decide(facts(args=args)).effect == "allow"
    assert policy.decide(facts(args={}, agent={"transport": "stdio"})).effect == "allow"


@rows(
    ("conditions", "told", "line"),
    [
        ({"fact": "tool.anotations.readOnlyHint", "equals": True}, "perhaps tool.annotations.readOnlyHint", 6),
        ({"fact": "tool.annotations.readOnlyHint", "equals": "yes"}, "true or false is wanted", 7),
        ({"fact": "tool.annotations.inputMetadata.outcomes", "equals": "ireversible"}, "perhaps irreversible", 7),
        ({"fact": "tool.name"}, "a condition is", 5),
        ({"fact": "tool.name", "equals": "a", "or": []}, "a condition is", 5),
        ({"and": []}, "at least one", 6),
        ({"and": [[]]}, "a condition is", 7),
        ({"fact": 7, "equals": "a"}, "a string is wanted", 6),
        ({"fact": "args", "equals": "a"}, "there is no fact args", 6),
        ({"fact": "args.a", "equals": ["a"]}, "a string, a number", 7),
    ],
)
def test_a_mistake_is_told_with_its_line(conditions, told, line):
    text = json.dumps({"rules": [{"name": "a", "conditions": conditions, "effect": "block"}]}, indent=1)
    with pytest.raises(ConfigError) as caught:
        Policy.load(texts=[("a.json", text)])
    assert told in caught.value.problems[0].text
    assert caught.value.problems[0].line == line
    assert caught.value.problems[0].text.endswith("^")


def test_mistakes_of_every_kind_are_told_at_once():
    several = [
        {"fact": "request.annotations.openWorldHnt", "equals": True},
        {"fact": "tool.annotations.inputMetadata.destination", "equals": "pubic"},
        {"fact": "tool.name", "equals": 3},
        {"fact": "tool.name", "equals": "fine"},
    ]
    text = json.dumps({"rules": [{"name": "a", "conditions": {"and": several}, "effect": "block"}]})
    with pytest.raises(ConfigError) as caught:
        Policy.load(texts=[("a.json", text)])
    assert [one.key.removeprefix("rules[0].conditions.and") for one in caught.value.problems] == [
        "[0].fact",
        "[2].equals",
        "[1].equals",
    ]
    assert "perhaps public" in caught.value.problems[2].text


@rows(
    ("text", "told"),
    [
        ("[]", "a rule file is a table"),
        ("null", "a rule file is a table"),
        ('{"rules": ' + "1" * 5000 + "}", "more digits"),
        ("rules = " + "1" * 5000, "more digits"),
        ('{"rules": [{"name": "a", "effect": "block", "when": "tool.name == \'\\ud800\'"}]}', "surrogate"),
    ],
)
def test_what_is_no_rule_file_is_told_and_does_not_break(text, told):
    with pytest.raises(ConfigError, match=told):
        Policy.load(texts=[("a.json", text)])


def test_conditions_nested_without_end_are_refused():
    text = '{"rules": [{"name": "a", "effect": "block", "conditions": ' + '{"and": [' * 50 + "]}" * 50 + "}]}"
    with pytest.raises(ConfigError, match="nested too deeply"):
        Policy.load(texts=[("a.json", text)])
    with pytest.raises(ConfigError, match="nested too deeply"):
        Policy.load(texts=[("a.json", '{"a":' * 50_000)])

"""Cases and calls as people write them: what is read, and every mistake with its place."""

import json

import pytest

from callgate.errors import ConfigError
from callgate.trust.model import CLASSES, DESTINATIONS, OUTCOMES, SOURCES
from callgate.trust.policy.cases import known_word, read_call, read_cases
from callgate.trust.policy.condition import Condition, compile_condition
from support.policies import rule, rules
from support.table import rows

CALL = {"server": "mail", "tool": "send", "arguments": {"to": ["a", "b"], "body": {"text": "x"}}}


def mistakes(call, *, place=False):
    with pytest.raises(ConfigError) as caught:
        read_call(json.dumps({**CALL, **call}, indent=1), "call.json")
    return [(one.key, one.text if place else one.text.partition("\n")[0]) for one in caught.value.problems]


@rows(
    ("call", "key", "told"),
    [
        ({"labels": {"destination": "pubic"}}, "labels.destination", "perhaps public"),
        ({"labels": {"outcomes": ["benign", "benig"]}}, "labels.outcomes[1]", "perhaps benign"),
        ({"labels": {"source": "untrusted"}}, "labels.source", "perhaps untrustedPublic"),
        ({"labels": {"accepts": "pi"}}, "labels.accepts", "perhaps pii"),
        ({"labels": {"readonly": True}}, "labels.readonly", "perhaps read_only"),
        ({"labels": {"read_only": "yes"}}, "labels.read_only", "true or false"),
        ({"session": {"sensitivity": ["ppi"]}}, "session.sensitivity[0]", "perhaps pii"),
        ({"session": {"sensitivity": 3}}, "session.sensitivity", "a string or a list"),
        ({"session": {"steps": -1}}, "session.steps", "0 or more"),
        ({"session": []}, "session", "a session is a table"),
        ({"session": {"attribution": "https://a"}}, "session.attribution", "a list of strings"),
        ({"request": {"sensitivity": "pii"}}, "request.sensitivity", "a request has open_world"),
        ({"carried": "finance"}, "carried", "perhaps financial"),
        ({"agent": {"transport": "htp"}}, "agent.transport", "perhaps http"),
        ({"agent": {"name": "x"}}, "agent.name", "there is no such key"),
        ({"result": {"source": ["moon"]}}, "result.source[0]", 'there is no "moon"'),
        ({"result": {"sensitivity": "credential"}}, "result.sensitivity", "perhaps credentials"),
        ({"provenance": {"too": "untrusted"}}, "provenance.too", "perhaps to"),
        ({"provenance": {"to": "untrustd"}}, "provenance.to", "perhaps untrusted"),
        ({"provenance": "untrusted"}, "provenance", "where each argument was found"),
        ({"provenance": [{"path": "cc", "found": "own"}]}, "provenance[0].path", "no argument of this call"),
        ({"provenance": [{"path": "to", "found": "own", "kind": "lnk"}]}, "provenance[0].kind", "perhaps link"),
        ({"provenance": [{"path": "to"}]}, "provenance[0]", "the value has no found"),
        ({"foreign_links": ["body.txt"]}, "foreign_links[0]", "perhaps body.text"),
        ({"arguments": []}, "arguments", "is a table"),
        ({"tool": ""}, "tool", "the name of a tool"),
        ({"tol": "send"}, "tol", "perhaps tool"),
        ({"expect": "allow"}, "expect", "there is no such key"),
    ],
)
def test_a_mistake_in_a_call_is_told_with_its_key(call, key, told):
    [(where, text)] = mistakes(call)
    assert where == key
    assert told in text


def test_every_mistake_is_told_at_once_with_line_and_caret():
    found = mistakes({"labels": {"outcomes": "benig"}, "session": {"open_word": True}}, place=True)
    assert [key for key, _ in found] == ["labels.outcomes", "session.open_word"]
    line, caret = found[0][1].splitlines()[1:]
    assert line[caret.index("^") :].startswith('"benig"')


@rows("path", ["to", "to[1]", "body", "body.text"])
def test_arguments_are_named_by_their_paths(path):
    facts = read_call(json.dumps({**CALL, "provenance": {path: "untrusted"}}), "a").facts()
    assert [one.path for one in facts.provenance.values] == [path]


@rows("words", [CLASSES, DESTINATIONS, OUTCOMES, SOURCES])
def test_the_words_are_those_that_rules_are_checked_against(words):
    fact = {CLASSES: "session.sensitivity", DESTINATIONS: "tool.destinations", OUTCOMES: "tool.possible_outcomes"}
    for word in (*words, "ppi", "regulated:HIPAA", "com.example.payroll", "regulated", "pubic", ""):
        compiled = compile_condition(f'"{word}" in {fact.get(words, "tool.sources")}', result=False)
        assert known_word(word, words) == isinstance(compiled, Condition), word


def test_classes_of_ones_own_stay_good():
    call = {**CALL, "session": {"sensitivity": ["com.example.payroll", "regulated:HIPAA"]}, "carried": "user"}
    facts = read_call(json.dumps(call), "a").facts()
    assert facts.session.sensitivity == {"com.example.payroll", "regulated:HIPAA"}
    assert facts.carried == {"user"}


@rows("key", ["labels", "request", "own_words", "carried", "result"])
def test_what_is_null_is_left_out(key):
    assert read_call(json.dumps({**CALL, key: None}), "a") == read_call(json.dumps(CALL), "a")


@rows("value", ["2026-01-02", "2026-01-02T03:04:05Z", "07:30:00", "inf", "[1, nan]"])
def test_arguments_are_what_json_can_say(value):
    with pytest.raises(ConfigError, match="write a string"):
        read_call(f'tool = "t"\n[arguments]\nx = {value}\n', "call.toml")


def case(**changed):
    return {"name": "n", "tool": "t", "expect": "allow", **changed}


def told(*several, policy=None):
    with pytest.raises(ConfigError) as caught:
        read_cases(json.dumps({"cases": several}), "cases.json", None if policy is None else policy.rules)
    return [f"{one.key}: {one.text.partition(chr(10))[0]}" for one in caught.value.problems]


def test_a_case_has_a_name_a_tool_and_something_to_expect():
    assert [one.partition(";")[0] for one in told({})] == [
        "cases[0]: a case has a tool",
        "cases[0]: the case has no name",
        "cases[0]: the case has no expect",
    ]
    assert told(3) == ["cases[0]: a case is a table"]


def test_what_is_expected_is_something_that_can_come_out():
    assert "one of allow, ask, block, perhaps allow" in told(case(expect="alow"))[0]
    assert "one of allow, ask, block" in told(case(expect="quarantine"))[0]
    assert "one of allow, warn, mask, ask, quarantine" in told(case(expect="block", result={}))[0]
    assert read_cases(json.dumps({"cases": [case(expect="warn", result={})]}), "a")[0].expect == "warn"


def test_the_rule_is_one_that_can_speak():
    policy = rules(
        rule("large-payment", "ask", "tool.egress"), rule("flagged", "warn", "result.malicious", on='"result"')
    )
    assert "perhaps large-payment" in told(case(rule="larg-payment"), policy=policy)[0]
    assert "a rule on results, and the case has no result" in told(case(rule="flagged"), policy=policy)[0]
    assert "a rule on calls, and the case has a result" in told(case(rule="large-payment", result={}), policy=policy)[0]
    assert read_cases(json.dumps({"cases": [case(rule="large-payment")]}), "a", policy.rules)
    assert read_cases(json.dumps({"cases": [case(rule="anything")]}), "a")


@rows(
    ("text", "what"),
    [
        ("", "from 1 to 1000 cases"),
        ("[]", "a file of cases is a table"),
        ("cases = []", "from 1 to 1000 cases"),
        ("[[case]]\nname = 'a'", "perhaps cases"),
        ('[[cases]]\nname = "a"\nname = "b"', "not valid TOML"),
        ("[[cases]", "not valid TOML"),
    ],
)
def test_a_file_without_cases(text, what):
    with pytest.raises(ConfigError, match=what) as caught:
        read_cases(text, "my cases.toml")
    assert caught.value.advice.endswith("right, then run `callgate policy test 'my cases.toml'`.")

"""An agent sends arguments so long, so many or so odd that a rule could stall on them, or look past what they hide."""

import pytest

from callgate.errors import ConfigError
from support.policies import facts, rule, rules

LONG = 64 * 1024


@pytest.mark.parametrize(
    "args",
    [
        {"text": "a" * (LONG + 1)},
        {"text": "é" * (LONG + 1)},
        {"text": "a" * 50_000_000},
        {"text": ["a" * (LONG + 1)]},
        {"text": {"deep": {"er": "a" * (LONG + 1)}}},
        {"text": [0] * 10_001},
        {"text": ["a" * 60_000] * 5},
        {"text": 10**30},
        {"text": "\ud800"},
        {"text": object()},
    ],
    ids=["long", "wide", "huge", "in a list", "in an object", "many", "much", "number", "half a pair", "no JSON"],
)
@pytest.mark.parametrize(("effect", "counts"), [("ask", "ask"), ("block", "block"), ("allow", "ask")])
def test_a_rule_that_cannot_read_an_argument_whole_counts_as_if_it_held(args, effect, counts):
    """Cutting the text off would let whatever stands behind the cut pass."""
    policy = rules(rule("look", effect, 'has(args.text) && args.text == "bad"'))
    ruling = policy.decide(facts(args=args))
    assert (ruling.effect, ruling.rule) == (counts, "look")
    assert "'text'" in ruling.failed[0].error
    assert len(ruling.say) < 400


def test_a_rule_that_does_not_read_the_long_argument_is_not_disturbed():
    policy = rules(
        rule("to", "block", 'has(args.to) && args.to == "eve"'), rule("any", "ask", "args.exists(k, k == 'x')")
    )
    long = {"body": "a" * (LONG + 1)}
    assert [one.rule for one in policy.decide(facts(args={"to": "eve", **long})).matched] == ["to", "any"]
    assert [one.rule for one in policy.decide(facts(args={"to": "bob", **long})).matched] == ["any"]


def test_a_text_at_the_limit_is_read_to_its_last_character():
    policy = rules(rule("look", "block", 'args.text.contains("needle")'))
    assert policy.decide(facts(args={"text": "a" * (LONG - 6) + "needle"})).effect == "block"
    assert policy.decide(facts(args={"text": "a" * LONG})).effect == "allow"


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a+)+$", "(a|aa)+c", "(.*)(.*)(.*)(.*)(.*)(.*)x", "(a{0,30}){0,30}b"])
def test_patterns_that_explode_elsewhere_have_an_answer(pattern):
    policy = rules(rule("look", "ask", f'args.text.matches("{pattern}")'), rule("not", "block", "args.text == 'x'"))
    ruling = policy.decide(facts(args={"text": "a" * LONG}))
    assert ruling.failed == ()


def test_an_agent_cannot_bring_its_own_pattern():
    with pytest.raises(ConfigError, match="has to be written out"):
        rules(rule("look", "block", "args.text.matches(args.pattern)"))


@pytest.mark.parametrize(
    ("when", "args"),
    [
        ("args.list.exists(a, args.list.exists(b, a == b && a == -1))", {"list": list(range(1000))}),
        ("args.list.exists(a, args.text.contains(a))", {"list": ["x"] * 5000, "text": "a" * 60_000}),
        ("args.list.exists(a, (args.text + a).matches('b+c'))", {"list": ["x"] * 900, "text": "a" * 60_000}),
    ],
)
def test_loops_over_loops_end_and_count_as_failed(when, args):
    ruling = rules(rule("look", "block", when)).decide(facts(args=args))
    assert ruling.effect == "block"
    assert ruling.failed


def test_one_greedy_rule_does_not_switch_off_the_others():
    greedy = rule("greedy", "ask", "args.list.exists(a, args.list.exists(b, a == b && a == -1))")
    policy = rules(greedy, rule("look", "block", 'has(args.to) && args.to == "eve"'))
    ruling = policy.decide(facts(args={"list": list(range(1000)), "to": "eve"}))
    assert (ruling.effect, ruling.rule) == ("block", "look")

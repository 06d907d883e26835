"""An agent sends arguments so long, so many or so odd that a rule could stall on them, or look past what they hide."""

import pytest

from callgate.errors import ConfigError
from support.policies import facts, rule, rules
from support.table import rows
from support.trust_gateway import ASKED, ERAS, reason, said, tool, trust_site

LONG = 64 * 1024
HUGE = 3_000_000
EXPLODES = "(a*)*b"


@rows(
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
@rows(("effect", "counts"), [("ask", "ask"), ("block", "block"), ("allow", "ask")])
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


@rows("pattern", ["(a*)*b", "(a+)+$", "(a|aa)+c", "(.*)(.*)(.*)(.*)(.*)(.*)x", "(a{0,30}){0,30}b"])
def test_patterns_that_explode_elsewhere_have_an_answer(pattern):
    policy = rules(rule("look", "ask", f'args.text.matches("{pattern}")'), rule("not", "block", "args.text == 'x'"))
    ruling = policy.decide(facts(args={"text": "a" * LONG}))
    assert ruling.failed == ()


def test_an_agent_cannot_bring_its_own_pattern():
    with pytest.raises(ConfigError, match="has to be written out"):
        rules(rule("look", "block", "args.text.matches(args.pattern)"))


@rows(
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


@pytest.fixture(
    scope="module", params=["ask", *(pytest.param(one, marks=pytest.mark.verify) for one in ("block", "allow"))]
)
def ruled(request, tmp_path_factory):
    """A gateway with one rule that compares a text and one that holds a pattern against one, both of this effect."""
    directory = tmp_path_factory.mktemp("ruled")
    written = (
        rule("look", request.param, 'has(args.text) && args.text == "bad"'),
        rule("match", request.param, f'has(args.matched) && args.matched.matches("{EXPLODES}")'),
    )
    (directory / "policy.toml").write_text("".join(f"[[rules]]\n{one}\n" for one in written), encoding="utf-8")
    servers = {"shop": {"tools": [tool("order", "text", "matched", "other")], "http": True}}
    trust = {"policy": "policy.toml", "default_policy": False}
    with trust_site(directory, servers, trust=trust, approval={"park_seconds": 0}) as site:
        site.effect = request.param
        yield site


def order(site, era, **arguments):
    """How a call ends, by which rule; a call that is refused never reaches the server."""
    office = site.servers["shop"]
    before = len(office.calls())
    answer = site.agent(era).call("shop", "order", **arguments)
    trust = site.trust_of("order")
    if "error" not in answer:
        assert said(answer) == "done"
        assert office.calls()[before:][0]["arguments"] == arguments
        return "passes", trust["effect"], trust["rule"]
    assert len(office.calls()) == before
    return reason(answer), trust["effect"], trust["rule"]


ENDS = {"block": "rule_blocked", "ask": ASKED, "allow": "passes"}
# No person can be shown so much.
TOO_MUCH = ENDS | {"ask": "arguments_invalid"}


def held(site, name):
    """How a call ends where this rule holds."""
    return ENDS[site.effect], site.effect, name


def broken(site, name, ends=ENDS):
    """How one ends where it cannot be told whether this rule holds: never by letting it pass."""
    effect = "ask" if site.effect == "allow" else site.effect
    return ends[effect], effect, name


NOTHING_HELD = ("passes", "allow", "")


@rows("era", ERAS)
def test_over_the_wire_an_argument_too_long_for_a_rule_is_not_looked_past(ruled, era):
    assert order(ruled, era, text="bad") == held(ruled, "look")
    assert order(ruled, era, text="good") == NOTHING_HELD
    assert order(ruled, era, text="a" * (LONG + 1)) == broken(ruled, "look")
    assert order(ruled, era, text="a" * HUGE) == broken(ruled, "look", TOO_MUCH)
    # It is no reason to refuse what no rule reads.
    assert order(ruled, era, text="good", other="a" * HUGE) == NOTHING_HELD
    assert ruled.gateway.process.poll() is None


@rows("era", ERAS)
def test_over_the_wire_a_pattern_that_explodes_elsewhere_has_an_answer(ruled, era):
    """Nobody measures the time: an engine that tries every way to part these letters never comes back."""
    assert order(ruled, era, matched="a" * (LONG - 1) + "b") == held(ruled, "match")
    assert order(ruled, era, matched="a" * LONG) == NOTHING_HELD
    assert order(ruled, era, matched="a" * LONG + "b") == broken(ruled, "match")
    assert order(ruled, era, matched="a" * HUGE + "b") == broken(ruled, "match", TOO_MUCH)
    assert order(ruled, era, matched="a") == NOTHING_HELD

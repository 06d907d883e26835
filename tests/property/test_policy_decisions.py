"""What is remembered between decisions changes none of them: each equals the rules evaluated one by one, from scratch."""

import string

from hypothesis import given, settings
from hypothesis import strategies as st

from callgate.trust.model import FOUND, Annotations, Provenance, SessionLabel, Traced
from callgate.trust.policy import Facts, Policy
from callgate.trust.policy.condition import environment
from callgate.trust.policy.engine import value_of
from callgate.trust.policy.facts import FACTS, KINDS, plain
from support.policies import rule, tool

OWN = [
    rule("amount", "ask", "args.amount > 10"),
    rule("amount-guarded", "block", "has(args.amount) && args.amount > 20 && session.open_world"),
    rule("to", "block", 'has(args.to) && args.to.startsWith("a") && tool.destination == "public"'),
    rule("any", "ask", "args.exists(k, k == 'body')"),
    rule("steps", "ask", "session.steps > 2 && !tool.read_only"),
    rule("request", "ask", 'request.attribution.exists(u, u == "urn:org:a")'),
    rule("agent", "block", 'agent.id == "b" && "pii" in data.sensitivity'),
    rule("mine", "allow", 'has(args.to) && args.to == "ab"', override='["stranger-decides", "unknown-value"]'),
]
KEPT = Policy.load(texts=[("own", "\n".join(f"[[rules]]\n{one}" for one in OWN))])
DEFAULT = Policy.load()
ADDED = Policy.load(texts=[("own", "\n".join(f"[[rules]]\n{one}" for one in OWN[:-1]))])
ORDER = ("allow", "ask", "block")

tools = st.builds(
    tool,
    destinations=st.lists(st.sampled_from(["user", "public", "odd"]), max_size=2),
    outcomes=st.lists(st.sampled_from(["benign", "irreversible"]), max_size=2),
    read_only=st.booleans(),
    unknown=st.lists(st.sampled_from(["destination", "outcomes"]), max_size=1),
)
sessions = st.builds(
    SessionLabel,
    open_world=st.booleans(),
    malicious=st.booleans(),
    sensitivity=st.frozensets(st.sampled_from(["pii", "credentials"])),
)
values = st.builds(
    Traced, st.sampled_from("abc"), st.sampled_from(KINDS), st.sampled_from(FOUND), st.booleans(), st.text(max_size=3)
)
provenances = st.builds(
    Provenance,
    st.lists(values, max_size=3).map(tuple),
    st.lists(values, max_size=1).map(tuple),
    st.booleans(),
    st.booleans(),
)
arguments = st.dictionaries(
    st.sampled_from(["to", "amount", "body"]),
    st.integers(0, 30) | st.text(string.ascii_lowercase[:3], max_size=2) | st.none(),
)
calls = st.builds(
    Facts,
    tool=tools,
    session=sessions,
    provenance=provenances,
    args=arguments,
    request=st.none() | st.builds(Annotations, attribution=st.sampled_from([(), ("urn:org:a",)])),
    agent=st.sampled_from([{}, {"id": "b"}]),
    carried=st.none() | st.frozensets(st.sampled_from(["pii", "credentials"])),
    steps=st.integers(0, 5),
)


def from_scratch(facts):
    """Effect, and the names of the rules that count."""
    data = {name: plain(fact.kind, fact.get(facts)) for name, fact in FACTS.items() if not fact.result}
    data["args"] = facts.args
    activation = environment(result=False).Activation(data=data)
    held = {}
    for one in KEPT.rules:
        if one.on == "call":
            value, _ = value_of(one.condition.program, activation)
            if value is not False:
                held[one.name] = (one, value)
    off = {name for one, value in held.values() if value for name in one.override}
    counted = {name: pair for name, pair in held.items() if not (name in off and pair[0].default)}
    effects = [one.effect if value else max(one.effect, "ask", key=ORDER.index) for one, value in counted.values()]
    return max(effects, key=ORDER.index, default="allow"), set(counted)


@settings(max_examples=50, deadline=None)
@given(st.lists(calls, min_size=1, max_size=8))
def test_remembered_or_not_the_decision_is_the_same(several):
    for facts in [*several, *several]:
        ruling = KEPT.decide(facts)
        assert (ruling.effect, {one.rule for one in ruling.matched}) == from_scratch(facts)


@settings(max_examples=50, deadline=None)
@given(calls)
def test_no_rule_of_ours_can_make_a_call_freer_without_naming_what_it_switches_off(facts):
    assert ORDER.index(ADDED.decide(facts).effect) >= ORDER.index(DEFAULT.decide(facts).effect)

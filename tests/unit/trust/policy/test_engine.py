from callgate.trust.model import Annotations, DataLabel, SessionLabel
from callgate.trust.policy import Policy
from support.policies import READ, facts, found, mail, rule, rules, tool
from support.registry import requirement
from support.table import rows


def test_nothing_matches_and_the_call_is_allowed():
    ruling = rules(rule("a", "block", "session.open_world")).decide(facts())
    assert (ruling.effect, ruling.rule, ruling.matched) == ("allow", "", ())


@requirement("TA-048", "TA-049")
@rows("effect", ["ask", "block"])
def test_a_rule_has_its_effect_where_it_holds_and_only_there(effect):
    policy = rules(rule("outside", effect, 'tool.destination == "public"', say='"Not outside."'))
    ruling = policy.decide(facts(mail()))
    assert (ruling.effect, ruling.rule, ruling.say) == (effect, "outside", "Not outside.")
    assert policy.decide(facts()).effect == "allow"


@requirement("TA-050")
def test_confirm_of_the_proposal_asks_a_person():
    text = (
        '{"rules": [{"name": "c", "effect": "confirm", "conditions": {"fact": "tool.name", "equals": "send_email"}}]}'
    )
    policy = Policy.load(texts=[("c.json", text)], default=False)
    assert policy.decide(facts(mail())).effect == "ask"
    assert policy.decide(facts()).effect == "allow"


def test_the_strictest_effect_wins_whatever_the_order():
    texts = [
        rule("a", "allow", "tool.read_only"),
        rule("b", "ask", "tool.name == 'read'"),
        rule("c", "block", "!tool.open_world"),
    ]
    for order in (texts, texts[::-1]):
        ruling = rules(*order).decide(facts())
        assert (ruling.effect, ruling.rule) == ("block", "c")
        assert [one.rule for one in ruling.matched] == ["c", "b", "a"]


def test_of_equal_effects_the_first_speaks():
    policy = rules(rule("first", "ask", "tool.read_only"), rule("second", "ask", "!tool.open_world"))
    assert policy.decide(facts()).rule == "first"


def test_an_allow_alone_does_not_weaken_a_rule():
    policy = rules(rule("mine", "allow", 'tool.server == "mail"'), default=True)
    assert policy.decide(facts(mail(), session=READ, provenance=found(to="untrusted"))).effect == "ask"


def test_an_allow_switches_off_the_default_rules_that_it_names_and_no_others():
    allow = rule("mine", "allow", 'tool.server == "mail"', override='["stranger-decides"]')
    policy = rules(allow, default=True)
    call = facts(mail(), session=READ, provenance=found(to="untrusted"))
    ruling = policy.decide(call)
    assert (ruling.effect, ruling.rule, ruling.overridden) == ("allow", "mine", ("stranger-decides",))
    flagged = facts(mail(), session=SessionLabel(True, True), provenance=found(to="untrusted"))
    assert policy.decide(flagged).rule == "after-malicious-content"
    elsewhere = facts(mail(server="chat"), session=READ, provenance=found(to="untrusted"))
    assert policy.decide(elsewhere).rule == "stranger-decides"


@rows(("effect", "counts"), [("allow", "ask"), ("ask", "ask"), ("block", "block")])
def test_a_rule_that_fails_counts_as_its_effect_or_ask_and_says_so(effect, counts):
    ruling = rules(rule("a", effect, "args.amount > 3")).decide(facts(args={"to": "x"}))
    assert (ruling.effect, ruling.rule) == (counts, "a")
    assert "could not be evaluated" in ruling.say
    assert "amount" in ruling.failed[0].error


def test_an_allow_that_fails_switches_nothing_off():
    allow = rule("mine", "allow", "args.amount > 3", override='["stranger-decides"]')
    ruling = rules(allow, default=True).decide(facts(mail(), session=READ, provenance=found(to="untrusted")))
    assert ruling.effect == "ask"
    assert ruling.overridden == ()
    assert "stranger-decides" in [one.rule for one in ruling.matched]


def test_a_failing_part_that_does_not_matter_is_no_failure():
    policy = rules(rule("a", "block", 'tool.server == "bank" && args.amount > 3'))
    assert policy.decide(facts()).effect == "allow"


def test_arguments_decide_anew_for_each_call():
    policy = rules(rule("large", "ask", "has(args.amount) && args.amount > 1000"))
    amounts = [5, 5000, 7, 1001, 1000]
    assert [policy.decide(facts(args={"amount": n})).effect for n in amounts] == [
        "allow",
        "ask",
        "allow",
        "ask",
        "allow",
    ]


def test_several_rules_on_arguments_are_told_apart():
    policy = rules(
        rule("a", "ask", 'has(args.x) && args.x == "a"'),
        rule("b", "block", 'has(args.x) && args.x == "b"'),
        rule("c", "ask", "args.missing == 1 && has(args.y)"),
    )
    assert policy.decide(facts(args={"x": "a"})).rule == "a"
    assert policy.decide(facts(args={"x": "b"})).rule == "b"
    assert policy.decide(facts(args={"x": "c"})).effect == "allow"
    assert policy.decide(facts(args={"x": "c", "y": 1})).rule == "c"


def test_a_comment_at_the_end_of_a_condition_does_not_swallow_the_next_one():
    policy = rules(
        rule("a", "ask", 'has(args.x) && args.x == "a" // mine'), rule("b", "block", 'has(args.x) && args.x == "b"')
    )
    assert policy.decide(facts(args={"x": "b"})).rule == "b"


def test_what_is_remembered_of_one_call_is_not_used_for_another():
    policy = rules(rule("a", "block", 'session.open_world && "public" in tool.destinations'))
    calls = [facts(mail()), facts(mail(), session=READ), facts(tool(), session=READ), facts(mail(), session=READ)]
    for _ in range(3):
        assert [policy.decide(call).effect for call in calls] == ["allow", "block", "allow", "block"]


def test_the_count_of_steps_is_not_remembered():
    policy = rules(rule("a", "ask", "session.steps > 3"))
    assert [policy.decide(facts(steps=n)).effect for n in (3, 4, 3)] == ["allow", "ask", "allow"]


def test_arguments_that_nobody_kept_count_against_the_call():
    policy = rules(rule("a", "ask", "has(args.amount) && args.amount > 3"), rule("b", "ask", "session.steps > 3"))
    ruling = policy.decide(facts(args=None))
    assert [(one.rule, one.error) for one in ruling.matched] == [("a", "the arguments are not known")]
    assert rules(rule("a", "ask", 'tool.name == "x" && args.amount > 3')).decide(facts(args=None)).effect == "allow"


@requirement("TA-042", "TA-043")
def test_the_requests_own_labels_change_the_decision():
    policy = rules(rule("no-open-world", "block", "request.open_world && tool.destination == 'public'"))
    sent = Annotations(open_world=True)
    assert policy.decide(facts(mail(), request=sent)).effect == "block"
    assert policy.decide(facts(mail(), request=sent)).rule == "no-open-world"
    assert policy.decide(facts(mail(), request=Annotations(open_world=False))).effect == "allow"
    assert policy.decide(facts(mail())).effect == "allow"


def test_a_request_cannot_take_back_what_the_session_has_read():
    policy = rules(rule("a", "block", "request.open_world"))
    assert policy.decide(facts(session=READ, request=Annotations(open_world=False))).effect == "block"


@requirement("TA-052")
def test_the_outcome_of_a_tool_changes_the_decision():
    policy = rules(rule("a", "ask", 'tool.outcomes == "irreversible"'))
    effects = [
        policy.decide(facts(tool(outcomes=[word]))).effect for word in ("benign", "consequential", "irreversible")
    ]
    assert effects == ["allow", "allow", "ask"]


@requirement("TA-074")
def test_an_organisations_own_label_is_matched():
    policy = rules(rule("a", "block", '"com.mycorp.x" in data.sensitivity && tool.egress'))
    read = SessionLabel(sensitivity=frozenset({"com.mycorp.x"}))
    assert policy.decide(facts(mail(), session=read)).effect == "block"
    assert policy.decide(facts(mail(), session=read, carried=frozenset({"user"}))).effect == "allow"


def test_results_have_effects_of_their_own():
    policy = rules(
        rule("warn", "warn", "result.open_world", on='"result"'),
        rule("ask", "ask", '"pii" in result.sensitivity', on='"result"'),
        rule("hold", "quarantine", "result.malicious", on='"result"'),
        rule("call", "block", "session.malicious"),
    )
    labels = [DataLabel(False), DataLabel(True), DataLabel(True, sensitivity=frozenset({"pii"})), DataLabel(True, True)]
    given = [policy.decide_result(facts().with_result(label)).effect for label in labels]
    assert given == ["allow", "warn", "ask", "quarantine"]
    assert policy.decide(facts()).effect == "allow"


def test_a_result_rule_that_fails_is_asked_about():
    policy = rules(rule("a", "warn", "args.x == result.warnings[0]", on='"result"'))
    assert policy.decide_result(facts().with_result(DataLabel(False))).effect == "ask"


def test_a_rule_without_a_condition_is_for_every_call():
    assert rules('name = "all"\neffect = "ask"\n').decide(facts()).effect == "ask"


def test_ten_thousand_kinds_of_calls_leave_little_behind():
    from callgate.trust.policy.engine import KEPT

    policy = rules(rule("a", "ask", "size(provenance.untrusted) > 0"))
    for at in range(3 * KEPT):
        assert policy.decide(facts(tool(tool=f"t{at}"), provenance=found(**{f"p{at}": "prompt"}))).effect == "allow"
    stage = policy.decide.__self__
    assert len(stage._kept) <= KEPT
    assert len(stage._tools) <= KEPT
    assert len(stage._read) <= KEPT

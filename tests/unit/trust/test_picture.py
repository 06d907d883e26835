"""The picture of a session: what is a node, what flows where, and that it stays small."""

import msgspec

from callgate.trust.model import DataLabel, Session, SessionLabel, Step, Traced
from callgate.trust.picture import EARLIER, FLOWS, LANES, SOURCES, STEPS, TEXT, USER, WHY, picture, session_tags
from support.agent_sessions import TRUSTED, UNTRUSTED, step, story, value
from support.table import rows

NOTHING = SessionLabel()


def numbered(*steps):
    return [msgspec.structs.replace(one, seq=at) for at, one in enumerate(steps, 1)]


def drawn(*steps, label=NOTHING, before=0, **options):
    session = Session("k", "agent", 0, 0, label, steps=len(steps) + before)
    made = [msgspec.structs.replace(one, seq=one.seq + before) for one in numbered(*steps)]
    return picture(session, made, **options)


def edges(made):
    return {(edge.source, edge.target, edge.label, edge.tone) for edge in made.edges}


def node(made, name):
    return next(one for one in made.nodes if one.id == name)


def test_a_story_has_its_flows():
    made = drawn(*story())
    assert edges(made) >= {
        (USER, "call-1", "query", "good"),
        ("result-1", "call-3", "id", "plain"),
        ("result-2", "call-4", "recipient", "good"),
        ("result-3", "call-4", "amount", "bad"),
        ("result-5", "call-6", "to", "bad"),
        ("call-1", "result-1", "", "bad"),
        (USER, "call-7", "tag", "good"),
    }
    assert not [edge for edge in made.edges if edge.label == "subject" and edge.target == "call-6"]
    asked, refused = node(made, "call-4"), node(made, "call-6")
    assert (asked.verdict, asked.rule, asked.tone) == ("approved by a person", "stranger-decides", "wait")
    assert (refused.verdict, refused.rule, refused.tone) == ("refused", "secrets-leave", "bad")
    assert made.result(6) is None
    flagged = made.result(5)
    assert [tag.text for tag in flagged.tags] == ["malicious", "open world", "user"]
    assert flagged.warnings == ("It tells the agent to ignore what it was told before.",)
    assert [tag.text for tag in refused.tags] == ["public", "consequential"]


def test_nothing_flows_backwards_or_from_what_gave_nothing():
    made = drawn(
        step("a", "s", value("x", "1", "untrusted", 1, 2, 3)),
        step("b", "s", value("x", "1", "untrusted", 3), label=None),
        step("c", "s", value("x", "1", "untrusted", 2)),
    )
    assert [edge for edge in made.edges if edge.port is not None] == []


def test_only_the_newest_steps_are_drawn_and_the_rest_is_one_node():
    calls = [step(f"t{at}", "s", value("x", "1", "untrusted", at - 1)) for at in range(1, 101)]
    made = drawn(*calls)
    assert (made.folded, len(made.calls), made.calls[0].seq, made.calls[-1].seq) == (100 - STEPS, STEPS, 41, 100)
    assert node(made, EARLIER).title == "40 earlier steps"
    assert (EARLIER, "call-41", "x", "bad") in edges(made)
    assert ("result-41", "call-42", "x", "bad") in edges(made)
    assert made.rows == STEPS + 1


def test_steps_that_the_store_no_longer_has_count_as_earlier():
    made = drawn(step("a", "s", value("x", "1", "untrusted", 3)), before=9)
    assert made.folded == 9
    assert (EARLIER, "call-10", "x", "bad") in edges(made)


def test_the_worst_values_are_drawn_and_all_are_listed():
    values = [value(f"good{at}", "v", "prompt") for at in range(20)] + [value("to", "v", "untrusted", 1, critical=True)]
    made = drawn(step("a"), step("b", "s", *values))
    call = node(made, "call-2")
    assert (call.flows[0].path, len(call.flows), call.more) == ("to", FLOWS, 21 - FLOWS)
    assert len(made.values[2]) == 21


def test_lines_do_not_share_a_lane_while_there_is_room():
    calls = [step("a") for _ in range(6)]
    calls += [step("b", "s", value("x", "1", "untrusted", 1, 2, 3, 4))]
    made = drawn(*calls)
    lanes = {edge.source: edge.lane for edge in made.edges if edge.port is not None}
    assert len(set(lanes.values())) == len(lanes) == SOURCES
    assert made.lanes == SOURCES


def test_a_lane_is_used_again_when_its_line_has_ended():
    pairs = []
    for at in range(10):
        pairs += [step("a"), step("b", "s", value("x", "1", "untrusted", 2 * at + 1))]
    made = drawn(*pairs)
    assert made.lanes <= 2


def test_however_much_flows_the_picture_stays_bounded():
    values = [value("p" * 10_000, "v" * 10_000, "untrusted", *range(1, 60)) for _ in range(300)]
    label = DataLabel(
        True,
        True,
        frozenset("s" * 500 + str(at) for at in range(300)),
        frozenset("c" * 500 + str(at) for at in range(300)),
        ("a" * 5_000,) * 300,
        ("w" * 5_000,) * 300,
    )
    calls = [
        step("t" * 5_000, "s" * 5_000, *values, label=label, rule="r" * 5_000, why="y" * 50_000) for _ in range(60)
    ]
    made = drawn(*calls)
    assert made.lanes <= LANES
    assert len(made.edges) <= STEPS * (FLOWS * SOURCES + 1)
    assert all(len(one.title) <= 16 * TEXT and len(one.why) <= WHY and len(one.warnings) <= 16 for one in made.nodes)
    assert all(edge.lane is None or edge.lane < LANES for edge in made.edges)


@rows(
    ("label", "tone"),
    [
        (UNTRUSTED, "bad"),
        (TRUSTED, "good"),
        (DataLabel(open_world=False), "wait"),
        (DataLabel(False, True, frozenset({"system"})), "bad"),
    ],
)
def test_a_result_is_as_bad_as_its_label(label, tone):
    made = drawn(step("a", label=label))
    assert made.result(1).tone == tone


def test_what_nobody_knows_is_shown_and_counts_as_bad():
    odd = Traced("x", "text", "elsewhere", critical=True, shown="v")
    made = drawn(step("a", "s", odd, verdict="shrugged", tool_label={"destination": 7, "outcomes": ["odd", 3]}))
    call = node(made, "call-1")
    assert (call.verdict, call.tone) == ("shrugged", "bad")
    assert (call.flows[0].where, call.flows[0].tone) == ("elsewhere", "bad")
    assert [tag.text for tag in call.tags] == ["odd"]


def test_an_operators_act_is_a_node_of_its_own():
    act = Step(2, 5, "", "", "", "declassified", "root@host", "it was a test")
    made = picture(Session("k", "a", 0, 0, steps=2), [*numbered(step("a")), act])
    assert (made.calls[-1].kind, made.calls[-1].title) == ("act", "Declassified by root@host")
    assert made.result(2) is None


def test_a_session_without_steps_has_an_empty_picture():
    made = picture(Session("k", "a", 0, 0), [])
    assert (made.nodes, made.edges, made.rows) == ((), (), 0)


def test_labels_of_the_session_are_told_worst_first():
    made = drawn(step("a"), label=SessionLabel(True, True, frozenset({"none", "pii", "credentials"})))
    assert [(tag.text, tag.tone) for tag in made.tags] == [
        ("malicious", "bad"),
        ("open world", "bad"),
        ("credentials", "wait"),
        ("pii", "wait"),
    ]
    assert [tag.text for tag in session_tags(made.session.label)] == ["malicious", "open world", "credentials +1"]


def test_however_many_classes_there_are_the_labels_stay_few():
    made = drawn(step("a"), label=SessionLabel(sensitivity=frozenset(f"x{at:02}" for at in range(40))))
    assert [tag.text for tag in made.tags] == [*(f"x{at:02}" for at in range(16)), "24 more"]


def test_of_what_a_person_was_told_a_step_has_its_sentence_and_each_value_once():
    told = (
        "missing_evidence: A stranger decides. (rule: r)\nDestination: public. Outcome: benign. Source: unknown.\n"
        "to = x@evil.example: ONLY IN TEXT THAT A STRANGER MAY HAVE WRITTEN\n"
        "A link in body: https://evil.example: ONLY IN TEXT THAT A STRANGER MAY HAVE WRITTEN\nSources: mcp://mail"
    )
    to = value("to", "x@evil.example", "untrusted", critical=True)
    refused = step("send", "mail", to, verdict="refuse", rule="r", why=told, label=None)
    allowed = step("send", "mail", to, rule="r", why="rule_blocked: is what this rule says of itself.")
    made = drawn(refused, allowed)
    call = node(made, "call-1")
    assert (call.why, call.reason) == ("A stranger decides.", "missing_evidence")
    assert [(one.path, one.shown) for one in made.values[1]] == [
        ("to", "x@evil.example"),
        ("a link in body", "https://evil.example"),
    ]
    assert (node(made, "call-2").why, node(made, "call-2").reason) == (allowed.why, "")

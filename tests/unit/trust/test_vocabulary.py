"""Annotations as peers write them: what is read, what is unknown, and what is told of it."""

from hypothesis import given
from hypothesis import strategies as st

from callgate.trust.labels import Labels, ServerWords
from callgate.trust.model import Annotations, class_rank, highest
from callgate.trust.vocabulary import (
    MAX_ATTRIBUTION,
    MAX_ATTRIBUTION_CHARS,
    MAX_PROBLEMS,
    MAX_SCOPES,
    Vocabulary,
    is_organisation_label,
    read_ifc,
)
from support.registry import requirement
from support.table import rows

READ = Vocabulary()
INPUT = {"destination": "ephemeral", "sensitivity": "none", "outcomes": "benign"}
RETURN = {"source": "user", "sensitivity": "none"}
DROP = object()


def changed(table, **members):
    return {key: value for key, value in (table | members).items() if value is not DROP}


def read(**members):
    return READ.annotations(members)


def label(**members):
    """The label of a tool of a trusted server that declares this: nothing but the reading can make it strict."""
    labels = Labels({"s": ServerWords(trusted=True)})
    labels.declare("s", {"t": read(**members)})
    return labels.of("s", "t", {})


UNLABELLED = Labels({"s": ServerWords(trusted=True)}).of("s", "t", {})


def test_what_the_standard_and_the_extension_have():
    said = read(
        title="Read",
        readOnlyHint=True,
        destructiveHint=False,
        idempotentHint=True,
        openWorldHint=False,
        maliciousActivityHint=False,
        attribution=["mcp://files/a", "https://x.example/b"],
        inputMetadata=INPUT,
        returnMetadata=RETURN,
    )
    assert said.problems == ()
    assert (said.read_only, said.destructive, said.idempotent, said.open_world, said.malicious) == (
        True,
        False,
        True,
        False,
        False,
    )
    assert said.attribution == ("mcp://files/a", "https://x.example/b")
    assert said.input.destination == {"ephemeral"}
    assert said.returns.source == {"user"}


@requirement("TA-004")
def test_a_list_is_a_set_of_possible_values_and_the_worst_one_counts():
    said = label(
        inputMetadata={"destination": ["user", "public"], "sensitivity": "none", "outcomes": ["benign", "irreversible"]}
    )
    assert said.outcomes == {"benign", "irreversible"}
    assert said.outcome == "irreversible"
    assert said.destination == "public"
    assert said.may_be_irreversible


@requirement("TA-003")
def test_a_listing_says_what_may_happen():
    assert label(openWorldHint=True).open_world
    assert not label(openWorldHint=False).open_world
    # Nothing said is not "never".
    assert label().open_world


@requirement("TA-015")
@rows("value", ["ephemeral", "system", "user", "internal", "public"])
def test_every_destination(value):
    said = label(inputMetadata=changed(INPUT, destination=value))
    assert said.destinations == {value}
    assert "destination" not in said.unknown


@requirement("TA-015")
@rows("value", ["moon", "Public", " user", "", ["user", "moon"], [], 5, None, True, {"a": 1}, [["user"]]])
def test_no_other_destination(value):
    read_in = read(inputMetadata=changed(INPUT, destination=value))
    said = label(inputMetadata=changed(INPUT, destination=value))
    assert said.destination == "public"
    assert "destination" in said.unknown
    assert read_in.problems


def test_a_word_that_nobody_knows_is_kept_to_be_seen():
    said = read(inputMetadata=changed(INPUT, destination="moon"))
    assert said.input.destination == {"moon"}
    assert "'moon'" in said.problems[0].text
    assert said.problems[0].path == "annotations.inputMetadata.destination"


@requirement("TA-016")
@rows("value", ["benign", "consequential", "irreversible"])
def test_every_outcome(value):
    said = label(inputMetadata=changed(INPUT, outcomes=value))
    assert said.outcome == value
    assert "outcomes" not in said.unknown


@requirement("TA-016", "TA-060")
@rows("value", ["harmless", "BENIGN", ["benign", "harmless"], [], 0, None])
def test_no_other_outcome_and_it_may_then_be_irreversible(value):
    said = label(inputMetadata=changed(INPUT, outcomes=value))
    assert said.outcome == "consequential"
    assert said.may_be_irreversible
    assert "outcomes" in said.unknown


@requirement("TA-017")
@rows("value", ["untrustedPublic", "trustedPublic", "internal", "user", "system"])
def test_every_source(value):
    said = label(returnMetadata=changed(RETURN, source=value))
    assert said.sources == {value}
    assert said.trusted_source is (value != "untrustedPublic")


@requirement("TA-017")
@rows("value", ["me", "System", ["user", "me"], [], 1, None, [None]])
def test_no_other_source(value):
    said = label(returnMetadata=changed(RETURN, source=value))
    assert not said.trusted_source
    assert "source" in said.unknown


@requirement("TA-018")
@rows(
    ("value", "classes"),
    [
        ("none", {"none"}),
        ("user", {"user"}),
        ("pii", {"pii"}),
        ("financial", {"financial"}),
        ("credentials", {"credentials"}),
        ({"regulated": {"scopes": ["HIPAA"]}}, {"regulated:HIPAA"}),
        ({"regulated": {"scopes": []}}, {"regulated"}),
        (["pii", "user"], {"pii", "user"}),
        (["pii", {"regulated": {"scopes": ["GDPR", "SOX"]}}], {"pii", "regulated:GDPR", "regulated:SOX"}),
    ],
)
def test_every_form_of_a_class(value, classes):
    said = read(returnMetadata=changed(RETURN, sensitivity=value))
    assert said.returns.sensitivity == classes
    assert said.problems == ()


@requirement("TA-018")
@rows(
    "value",
    [
        "secret",
        "PII",
        "regulated",
        "regulated:HIPAA",
        "unknown",
        ["pii", "secret"],
        [],
        5,
        None,
        True,
        [5],
        [["pii"]],
        {"regulated": []},
        {"regulated": {"scopes": "HIPAA"}},
        {"regulated": {"scopes": [5]}},
        {"regulated": {"scopes": [""]}},
        {"regulated": {"scopes": ["a\nb"]}},
        {"regulated": {"scopes": ["x"] * (MAX_SCOPES + 1)}},
        [{"regulated": {"scopes": [f"{at}" for at in range(MAX_SCOPES)]}}] * 3,
        {"scopes": ["HIPAA"]},
        {},
    ],
)
def test_nothing_else_is_a_class(value):
    said = read(returnMetadata=changed(RETURN, sensitivity=value))
    assert said.problems
    assert said.returns is None or class_rank(highest(said.returns.sensitivity)) == class_rank("unknown")


@requirement("TA-019")
@rows("scope", ["GDPR", "CCPA", "HIPAA", "GLBA", "PCI-DSS", "FERPA", "COPPA", "SOX", "Our own: 7"])
def test_any_scope_is_kept(scope):
    said = label(returnMetadata=changed(RETURN, sensitivity={"regulated": {"scopes": [scope]}}))
    assert f"regulated:{scope}" in said.returns


@requirement("TA-026")
@rows("member", ["destination", "sensitivity", "outcomes"])
def test_input_metadata_is_whole_or_nothing(member):
    assert label(inputMetadata=INPUT).outcome == "benign"
    said = label(inputMetadata=changed(INPUT, **{member: DROP}))
    assert (said.destinations, said.outcomes, said.unknown) == (
        UNLABELLED.destinations,
        UNLABELLED.outcomes,
        UNLABELLED.unknown,
    )
    assert f"{member} missing" in read(inputMetadata=changed(INPUT, **{member: DROP})).problems[0].text


@requirement("TA-027")
@rows("member", ["source", "sensitivity"])
def test_return_metadata_is_whole_or_nothing(member):
    assert label(returnMetadata=RETURN).trusted_source
    said = label(returnMetadata=changed(RETURN, **{member: DROP}))
    assert (said.sources, said.returns, said.unknown) == (UNLABELLED.sources, UNLABELLED.returns, UNLABELLED.unknown)


@requirement("TA-028")
@rows(
    "members",
    [
        {"inputMetadata": INPUT | {"extra": 1}, "returnMetadata": RETURN | {"extra": None}},
        {
            "inputMetadata": INPUT | {"sensitivity": {"regulated": {"scopes": ["SOX"], "more": 1}}},
            "returnMetadata": RETURN | {"sensitivity": {"regulated": {"scopes": ["SOX"]}, "more": 1}},
        },
    ],
)
def test_a_member_too_many_and_the_object_is_unknown(members):
    said = label(**members)
    assert (said.destinations, said.outcomes, said.sources) == (
        UNLABELLED.destinations,
        UNLABELLED.outcomes,
        UNLABELLED.sources,
    )
    assert said.unknown == UNLABELLED.unknown
    assert len(read(**members).problems) == 2


@rows(
    ("name", "field", "worst"),
    [
        ("readOnlyHint", "read_only", False),
        ("destructiveHint", "destructive", True),
        ("idempotentHint", "idempotent", False),
        ("openWorldHint", "open_world", True),
        ("maliciousActivityHint", "malicious", True),
    ],
)
@rows("value", ["false", "true", 0, 1, [], {}])
def test_a_hint_of_another_type_is_the_worst_it_could_be(name, field, worst, value):
    said = read(**{name: value})
    assert getattr(said, field) is worst
    assert [problem.path for problem in said.problems] == [f"annotations.{name}"]


@rows("value", [None, 5, "x", [], True])
def test_annotations_that_are_no_object(value):
    said = READ.annotations(value)
    assert said.open_world is True
    assert said.problems


def test_attribution_is_bounded():
    said = read(attribution=[f"mcp://s/{at}" for at in range(MAX_ATTRIBUTION + 9)])
    assert len(said.attribution) == MAX_ATTRIBUTION
    assert "the rest is left out" in said.problems[0].text
    long = read(attribution=["mcp://s/" + "x" * MAX_ATTRIBUTION_CHARS, "mcp://s/ok", "a\x1b[31m", "\u202eabc", 5, ""])
    assert long.attribution == ("mcp://s/ok",)
    assert len(long.problems) == 5
    assert read(attribution="mcp://s/x").attribution == ()


def test_problems_are_bounded_and_show_nothing_that_a_terminal_obeys():
    said = read(attribution=["\x1b[31m" + "x" * 600] * 60)
    assert len(said.problems) <= MAX_PROBLEMS
    assert all("\x1b" not in problem.text and len(problem.text) < 200 for problem in said.problems)


@requirement("TA-074")
def test_an_organisations_own_class_is_known_where_it_is_defined():
    own = Vocabulary(["com.mycorp.x"])
    for value in ("com.mycorp.x", {"regulated": {"scopes": ["com.mycorp.x"]}}):
        said = own.annotations({"returnMetadata": changed(RETURN, sensitivity=value)})
        assert said.returns.sensitivity == {"com.mycorp.x"}
        assert said.problems == ()
    elsewhere = READ.annotations({"returnMetadata": changed(RETURN, sensitivity="com.mycorp.x")})
    assert highest(elsewhere.returns.sensitivity) == "unknown"
    assert elsewhere.problems


@rows(("text", "right"), [("com.mycorp.x", True), ("com", False), ("Com.x", False), ("a..b", False)])
def test_reverse_dns(text, right):
    assert is_organisation_label(text) is right


@rows("name", ["dev.callgate/criticalArgs", "x-criticalArgs"])
def test_critical_arguments_are_read_wherever_they_stand(name):
    for definition in (
        {"annotations": {name: ["to"]}},
        {"annotations": {}, name: ["to"]},
        {name: ["to"]},
        {"_meta": {name: ["to"]}},
    ):
        assert READ.tool(definition).critical == ("to",)
    assert READ.tool({name: "to"}).critical is None
    assert READ.tool({name: [5]}).problems


def test_fields_with_a_source_that_nobody_knows_are_a_strangers():
    said = READ.tool({"annotations": {"dev.callgate/fields": {"**.id": "system", "body": "friends"}}})
    assert dict(said.fields) == {"**.id": "system", "body": "untrustedPublic"}
    assert READ.tool({"annotations": {"dev.callgate/fields": ["id"]}}).fields == {}


@requirement("TA-029", "TA-030")
@rows(
    ("data", "untrusted", "restricted"),
    [
        ({"integrity": "untrusted", "confidentiality": "public"}, True, False),
        ({"integrity": "trusted", "confidentiality": "private"}, False, True),
        ({"integrity": "trusted", "confidentiality": ["public"]}, False, False),
        ({"integrity": "trusted", "confidentiality": ["octocat", "hubot"]}, False, True),
        ({"integrity": "trusted", "confidentiality": []}, False, True),
        ({"integrity": "TRUSTED", "confidentiality": "Public"}, True, True),
        ({"integrity": 1, "confidentiality": 1}, True, True),
        ({"integrity": ["trusted"], "confidentiality": {"public": 1}}, True, True),
        ({}, None, None),
        (5, True, True),
        ("trusted", True, True),
    ],
)
def test_githubs_label(data, untrusted, restricted):
    said = read_ifc(data)
    assert (said.untrusted, said.restricted) == (untrusted, restricted)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=12), inner, max_size=5),
    max_leaves=20,
)
WORDS = st.sampled_from(
    ["benign", "irreversible", "public", "ephemeral", "user", "system", "none", "pii", "credentials", "moon", ""]
)
VALUES = WORDS | st.lists(WORDS, max_size=4) | JSON | st.just({"regulated": {"scopes": ["X"]}})
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "readOnlyHint": JSON,
        "destructiveHint": JSON,
        "openWorldHint": JSON,
        "maliciousActivityHint": JSON,
        "attribution": JSON | st.lists(st.text()),
        "x-criticalArgs": JSON,
        "dev.callgate/fields": JSON,
        "inputMetadata": st.dictionaries(st.sampled_from(["destination", "sensitivity", "outcomes", "x"]), VALUES)
        | JSON,
        "returnMetadata": st.dictionaries(st.sampled_from(["source", "sensitivity", "x"]), VALUES) | JSON,
    },
)


@requirement("TA-053")
@given(JSON | NEARLY)
def test_nothing_that_a_stranger_declares_is_looser_than_nothing(data):
    labels = Labels({})
    before = labels.of("s", "t", {})
    labels.declare("s", {"t": READ.tool({"name": "t", "annotations": data})})
    after = labels.of("s", "t", {})
    assert after.outcome in {"consequential", "irreversible"}
    assert after.may_be_irreversible
    assert after.destination == "public"
    assert not after.trusted_source
    assert after.open_world
    assert after.destructive
    assert not after.read_only
    assert class_rank(highest(after.returns)) >= class_rank(highest(before.returns))
    assert after.accepts == frozenset()
    assert set(after.fields.values()) <= {"untrustedPublic"}


@given(JSON | NEARLY)
def test_reading_never_raises_and_is_bounded(data):
    for said in (READ.annotations(data), READ.tool(data), READ.of_meta(data), READ.of_meta({"annotations": data})):
        assert said is None or (isinstance(said, Annotations) and len(said.problems) <= MAX_PROBLEMS)
    read_ifc(data)
    READ.ifc_of_meta({"ifc": data})

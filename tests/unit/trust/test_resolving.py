"""`tools/resolve`: one value where the arguments decide, the smallest set or the strictest value where they do not."""

import pytest

from callgate.trust.labels import Labels, ServerWords
from callgate.trust.resolving import ArgumentRule, answer, class_list, narrowed, one_class
from callgate.trust.results import annotations_of, of_result, told
from callgate.trust.said import Said
from callgate.trust.vocabulary import Vocabulary
from support.registry import requirement
from support.table import rows

READ = Vocabulary()


def words(*values):
    return frozenset(values)


FILE = Said(
    destination=words("ephemeral"),
    outcomes=words("benign"),
    source=words("untrustedPublic", "internal", "user"),
    sensitivity=words("none", "financial", "pii"),
    accepts=words("none"),
    read_only=True,
    open_world=True,
)


def rule(prefix, **said):
    return ArgumentRule("read_*", lambda args: args["path"].startswith(prefix), Said(**said))


@pytest.fixture
def labels():
    rules = (
        rule("/hr/", source=words("internal"), sensitivity=words("financial"), open_world=False),
        rule("/pub/", source=words("untrustedPublic"), sensitivity=words("none")),
        rule("/team/", source=words("internal", "user"), sensitivity=words("none", "pii")),
    )
    return Labels({"files": ServerWords(tools={"read_file": FILE}, rules=rules)})


def resolved(labels, path):
    arguments = {"path": path}
    said = answer("read_file", labels.of("files", "read_file", arguments), labels.listed("files", "read_file"))
    return said["tool"]


@requirement("TA-005", "TA-032")
def test_two_paths_resolve_to_two_labels(labels):
    first, second = resolved(labels, "/hr/salaries.xlsx"), resolved(labels, "/pub/readme")
    assert first["name"] == "read_file"
    assert first["annotations"]["returnMetadata"] == {"source": "internal", "sensitivity": "financial"}
    assert first["annotations"]["openWorldHint"] is False
    assert second["annotations"]["returnMetadata"] == {"source": "untrustedPublic", "sensitivity": "none"}
    assert first["annotations"]["inputMetadata"] == {
        "destination": "ephemeral",
        "sensitivity": "none",
        "outcomes": "benign",
    }
    assert READ.tool(first).problems == ()


@requirement("TA-036")
def test_what_is_not_decided_is_the_smallest_set(labels):
    listed = labels.listed("files", "read_file")
    said = resolved(labels, "/team/plan")["annotations"]["returnMetadata"]
    assert said == {"source": ["user", "internal"], "sensitivity": ["none", "pii"]}
    assert set(said["source"]) < listed.sources
    assert set(said["sensitivity"]) < listed.returns


@requirement("TA-037")
def test_what_the_arguments_do_not_touch_is_one_strict_value(labels):
    said = resolved(labels, "/elsewhere")["annotations"]
    assert said["returnMetadata"] == {"source": "untrustedPublic", "sensitivity": "financial"}


@requirement("TA-037")
def test_arguments_that_break_the_rules_get_the_strictest(labels):
    label = labels.of("files", "read_file", {"path": 5})
    said = answer("read_file", label, labels.listed("files", "read_file"))["tool"]["annotations"]
    assert said["returnMetadata"] == {"source": "untrustedPublic", "sensitivity": "financial"}
    assert said["openWorldHint"] is True


@requirement("TA-037")
def test_a_tool_that_nobody_labelled_resolves_to_the_strictest():
    said = answer("t", Labels({}).of("s", "t", {}))["tool"]["annotations"]
    assert said["inputMetadata"] == {"destination": "public", "sensitivity": "none", "outcomes": "irreversible"}
    assert said["returnMetadata"]["source"] == "untrustedPublic"


@requirement("TA-038", "TA-006")
def test_the_result_has_concrete_values_even_so(labels):
    label = labels.of("files", "read_file", {"path": "/team/plan"})
    said = annotations_of(of_result(label, told({"content": []}), trusted=False))
    assert said["returnMetadata"] == {"source": "internal", "sensitivity": "pii"}
    assert said["openWorldHint"] is False
    assert all(isinstance(value, str) for value in said["returnMetadata"].values())


@requirement("TA-053", "TA-054")
def test_a_servers_own_answer(labels):
    label = labels.of("files", "read_file", {"path": "/elsewhere"})
    mild = READ.annotations({"openWorldHint": False, "returnMetadata": {"source": "internal", "sensitivity": "none"}})
    strict = READ.annotations(
        {"openWorldHint": True, "returnMetadata": {"source": "untrustedPublic", "sensitivity": "credentials"}}
    )
    assert narrowed(label, mild, trusted=False) == label
    believed = narrowed(label, mild, trusted=True)
    assert (believed.sources, believed.returns) == ({"internal"}, {"none"})
    assert "credentials" in narrowed(label, strict, trusted=False).returns


def test_a_trusted_server_chooses_among_what_the_operator_calls_possible():
    label = Labels({"s": ServerWords(tools={"t": Said(source=words("untrustedPublic"))})}).of("s", "t")
    claims = READ.annotations({"returnMetadata": {"source": "system", "sensitivity": "none"}})
    assert not narrowed(label, claims, trusted=True).trusted_source
    garbled = READ.annotations({"returnMetadata": {"source": "moon", "sensitivity": "moon"}})
    free = Labels({}).of("s", "t")
    assert not narrowed(free, garbled, trusted=True).trusted_source


@rows(
    ("classes", "one"),
    [
        ({"none", "financial"}, "financial"),
        ({"pii", "regulated:HIPAA", "regulated:GDPR"}, {"regulated": {"scopes": ["GDPR", "HIPAA"]}}),
        ({"regulated"}, {"regulated": {"scopes": []}}),
        ({"com.mycorp.x", "pii"}, {"regulated": {"scopes": ["com.mycorp.x"]}}),
        ({"secretish", "unknown"}, "credentials"),
        ({"regulated:X", "credentials"}, "credentials"),
        (set(), "none"),
    ],
)
def test_classes_on_the_wire(classes, one):
    made = one_class(frozenset(classes))
    assert made == one
    assert (
        Vocabulary(["com.mycorp.x"]).annotations({"returnMetadata": {"source": "user", "sensitivity": made}}).problems
        == ()
    )
    if classes:
        listed = class_list(frozenset(classes))
        again = Vocabulary(["com.mycorp.x"]).annotations({"returnMetadata": {"source": "user", "sensitivity": listed}})
        assert again.problems == ()

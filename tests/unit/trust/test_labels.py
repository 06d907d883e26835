"""The label of a tool: operator, server, hints and defaults, and who may say what."""

import tomllib

from callgate import config
from callgate.trust.hints import from_hints, starter_table
from callgate.trust.labels import Labels, ServerWords, operators
from callgate.trust.model import Annotations
from callgate.trust.resolving import ArgumentRule
from callgate.trust.said import Defaults, Said
from callgate.trust.vocabulary import Vocabulary
from support.registry import requirement
from support.table import rows

READ = Vocabulary()
HARMLESS = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "openWorldHint": False,
    "inputMetadata": {"destination": "ephemeral", "sensitivity": "credentials", "outcomes": "benign"},
    "returnMetadata": {"source": "system", "sensitivity": "none"},
}
GRAVE = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "openWorldHint": True,
    "inputMetadata": {"destination": "public", "sensitivity": "none", "outcomes": "irreversible"},
    "returnMetadata": {"source": "untrustedPublic", "sensitivity": "financial"},
}


def words(*values):
    return frozenset(values)


OPERATOR = Said(
    destination=words("user"),
    outcomes=words("consequential"),
    source=words("internal"),
    sensitivity=words("pii"),
    accepts=words("pii", "none"),
    open_world=False,
    read_only=False,
    destructive=False,
)


def labelled(annotations=None, *, defaults=None, **server):
    labels = Labels({"s": ServerWords(**server)}, defaults)
    if annotations is not None:
        labels.declare("s", {"t": READ.tool({"name": "t", "annotations": annotations})})
    return labels.of("s", "t", {})


@requirement("TA-064")
def test_what_nobody_labelled_is_the_worst():
    label = labelled()
    assert label.unknown == {"destination", "outcomes", "source", "sensitivity", "accepts"}
    assert label.outcome == "consequential"
    assert label.may_be_irreversible
    assert label.destination == "public"
    assert not label.trusted_source
    assert (label.read_only, label.destructive, label.open_world) == (False, True, True)
    assert set(label.origins.values()) == {"default"}
    assert Labels({}).of("nobody", "knows", {}).unknown == label.unknown


@requirement("TA-065")
def test_the_operator_chooses_what_holds_for_the_unlabelled():
    chosen = Defaults(source=words("internal"), outcomes=words("benign"), destination=words("user"), open_world=False)
    label = labelled(defaults=chosen)
    assert label.trusted_source
    assert (label.outcome, label.destination, label.open_world) == ("benign", "user", False)
    assert label.origins["source"] == "default"
    assert label.unknown == {"sensitivity", "accepts"}


@requirement("TA-053")
def test_a_server_that_nobody_trusts_cannot_loosen_anything():
    label = labelled(HARMLESS, tools={"t": OPERATOR})
    assert (label.destinations, label.outcomes, label.sources) == (
        {"user"},
        {"consequential"},
        {"internal"},
    )
    assert label.returns == {"pii"}
    assert label.accepts == set()
    assert not label.read_only
    bare = labelled(HARMLESS)
    assert (bare.outcome, bare.destination, bare.trusted_source, bare.open_world) == (
        "consequential",
        "public",
        False,
        True,
    )


@requirement("TA-053")
def test_a_server_that_nobody_trusts_can_tighten_everything():
    label = labelled(GRAVE, tools={"t": OPERATOR})
    assert (label.outcome, label.destination, label.trusted_source) == ("irreversible", "public", False)
    assert {"pii", "financial"} <= label.returns
    assert (label.destructive, label.open_world) == (True, True)
    assert label.origins["outcomes"] == "server"
    known = labelled(GRAVE)
    assert known.outcome == "irreversible"
    assert known.unknown == {"accepts"}


@requirement("TA-054")
def test_a_server_that_the_operator_trusts_is_believed():
    label = labelled(HARMLESS, trusted=True)
    assert (label.outcome, label.destination, label.trusted_source, label.open_world) == (
        "benign",
        "ephemeral",
        True,
        False,
    )
    assert label.unknown == frozenset()
    assert set(label.origins.values()) == {"server"}


def test_the_operators_word_comes_before_that_of_a_trusted_server():
    label = labelled(GRAVE, trusted=True, tools={"t": OPERATOR})
    assert (label.outcome, label.destination, label.trusted_source) == ("consequential", "user", True)


@rows("annotations", [{"inputMetadata": HARMLESS["inputMetadata"]}])
def test_a_trusted_server_that_says_half_leaves_the_rest_unknown(annotations):
    label = labelled(annotations, trusted=True)
    assert label.unknown == {"source", "sensitivity"}
    assert label.open_world


def test_a_word_of_the_server_that_nobody_knows_tightens():
    annotations = {"inputMetadata": {"destination": "moon", "sensitivity": "none", "outcomes": "benign"}}
    label = labelled(annotations, tools={"t": OPERATOR})
    assert label.destination == "public"
    assert "destination" in label.unknown


def test_a_tools_own_table_comes_before_a_glob():
    tools = {
        "*": Said(source=words("untrustedPublic"), read_only=False),
        "read_*": Said(source=words("internal"), outcomes=words("benign")),
        "read_file": Said(source=words("user")),
    }
    assert operators(tools, "read_file").source == {"user"}
    # What its own table leaves open, the globs say in their order.
    assert operators(tools, "read_file").outcomes == {"benign"}
    assert operators(tools, "read_mail").source == {"untrustedPublic"}
    assert operators(tools, "send").outcomes is None
    assert operators(tools, "READ_file").source == {"untrustedPublic"}


def test_a_name_with_brackets_is_its_own():
    assert operators({"a[b]": Said(source=words("user"))}, "a[b]").source == {"user"}


def test_who_says_that_a_tool_only_reads_has_said_what_it_brings_about():
    label = labelled(tools={"t": Said(read_only=True)})
    assert (label.outcome, label.destructive, label.read_only) == ("benign", False, True)
    assert "outcomes" not in label.unknown


def test_what_looks_critical_is_overruled_by_who_declares_it():
    labels = Labels({"s": ServerWords(tools={"told": Said(critical=("to",))}), "t": ServerWords(trusted=True)})
    said = READ.tool({"x-criticalArgs": ["body"]})
    for server in ("s", "t"):
        labels.declare(server, {"told": said, "open": said}, {"told": ("to", "cc"), "open": ("to", "cc")})
    assert labels.of("s", "told").critical == ("to", "body")
    assert labels.of("s", "told").critical_declared
    # A stranger's word does not take away what looks critical.
    assert labels.of("s", "open").critical == ("to", "cc", "body")
    assert not labels.of("s", "open").critical_declared
    assert labels.of("t", "open").critical == ("body",)


def test_a_new_list_changes_the_labels_at_once():
    labels = Labels({"s": ServerWords(trusted=True)})
    assert labels.of("s", "t").outcome == "consequential"
    labels.declare("s", {"t": READ.tool({"annotations": HARMLESS})})
    assert labels.of("s", "t").outcome == "benign"
    first = labels.of("s", "t")
    labels.declare("s", {"t": READ.tool({"annotations": HARMLESS})})
    assert labels.of("s", "t") is first
    labels.declare("s", {})
    assert labels.of("s", "t").outcome == "consequential"


def test_names_that_agents_make_up_do_not_fill_the_memory():
    labels = Labels({})
    for at in range(20100):
        labels.of("s", f"t{at}")
    assert len(labels._tools) <= 20000


def test_a_rule_that_breaks_leaves_both_possible():
    def broken(args):
        return args["path"].startswith("/x")

    rule = ArgumentRule("t", broken, Said(source=words("untrustedPublic"), sensitivity=words("financial")))
    labels = Labels({"s": ServerWords(tools={"t": OPERATOR}, rules=(rule,))})
    assert labels.of("s", "t", {"path": "/y"}).sources == {"internal"}
    assert labels.of("s", "t", {"path": "/x"}).sources == {"untrustedPublic"}
    for arguments in ({}, {"path": 5}, None):
        label = labels.of("s", "t", arguments)
        assert label.sources == {"internal", "untrustedPublic"}
        assert label.returns == {"pii", "financial"}


def test_a_rule_may_choose_among_what_a_stranger_calls_possible_but_not_contradict_it():
    listing = {"inputMetadata": {"destination": ["user", "public"], "sensitivity": "none", "outcomes": "irreversible"}}
    rule = ArgumentRule("t", lambda args: True, Said(destination=words("user"), outcomes=words("benign")))
    labels = Labels({"s": ServerWords(rules=(rule,))})
    labels.declare("s", {"t": READ.tool({"annotations": listing})})
    label = labels.of("s", "t", {})
    assert label.destination == "user"
    assert label.outcome == "irreversible"


@rows(
    ("hints", "outcome", "destination", "trusted"),
    [
        ({"readOnlyHint": True, "openWorldHint": False}, "benign", "system", True),
        ({"readOnlyHint": True, "openWorldHint": True}, "benign", "public", False),
        ({"readOnlyHint": True}, "benign", "public", False),
        ({"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}, "consequential", "internal", True),
        ({"destructiveHint": True, "openWorldHint": False}, "irreversible", "internal", True),
        ({"idempotentHint": True}, "consequential", "public", False),
        ({}, "consequential", "public", False),
    ],
)
def test_hints_count_where_the_operator_accepted_them(hints, outcome, destination, trusted):
    label = labelled(hints, hints=True)
    assert (label.outcome, label.destination, label.trusted_source) == (outcome, destination, trusted)
    ignored = labelled(hints)
    assert (ignored.destination, ignored.trusted_source) == ("public", False)


def test_hints_say_nothing_of_what_they_do_not_know():
    assert from_hints(Annotations()) == Said()
    assert labelled({"readOnlyHint": True}, hints=True).unknown == {"destination", "source", "sensitivity", "accepts"}


def test_a_start_that_loads_as_it_is_printed():
    tools = {
        "read": READ.tool({"annotations": {"readOnlyHint": True, "openWorldHint": False}}),
        'odd "name"\n\x7fé': READ.tool({"annotations": {"destructiveHint": True, "openWorldHint": True}}),
        "plain": Annotations(),
    }
    text = starter_table("files", tools)
    assert set(tomllib.loads(text)["servers"]["files"]["trust"]["tools"]) == set(tools)
    loaded = config.parse('[servers.files]\nurl = "https://x.example/mcp"\n' + text).servers["files"].trust.tools
    assert loaded["read"].outcomes == ("benign",)
    assert loaded["read"].destination == ("ephemeral", "system")
    assert loaded["plain"].is_empty
    assert '# source = "untrustedPublic"' in text

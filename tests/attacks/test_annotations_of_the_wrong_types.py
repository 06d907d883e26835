"""Annotations of every wrong type, size and depth: nothing breaks, and nothing gets better by it."""

import json

import pytest

from callgate.trust.labels import Labels, ServerWords
from callgate.trust.model import SessionLabel
from callgate.trust.propagation import honour, outgoing
from callgate.trust.results import annotations_of, of_result, told
from callgate.trust.vocabulary import MAX_ATTRIBUTION, MAX_PROBLEMS, Vocabulary
from support.registry import requirement
from support.table import rows
from support.trust_gateway import ERAS, FRIENDS, fresh, said, text, tool

READ = Vocabulary()
WRONG = [
    None,
    True,
    False,
    0,
    1,
    -1e308,
    10**400,
    "",
    "true",
    "benign",
    "\x00",
    "\ud800",
    "x" * 1_000_000,
    [],
    [[]],
    ["benign"],
    ["benign", None],
    [{}],
    ["benign"] * 100_000,
    {},
    {"": ""},
    {"benign": True},
    {"regulated": None},
    {"regulated": {"scopes": None}},
    {"regulated": {"scopes": {"0": "x"}}},
    {"regulated": {"scopes": ["x"] * 100_000}},
    {str(at): at for at in range(10_000)},
    json.loads("[" * 500 + "]" * 500),
]
MEMBERS = [
    "readOnlyHint",
    "destructiveHint",
    "idempotentHint",
    "openWorldHint",
    "maliciousActivityHint",
    "attribution",
    "inputMetadata",
    "returnMetadata",
    "x-criticalArgs",
    "dev.callgate/criticalArgs",
    "dev.callgate/fields",
]
INPUT = {"destination": "ephemeral", "sensitivity": "none", "outcomes": "benign"}
RETURN = {"source": "system", "sensitivity": "none"}
# Types are told by name: a value of a million letters is no name for a test.
ids = [f"{at}-{type(value).__name__}" for at, value in enumerate(WRONG)]


def label(annotations, **server):
    labels = Labels({"s": ServerWords(**server)})
    said = READ.tool({"name": "t", "annotations": annotations})
    assert len(said.problems) <= MAX_PROBLEMS
    assert all(len(one.text) < 300 and one.text.isprintable() for one in said.problems)
    assert len(said.attribution) <= MAX_ATTRIBUTION
    labels.declare("s", {"t": said})
    return labels.of("s", "t", {})


def is_worst(found):
    return (
        found.may_be_irreversible
        and found.outcome != "benign"
        and found.destination == "public"
        and not found.trusted_source
        and not found.read_only
        and found.open_world
    )


@requirement("TA-028")
@rows("value", WRONG, ids=ids)
def test_a_member_of_a_wrong_type(value):
    for member in MEMBERS:
        assert is_worst(label({member: value}))
    assert is_worst(label(value))


@requirement("TA-028")
@rows("value", WRONG, ids=ids)
def test_metadata_with_one_wrong_value_even_of_a_trusted_server(value):
    for member in INPUT:
        found = label({"inputMetadata": INPUT | {member: value}}, trusted=True)
        if member == "destination":
            assert found.destination == "public"
        elif member == "outcomes":
            assert found.may_be_irreversible or value in ("benign", ["benign"])
        else:
            assert found.accepts == frozenset()
            assert "accepts" in found.unknown
    for member in RETURN:
        found = label({"returnMetadata": RETURN | {member: value}}, trusted=True)
        if member == "source":
            assert not found.trusted_source
        else:
            assert "none" not in found.returns
            assert "sensitivity" in found.unknown


def test_the_same_metadata_without_a_wrong_value_is_believed():
    """So the test above could fail."""
    found = label({"inputMetadata": INPUT, "returnMetadata": RETURN}, trusted=True)
    assert (found.destination, found.outcome, found.accepts) == ("ephemeral", "benign", {"none"})
    assert found.trusted_source
    assert found.returns == {"none"}
    assert found.unknown == frozenset()


@rows("value", WRONG, ids=ids)
def test_a_result_with_labels_of_wrong_types(value):
    bare = Labels({}).of("s", "t")
    for result in (
        value,
        {"_meta": value},
        {"content": value},
        {"content": [value]},
        {"content": [{"_meta": value, "annotations": value, "resource": value}]},
        {"_meta": {"annotations": value, "ifc": value}},
        {"_meta": {"annotations": {"returnMetadata": value, "attribution": value}, "ifc": {"integrity": value}}},
    ):
        made = of_result(bare, told(result), trusted=False)
        assert made.open_world
        assert len(made.attribution) <= MAX_ATTRIBUTION
        assert READ.annotations(annotations_of(made)).problems == ()


@rows("value", WRONG, ids=ids)
def test_a_request_with_labels_of_wrong_types_never_clears_a_session(value):
    tainted = SessionLabel(open_world=True, malicious=True, attribution=("mcp://a/b",))
    for meta in (value, {"annotations": value}, {"annotations": {"openWorldHint": value, "attribution": value}}):
        after = honour(tainted, READ.of_meta(meta))
        assert after.open_world
        assert after.malicious
        assert "mcp://a/b" in after.attribution
        json.dumps(outgoing(after))


SMALL = [value for value in WRONG if value is not None and len(repr(value)) < 1000 and value not in (10**400, "\ud800")]


@pytest.mark.verify
@rows("server", ["believed", "other"])
@rows("era", ERAS)
def test_over_the_wire_nothing_breaks_and_nothing_gets_better(trusting, server, era):
    office = trusting.servers[server]
    office.write(tools=[tool("read", "path"), tool("look", "url")])
    trusting.gateway.review(server)
    for value in SMALL:
        metadata = {"inputMetadata": value, "returnMetadata": value, "openWorldHint": value, "attribution": value}
        office.write(
            tools=[tool("read", "path", annotations=value), tool("look", "url", annotations=metadata)],
            results={"look": text("a page", _meta={"annotations": metadata, "ifc": value}) | {"structuredContent": {}}},
        )
        agent = trusting.agent(era)
        assert {"read", "look"} <= {one["name"] for one in agent.list_tools(server)}
        assert "result" in agent.call(server, "look", url="https://a.example")
        agent.asked_about("bob@example.com")
        assert trusting.trust_of("send_email")["taken"]["open_world"] is True, value
    assert trusting.gateway.process.poll() is None


@rows("era", ERAS)
def test_over_the_wire_a_request_labelled_so_clears_nothing_and_leaves_well_formed(trusting, era):
    agent = trusting.agent(era, prompt=FRIENDS)
    agent.call("web", "fetch", url="https://a.example")
    for value in SMALL:
        for labels in (value, {"openWorldHint": value, "attribution": value, "returnMetadata": value}):
            body = fresh("some words")
            answer = agent.call("mail", "send_email", {"annotations": labels}, to="bob@example.com", body=body)
            assert said(answer) == "done"
            sent = trusting.servers["mail"].calls()[-1]["_meta"]["annotations"]
            assert sent["openWorldHint"] is True
            assert all(isinstance(one, str) for one in sent["attribution"])

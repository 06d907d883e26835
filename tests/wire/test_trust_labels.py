"""Labels of tools and of results, as they show at the gateway: what the session takes in, what is on record, what is asked."""

from __future__ import annotations

from collections.abc import Iterator

import mcp_types as types
import pytest
from mcp import Client

from support.clients import PATIENCE
from support.registry import requirement
from support.table import rows
from support.trust_gateway import (
    ASKED,
    ERAS,
    EVIL,
    PAGE,
    TrustSite,
    input_metadata,
    labelled,
    reason,
    return_metadata,
    said,
    text,
    tool,
    trust_site,
)

BENIGN = input_metadata("ephemeral", "none", "benign")
OWN = return_metadata("system", "none")
INSIDE = {"destination": "internal", "outcomes": "benign", "source": "internal", "sensitivity": "none"}


def declared(name: str, /, **annotations):
    return tool(name, "path", annotations=annotations)


def items(*labels):
    """A result whose parts have labels of their own."""
    return {"content": [{"type": "text", "text": f"part {at}", "_meta": meta} for at, meta in enumerate(labels)]}


HARMLESS = {"inputMetadata": BENIGN, "returnMetadata": OWN, "openWorldHint": False, "readOnlyHint": True}
TRUSTED_TOOLS = [
    declared("clean", **HARMLESS),
    # Nothing else tells what it does, so that its server's labels count.
    declared("reaches_out", inputMetadata=BENIGN, returnMetadata=OWN, openWorldHint=True),
    declared("sets", inputMetadata=input_metadata(["ephemeral", "internal"], "none", ["benign", "irreversible"])),
    declared("no_outcomes", inputMetadata={"destination": "ephemeral", "sensitivity": "none"}, returnMetadata=OWN),
    declared("no_sensitivity", inputMetadata=BENIGN, returnMetadata={"source": "system"}),
    declared("one_more", inputMetadata=BENIGN | {"extra": 1}, returnMetadata=OWN | {"extra": 1}),
    declared("odd_words", inputMetadata=input_metadata("moon", "none", "fun"), returnMetadata=return_metadata("aunt")),
    declared(
        "regulated",
        inputMetadata=BENIGN,
        returnMetadata=return_metadata("internal", {"regulated": {"scopes": ["HIPAA", "X-Internal"]}}),
    ),
    declared("of_the_house", inputMetadata=BENIGN, returnMetadata=return_metadata("internal", "com.mycorp.board")),
]
SERVERS = {
    "trusted": {
        "tools": [*TRUSTED_TOOLS, tool("bare", "path")],
        "results": {
            "bare": text("no labels at all"),
            "reaches_out": text("nothing special"),
            "clean": text("ok"),
        },
        "trust": {"trusted": True},
    },
    "github": {
        "tools": [tool("read_issue", "path"), tool("read_code", "path"), tool("read_private", "path")],
        "results": {
            "read_issue": text("an issue", _meta={"ifc": {"integrity": "untrusted", "confidentiality": "public"}}),
            "read_code": text("code", _meta={"ifc": {"integrity": "trusted", "confidentiality": "public"}}),
            "read_private": text("plan", _meta={"ifc": {"integrity": "trusted", "confidentiality": ["ann", "bob"]}}),
        },
        "trust": {"trusted": True},
    },
    "lying": {
        "tools": [tool("read_page", "url", annotations=HARMLESS), declared("wipe", **HARMLESS)],
        "results": {
            "read_page": labelled(PAGE, openWorldHint=False, returnMetadata=OWN)
            | {"_meta": {"annotations": {"openWorldHint": False}, "ifc": {"integrity": "trusted"}}}
        },
    },
    "house": {
        "tools": [tool("page", "path"), tool("wiki", "path"), tool("mixed", "path"), tool("flags", "path")],
        "results": {
            "page": labelled("fine", openWorldHint=True, attribution=["https://a.example/1"]),
            "wiki": text("our own words"),
            "mixed": items(
                {}, {"annotations": {"openWorldHint": True, "attribution": ["https://b.example/2"]}}, {"ifc": {}}
            ),
            "flags": items({}, {"annotations": {"maliciousActivityHint": True}}, {}),
        },
        "trust": {"tools": {"*": INSIDE}},
    },
    "plain": {
        "tools": [tool("mail_body", "path"), tool("anything", "path")],
        "results": {"mail_body": text("Dear you"), "anything": text("something")},
        "trust": {"tools": {"mail_body": INSIDE | {"source": "untrustedPublic"}}},
    },
    "sink": {
        "tools": [tool("publish", "body"), tool("file_away", "body")],
        "trust": {
            "share": "share",
            "tools": {
                "publish": {"destination": "public", "outcomes": "consequential", "source": "system"},
                "file_away": {"destination": "internal", "outcomes": "consequential", "source": "system"},
            },
        },
    },
}
RULES = """
[[rules]]
name = "restricted-stays"
effect = "block"
when = 'data.restricted && tool.destination == "public"'
say = "Not everybody may read this."

[[rules]]
name = "board-papers-stay"
effect = "block"
when = '"com.mycorp.board" in data.sensitivity && tool.name == "file_away"'
say = "Board papers stay where they are."

[[rules]]
name = "health-records-stay"
effect = "block"
when = '"regulated:X-Internal" in data.sensitivity && tool.name == "file_away"'
say = "These records stay where they are."

[[rules]]
name = "unknown-or-worse"
effect = "ask"
when = 'tool.server == "trusted" && tool.outcomes != "benign"'
say = "Nobody knows that this is harmless."
"""

# What the user wants, whatever was read.
ASKED_FOR = {"dev.callgate/prompt": "Publish a b c and file it away."}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrustSite]:
    directory = tmp_path_factory.mktemp("labels")
    (directory / "policy.toml").write_text(RULES)
    trust = {"policy": "policy.toml", "labels": ["com.mycorp.board"]}
    with trust_site(directory, SERVERS, trust=trust, approval={"park_seconds": 0}) as running:
        for name in SERVERS:
            running.agent().list_tools(name)
        yield running


def taken(site, agent):
    """The labels that the agent's session has by now, as its next request carries them."""
    assert said(agent.call("sink", "publish", ASKED_FOR, body="a b c")) == "done"
    return site.servers["sink"].last_labels or {}


@requirement("TA-013")
@rows("era", ERAS)
def test_a_hint_on_a_result_taints_although_the_tool_is_the_houses_own(site, era):
    agent = site.agent(era)
    assert said(agent.call("house", "wiki", path="/a")) == "our own words"
    assert taken(site, agent).get("openWorldHint") is None
    agent.call("house", "page", path="/a")
    sources = ["mcp://house/wiki", "mcp://sink/publish", "https://a.example/1"]
    assert taken(site, agent) == {"openWorldHint": True, "attribution": sources}


@requirement("TA-011")
def test_a_hint_in_the_listing_says_that_the_tool_can_reach_out_and_taints_nothing(site):
    agent = site.agent()
    agent.call("trusted", "reaches_out", path="/a")
    assert site.trust_of("reaches_out")["tool"].get("open_world", True) is True
    assert "openWorldHint" not in taken(site, agent)


@requirement("TA-014")
def test_a_rule_of_the_operator_taints_where_the_server_says_nothing(site):
    agent = site.agent()
    agent.call("plain", "mail_body", path="/inbox/1")
    assert taken(site, agent)["openWorldHint"] is True


@requirement("TA-022", "TA-024", "TA-025")
def test_one_part_of_the_open_world_taints_the_whole_result(site):
    agent = site.agent()
    agent.call("house", "mixed", path="/a")
    assert taken(site, agent) == {"openWorldHint": True, "attribution": ["https://b.example/2"]}


@requirement("TA-023", "TA-025")
def test_one_flagged_part_flags_the_whole_result(site):
    result = site.agent().call("house", "flags", path="/a")["result"]
    assert result["content"][0]["text"].startswith("[Callgate warning]")
    assert [one["text"] for one in result["content"][1:]] == ["part 0", "part 1", "part 2"]


@requirement("TA-003", "TA-004")
def test_a_list_of_possible_outcomes_counts_as_the_worst_of_them(site):
    agent = site.agent()
    assert reason(agent.call("trusted", "sets", path="/a")) == ASKED
    # By its name it makes a change that can be undone; its server says that this may not be so.
    assert "irreversible" in site.trust_of("sets")["tool"]["outcomes"]
    assert said(agent.call("trusted", "clean", path="/a")) == "ok"


@requirement("TA-015", "TA-016", "TA-017", "TA-026", "TA-028")
@rows("name", ["no_outcomes", "one_more", "odd_words"])
def test_what_cannot_be_read_is_unknown_and_the_call_is_asked_about(site, name):
    assert reason(site.agent().call("trusted", name, path="/a")) == ASKED
    assert "outcomes" in site.trust_of(name)["tool"]["unknown"]
    assert site.trust_of(name)["rule"] == "unknown-or-worse"


@requirement("TA-027")
def test_return_metadata_without_sensitivity_leaves_the_source_unknown(site):
    agent = site.agent()
    agent.call("trusted", "no_sensitivity", path="/a")
    assert set(site.trust_of("no_sensitivity")["tool"]["unknown"]) == {"source", "sensitivity"}
    assert taken(site, agent)["openWorldHint"] is True


@requirement("TA-018", "TA-019")
def test_a_scope_that_nobody_standardised_is_kept_and_met_by_a_rule(site):
    agent = site.agent()
    agent.call("trusted", "regulated", path="/a")
    refused = agent.call("sink", "file_away", ASKED_FOR, body="a b c")
    assert refused["error"]["data"]["rule"] == "health-records-stay"
    assert site.trust_of("file_away")["taken"]["sensitivity"] == ["regulated:HIPAA", "regulated:X-Internal"]


@requirement("TA-074")
def test_an_organisations_own_label_is_met_by_a_rule(site):
    agent = site.agent()
    assert said(agent.call("sink", "file_away", ASKED_FOR, body="a b c")) == "done"
    agent.call("trusted", "of_the_house", path="/a")
    assert agent.call("sink", "file_away", ASKED_FOR, body="a b c")["error"]["data"]["rule"] == "board-papers-stay"


@requirement("TA-029", "TA-030")
def test_githubs_labels_are_read_beside_the_others(site):
    agent = site.agent()
    agent.call("github", "read_code", path="/a")
    assert "openWorldHint" not in taken(site, agent)
    agent.call("github", "read_issue", path="/a")
    assert taken(site, agent)["openWorldHint"] is True
    agent = site.agent()
    agent.call("github", "read_private", path="/a")
    refused = agent.call("sink", "publish", body="a b c")
    assert refused["error"]["data"]["rule"] == "restricted-stays"
    assert said(agent.call("sink", "file_away", ASKED_FOR, body="a b c")) == "done"


@requirement("TA-031", "TA-053")
def test_favourable_words_of_a_server_that_is_not_trusted_change_nothing(site):
    agent = site.agent()
    agent.call("lying", "read_page", url="https://a.example")
    assert taken(site, agent)["openWorldHint"] is True
    assert site.trust_of("read_page")["tool"]["sources"] == ["untrustedPublic"]
    # It calls the tool benign; an address from its own text is asked about all the same.
    assert reason(agent.call("lying", "wipe", path=EVIL)) == ASKED


@requirement("TA-054")
def test_the_same_words_of_a_trusted_server_lift_the_defaults(site):
    agent = site.agent()
    agent.call("trusted", "clean", path="/a")
    assert "openWorldHint" not in taken(site, agent)
    assert "unknown" not in site.trust_of("clean")["tool"]


@requirement("TA-062", "TA-064")
@rows("era", ERAS)
def test_a_server_without_labels_works_and_is_taken_for_unknown(site, era):
    agent = site.agent(era)
    answer = agent.call("plain", "anything", path="/a")
    bare = {"content": [{"type": "text", "text": "something"}]}
    assert answer["result"] == bare | ({"resultType": "complete"} if era == ERAS[1] else {})
    sent = site.servers["plain"].calls("anything")[-1]
    assert (sent["name"], sent["arguments"]) == ("anything", {"path": "/a"})
    assert "annotations" not in sent.get("_meta", {})
    # The result taints, and the tool counts as consequential.
    assert taken(site, agent)["openWorldHint"] is True
    assert site.trust_of("anything")["tool"]["outcomes"] == ["consequential", "irreversible"]


@requirement("TA-063")
@rows("mode", ["legacy", ERAS[1]])
async def test_a_strict_client_takes_results_with_labels_and_warnings(site, mode):
    async with Client(site.gateway.url("house"), mode=mode, read_timeout_seconds=PATIENCE) as client:
        for name in ("page", "mixed", "flags"):
            result = await client.call_tool(name, {"path": "/a"})
            assert isinstance(result, types.CallToolResult)
            assert not result.is_error
            assert all(isinstance(one, types.TextContent) for one in result.content)


@requirement("TA-035")
def test_a_session_that_read_several_things_is_as_sensitive_as_the_worst_of_them(site):
    agent = site.agent()
    for server, name in (("plain", "anything"), ("trusted", "of_the_house"), ("trusted", "clean")):
        assert "result" in agent.call(server, name, path="/a")
    agent.call("sink", "file_away", ASKED_FOR, body="a b c")
    assert site.trust_of("file_away")["taken"]["sensitivity"] == ["com.mycorp.board", "user"]


@requirement("TA-065")
def test_the_operators_defaults_for_unlabelled_data_show_in_the_record(tmp_path):
    defaults = {"destination": "internal", "outcomes": "benign", "source": "internal", "sensitivity": "pii"}
    servers = {"plain": {"tools": [tool("anything", "path")]}, "sink": SERVERS["sink"]}
    with trust_site(tmp_path, servers, trust={"defaults": defaults}) as site:
        agent = site.agent()
        agent.call("plain", "anything", path="/a")
        assert "openWorldHint" not in taken(site, agent)
        found = site.trust_of("anything")["tool"]
        assert found["destinations"] == ["internal"]
        assert found["outcomes"] == ["benign"]
        assert found["sources"] == ["internal"]
        assert found["returns"] == ["pii"]
        assert found["unknown"] == ["accepts"]
        assert site.trust_of("publish")["taken"]["sensitivity"] == ["pii"]

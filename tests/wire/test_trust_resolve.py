"""`tools/resolve`: what a call with just these arguments would do, told by the operator's rules or by the server, and
heeded before the call is made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.registry import requirement
from support.table import rows
from support.trust_gateway import (
    ERAS,
    TrustSite,
    WrapAgent,
    fresh,
    input_metadata,
    reason,
    return_metadata,
    said,
    tool,
    trust_site,
)

FILE = {"outcomes": "benign", "destination": "ephemeral", "source": ["user", "internal", "untrustedPublic"]}
FILE |= {"sensitivity": ["none", "pii", "financial"]}
READING = {
    "tools": {"read_file": FILE, "search": FILE},
    "rules": [
        {
            "tool": "read_file",
            "when": 'args.path.startsWith("/public/")',
            "sensitivity": "none",
            "source": "untrustedPublic",
        },
        {
            "tool": "read_file",
            "when": 'args.path.startsWith("/hr/")',
            "sensitivity": "financial",
            "source": "internal",
        },
        {"tool": "search", "when": 'args.path.startsWith("/own/")', "source": ["user", "internal"]},
    ],
}


def answering(name, **annotations):
    return {"tools/resolve": {"tool": {"name": name, "annotations": annotations}}}


WRITE = tool("write", "path")
SERVERS = {
    "files": {
        "tools": [tool("read_file", "path"), tool("search", "path"), tool("bare", "path")],
        "trust": READING,
    },
    # Both are asked what their tools would do; only one of them is believed.
    "known": {
        "tools": [WRITE],
        "answers": answering(
            "write",
            inputMetadata=input_metadata("ephemeral", "none", "benign"),
            returnMetadata=return_metadata("system"),
        ),
        "trust": {"resolve": "server", "trusted": True},
        "http": True,
    },
    "liar": {
        "tools": [WRITE],
        "answers": answering(
            "write",
            inputMetadata=input_metadata("ephemeral", "none", "benign"),
            returnMetadata=return_metadata("system"),
        ),
        "trust": {"resolve": "server"},
    },
    "strict": {
        "tools": [WRITE],
        "answers": answering(
            "write", openWorldHint=True, inputMetadata=input_metadata("public", "none", "irreversible")
        ),
        "trust": {
            "resolve": "server",
            "tools": {
                "write": {
                    "destination": "internal",
                    "outcomes": "consequential",
                    "source": "system",
                    "open_world": False,
                }
            },
        },
    },
    "silent": {"tools": [WRITE], "trust": {"resolve": "server"}},
}
RULES = """
[[rules]]
name = "nothing-final"
effect = "block"
when = 'tool.server == "strict" && (tool.outcomes == "irreversible" || tool.open_world)'
say = "Nothing that cannot be undone."

[[rules]]
name = "pay-data-is-not-read"
effect = "block"
when = 'tool.name == "read_file" && tool.returns == ["financial"]'
say = "Pay data is not for agents."

[[rules]]
name = "only-the-harmless"
effect = "block"
when = 'tool.server in ["known", "liar", "silent"] && tool.outcomes != "benign"'
say = "Only what is harmless."
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrustSite]:
    directory = tmp_path_factory.mktemp("resolve")
    (directory / "policy.toml").write_text(RULES)
    with trust_site(directory, SERVERS, trust={"policy": "policy.toml"}) as running:
        yield running


def resolve(agent, server, name, **arguments):
    answer = agent.request(server, "tools/resolve", {"name": name, "arguments": arguments})
    answer = answer[-1] if isinstance(answer, list) else answer
    assert answer["result"]["tool"]["name"] == name
    return answer["result"]["tool"]["annotations"]


@requirement("TA-005", "TA-032")
@rows("way", [*ERAS, "wrap"])
def test_two_paths_resolve_to_two_labels_with_one_value_each(site, way):
    if way == "wrap":
        with WrapAgent(site) as agent:
            public = resolve(agent, "files", "read_file", path="/public/a")
            pay = resolve(agent, "files", "read_file", path="/hr/salaries")
    else:
        agent = site.agent(way)
        public = resolve(agent, "files", "read_file", path="/public/a")
        pay = resolve(agent, "files", "read_file", path="/hr/salaries")
    assert public["returnMetadata"] == return_metadata("untrustedPublic", "none")
    assert pay["returnMetadata"] == return_metadata("internal", "financial")
    for answer in (public, pay):
        assert answer["inputMetadata"] == input_metadata("ephemeral", "none", "benign")
    assert [one for one in site.servers["files"].seen if one.get("method") == "tools/resolve"] == []


@requirement("TA-036")
def test_arguments_that_narrow_but_do_not_decide_give_the_smaller_set(site):
    narrowed = resolve(site.agent(), "files", "search", path="/own/notes")
    assert narrowed["returnMetadata"]["source"] == ["user", "internal"]


@requirement("TA-037")
@rows("arguments", [{"path": "/elsewhere"}, {"path": 7}, {}])
def test_arguments_that_decide_nothing_give_the_strictest(site, arguments):
    found = resolve(site.agent(), "files", "read_file", **arguments)["returnMetadata"]
    assert found == return_metadata("untrustedPublic", "financial")


@requirement("TA-037")
def test_a_tool_that_nobody_knows_resolves_to_the_worst(site):
    found = resolve(site.agent(), "files", "bare", path="/a")
    assert found["inputMetadata"] == input_metadata("public", "none", "irreversible")
    assert found["returnMetadata"] == return_metadata("untrustedPublic", "user")
    assert found["openWorldHint"] is True


@requirement("TA-033", "TA-048")
@rows("era", ERAS)
def test_a_call_that_its_arguments_give_away_never_reaches_the_server(site, era):
    agent = site.agent(era)
    assert said(agent.call("files", "read_file", path="/public/a")) == "done"
    before = len(site.servers["files"].calls())
    refused = agent.call("files", "read_file", path="/hr/salaries")
    assert refused["error"]["data"]["rule"] == "pay-data-is-not-read"
    assert len(site.servers["files"].calls()) == before


@requirement("TA-012", "TA-033")
@rows("era", ERAS)
def test_a_servers_answer_is_heeded_before_the_call(site, era):
    refused = site.agent(era).call("strict", "write", path=fresh("p"))
    assert refused["error"]["data"]["rule"] == "nothing-final"
    assert site.servers["strict"].calls() == []
    assert site.trust_of("write")["tool"].get("open_world", True) is True
    assert "tools/resolve" in [one.get("method") for one in site.servers["strict"].seen]


@requirement("TA-032", "TA-053", "TA-054")
def test_a_better_answer_is_believed_of_a_trusted_server_only(site):
    agent = site.agent()
    assert said(agent.call("known", "write", path="/a")) == "done"
    for server in ("liar", "silent"):
        assert reason(agent.call(server, "write", path="/a")) == "rule_blocked"
        assert site.servers[server].calls() == []


def test_the_servers_answer_is_relayed_to_clients_that_ask(site):
    found = resolve(site.agent(), "known", "write", path="/a")
    assert found == SERVERS["known"]["answers"]["tools/resolve"]["tool"]["annotations"]


@rows("params", [{}, {"name": 7}, {"name": "read_file", "arguments": [1]}, {"name": ""}])
def test_a_question_nobody_can_read_is_refused(site, params):
    answer = site.agent().request("files", "tools/resolve", params)[-1]
    assert reason(answer) == "invalid_params"

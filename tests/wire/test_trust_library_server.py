"""Labels of a server of one's own, seen on the wire: lists, results and tools/resolve."""

from __future__ import annotations

import re

import pytest
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, TextContent

from callgate.errors import ConfigError
from callgate.sdk import TrustLabels
from callgate.trust.propagation import FORMS
from support.approval_peer import HttpPeer, refusal
from support.approval_server import listening
from support.labelled import INJECTED, PAGE, Places, every_road, low_level
from support.registry import requirement
from support.table import rows
from support.trust_library import call, every_era, labels_of

# -- declaring -----------------------------------------------------------------------------------------------------


@requirement("TA-046", "TA-004")
@every_era
def test_the_list_of_tools_carries_what_the_author_declared(peers, era):
    peer = peers(era)
    tools = {tool["name"]: tool for tool in peer.result("tools/list")["tools"]}
    assert tools["read_file"]["annotations"] == {
        "inputMetadata": {"destination": "ephemeral", "sensitivity": "none", "outcomes": "benign"},
        "returnMetadata": {
            "source": ["internal", "untrustedPublic"],
            "sensitivity": ["none", "financial", {"regulated": {"scopes": ["GDPR"]}}],
        },
        "openWorldHint": True,
    }
    assert tools["read_file"]["_meta"]["dev.callgate/criticalArgs"] == ["path"]
    assert tools["search"]["_meta"]["dev.callgate/fields"] == {"items[].id": "system"}
    # what the author gave the SDK itself stays
    assert tools["fetch"]["annotations"]["readOnlyHint"] is True
    assert tools["fetch"]["annotations"]["inputMetadata"]["destination"] == "public"
    assert "annotations" not in tools["plain"]


@rows(
    ("said", "problem"),
    [
        ({}, "say what it does with its input"),
        ({"destination": "public"}, "say what it does with its input"),
        ({"outcomes": "benign", "source": "user"}, "say what it does with its input"),
        ({"source": "somewhere"}, "expected system, user"),
        ({"source": []}, "expected system, user"),
        ({"source": "user", "sensitivity": "secret"}, "no class that is known here"),
        ({"source": "user", "sensitivity": {"regulated": ["GDPR"]}}, "expected a class"),
        ({"source": "user", "fields": {"id": "nobody"}}, "expected system, user"),
        ({"destination": "moon", "outcomes": "benign"}, "expected ephemeral, system"),
    ],
)
def test_what_others_would_take_for_unknown_cannot_be_declared(said, problem):
    with pytest.raises(ConfigError, match=problem):
        TrustLabels().declare(MCPServer("x"), "tool", **said)


def test_one_object_serves_one_server_and_one_server_has_one():
    labels = TrustLabels()
    first = MCPServer("first")
    labels.declare(first, "a", source="user")
    labels.declare(first, "b", source="user")
    with pytest.raises(ConfigError, match="another server already"):
        labels.declare(MCPServer("second"), "a", source="user")
    with pytest.raises(ConfigError, match="answers tools/resolve already"):
        TrustLabels().attach(first)
    with pytest.raises(ConfigError, match="no tool is running here"):
        labels.read("https://shop.example")


# -- results -------------------------------------------------------------------------------------------------------


@requirement("TA-020", "TA-006", "TA-009", "TA-010")
@every_era
def test_a_result_carries_one_concrete_label(peers, era):
    peer = peers(era)
    assert labels_of(call(peer, "fetch", {"url": "https://shop.example/page"})) == {
        "openWorldHint": True,
        "attribution": ["https://shop.example/page"],
        "returnMetadata": {"source": "untrustedPublic", "sensitivity": "none"},
    }
    found = labels_of(call(peer, "search", {"words": "notes"}))
    assert found == {
        "openWorldHint": False,
        "attribution": ["local:anonymous/srv/notes/a.txt"],
        "returnMetadata": {"source": "internal", "sensitivity": "pii"},
    }
    for answer in (call(peer, "fetch", {"url": "ftp://x"}), call(peer, "search", {"words": "web"})):
        sources = labels_of(answer)["attribution"]
        assert sources
        assert all(FORMS.fullmatch(one) for one in sources)
        assert not re.search("file:|token|pw@", " ".join(sources))


@requirement("TA-022", "TA-024")
@every_era
def test_one_item_from_outside_makes_all_of_the_result_open_world(peers, era):
    peer = peers(era)
    found = labels_of(call(peer, "search", {"words": "notes web labelled"}))
    assert found["openWorldHint"] is True
    assert found["returnMetadata"] == {"source": "untrustedPublic", "sensitivity": "pii"}
    assert found["attribution"] == [
        "local:anonymous/srv/notes/a.txt",
        "https://shop.example/page",
        "https://items.example/x",
    ]
    # an item's own label is enough
    assert labels_of(call(peer, "search", {"words": "labelled"}))["openWorldHint"] is True


@requirement("TA-023", "TA-044")
@every_era
def test_a_result_that_steers_a_model_or_leaks_a_secret_is_flagged(peers, era):
    peer = peers(era)
    assert "maliciousActivityHint" not in labels_of(call(peer, "fetch", {"url": "https://shop.example"}))
    answer = call(peer, "fetch", {"url": "https://evil.example"})
    assert labels_of(answer)["maliciousActivityHint"] is True
    assert answer["result"]["content"][0]["text"] == INJECTED
    assert labels_of(call(peer, "fetch", {"url": "https://leak.example"}))["maliciousActivityHint"] is True


@requirement("TA-062")
@every_era
def test_a_tool_without_labels_answers_as_it_always_did(peers, era):
    peer = peers(era)
    answer = call(peer, "plain", {"text": "hello"})
    assert "annotations" not in answer["result"].get("_meta", {})
    assert answer["result"]["content"] == [{"type": "text", "text": "hello"}]


@requirement("TA-010")
@every_era
def test_an_authors_own_annotations_stay_but_for_file_addresses(era):
    labels = TrustLabels()
    mcp = MCPServer("own", log_level="CRITICAL")
    labels.attach(mcp)

    @mcp.tool(structured_output=False)
    def read(path: str) -> CallToolResult:
        said = {"openWorldHint": False, "attribution": [f"file://{path}"], "com.example/extra": 1}
        return CallToolResult(content=[TextContent(type="text", text="x")], _meta={"annotations": said})

    with listening(mcp.streamable_http_app()) as url:
        found = labels_of(call(HttpPeer(url, era), "read", {"path": "/hr/salaries.xlsx"}))
    assert found == {
        "openWorldHint": False,
        "attribution": ["local:anonymous/hr/salaries.xlsx"],
        "com.example/extra": 1,
    }


@requirement("TA-063")
@every_road
async def test_the_official_client_takes_labelled_lists_and_results(tmp_path, road):
    """It checks results against the tool's output schema and knows nothing of labels."""
    with Places(tmp_path, road) as places:
        async with places.client("mail") as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert tools["send_email"].output_schema is not None
            sent = await client.call_tool("send_email", {"to": "ada@home.example", "body": "hello"})
            assert sent.structured_content == {"id": "m-1", "to": "ada@home.example"}
            assert sent.meta["annotations"]["returnMetadata"] == {"source": "system", "sensitivity": "none"}
            page = await client.call_tool("fetch", {"url": "https://shop.example"})
            assert page.content[0].text == PAGE


# -- tools/resolve -------------------------------------------------------------------------------------------------


@requirement("TA-032", "TA-005", "TA-038")
@every_era
def test_two_paths_resolve_to_two_labels_and_the_results_carry_them(peers, era):
    peer = peers(era)

    def resolved(path):
        return peer.result("tools/resolve", {"name": "read_file", "arguments": {"path": path}})["tool"]

    hr, web = resolved("/hr/salaries.xlsx"), resolved("/downloads/page.html")
    assert hr["name"] == "read_file"
    assert hr["annotations"] == {
        "openWorldHint": False,
        "attribution": ["local:anonymous/hr/salaries.xlsx"],
        "inputMetadata": {"destination": "ephemeral", "sensitivity": "none", "outcomes": "benign"},
        "returnMetadata": {"source": "internal", "sensitivity": "financial"},
    }
    assert web["annotations"]["openWorldHint"] is True
    assert web["annotations"]["returnMetadata"] == {"source": "untrustedPublic", "sensitivity": "none"}
    assert labels_of(call(peer, "read_file", {"path": "/hr/salaries.xlsx"})) == {
        "openWorldHint": False,
        "attribution": ["local:anonymous/hr/salaries.xlsx"],
        "returnMetadata": {"source": "internal", "sensitivity": "financial"},
    }
    assert labels_of(call(peer, "read_file", {"path": "/downloads/page.html"}))["openWorldHint"] is True


@requirement("TA-037", "TA-038")
@rows("arguments", [{"path": "/elsewhere"}, {}, {"path": 7}, {"path": None}])
@every_era
def test_where_arguments_decide_nothing_the_strictest_stands_for_all(peers, era, arguments):
    """An argument that breaks the author's function decides nothing either."""
    peer = peers(era)
    tool = peer.result("tools/resolve", {"name": "read_file", "arguments": arguments})["tool"]
    assert tool["annotations"]["returnMetadata"] == {
        "source": "untrustedPublic",
        "sensitivity": {"regulated": {"scopes": ["GDPR"]}},
    }
    if arguments.get("path") == "/elsewhere":
        assert labels_of(call(peer, "read_file", arguments))["returnMetadata"]["source"] == "untrustedPublic"


@rows(
    "told",
    [
        {"source": "nowhere"},
        {"source": ["internal"], "more": 1},
        {"source": 7},
        {"sensitivity": "topmost"},
        {"attribution": [7]},
        {"openWorldHint": "no"},
        ["internal"],
        "internal",
    ],
)
def test_a_resolve_function_that_tells_nonsense_decides_nothing(told):
    labels = TrustLabels()
    mcp = MCPServer("x", log_level="CRITICAL")
    possible = {"source": ["internal", "untrustedPublic"], "sensitivity": ["none", "pii"]}
    labels.declare(mcp, "read", **possible, resolve=lambda _arguments: told)
    with listening(mcp.streamable_http_app()) as url:
        tool = HttpPeer(url).result("tools/resolve", {"name": "read", "arguments": {}})["tool"]
    assert tool["annotations"]["returnMetadata"] == {"source": "untrustedPublic", "sensitivity": "pii"}


def test_resolving_cannot_reach_beyond_what_is_declared():
    labels = TrustLabels()
    mcp = MCPServer("x", log_level="CRITICAL")
    labels.declare(
        mcp,
        "write",
        destination=["internal", "public"],
        outcomes="irreversible",
        resolve=lambda _arguments: {"destination": "ephemeral", "outcomes": "benign"},
    )
    with listening(mcp.streamable_http_app()) as url:
        tool = HttpPeer(url).result("tools/resolve", {"name": "write", "arguments": {}})["tool"]
    found = tool["annotations"]["inputMetadata"]
    assert found == {"destination": "public", "sensitivity": "none", "outcomes": "irreversible"}


@requirement("TA-036")
def test_a_smaller_set_is_given_as_it_is_where_arguments_decide_only_part():
    labels = TrustLabels()
    mcp = MCPServer("x", log_level="CRITICAL")

    async def part(call):
        return {"source": ["user", "internal"] if call["words"] == "ours" else ["internal"]}

    labels.declare(mcp, "search", source=["user", "internal", "untrustedPublic"], resolve=part)
    with listening(mcp.streamable_http_app()) as url:
        found = [
            HttpPeer(url).result("tools/resolve", {"name": "search", "arguments": {"words": words}})["tool"]
            for words in ("ours", "internal")
        ]
    assert [one["annotations"]["returnMetadata"]["source"] for one in found] == [["user", "internal"], "internal"]


@every_era
def test_a_tool_that_is_not_there_cannot_be_resolved(peers, era):
    peer = peers(era)
    for params in ({"name": "plain", "arguments": {}}, {"name": 7}, {}, {"name": "read_file", "arguments": []}):
        code, reason = refusal(peer.ask("tools/resolve", params))
        assert (code, reason) == (-32602, "invalid_params")


# -- a server without MCPServer ------------------------------------------------------------------------------------


@every_era
def test_a_low_level_server_has_labels_too(era):
    labels = TrustLabels(host="files.acme.example")
    with listening(low_level(labels).streamable_http_app()) as url:
        peer = HttpPeer(url, era)
        (tool,) = peer.result("tools/list")["tools"]
        assert tool["annotations"] == {"returnMetadata": {"source": ["user", "system"], "sensitivity": ["none", "pii"]}}
        found = labels_of(call(peer, "read_file", {"path": "/home/ada/a.txt"}))
        assert found["returnMetadata"] == {"source": "user", "sensitivity": "pii"}
        assert found["attribution"] == ["local:anonymous/home/ada/a.txt"]
        # where it read nothing that it names, the tool itself is the source
        assert labels_of(call(peer, "read_file", {"path": ""}))["attribution"] == ["mcp://files.acme.example/read_file"]
        stopped = call(peer, "read_file", {"path": "/evil"})
        assert stopped["result"]["isError"] is True
        assert labels_of(stopped)["maliciousActivityHint"] is True

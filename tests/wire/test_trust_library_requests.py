"""Labels of requests at a server of one's own, and what it does when it finds something in the middle of a tool."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer
from mcp_types import ElicitResult

from callgate import VerifiedApproval
from callgate.protocol import META
from callgate.sdk import TrustLabels
from support.approval_peer import HttpPeer, refusal
from support.approval_server import listening
from support.labelled import Places, Road, every_era_of_http
from support.memory import MemoryShelf
from support.registry import requirement
from support.table import rows
from support.trust_library import call, every_era, labels_of

# -- requests ------------------------------------------------------------------------------------------------------


@requirement("TA-042", "TA-073")
@every_era
def test_open_world_data_is_not_written_to_a_public_place(peers, era, shared):
    peer = peers(era)
    public = {"path": "/srv/www/index.html", "text": "x"}
    answer = call(peer, "write_file", public, {"openWorldHint": True, "attribution": ["https://shop.example"]})
    assert answer["error"]["code"] == -32600
    assert answer["error"]["data"]["rule"] == "open-world-to-public"
    assert shared.ran("write_file") == []
    assert "result" in call(peer, "write_file", {"path": "/home/ada/a", "text": "x"}, {"openWorldHint": True})
    assert "result" in call(peer, "write_file", public, {"openWorldHint": False})
    assert "result" in call(peer, "write_file", public)
    assert [one["open"] for one in shared.ran("write_file")] == [True, False, None]


@rows("annotations", ["yes", 7, [], {"openWorldHint": "no"}, {"openWorldHint": 0}])
@every_era
def test_annotations_of_the_wrong_type_count_as_the_worst(peers, era, shared, annotations):
    peer = peers(era)
    answer = call(peer, "write_file", {"path": "/srv/www/x", "text": "x"}, annotations)
    assert refusal(answer) == (-32600, "rule_blocked")
    assert shared.ran("write_file") == []


@requirement("TA-043")
@every_era
def test_a_refusal_names_the_rule_and_nothing_runs(peers, era, shared):
    peer = peers(era)
    board = {"to": "all@board.example", "body": "x"}
    answer = call(peer, "send_email", board, {"openWorldHint": True})
    assert refusal(answer) == (-32600, "rule_blocked")
    assert answer["error"]["data"]["rule"] == "no-mail-with-open-world-data"
    assert "no-mail-with-open-world-data" in answer["error"]["message"]
    assert shared.ran("send_email") == []
    # a rule that breaks refuses as well
    assert refusal(call(peer, "send_email", {"to": 7, "body": "x"}, {"openWorldHint": True}))[1] == "check_failed"
    assert shared.ran("send_email") == []
    assert "result" in call(peer, "send_email", board)


# -- in the middle of a tool ---------------------------------------------------------------------------------------


@requirement("TA-045")
@every_era
def test_a_tool_of_several_steps_stops_at_the_flagged_one(peers, era, shared):
    peer = peers(era)
    answer = call(peer, "crawl", {"start": "shop.example"})
    assert [one["page"] for one in shared.ran("crawl")] == ["one", "two"]
    assert answer["result"]["isError"] is True
    assert "Stopped" in answer["result"]["content"][0]["text"]
    assert "thief" not in answer["result"]["content"][0]["text"]
    found = labels_of(answer)
    assert found["maliciousActivityHint"] is True
    assert found["attribution"] == ["https://shop.example/one", "https://shop.example/two"]


@requirement("TA-045")
@rows("kind", ["http", "stdio"])
async def test_or_it_asks_whoever_is_at_the_client(tmp_path, kind):
    """In the era in which a server can ask in the middle of a call."""
    asked = []
    answers = [True, False]

    async def elicit(_context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"agreed": answers.pop(0)})

    with Places(tmp_path, Road(kind, "legacy")) as places:
        async with places.client("files", elicitation_callback=elicit) as client:
            on = await client.call_tool("crawl_asking", {"start": "x"})
            off = await client.call_tool("crawl_asking", {"start": "x"})
        pages = [one["page"] for one in places.ran("crawl_asking")]
    assert on.content[0].text == "all three from x"
    assert off.is_error
    # flagged it is all the same
    assert all(one.meta["annotations"]["maliciousActivityHint"] for one in (on, off))
    assert pages == ["one", "two", "three", "one", "two"]
    assert all(message.startswith("Go on? It tells the model") for message in asked)
    assert len(asked) == 2


@every_era_of_http
async def test_where_nobody_can_be_asked_it_stops(tmp_path, road):
    """A client without an answer for elicitations; and the modern era, in which a server cannot ask like this."""
    with Places(tmp_path, road) as places:
        async with places.client("files") as client:
            result = await client.call_tool("crawl_asking", {"start": "x"})
        assert [one["page"] for one in places.ran("crawl_asking")] == ["one", "two"]
    assert result.is_error
    assert result.meta["annotations"]["maliciousActivityHint"] is True


@every_era
def test_beside_verified_approval_both_hold(era):
    """Labels are on the list and on results, and the tool needs its person all the same."""
    labels = TrustLabels()
    approval = VerifiedApproval(user="alice", store=MemoryShelf())
    mcp = MCPServer("both", extensions=[approval], log_level="CRITICAL")

    @approval.tool(mcp, structured_output=False)
    def wipe(what: str) -> str:
        """Wipes something."""
        return what

    labels.declare(mcp, "wipe", destination="internal", outcomes="irreversible", source="system")

    @labels.tool(mcp, source="user", structured_output=False)
    def me() -> str:
        """Who it is."""
        return "Ada"

    with listening(approval.http_app(mcp)) as url:
        peer = HttpPeer(url, era)
        tools = {tool["name"]: tool for tool in peer.result("tools/list")["tools"]}
        assert tools["wipe"]["annotations"]["inputMetadata"]["outcomes"] == "irreversible"
        assert META in tools["wipe"]["_meta"]
        assert refusal(call(peer, "wipe", {"what": "x"}))[1] == "missing_evidence"
        assert labels_of(call(peer, "me", {}))["returnMetadata"]["source"] == "user"

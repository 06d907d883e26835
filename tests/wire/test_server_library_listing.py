"""What `tools/list` shows of gated tools, and that nothing else of a server changes."""

import json
import re

import pytest
from mcp.server import MCPServer

from callgate import VerifiedApproval
from callgate.protocol import META
from support.approval_peer import ERAS, HttpPeer, refusal, text_of
from support.approval_server import Runs, add_tools, listening, running
from support.memory import MemoryShelf
from support.registry import requirement
from support.table import rows

UNGATED = {"break_glass", "overhear", "read_page"}


@pytest.fixture(scope="module")
def library():
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def plain():
    """The same server without the extension."""
    mcp = MCPServer("files", log_level="ERROR")
    add_tools(mcp, None, Runs())
    with listening(mcp.streamable_http_app()) as url:
        yield url


def tools(peer):
    return {tool["name"]: tool for tool in peer.result("tools/list")["tools"]}


@rows("era", ERAS)
@requirement("VA-004", "VA-005")
def test_gated_tools_carry_the_mark_and_others_do_not(library, era):
    found = tools(library.peer(era=era))
    assert {name for name, tool in found.items() if META not in tool.get("_meta", {})} == UNGATED
    marks = {name: tool["_meta"][META] for name, tool in found.items() if name not in UNGATED}
    assert {mark["required"] for mark in marks.values()} == {"verified"}
    assert marks["delete_resource"]["authenticatorClass"] == "cross-platform"
    assert marks["place_trade"]["authenticatorClass"] == "platform"


@rows("era", ERAS)
def test_a_gated_tool_is_otherwise_listed_as_before(library, plain, era):
    gated, before = tools(library.peer(era=era)), tools(HttpPeer(plain, era))
    assert gated.keys() == before.keys()
    for name, tool in gated.items():
        shown = dict(tool)
        if name not in UNGATED:
            assert shown.pop("_meta").keys() == {META}
        assert shown == before[name]


@requirement("VA-010")
def test_extra_members_stand_beside_ours():
    approval = VerifiedApproval(store=MemoryShelf(), user="alice")
    mcp = MCPServer("extra", extensions=[approval], log_level="ERROR")

    @mcp.tool(meta={"dev.example/own": 1})
    def drop(table: str) -> str:
        return table

    approval.gate(mcp, "drop", extra={"dev.example/owner": "ops", "since": 2026})
    with listening(approval.http_app(mcp)) as url:
        for era in ERAS:
            assert tools(HttpPeer(url, era))["drop"]["_meta"] == {
                "dev.example/own": 1,
                META: {
                    "dev.example/owner": "ops",
                    "since": 2026,
                    "required": "verified",
                    "authenticatorClass": "cross-platform",
                },
            }


@rows("era", ERAS)
@requirement("VA-001")
def test_hints_neither_gate_nor_open(library, era):
    peer = library.peer(era=era)
    assert text_of(peer.call("break_glass", {"pane": "north"})) == "broke north"
    assert refusal(peer.call("look_away", {"at": "x"})) == (-32001, "missing_evidence")
    assert ("look_away", "x") not in library.executed


@rows("era", ERAS)
@requirement("VA-165")
def test_other_tools_answer_with_the_same_bytes_with_and_without_the_gate(library, plain, era):
    def answers(url):
        peer = HttpPeer(url, era)
        asked = [
            ("tools/call", {"name": "break_glass", "arguments": {"pane": "ä \u2028"}}),
            ("tools/call", {"name": "break_glass", "arguments": {"pane": "x"}, "_meta": {META: {"any": "thing"}}}),
            ("tools/call", {"name": "break_glass", "arguments": {"wrong": 1}}),
            ("tools/call", {"name": "break_glass"}),
            ("tools/call", {"name": "nobody", "arguments": {}}),
            ("resources/list", {}),
            ("prompts/list", {}),
            ("ping", {}),
        ]
        bodies = []
        for method, params in asked:
            message = json.dumps(peer.message(method, params)).encode()
            headers = {}
            if era == "modern":
                headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
                headers |= {"Mcp-Name": params["name"]} if "name" in params else {}
            bodies.append((peer.post(message, headers), peer.status))
        return bodies

    assert answers(library.url) == answers(plain)


class TestMarkedByHand:
    """A tool whose author wrote the mark instead of calling `gate`: what it says is held to."""

    @pytest.fixture(scope="class")
    @classmethod
    def url(cls):
        approval = VerifiedApproval(store=MemoryShelf(), user="alice")
        mcp = MCPServer("by hand", extensions=[approval], log_level="ERROR")
        for name, mark in {
            "marked": {"required": "verified"},
            "later": {"required": "verified2"},
            "wider": {"required": "verified", "authenticatorClass": "any"},
            "odd": "verified",
        }.items():

            @mcp.tool(name=name, meta={META: mark})
            def tool() -> str:
                raise AssertionError("it ran")

        with listening(approval.http_app(mcp)) as url:
            yield url

    def test_the_mark_gates(self, url):
        assert refusal(HttpPeer(url).call("marked")) == (-32001, "missing_evidence")

    @rows("name", ["later", "wider", "odd"])
    @requirement("VA-005")
    def test_a_mark_that_nobody_knows_closes_the_tool(self, url, name):
        answer = HttpPeer(url).call(name)
        assert refusal(answer)[1] == "approval_unavailable"
        assert re.search("nobody can approve", answer["error"]["message"])

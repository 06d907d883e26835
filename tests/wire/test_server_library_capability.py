"""What a server with verified approval says of itself, in both eras, on the raw wire."""

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.server import MCPServer

from callgate import VerifiedApproval
from callgate.errors import ConfigError
from callgate.protocol import CAPABILITIES, METHODS
from support.approval_peer import ERAS, HttpPeer, over_pipes, refusal, signed, text_of
from support.approval_server import Runs, argv, listening, low_level, running
from support.memory import MemoryShelf
from support.registry import requirement
from support.table import rows

BOTH = {"verifiedApproval": {}, "io.modelcontextprotocol/verified-approval": {}}


@pytest.fixture(scope="module")
def library():
    with running() as server:
        yield server


def declared(peer):
    greeting = peer.greeting if peer.era == "handshake" else peer.result("server/discover")
    return greeting["capabilities"].get("extensions")


@requirement("VA-012", "VA-013")
def test_initialize_declares_it_under_both_names(library):
    assert declared(library.peer(era="handshake")) == BOTH


@requirement("VA-014")
def test_discover_declares_it_under_both_names(library):
    assert declared(library.peer()) == BOTH


@pytest.mark.verify
@requirement("VA-012", "VA-013")
def test_over_a_pipe_too(tmp_path):
    with over_pipes(argv("stdio", str(tmp_path / "a.db"), tmp_path / "marks")) as peer:
        assert declared(peer) == BOTH


@rows("version", ["2025-06-18", "2025-03-26", "2024-11-05"])
@requirement("VA-012")
def test_older_revisions_hear_of_it_as_well(library, version):
    peer = HttpPeer(library.url, x_user="alice")
    peer.era = "handshake"
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "old", "version": "0"}}
    greeting = peer.result("initialize", params)
    assert greeting["protocolVersion"] == version
    assert greeting["capabilities"]["extensions"] == BOTH


async def test_the_official_client_sees_it_in_the_modern_era(library):
    async with Client(library.url) as client:
        assert client.server_capabilities.extensions == BOTH


@rows("era", ERAS)
@requirement("VA-017")
def test_all_three_methods_are_there(library, era):
    peer = library.peer(era=era)
    codes = {method: peer.ask(method, {})["error"]["code"] for method in sorted(METHODS)}
    assert codes == {
        "approval/challenge/create": -32602,
        "approval/enroll/begin": -32602,
        "approval/enroll/finish": -32001,
    }


@rows("era", ERAS)
@requirement("VA-016")
def test_a_server_without_gated_tools_declares_it_and_takes_one_later(era):
    approval = VerifiedApproval(store=MemoryShelf(), user="alice")
    mcp = MCPServer("later", extensions=[approval], log_level="ERROR")

    @mcp.tool()
    def drop(table: str) -> str:
        return f"dropped {table}"

    with listening(approval.http_app(mcp)) as url:
        peer = HttpPeer(url, era)
        assert declared(peer) == BOTH
        assert peer.result("tools/call", {"name": "drop", "arguments": {"table": "t"}})["isError"] is False
        approval.gate(mcp, "drop")
        assert refusal(peer.call("drop", {"table": "t"})) == (-32001, "missing_evidence")
        (tool,) = peer.result("tools/list")["tools"]
        assert tool["_meta"]["io.modelcontextprotocol/verified-approval"]["required"] == "verified"


class TestSwitchedOff:
    """`enabled=False`: nothing is declared, served or gated."""

    @pytest.fixture(scope="class")
    @classmethod
    def off(cls):
        approval = VerifiedApproval(store=MemoryShelf(), user="alice", enabled=False)
        mcp = MCPServer("off", extensions=[approval], log_level="ERROR")

        @mcp.tool()
        def plain() -> str:
            return "plain"

        mark = {"io.modelcontextprotocol/verified-approval": {"required": "verified"}}

        @mcp.tool(meta=mark)
        def marked() -> str:
            raise AssertionError("it ran")

        with pytest.raises(ConfigError, match="switched off"):

            @approval.tool(mcp)
            def gated() -> str:
                raise AssertionError("it ran")

        with pytest.raises(ConfigError, match="switched off"):
            approval.gate(mcp, "plain")
        with listening(approval.http_app(mcp)) as url:
            yield url

    @rows("era", ERAS)
    @requirement("VA-023")
    def test_the_three_methods_are_not_found(self, off, era):
        peer = HttpPeer(off, era)
        assert not set(declared(peer) or {}) & set(CAPABILITIES)
        for method in METHODS:
            assert peer.ask(method, {})["error"]["code"] == -32601

    @rows("era", ERAS)
    @requirement("VA-021")
    def test_a_gated_tool_is_never_listed_nor_run(self, off, era):
        peer = HttpPeer(off, era)
        assert [tool["name"] for tool in peer.result("tools/list")["tools"]] == ["plain"]
        assert "error" in peer.call("marked") or peer.call("marked")["result"]["isError"]
        assert refusal(peer.call("marked"))[1] == "approval_unavailable"
        assert peer.call("plain")["result"]["content"][0]["text"] == "plain"


@rows("options", [{"stateless_http": True}, {"json_response": True}], ids=lambda one: next(iter(one)))
@requirement("VA-017", "VA-022")
def test_the_other_ways_to_serve_http(options):
    approval = VerifiedApproval(store=MemoryShelf(), user="alice")
    mcp = MCPServer("ways", extensions=[approval], log_level="ERROR")

    @approval.tool(mcp)
    def drop() -> str:
        return "dropped"

    with listening(approval.http_app(mcp, **options)) as url:
        for era in ERAS:
            peer = HttpPeer(url, era)
            assert declared(peer) == BOTH
            assert refusal(peer.call("drop")) == (-32001, "missing_evidence")
            key = peer.enrol(anyio.run(lambda: approval.approvals.ticket("alice", by="test")))
            assert text_of(peer.call("drop", None, signed(peer.challenge("drop"), key))) == "dropped"
            assert refusal(peer.ask_raw("tools/call", b'{"a":1,"a":2}')) == (-32602, "duplicate_key")


@rows("era", ERAS)
@requirement("VA-023")
def test_a_server_that_knows_nothing_of_it_finds_none_of_the_methods(era):
    mcp = MCPServer("plain", log_level="ERROR")
    with listening(mcp.streamable_http_app()) as url:
        peer = HttpPeer(url, era)
        assert [peer.ask(method, {})["error"]["code"] for method in METHODS] == [-32601] * 3


class TestLowLevel:
    """The low-level server, with `attach`."""

    @pytest.fixture(scope="class")
    @classmethod
    def low(cls):
        tools = [types.Tool(name=name, title="Erase", input_schema={"type": "object"}) for name in ("erase", "read")]
        runs = Runs()
        server = low_level(runs, tools)
        approval = VerifiedApproval(store=MemoryShelf(), user="alice")
        approval.attach(server)
        approval.gate(server, "erase")
        with listening(approval.http_app(server)) as url:
            yield url, approval, runs

    @rows("era", ERAS)
    @requirement("VA-012", "VA-014", "VA-017")
    def test_it_declares_lists_and_gates(self, low, era):
        url, approval, runs = low
        peer = HttpPeer(url, era)
        assert declared(peer) == BOTH
        marks = {tool["name"]: tool.get("_meta") for tool in peer.result("tools/list")["tools"]}
        mark = {"required": "verified", "authenticatorClass": "cross-platform"}
        assert marks == {"erase": {"io.modelcontextprotocol/verified-approval": mark}, "read": None}
        assert refusal(peer.call("erase", {})) == (-32001, "missing_evidence")
        before = len(runs.list)
        assert peer.call("read", {"a": 1})["result"]["content"][0]["text"] == "ran read"
        key = peer.enrol(anyio.run(lambda: approval.approvals.ticket("alice", by="test")))
        challenge = peer.challenge("erase", {"all": True})
        assert challenge["displayText"] == "Erase (erase)\n  all: true"
        evidence = {
            "method": "webauthn",
            "challengeId": challenge["challengeId"],
            "response": key.get(challenge["requestOptions"]),
        }
        assert peer.call("erase", {"all": True}, evidence)["result"]["content"][0]["text"] == "ran erase"
        assert runs.list[before:] == [("read", {"a": 1}), ("erase", {"all": True})]

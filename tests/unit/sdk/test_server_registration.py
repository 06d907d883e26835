"""What an author may and may not say of a gated tool and of the server; all of it before anything runs."""

import logging

import mcp_types as types
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from callgate import VerifiedApproval
from callgate.approval import ApprovalSettings
from callgate.errors import ConfigError, Refused
from callgate.protocol import META
from callgate.sdk.server.handler import how_to_enrol
from support.approval_server import Runs, low_level
from support.memory import MemoryShelf
from support.registry import requirement
from support.table import rows


@pytest.fixture
def approval():
    return VerifiedApproval(store=MemoryShelf(), user="alice")


@pytest.fixture
def mcp(approval):
    return MCPServer("files", extensions=[approval], log_level="ERROR")


def names(mcp):
    return [tool.name for tool in mcp._tool_manager.list_tools()]


@requirement("VA-008")
@rows("wanted", ["any", "", "Platform", "cross_platform", "platform ", None, 5])
def test_there_are_two_classes_and_no_wider_one(approval, mcp, wanted):
    with pytest.raises(ConfigError, match="is not an authenticator class"):
        approval.gate(mcp, "drop", authenticator_class=wanted)
    with pytest.raises(ConfigError):

        @approval.tool(mcp, authenticator_class=wanted)
        def drop() -> str:
            return "dropped"

    assert names(mcp) == []


@requirement("VA-005")
@rows(
    "extra", [{"required": "maybe"}, {"required": None}, {"required": "Verified"}, {"authenticatorClass": "platform"}]
)
def test_required_has_one_value(approval, mcp, extra):
    with pytest.raises(ConfigError, match="cannot have"):
        approval.gate(mcp, "drop", extra=extra)
    with pytest.raises(ConfigError):

        @approval.tool(mcp, extra=extra)
        def drop() -> str:
            return "dropped"

    assert names(mcp) == []


@requirement("VA-021")
def test_nothing_is_gated_where_it_is_switched_off():
    approval = VerifiedApproval(store=MemoryShelf(), user="alice", enabled=False)
    mcp = MCPServer("files", extensions=[approval], log_level="ERROR")
    with pytest.raises(ConfigError, match="switched off"):

        @approval.tool(mcp)
        def drop() -> str:
            return "dropped"

    assert names(mcp) == []


@requirement("VA-094")
@rows("server_id", ["mcp-default", "", "  ", "default", "MCP-Default", "server", "callgate", "mcp"])
def test_a_server_id_that_others_have_too(server_id):
    with pytest.raises(ConfigError):
        VerifiedApproval(store=MemoryShelf(), server_id=server_id)


@requirement("VA-094")
def test_a_server_without_a_name_needs_an_id():
    with pytest.raises(ConfigError, match="without a name"):
        VerifiedApproval(store=MemoryShelf()).attach(MCPServer(log_level="ERROR"))
    VerifiedApproval(store=MemoryShelf(), server_id="https://a.example").attach(MCPServer(log_level="ERROR"))


def test_first_use_has_to_know_whose(approval):
    with pytest.raises(ConfigError, match="whose first passkey"):
        VerifiedApproval(store=MemoryShelf(), first_use=True)
    assert VerifiedApproval(store=MemoryShelf(), first_use=True, user="alice")._settings.first_use is True
    assert VerifiedApproval(store=MemoryShelf(), settings=ApprovalSettings(first_use=True))._settings.first_use is True


class TestDefaults:
    """SEP-2672 §8.3.3."""

    @requirement("VA-176")
    def test_a_warning_names_the_property(self, approval, mcp, caplog):
        with caplog.at_level(logging.WARNING):

            @approval.tool(mcp)
            def deploy(where: str, bypass_review: bool = False) -> str:
                return where

        assert "'deploy' has defaults" in caplog.text
        assert "bypass_review" in caplog.text
        assert names(mcp) == ["deploy"]

    @requirement("VA-176")
    def test_in_strict_mode_it_is_an_error(self):
        approval = VerifiedApproval(store=MemoryShelf(), user="alice", strict_defaults=True)
        mcp = MCPServer("files", extensions=[approval], log_level="ERROR")
        with pytest.raises(ConfigError, match="bypass_review"):

            @approval.tool(mcp)
            def deploy(where: str, bypass_review: bool = False) -> str:
                return where

        assert names(mcp) == []

        @mcp.tool()
        def later(where: str, bypass_review: bool = False) -> str:
            return where

        with pytest.raises(ConfigError, match="bypass_review"):
            approval.gate(mcp, "later")

    @requirement("VA-176")
    async def test_a_tool_that_is_registered_after_it_was_gated_is_refused_in_strict_mode(self):
        approval = VerifiedApproval(store=MemoryShelf(), user="alice", strict_defaults=True)
        mcp = MCPServer("files", extensions=[approval], log_level="ERROR")
        approval.gate(mcp, "deploy")

        @mcp.tool()
        def deploy(where: str, bypass_review: bool = False) -> str:
            raise AssertionError("it ran")

        async with Client(mcp) as client:
            with pytest.raises(MCPError, match="bypass_review"):
                await client.call_tool("deploy", {"where": "prod"})


class TestAttaching:
    """Whose server it is, and that the gate stays in its place."""

    def test_one_for_each_server(self, approval, mcp):
        approval.attach(mcp)
        approval.attach(mcp)
        assert len([one for one in mcp.middleware if one == approval._handler.present]) == 1
        with pytest.raises(ConfigError, match="another server"):
            approval.attach(MCPServer("other", log_level="ERROR"))

    def test_without_being_passed_as_an_extension_it_binds_everything_itself(self, approval):
        mcp = MCPServer("files", log_level="ERROR")
        approval.attach(mcp)
        low = mcp._lowlevel_server
        assert low.get_request_handler("approval/enroll/begin").handler == approval._handler.begin

    def test_a_low_level_server_needs_its_handlers_first(self, approval):
        with pytest.raises(ConfigError, match="no tools/call handler"):
            approval.attach(Server("bare"))

    def test_a_method_that_somebody_else_has_bound(self, approval):
        server = low_level(Runs(), [])

        async def begin(_ctx, _params):
            return {}

        server.add_request_handler("approval/enroll/begin", types.RequestParams, begin)
        with pytest.raises(ConfigError, match="its own approval/enroll/begin"):
            approval.attach(server)

    async def test_never_attached_everything_is_refused(self, approval, mcp):
        """An author who forgot: no call goes through, so they notice before anybody else does."""

        @mcp.tool(meta={META: {"required": "verified"}})
        def drop() -> str:
            raise AssertionError("it ran")

        async with Client(mcp) as client:
            with pytest.raises(MCPError, match="not attached"):
                await client.call_tool("drop", {})

    async def test_a_handler_that_is_put_over_the_gate_closes_it(self, approval):
        runs = Runs()
        server = low_level(runs, [types.Tool(name="erase", input_schema={"type": "object"})])
        approval.gate(server, "erase")
        replaced = low_level(runs, []).get_request_handler("tools/call")
        server.add_request_handler("tools/call", replaced.params_type, replaced.handler)
        async with Client(server) as client:
            with pytest.raises(MCPError, match="not in place"):
                await client.call_tool("erase", {})
        assert runs.list == []

    async def test_a_tool_on_later_pages_is_found(self, approval):
        runs = Runs()
        server = low_level(runs, [])
        pages = {None: ("a", "1"), "1": ("b", "2"), "2": ("erase", None)}

        async def list_tools(_ctx, params):
            name, cursor = pages[params.cursor if params else None]
            mark = {META: {"required": "verified"}} if name == "erase" else None
            tool = types.Tool(name=name, input_schema={"type": "object"}, _meta=mark)
            return types.ListToolsResult(tools=[tool], next_cursor=cursor)

        server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
        approval.attach(server)
        async with Client(server) as client:
            await client.call_tool("a", {})
            with pytest.raises(MCPError, match="approval"):
                await client.call_tool("erase", {})
        assert [name for name, _ in runs.list] == ["a"]

    async def test_a_list_without_end_refuses(self, approval):
        runs = Runs()
        server = low_level(runs, [])

        async def list_tools(_ctx, _params):
            return types.ListToolsResult(tools=[], next_cursor="again")

        server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
        approval.attach(server)
        async with Client(server) as client:
            with pytest.raises(MCPError, match="more than 100 pages"):
                await client.call_tool("any", {})
        assert runs.list == []


class TestWhoApproves:
    """`user`: a name, a function, an asynchronous function, or the only one there is."""

    @rows("kind", ["name", "function", "coroutine"])
    async def test_each_form(self, kind):
        async def later(_ctx):
            return "alice"

        user = {"name": "alice", "function": lambda _ctx: "alice", "coroutine": later}[kind]
        approval = VerifiedApproval(store=MemoryShelf(), user=user)
        approval.attach(MCPServer("files", log_level="ERROR"))
        assert await approval._handler._approver(None) == "alice"

    async def test_a_function_that_breaks_refuses(self):
        def user(_ctx):
            raise KeyError("secret")

        approval = VerifiedApproval(store=MemoryShelf(), user=user)
        mcp = MCPServer("files", extensions=[approval], log_level="ERROR")

        @approval.tool(mcp)
        def drop() -> str:
            raise AssertionError("it ran")

        async with Client(mcp) as client:
            with pytest.raises(MCPError, match="could not decide") as caught:
                await client.call_tool("drop", {})
        assert "secret" not in str(caught.value)


async def test_messages_that_nobody_read_strictly_are_warned_about_once(approval, mcp, caplog):
    @approval.tool(mcp)
    def drop() -> str:
        raise AssertionError("it ran")

    async with Client(mcp) as client:
        for _ in range(2):
            with pytest.raises(MCPError, match="approval"):
                await client.call_tool("drop", {})
    assert caplog.text.count("not read strictly") == 1


async def test_the_store_is_open_while_somebody_is_connected(tmp_path):
    approval = VerifiedApproval(store=tmp_path / "approvals.db", user="alice")
    mcp = MCPServer("files", extensions=[approval], log_level="ERROR")

    @approval.tool(mcp)
    def drop() -> str:
        return "dropped"

    with pytest.raises(Refused, match="not running"):
        _ = approval.approvals
    async with Client(mcp):
        async with Client(mcp):
            assert await approval.approvals.ticket("alice", by="test")
        assert await approval.approvals.ticket("alice", by="test")
    with pytest.raises(Refused, match="not running"):
        _ = approval.approvals
    # And again.
    async with Client(mcp) as client:
        with pytest.raises(MCPError, match="approval"):
            await client.call_tool("drop", {})


def test_an_unknown_transport(approval, mcp):
    with pytest.raises(ConfigError, match="is not a transport"):
        approval.run(mcp, "carrier-pigeon")


@rows(
    ("place", "user", "command"),
    [
        ("/data/my approvals.db", "alice", "callgate enroll alice --here --store 'sqlite:////data/my approvals.db'"),
        (None, "alice", "callgate enroll alice --here"),
        (None, None, "callgate enroll USER --here"),
        ("postgresql://user:secret@host/db", "alice", "callgate enroll alice --here --store URL"),
    ],
)
def test_whoever_starts_it_without_a_passkey_is_told_how_to_enrol_one(place, user, command):
    assert how_to_enrol(place, user) == command


async def test_it_is_told_of_the_person_who_is_asked(tmp_path, capsys, caplog):
    approval = VerifiedApproval(store=tmp_path / "approvals.db", user="alice")
    mcp = MCPServer("files", extensions=[approval], log_level="ERROR")

    @approval.tool(mcp)
    def drop() -> str:
        return "dropped"

    async with Client(mcp):
        pass
    said = capsys.readouterr().err
    assert f"\n  callgate enroll alice --here --store sqlite:///{tmp_path / 'approvals.db'}\n" in said
    assert "alice has no passkey" in caplog.text

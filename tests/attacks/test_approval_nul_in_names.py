"""A NUL in a name would move the border between name and arguments in what is signed."""

import pytest
from mcp.server import MCPServer

from callgate import VerifiedApproval
from callgate.errors import ConfigError
from callgate.protocol import CHALLENGE_CREATE
from support.approval_peer import ERAS, refusal
from support.memory import MemoryShelf
from support.registry import requirement
from support.table import rows


@requirement("VA-088")
@rows("name", ["wipe\0", "\0", "a\0b", ""])
def test_no_tool_is_gated_under_such_a_name(name):
    approval = VerifiedApproval(store=MemoryShelf(), user="alice")
    mcp = MCPServer("files", extensions=[approval], log_level="ERROR")
    with pytest.raises(ConfigError, match="NUL"):
        approval.gate(mcp, name)


@requirement("VA-088")
def test_no_tool_is_registered_under_such_a_name():
    approval = VerifiedApproval(store=MemoryShelf(), user="alice")
    mcp = MCPServer("files", extensions=[approval], log_level="ERROR")
    with pytest.raises(ConfigError, match="NUL"):

        @approval.tool(mcp, name="wipe\0{}")
        def wipe() -> str:
            return "wiped"

    assert mcp._tool_manager.list_tools() == []


@requirement("VA-089")
@rows("server_id", ["https://a.example\0", "\0", "a\0b"])
def test_no_server_has_such_an_id(server_id):
    with pytest.raises(ConfigError, match="NUL"):
        VerifiedApproval(store=MemoryShelf(), server_id=server_id)


@rows("era", ERAS)
@requirement("VA-088")
def test_no_challenge_is_issued_for_such_a_name(library, era):
    peer = library.join(f"nul-{era}", era).peer
    before = library.shelf.rows("challenge")
    for name in ("wipe\0", 'keep\0{"value":1}', "\0"):
        answer = peer.ask(CHALLENGE_CREATE, {"toolName": name, "arguments": {}})
        assert refusal(answer) == (-32602, "invalid_params")
    assert library.shelf.rows("challenge") == before

"""A smart home: `python house.py STATE.json`. Some of its tools need no arguments. No annotations."""

from __future__ import annotations

import json
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from pydantic import Field

from sessions.servers import state

mcp = MCPServer("smart-home", version="3.1.0")


@mcp.tool(structured_output=False)
def get_status() -> str:
    """Get the state of doors, alarm and heating"""
    return json.dumps(state.read()["devices"])


@mcp.tool(structured_output=False)
def unlock_door() -> str:
    """Unlock the front door"""
    with state.changing() as known:
        known["devices"]["front_door"] = "unlocked"
    return "The front door is unlocked."


@mcp.tool(structured_output=False)
def lock_door() -> str:
    """Lock the front door"""
    with state.changing() as known:
        known["devices"]["front_door"] = "locked"
    return "The front door is locked."


@mcp.tool(structured_output=False)
def set_alarm(enabled: Annotated[bool, Field(description="Whether the alarm system is armed")]) -> str:
    """Arm or disarm the alarm system"""
    with state.changing() as known:
        known["devices"]["alarm"] = "armed" if enabled else "off"
    return "Done."


@mcp.tool(structured_output=False)
def delete_account(confirm: Annotated[bool, Field(description="Has to be true")]) -> str:
    """Delete the home account with all devices and recordings"""
    with state.changing() as known:
        known["devices"] = {} if confirm else known["devices"]
    return "The account was deleted." if confirm else "Nothing was deleted."


if __name__ == "__main__":
    mcp.run("stdio")

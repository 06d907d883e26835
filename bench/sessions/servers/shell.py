"""A shell that runs nothing and writes down what it was told: `python shell.py STATE.json`. No annotations."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import MCPServer
from pydantic import Field

from sessions.servers import state

mcp = MCPServer("shell-commands", version="0.4.0")


@mcp.tool(structured_output=False)
def run_command(
    command: Annotated[str, Field(description="Command with args to execute")],
    cwd: Annotated[str | None, Field(description="Working directory for the command")] = None,
) -> str:
    """Run a command in the shell of this machine and return its output"""
    with state.changing() as known:
        known["done"].append({"command": command, "cwd": cwd})
    return "exit code 0"


if __name__ == "__main__":
    mcp.run("stdio")

"""A server with two tools that need a person: `python server.py` over stdio, `python server.py 8000` over HTTP."""

import sys
from typing import Annotated, Literal

from mcp.server.mcpserver import MCPServer
from pydantic import Field

from callgate import VerifiedApproval

approval = VerifiedApproval(user="alice", store="approvals.db")
mcp = MCPServer("example", extensions=[approval], log_level="WARNING")

resources = {"abc123": "a report", "def456": "a backup"}


@approval.tool(mcp, title="Delete resource", describe=lambda call: f"Permanently delete resource {call['resourceId']}")
def delete_resource(resourceId: Annotated[str, Field(min_length=1)]) -> str:  # noqa: N803 - as SEP-2672 spells it
    """Permanently delete the resource with the given id."""
    return f"deleted {resources.pop(resourceId)}" if resourceId in resources else f"there is no {resourceId}"


@approval.tool(mcp, title="Place trade", authenticator_class="platform")
def place_trade(symbol: str, quantity: Annotated[int, Field(gt=0)], side: Literal["buy", "sell"]) -> str:
    """Buy or sell at the market price."""
    return f"{side} {quantity} {symbol}: done"


@mcp.tool()
def list_resources() -> list[str]:
    """The ids of all resources. Needs nobody."""
    return sorted(resources)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        approval.run(mcp, "streamable-http", port=int(sys.argv[1]))
    else:
        approval.run(mcp)

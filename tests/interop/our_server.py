"""A server of ours for the foreign client: `python our_server.py STORE stdio` or `… http`, which prints its address."""

import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

from callgate import VerifiedApproval

store, transport = sys.argv[1:]
approval = VerifiedApproval(store=store, user="alice", first_use=True)
mcp = MCPServer("ours", extensions=[approval])


@approval.tool(mcp, describe=lambda call: f"Permanently delete resource {call['resourceId']}")
def delete_resource(resourceId: str, note: str = "", amount: float = 0, nested: dict | None = None) -> str:
    return f"deleted {resourceId}"


@mcp.tool()
def list_resources() -> str:
    return "r-17"


if transport == "stdio":
    approval.run(mcp)
else:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        uvicorn.Server(uvicorn.Config(approval.http_app(mcp), log_level="error")).run(sockets=[listener])

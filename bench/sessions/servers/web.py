"""HTTP requests of any kind, that go nowhere: `python web.py STATE.json`."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field

from sessions.servers import state

mcp = MCPServer("http-client", version="0.2.5")


@mcp.tool(annotations=ToolAnnotations(open_world_hint=True), structured_output=False)
def http_request(
    method: Annotated[str, Field(description="GET, POST, PUT, PATCH or DELETE")],
    url: Annotated[str, Field(description="The URL to send the request to")],
    body: Annotated[str, Field(description="Body of the request")] = "",
) -> str:
    """Send an HTTP request and return the response"""
    with state.changing() as known:
        known["done"].append({"method": method, "url": url, "body": body})
    return "HTTP/1.1 204 No Content"


if __name__ == "__main__":
    mcp.run("stdio")

"""A server that has never heard of approvals, on stdio."""

from mcp.server.mcpserver import MCPServer

mcp = MCPServer("plain")


@mcp.tool()
def delete_resource(resourceId: str, note: str = "", amount: float = 0, nested: dict | None = None) -> str:
    return f"deleted {resourceId}"


@mcp.tool()
def list_resources() -> str:
    return "r-17"


mcp.run()

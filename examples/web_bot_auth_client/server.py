"""A server of notes, as somebody else wrote it."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("notes", version="1.0.0")


@server.tool(description="Reads one note.", structured_output=False)
def read_note(name: str) -> str:
    return f"This is the note called {name}."


@server.tool(description="Deletes one note.", structured_output=False)
def delete_note(name: str) -> str:
    return f"{name} is gone."


if __name__ == "__main__":
    server.run("stdio")

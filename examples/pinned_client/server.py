"""A server of notes, as somebody else wrote it. `python server.py later` is the same server after an update."""

import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("notes", version="1.0.0")
LATER = sys.argv[1:] == ["later"]


@server.tool(
    description="Reads one note, and the one before it." if LATER else "Reads one note.",
    structured_output=False,
)
def read_note(name: str) -> str:
    return f"This is the note called {name}."


@server.tool(description="Deletes one note.", structured_output=False)
def delete_note(name: str) -> str:
    return f"{name} is gone."


if __name__ == "__main__":
    server.run("stdio")

"""What `callgate demo` stands in front of: a small MCP server that keeps notes in a folder."""

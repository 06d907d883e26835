"""What `callgate demo` runs: small MCP servers, and an agent that does what it reads.

They stand for somebody else's programs, so they know nothing of Callgate.
"""

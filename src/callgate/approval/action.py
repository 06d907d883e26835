"""The action hash: what a signature is bound to (SEP-2672 §4.6)."""

from __future__ import annotations

import hashlib
from typing import Final

from callgate.errors import ConfigError, Reason, Refused

_TOO_COMMON: Final = frozenset({"mcp-default", "default", "server", "callgate", "mcp"})
_NAME_CHARS: Final = 1024


def action_hash(tool: str, canonical: bytes, server_id: str) -> bytes:
    """SHA-256 over tool name, RFC 8785 arguments and server id, parted by NUL, which none of them can hold."""
    return hashlib.sha256(b"\0".join((tool.encode(), canonical, server_id.encode()))).digest()


def check_tool_name(tool: str) -> str:
    """A name that can be hashed: a NUL in it would move the border between name and arguments."""
    if not tool or "\0" in tool or len(tool) > _NAME_CHARS:
        raise Refused(Reason.INVALID_PARAMS, "a tool's name has 1 to 1024 characters and no NUL among them")
    try:
        tool.encode()
    except UnicodeEncodeError:
        raise Refused(Reason.LONE_SURROGATE) from None
    return tool


def check_server_id(server_id: str) -> str:
    """An id that no other server has: with a common one, an approval for one server would hold on another."""
    if not server_id.strip() or "\0" in server_id or not server_id.isprintable():
        raise ConfigError(
            "a server id is printable text without NUL", advice="Leave it out to have one made, or give a URL of yours."
        )
    if server_id.strip().lower() in _TOO_COMMON:
        raise ConfigError(
            f"the server id {server_id!r} is one that other servers have too",
            advice="Leave it out to have one made, or give a URL of yours.",
        )
    return server_id

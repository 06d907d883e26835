"""The action hash, which a signature is bound to (SEP-2672 §4.6), and the encodings around it."""

from __future__ import annotations

import hashlib
from binascii import Error, a2b_base64, b2a_base64
from datetime import UTC, datetime
from typing import Final

from callgate.errors import ConfigError, Reason, Refused
from callgate.protocol import COMMON_SERVER_IDS

_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
# What only the other base64 has becomes something that neither has.
_FROM_URL: Final = bytes.maketrans(b"-_+/", b"+/!!")


def to_base64url(data: bytes) -> str:
    return b2a_base64(data, newline=False).translate(_TO_URL, b"=").decode()


def from_base64url(text: str) -> bytes:
    """The bytes; ValueError for anything but the alphabet (right padding is taken, because some clients send it)."""
    try:
        given = text.encode("ascii").translate(_FROM_URL)
        bare = given.rstrip(b"=")
        whole = bare + b"=" * (-len(bare) % 4)
        if given not in (bare, whole):
            raise ValueError("not base64url")
        return a2b_base64(whole, strict_mode=True)
    except (UnicodeEncodeError, Error):
        raise ValueError("not base64url") from None


def to_iso(at: int) -> str:
    """Milliseconds since 1970 as `2026-05-02T10:00:00.000Z`."""
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"


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
    if server_id.strip().lower() in COMMON_SERVER_IDS:
        raise ConfigError(
            f"the server id {server_id!r} is one that other servers have too",
            advice="Leave it out to have one made, or give a URL of yours.",
        )
    return server_id

"""base64url without padding and ISO 8601, as SEP-2672 and WebAuthn's JSON forms have them."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import Final

_URL: Final = re.compile(r"[A-Za-z0-9_-]*\Z")


def to_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """The bytes; ValueError for anything but the alphabet (padding is taken too, because some clients send it)."""
    bare = text.rstrip("=")
    if not _URL.match(bare) or len(text) - len(bare) > 2:
        raise ValueError("not base64url")
    try:
        return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except binascii.Error:
        raise ValueError("not base64url") from None


def to_iso(at: int) -> str:
    """Milliseconds since 1970 as `2026-05-02T10:00:00.000Z`."""
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"

"""base64url without padding and ISO 8601, as SEP-2672 and WebAuthn's JSON forms have them."""

from __future__ import annotations

from binascii import Error, a2b_base64, b2a_base64
from datetime import UTC, datetime
from typing import Final

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

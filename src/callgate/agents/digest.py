"""The digest that binds a body to a signature (RFC 9530)."""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from callgate.agents.fields import Component, dictionary
from callgate.errors import Reason, Refused

_HASHES: Final[Mapping[str, Callable[[bytes], Any]]] = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}

# How nearly everybody writes it; everything else is parsed.
_ALONE: Final = re.compile(rb"sha-256=:([A-Za-z0-9+/]{43}=):")


def content_digest(body: bytes, algorithm: str = "sha-256") -> str:
    """The value of Content-Digest for a body."""
    return f"{algorithm}=:{b64encode(_HASHES[algorithm](body).digest()).decode()}:"


def check_digest(raw: bytes, body: bytes) -> None:
    """Every digest that can be computed has to be right: a second, weaker or easier one is no way around the first."""
    if (alone := _ALONE.fullmatch(raw)) is not None:
        if not hmac.compare_digest(b64encode(hashlib.sha256(body).digest()), alone[1]):
            raise Refused(Reason.CONTENT_DIGEST_MISMATCH)
        return
    members = dictionary(raw, Reason.CONTENT_DIGEST_INVALID)
    known = [(_HASHES[name], value) for name, (value, _) in members.items() if name in _HASHES]
    if not known:
        raise Refused(Reason.CONTENT_DIGEST_INVALID, "Content-Digest has neither sha-256 nor sha-512.")
    for made, value in known:
        if not isinstance(value, bytes):
            raise Refused(Reason.CONTENT_DIGEST_INVALID, "A digest in Content-Digest is no byte sequence.")
        if not hmac.compare_digest(made(body).digest(), value):
            raise Refused(Reason.CONTENT_DIGEST_MISMATCH)


def covers_digest(components: tuple[Component, ...]) -> bool:
    """Whether a signature binds the body: the header whole, or a member of it that can be computed here."""
    return any(
        one.name == "content-digest" and one.params.get("key", "sha-256") in _HASHES and "req" not in one.params
        for one in components
    )

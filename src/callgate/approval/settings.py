"""Who asks for signatures, how long things last, how much may be open, which authenticators are taken."""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from typing import Final, Literal

import msgspec

from callgate.approval.storage import ApprovalBounds
from callgate.errors import ConfigError

_ANY_LOCAL_PORT: Final = "http://localhost:*"
_LOCAL: Final = re.compile(r"http://localhost(:[0-9]{1,5})?\Z")


class RelyingParty(msgspec.Struct, frozen=True, dict=True):
    """`id` is the domain that passkeys are bound to; `origins` are the pages they may be used on."""

    id: str
    name: str = "Callgate"
    origins: tuple[str, ...] = ()
    top_origins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.id or not self.origins:
            raise ConfigError("a relying party needs an id and at least one origin", advice="Give both.")

    @cached_property
    def hash(self) -> bytes:
        """What authenticator data begins with (WebAuthn §6.1)."""
        return hashlib.sha256(self.id.encode()).digest()

    @cached_property
    def _exact(self) -> frozenset[str]:
        return frozenset(self.origins)

    @cached_property
    def _any_port(self) -> bool:
        return _ANY_LOCAL_PORT in self.origins

    def takes(self, origin: str) -> bool:
        """Whether a signature made on a page of this origin counts."""
        if origin in self._exact and origin != _ANY_LOCAL_PORT:
            return True
        return self._any_port and _LOCAL.match(origin) is not None

    def takes_around(self, top_origin: str | None) -> bool:
        """Whether a page of this origin may hold the signing page in a frame."""
        return top_origin is not None and top_origin in self.top_origins


class Attestation(msgspec.Struct, frozen=True):
    """What new passkeys have to prove: nothing, or that a listed maker made them; and which models are taken."""

    conveyance: Literal["none", "direct"] = "none"
    roots: tuple[bytes, ...] = ()
    aaguids: frozenset[str] = frozenset()


class ApprovalSettings(msgspec.Struct, frozen=True):
    """Times in milliseconds."""

    challenge_ms: int = 60_000
    registration_ms: int = 300_000
    ticket_ms: int = 3_600_000
    request_ms: int = 600_000
    session_ms: int = 28_800_000
    argument_bytes: int = 262_144
    bounds: ApprovalBounds = ApprovalBounds()
    first_use: bool = False
    # Whether a person's first passkey comes with codes for when all of them are lost.
    recovery_codes: bool = True
    locale: Literal["en", "de"] = "en"
    attestation: Attestation = Attestation()

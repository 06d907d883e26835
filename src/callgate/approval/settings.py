"""How long things last, how much may be open, and which authenticators are taken."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from callgate.approval.storage import Bounds

# Challenges and registrations are remembered this long after their end, so that a late replay is called a replay.
REMEMBER_MS: Final = 600_000


class Attestation(msgspec.Struct, frozen=True):
    """What new passkeys have to prove: nothing, or that a listed maker made them; and which models are taken."""

    conveyance: Literal["none", "direct"] = "none"
    roots: tuple[bytes, ...] = ()
    aaguids: frozenset[str] = frozenset()


class Settings(msgspec.Struct, frozen=True):
    """Times in milliseconds."""

    challenge_ms: int = 60_000
    registration_ms: int = 300_000
    ticket_ms: int = 3_600_000
    request_ms: int = 600_000
    session_ms: int = 28_800_000
    argument_bytes: int = 262_144
    bounds: Bounds = Bounds()
    first_use: bool = False
    # Whether a person's first passkey comes with codes for when all of them are lost.
    recovery_codes: bool = True
    locale: Literal["en", "de"] = "en"
    attestation: Attestation = Attestation()

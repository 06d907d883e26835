"""What a client asks of an authenticator, and how that can end without an answer.

CallgateError
└── CeremonyError
    ├── Cancelled   the person said no
    ├── TimedOut    nobody answered in time
    └── NoPasskey   this authenticator cannot answer what the server asks for
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from callgate.errors import CallgateError


class CeremonyError(CallgateError):
    """The authenticator gave no answer."""


class Cancelled(CeremonyError):
    """The person said no."""


class TimedOut(CeremonyError):
    """Nobody answered in time."""


class NoPasskey(CeremonyError):
    """This authenticator cannot answer what the server asks for."""


class Prompt(msgspec.Struct, frozen=True):
    """A call to approve. `display_text` is shown as it is; `expires_at` is seconds since 1970."""

    display_text: str
    tool: str
    server: str
    request_options: dict[str, Any]
    expires_at: float


class CreationPrompt(msgspec.Struct, frozen=True):
    """A passkey to make; `expires_at` is seconds since 1970."""

    server: str
    user: str
    creation_options: dict[str, Any]
    expires_at: float


class Authenticator(Protocol):
    """Something that a person signs with. Both answers are WebAuthn L3 JSON forms, passed on as they are.

    Raises Cancelled, TimedOut or NoPasskey where there is no answer. `shows` says whether it puts the prompt's text in
    front of the person itself.
    """

    @property
    def shows(self) -> bool: ...

    async def get(self, prompt: Prompt) -> dict[str, Any]:
        """AuthenticationResponseJSON for the prompt's PublicKeyCredentialRequestOptionsJSON."""

    async def create(self, prompt: CreationPrompt) -> dict[str, Any]:
        """RegistrationResponseJSON for the prompt's PublicKeyCredentialCreationOptionsJSON."""

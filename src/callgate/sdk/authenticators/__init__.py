"""What people sign with: their browser, a USB security key; and software, for tests."""

from callgate.sdk.authenticators.base import (
    Authenticator,
    Cancelled,
    CeremonyError,
    CreationPrompt,
    NoPasskey,
    Prompt,
    TimedOut,
)

__all__ = ["Authenticator", "Cancelled", "CeremonyError", "CreationPrompt", "NoPasskey", "Prompt", "TimedOut"]

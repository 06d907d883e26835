"""What people sign with: their browser, a USB security key; and software, for tests.

CallgateError
└── CeremonyError
    ├── CeremonyCancelled   the person said no
    ├── CeremonyTimedOut    nobody answered in time
    └── NoPasskey           this authenticator cannot answer what the server asks for
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from callgate.errors import CallgateError

Answer = TypeVar("Answer")


class CeremonyError(CallgateError):
    """The authenticator gave no answer."""


class CeremonyCancelled(CeremonyError):
    """The person said no."""


class CeremonyTimedOut(CeremonyError):
    """Nobody answered in time."""


class NoPasskey(CeremonyError):
    """This authenticator cannot answer what the server asks for."""


class Prompt(msgspec.Struct, frozen=True):
    """A call to approve. `display_text` is shown as it is; `expires_at` is seconds since 1970.

    `arguments` are what this client sends, where it says so: `display_text` is only what the server says of them.
    """

    display_text: str
    tool: str
    server: str
    request_options: dict[str, Any]
    expires_at: float
    arguments: dict[str, Any] | None = None


class CreationPrompt(msgspec.Struct, frozen=True):
    """A passkey to make; `expires_at` is seconds since 1970."""

    server: str
    user: str
    creation_options: dict[str, Any]
    expires_at: float


class PasskeyAuthenticator(Protocol):
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


async def in_daemon_thread(work: Callable[[], Answer]) -> Answer:
    """Run it in a thread of its own. A question to a person cannot be called off: it may outlive the wait."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answer] = loop.create_future()

    def settle(answer: Any, failed: Exception | None) -> None:
        if future.done():
            return
        if failed is not None:
            future.set_exception(failed)
        else:
            future.set_result(answer)

    def run() -> None:
        answer: Answer | None = None
        failed: Exception | None = None
        try:
            answer = work()
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
            failed = error
        # The loop may be gone by now: then nobody waits any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, answer, failed)

    threading.Thread(target=run, name="callgate-beside", daemon=True).start()
    return await future


# The names of before.
Authenticator = PasskeyAuthenticator
Cancelled = CeremonyCancelled
TimedOut = CeremonyTimedOut

__all__ = [
    "Authenticator",
    "Cancelled",
    "CeremonyCancelled",
    "CeremonyError",
    "CeremonyTimedOut",
    "CreationPrompt",
    "NoPasskey",
    "PasskeyAuthenticator",
    "Prompt",
    "TimedOut",
]

"""A USB security key, reached by CTAP2 without a browser. Needs the extra `usb` (the package fido2)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from getpass import getpass
from typing import TYPE_CHECKING, Any, Final

from callgate.errors import ConfigError
from callgate.sdk.authenticators import (
    Answer,
    CeremonyCancelled,
    CeremonyError,
    CeremonyTimedOut,
    CreationPrompt,
    NoPasskey,
    Prompt,
    in_daemon_thread,
)

if TYPE_CHECKING:
    from fido2.client import ClientError, WebAuthnClient
    from fido2.ctap import CtapDevice

_SMALLEST_WAIT: Final = 0.001
# What is passed on of the options; a key's transports or hints do not matter where one key is plugged in.
_REQUEST: Final = ("challenge", "rpId", "userVerification")
_CREATION: Final = ("rp", "user", "challenge", "pubKeyCredParams", "attestation")


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class SecurityKey:
    """Signs with the one security key that is plugged in.

    `origin` is the page that the signature claims to come from: by default the server's own domain, and
    http://localhost for servers on this machine. `ask_pin` is called in a thread of its own.
    """

    shows = False

    def __init__(
        self,
        *,
        origin: str | None = None,
        say: Callable[[str], None] = _to_stderr,
        ask_pin: Callable[[], str] = lambda: getpass("PIN of the security key: "),
        devices: Callable[[], Iterable[CtapDevice]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        try:
            import fido2.client  # noqa: F401 - looked for here, so that what is missing is known at once
        except ModuleNotFoundError as missing:
            raise ConfigError("security keys need the package fido2", advice="pip install 'callgate[usb]'") from missing
        self._origin = origin
        self._say = say
        self._ask_pin = ask_pin
        self._devices = devices
        self._clock = clock

    async def get(self, prompt: Prompt) -> dict[str, Any]:
        """Have the key sign."""
        from fido2.webauthn import PublicKeyCredentialRequestOptions

        options = _read(PublicKeyCredentialRequestOptions, request_options(prompt.request_options))

        def ask(client: WebAuthnClient, event: threading.Event) -> dict[str, Any]:
            return _plain(client.get_assertion(options, event).get_response(0))

        return await self._with_key(options.rp_id, prompt.expires_at, ask)

    async def create(self, prompt: CreationPrompt) -> dict[str, Any]:
        """Have the key make a passkey."""
        from fido2.webauthn import PublicKeyCredentialCreationOptions

        options = _read(PublicKeyCredentialCreationOptions, creation_options(prompt.creation_options))

        def ask(client: WebAuthnClient, event: threading.Event) -> dict[str, Any]:
            answer = _plain(client.make_credential(options, event))
            info = getattr(client, "info", None)
            # SEP-2672 §4.4.2: the server keeps them, to know what the passkey can be used for.
            answer["response"]["transports"] = list(getattr(info, "transports", None) or ["usb"])
            return answer

        return await self._with_key(options.rp.id, prompt.expires_at, ask)

    async def _with_key(
        self, rp_id: str | None, expires_at: float, ask: Callable[[WebAuthnClient, threading.Event], Answer]
    ) -> Answer:
        """Ask the key in a thread; when the time is over or the caller leaves, the key is told to stop waiting."""
        event = threading.Event()
        origin = self._origin or origin_for(rp_id)

        def work() -> Answer:
            with _explaining_errors(event), self._client(origin) as client:
                return ask(client, event)

        try:
            async with asyncio.timeout(max(expires_at - self._clock(), _SMALLEST_WAIT)):
                return await in_daemon_thread(work)
        except TimeoutError:
            raise CeremonyTimedOut("the security key was not touched in time") from None
        finally:
            event.set()

    @contextlib.contextmanager
    def _client(self, origin: str) -> Iterator[WebAuthnClient]:
        from fido2.client import DefaultClientDataCollector, Fido2Client

        collector = DefaultClientDataCollector(origin)
        if sys.platform == "win32":  # pragma: no cover - Windows keeps the keys to itself and asks the person
            from fido2.client.windows import WindowsClient

            if self._devices is None and WindowsClient.is_available():
                yield WindowsClient(collector)
                return
        with self._device() as device:
            yield Fido2Client(device, collector, user_interaction=_interaction(self._say, self._ask_pin))

    @contextlib.contextmanager
    def _device(self) -> Iterator[CtapDevice]:
        from fido2.hid import CtapHidDevice

        try:
            found = list((self._devices or CtapHidDevice.list_devices)())
        except OSError as error:
            raise NoPasskey(
                f"the security key cannot be opened ({error.strerror})",
                advice="On Linux, let your user use it: install the udev rules of your distribution (libfido2).",
            ) from None
        try:
            if len(found) != 1:
                text = "no security key is plugged in" if not found else "several security keys are plugged in"
                raise NoPasskey(text, advice="Plug exactly one in and try again.")
            yield found[0]
        finally:
            for device in found:
                device.close()


def origin_for(rp_id: str | None) -> str:
    """The page that a signature for this domain comes from, as a browser would see it."""
    return f"https://{rp_id}" if rp_id not in (None, "localhost") else "http://localhost"


def request_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a key needs of PublicKeyCredentialRequestOptionsJSON."""
    kept = {name: options[name] for name in _REQUEST if name in options}
    kept.setdefault("rpId", "localhost")
    return kept | {"allowCredentials": _descriptors(options.get("allowCredentials"))}


def creation_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a key needs of PublicKeyCredentialCreationOptionsJSON."""
    kept = {name: options[name] for name in _CREATION if name in options}
    selection = options.get("authenticatorSelection")
    if isinstance(selection, Mapping):
        kept["authenticatorSelection"] = {
            name: selection[name] for name in ("residentKey", "userVerification") if name in selection
        }
    return kept | {"excludeCredentials": _descriptors(options.get("excludeCredentials"))}


def _descriptors(listed: Any) -> list[dict[str, Any]]:
    return [{"type": one["type"], "id": one["id"]} for one in listed or ()]


def _read(kind: Any, options: dict[str, Any]) -> Any:
    try:
        return kind.from_dict(options)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise NoPasskey("the server's options are not WebAuthn's", advice="Tell who runs the server.") from None


def _plain(answer: Any) -> dict[str, Any]:
    """fido2's objects as the JSON that they stand for."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(answer), default=dict))
    return plain


def _interaction(say: Callable[[str], None], ask_pin: Callable[[], str]) -> Any:
    from fido2.client import UserInteraction

    class Interaction(UserInteraction):
        def prompt_up(self) -> None:
            say("Touch the security key.")

        def request_pin(self, permissions: Any, rp_id: str | None) -> str | None:  # noqa: ARG002 - fido2's signature
            return ask_pin() or None

    return Interaction()


@contextlib.contextmanager
def _explaining_errors(event: threading.Event) -> Iterator[None]:
    from fido2.client import ClientError
    from fido2.ctap import CtapError

    try:
        yield
    except ClientError as error:
        raise _explain_error(error, event) from None
    except (CtapError, OSError, ValueError, TypeError) as error:
        raise NoPasskey(f"the security key failed ({type(error).__name__})", advice="Plug it in again.") from None


def _explain_error(error: ClientError, event: threading.Event) -> CeremonyError:
    from fido2.client import ClientError, PinRequiredError
    from fido2.ctap import CtapError

    if isinstance(error, PinRequiredError):
        return CeremonyCancelled("no PIN was given")
    if error.code == ClientError.ERR.TIMEOUT:
        return CeremonyTimedOut("the security key was not touched in time")
    if error.code == ClientError.ERR.DEVICE_INELIGIBLE:
        return NoPasskey(
            "this security key has none of the passkeys that the server takes, or is enrolled already",
            advice="Use another key; `callgate credentials list` shows those that are enrolled.",
        )
    if error.code == ClientError.ERR.CONFIGURATION_UNSUPPORTED:
        return NoPasskey("this security key cannot tell who uses it", advice="Set a PIN on it first.")
    cause = getattr(error.cause, "code", None)
    if cause == CtapError.ERR.OPERATION_DENIED or event.is_set():
        return CeremonyCancelled("the security key was told no")
    name = getattr(cause, "name", error.code.name)
    return NoPasskey(f"the security key refused ({name})", advice="Check its PIN and try again.")

"""A security key made of software on the level of CTAP2, so that fido2's own client can be run without hardware."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event
from typing import Any, Final

import cbor2
from fido2.ctap import STATUS, CtapDevice
from fido2.hid import CAPABILITY

from callgate.approval.action import from_base64url, to_base64url
from callgate.sdk.authenticators.software import SoftwareAuthenticator, _sign

MAKE_CREDENTIAL, GET_ASSERTION, GET_INFO = 0x01, 0x02, 0x04
EXCLUDED, NO_CREDENTIALS, CANCELLED, DENIED, UNKNOWN = 0x19, 0x2E, 0x2D, 0x27, 0x01
ORIGIN: Final = "http://unused"


class VirtualKey(CtapDevice):
    """Answers with what a software authenticator signs; `touched` says whether somebody touches it."""

    def __init__(self, *, touched: bool = True, denied: bool = False, options: dict[str, bool] | None = None) -> None:
        self.software = SoftwareAuthenticator(ORIGIN)
        self.touched = touched
        self.denied = denied
        self.options = {"rk": True, "up": True, "uv": True} if options is None else options
        self.closed = False

    @property
    def capabilities(self) -> int:
        return int(CAPABILITY.CBOR)

    @classmethod
    def list_devices(cls) -> Iterator[CtapDevice]:
        return iter(())

    def close(self) -> None:
        self.closed = True

    def call(
        self,
        cmd: int,
        data: bytes = b"",
        event: Event | None = None,
        on_keepalive: Callable[[STATUS], None] | None = None,
    ) -> bytes:
        command, asked = data[0], cbor2.loads(data[1:]) if len(data) > 1 else {}
        if command == GET_INFO:
            info = {1: ["FIDO_2_0"], 3: bytes(16), 4: self.options, 6: [1], 9: ["usb", "nfc"]}
            return _answer(info)
        # A client may first look, without a touch, which of the passkeys the key has.
        looking = command == GET_ASSERTION and not asked.get(5, {}).get("up", True)
        if not looking:
            if on_keepalive is not None:
                on_keepalive(STATUS.UPNEEDED)
            if self.denied:
                return bytes([DENIED])
            if not self.touched:
                assert event is not None
                return bytes([CANCELLED if event.wait(20) else UNKNOWN])
        return self._make(asked) if command == MAKE_CREDENTIAL else self._assert(asked)

    def _make(self, asked: dict[int, Any]) -> bytes:
        held = {one.id for one in self.software.passkeys}
        if any(one["id"] in held for one in asked.get(5, ())):
            return bytes([EXCLUDED])
        made = self.software.create(
            {
                "rp": asked[2],
                "user": {"id": to_base64url(asked[3]["id"])},
                "challenge": "AAAA",
                "pubKeyCredParams": asked[4],
            }
        )
        whole = cbor2.loads(from_base64url(made["response"]["attestationObject"]))
        return _answer({1: "none", 2: whole["authData"], 3: {}})

    def _assert(self, asked: dict[int, Any]) -> bytes:
        allowed = [one["id"] for one in asked.get(3, ())]
        found = [one for one in self.software.passkeys if one.rp_id == asked[1] and (not allowed or one.id in allowed)]
        if not found:
            return bytes([NO_CREDENTIALS])
        passkey = found[0]
        data = self.software._authenticator_data(passkey, {})
        signature = _sign(passkey.key, data + asked[2], {})
        credential = {"id": passkey.id, "type": "public-key"}
        return _answer({1: credential, 2: data, 3: signature, 4: {"id": passkey.handle}})


def _answer(value: dict[int, Any]) -> bytes:
    return b"\0" + cbor2.dumps(value, canonical=True)

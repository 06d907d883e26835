"""Passkeys that do not exist: what a sign-in names for somebody who has none, so that nobody learns who is known."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from callgate.approval.encoding import to_base64url
from callgate.approval.model import Credential

# Lengths of ids and ways to be reached, as computers, phones and security keys have them.
_KINDS: Final = (
    (32, ("internal",)),
    (20, ("hybrid", "internal")),
    (16, ("hybrid", "internal")),
    (32, ("usb",)),
    (48, ("nfc", "usb")),
    (64, ("usb",)),
)


class Decoys:
    """The same name gets the same answer under one key; without the key nobody can tell that it is made up."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, name: str) -> list[Credential]:
        """One passkey, of which nothing but id and transports is ever looked at; it is stored nowhere."""
        length, transports = _KINDS[self._digest(b"kind", name)[0] % len(_KINDS)]
        made_up = Credential(
            id=to_base64url(self._digest(b"id", name)[:length]),
            user="",
            handle=b"",
            public_key=b"",
            counter=0,
            transports=transports,
            name="",
            aaguid="",
            attestation="none",
            backup_eligible=False,
            backed_up=False,
            created_at=0,
        )
        return [made_up]

    def _digest(self, what: bytes, name: str) -> bytes:
        return hmac.digest(self._key, what + b"\0" + name.encode("utf-8", "surrogatepass"), hashlib.sha512)

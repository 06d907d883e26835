"""The seal of a record: HMAC-SHA256 under a key that is not in the database.

It covers a record from the moment it is written, so that one edited before it reaches the tree is found too. A seal
is the key's id (four bytes) and the MAC; old keys keep verifying after a rotation.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Final

from callgate.audit.storage import SEAL, Keys

SEAL_BYTES: Final = 36


def _maker(key: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    """The id of a key and a function that seals with it.

    RFC 2104 with both padded blocks hashed once: half the cost of `hmac.digest` on records of this size.
    """
    key_id = hashlib.sha256(b"callgate seal key\n" + key).digest()[:4]
    block = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block)).copy
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block)).copy

    def seal(body: bytes) -> bytes:
        first = inner()
        first.update(body)
        second = outer()
        second.update(first.digest())
        return key_id + second.digest()

    return key_id, seal


class Sealer:
    """Seals with the current key, checks with every known one."""

    def __init__(self, keyring: Keys) -> None:
        self._keyring = keyring
        self._makers: dict[bytes, Callable[[bytes], bytes]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Follow a rotation."""
        current = self._keyring.current(SEAL)
        makers = dict(_maker(key.secret) for key in self._keyring.versions(SEAL))
        self._makers = makers
        self.seal: Callable[[bytes], bytes] = makers[_maker(current.secret)[0]]

    def knows(self, seal: bytes) -> bool:
        """Whether this seal says that it was made with one of the keys."""
        return seal[:4] in self._makers

    def holds(self, body: object, seal: object) -> bool:
        """Whether this seal was made for this body with one of the keys."""
        # SQLite would hand out text or a number if someone had put one there.
        if type(body) is not bytes or type(seal) is not bytes:
            return False
        maker = self._makers.get(seal[:4])
        return maker is not None and hmac.compare_digest(maker(body), seal)

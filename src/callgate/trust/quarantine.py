"""Results that are kept back: a handle instead of the text, and the text sealed until a person decides.

A sealed reply is AES-256-GCM under a key that is not in the database, with its handle as associated data: a row that
is copied under another handle does not open.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Callable, Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from callgate.errors import CallgateError

PREFIX: Final = "cgq_"
# How long a result waits for a person, unless somebody says otherwise.
HELD_MS: Final = 7 * 24 * 3600 * 1000
_HANDLE: Final = re.compile(r"cgq_[a-z2-7]{26}\Z")
_RANDOM_BYTES: Final = 16
_KEY_BYTES: Final = 32
_ID_BYTES: Final = 4
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_FORM: Final = b"\x01"


class Unopened(CallgateError):
    """What was sealed cannot be opened: another handle, another key, or not the bytes that were sealed."""

    advice = "Check that store.keys_dir holds the keys that belong to this store; else drop the result."


def new_handle(random: Callable[[int], bytes] = secrets.token_bytes) -> str:
    """128 random bits: nobody finds somebody else's result by trying."""
    return PREFIX + base64.b32encode(random(_RANDOM_BYTES)).decode().rstrip("=").lower()


def is_handle(text: object) -> bool:
    """Whether this can be a handle at all."""
    return isinstance(text, str) and _HANDLE.match(text) is not None


def expires_at(now: int, held_ms: int = HELD_MS) -> int:
    """When a result held from `now` on is dropped unseen; milliseconds, and never earlier than now."""
    return now + max(0, held_ms)


def expired(held_at: int, now: int, held_ms: int = HELD_MS) -> bool:
    """Whether a result that was held at a time is no longer to be released."""
    return now >= expires_at(held_at, held_ms)


class Seals:
    """Seals with the first key, opens with each: a rotated key keeps opening what it sealed."""

    def __init__(self, keys: bytes | Sequence[bytes], random: Callable[[int], bytes] = secrets.token_bytes) -> None:
        given = (keys,) if isinstance(keys, bytes) else tuple(keys)
        if not given or any(len(key) != _KEY_BYTES for key in given):
            raise ValueError("a key for sealing is 32 bytes")
        self._random = random
        derived = [_derived(key) for key in given]
        self._current = _key_id(derived[0])
        self._ciphers = {_key_id(key): AESGCM(key) for key in reversed(derived)}

    def seal(self, raw: bytes, handle: str) -> bytes:
        """A reply, sealed for its handle: form, key id, nonce, ciphertext with its tag."""
        nonce = self._random(_NONCE_BYTES)
        head = _FORM + self._current
        return head + nonce + self._ciphers[self._current].encrypt(nonce, raw, head + handle.encode())

    def open(self, sealed: bytes, handle: str) -> bytes:
        """The reply that was sealed for this handle, or `Unopened`."""
        if not is_handle(handle):
            raise Unopened("this result was not sealed for a handle")
        return self.open_text(sealed, handle)

    def open_text(self, sealed: bytes, name: str) -> bytes:
        """What was sealed under this name, or `Unopened`."""
        start = len(_FORM) + _ID_BYTES
        head, nonce, body = sealed[:start], sealed[start : start + _NONCE_BYTES], sealed[start + _NONCE_BYTES :]
        cipher = self._ciphers.get(head[len(_FORM) :])
        if head[: len(_FORM)] != _FORM or cipher is None or len(body) < _TAG_BYTES:
            raise Unopened("this result was not sealed with a key that is here")
        try:
            return cipher.decrypt(nonce, body, head + name.encode())
        except InvalidTag:
            raise Unopened("this result was changed, or sealed for another handle") from None


def _derived(key: bytes) -> bytes:
    """Of the keyring's key, a key for this alone: the same bytes may be an HMAC key elsewhere."""
    return HKDFExpand(algorithm=SHA256(), length=_KEY_BYTES, info=b"callgate quarantine v1").derive(key)


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"callgate quarantine key\n" + key).digest()[:_ID_BYTES]

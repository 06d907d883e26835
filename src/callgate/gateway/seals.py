"""Texts that go to a client and come back: sealed, so that nobody but this deployment can have made them.

MCP 2026-07-28 has a server treat `requestState` as the attacker's. A seal is HMAC-SHA256 over what it is for and what
it says; a mark of the key stands in front, so that the texts of a server or of another gateway are known as not ours.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from callgate.errors import Reason, Refused

KEY: Final = "request_state"
_PREFIX: Final = "callgate-"
_CHARS_MAX: Final = 65_536
_MARK_DIGITS: Final = 8


class State(msgspec.Struct, frozen=True, array_like=True):
    """Which request a call waits for, and who may ask after it with which call."""

    purpose: str
    request: str
    action: bytes
    caller: str
    expires_at: int
    # Makes each text another one, and an id that cannot be guessed.
    nonce: bytes
    # The state of the server's own that this one stands for.
    inner: str | None = None


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(State).decode


class Seals:
    """Seals with the newest key, opens with any."""

    def __init__(self, keys: Callable[[], Sequence[bytes]]) -> None:
        self._keys = keys

    def seal(self, state: State) -> str:
        key = self._keys()[0]
        body = _encode(state)
        return f"{_PREFIX}{_mark(key)}.{_text(body)}.{_text(_tag(key, body))}"

    def is_ours(self, text: object) -> bool:
        """Whether the text says that it is one of this deployment's."""
        return self._key(text) is not None

    def open(self, text: object, purpose: str) -> State:
        """What a text of ours says; Refused(REQUEST_STATE_INVALID) where it is forged or meant for something else."""
        key = self._key(text)
        try:
            if key is None or not isinstance(text, str):
                raise ValueError
            _, body64, tag64 = text.split(".")
            body = _bytes(body64)
            if not hmac.compare_digest(_tag(key, body), _bytes(tag64)):
                raise ValueError
            state = _decode(body)
        except (ValueError, binascii.Error, msgspec.MsgspecError):
            raise Refused(Reason.REQUEST_STATE_INVALID) from None
        if state.purpose != purpose:
            raise Refused(Reason.REQUEST_STATE_INVALID)
        return state

    def _key(self, text: object) -> bytes | None:
        if not isinstance(text, str) or not text.startswith(_PREFIX) or len(text) > _CHARS_MAX:
            return None
        mark = text[len(_PREFIX) :].partition(".")[0]
        return next((key for key in self._keys() if _mark(key) == mark), None)


def _mark(key: bytes) -> str:
    return hmac.digest(key, b"callgate mark", "sha256").hex()[:_MARK_DIGITS]


def _tag(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, b"callgate state\0" + body, "sha256")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    """One spelling only: a text that was changed in bits which nobody reads is another text."""
    data = base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
    if _text(data) != text:
        raise ValueError(text)
    return data

"""State that goes to a client and comes back, signed: of approvals that wait, and of calls in several rounds."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from callgate.errors import Reason, Refused
from callgate.jsonrpc import member_span, put_member
from callgate.jsonrpc.reading import decode_leniently

REQUEST_STATE_KEY: Final = "request_state"
_PREFIX: Final = "callgate-"
_CHARS_MAX: Final = 65_536
_MARK_DIGITS: Final = 8


class SignedState(msgspec.Struct, frozen=True, array_like=True):
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
_decode: Final = msgspec.json.Decoder(SignedState).decode


class RequestStateSigner:
    """Seals with the newest key, opens with any."""

    def __init__(self, keys: Callable[[], Sequence[bytes]]) -> None:
        self._keys = keys

    def seal(self, state: SignedState) -> str:
        key = self._keys()[0]
        body = _encode(state)
        return f"{_PREFIX}{_mark(key)}.{_text(body)}.{_text(_tag(key, body))}"

    def is_ours(self, text: object) -> bool:
        """Whether the text says that it is one of this deployment's."""
        return self._key(text) is not None

    def open(self, text: object, purpose: str) -> SignedState:
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


_PURPOSE: Final = "round"
_OPEN_MAX: Final = 10_000
_MARK: Final = b"input_required"


class MultiRoundState:
    """The rounds that are open: each nonce lets one call pass."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.time) -> None:
        key = secrets.token_bytes(32)
        self.seals = RequestStateSigner(lambda: (key,))
        self._seconds = seconds
        self._clock = clock
        # When each ends, the oldest first.
        self._open: OrderedDict[bytes, float] = OrderedDict()

    def wrap(self, reply: bytes, call: str, action: bytes, caller: str) -> bytes:
        """The server's reply to an approved call, its question wrapped; any other reply as it is."""
        if _MARK not in reply:
            return reply
        message = decode_leniently(reply)
        result = message.get("result") if isinstance(message, dict) else None
        if not isinstance(result, dict) or result.get("resultType") != "input_required":
            return reply
        inner = result.get("requestState")
        state = self._begin(call, action, caller, inner if isinstance(inner, str) else None)
        span = member_span(reply, ("result",))
        assert span is not None
        wrapped = put_member(reply[span[0] : span[1]], "requestState", _encode(self.seals.seal(state)))
        return reply[: span[0]] + wrapped + reply[span[1] :]

    def go_on(self, text: object, action: bytes, caller: str) -> SignedState:
        """Let the call of an open round pass; Refused(REQUEST_STATE_INVALID) for any other."""
        state = self.seals.open(text, _PURPOSE)
        mine = state.action == action and state.caller == caller and state.expires_at > self._clock() * 1000
        if not mine or state.nonce not in self._open:
            raise Refused(Reason.REQUEST_STATE_INVALID)
        del self._open[state.nonce]
        return state

    def inner(self, text: object) -> str | None:
        """The server's own state in one of ours."""
        return self.seals.open(text, _PURPOSE).inner

    def _begin(self, call: str, action: bytes, caller: str, inner: str | None) -> SignedState:
        now = self._clock()
        while self._open and (len(self._open) >= _OPEN_MAX or next(iter(self._open.values())) <= now):
            self._open.popitem(last=False)
        nonce = secrets.token_bytes(16)
        self._open[nonce] = now + self._seconds
        return SignedState(_PURPOSE, call, action, caller, round((now + self._seconds) * 1000), nonce, inner)

"""A call that its server answers with a question (2026-07-28, `input_required`) goes on under the same approval.

The client sends the call again with the answers, and a person has approved it already. The server's `requestState` is
wrapped in one of ours that lets exactly this call of this caller pass once more. It is sealed with a key that only
this process has, and used up in its memory: no other process could open it, so nothing else has to know.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from callgate.errors import Reason, Refused
from callgate.gateway.catalogue import decode_leniently
from callgate.gateway.seals import Seals, State
from callgate.jsonrpc import member_span, put_member

_PURPOSE: Final = "round"
_OPEN_MAX: Final = 10_000
_MARK: Final = b"input_required"
_encode: Final = msgspec.json.Encoder().encode


class Rounds:
    """The rounds that are open: each nonce lets one call pass."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.time) -> None:
        key = secrets.token_bytes(32)
        self.seals = Seals(lambda: (key,))
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

    def go_on(self, text: object, action: bytes, caller: str) -> State:
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

    def _begin(self, call: str, action: bytes, caller: str, inner: str | None) -> State:
        now = self._clock()
        while self._open and (len(self._open) >= _OPEN_MAX or next(iter(self._open.values())) <= now):
            self._open.popitem(last=False)
        nonce = secrets.token_bytes(16)
        self._open[nonce] = now + self._seconds
        return State(_PURPOSE, call, action, caller, round((now + self._seconds) * 1000), nonce, inner)

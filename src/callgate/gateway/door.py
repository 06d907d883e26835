"""What every transport does with a client's message: read it, put each `tools/call` before the gate, answer or let on.

The door knows nothing of HTTP or pipes. A transport hands it bytes and a Context; it gets an `Entry` to forward or a
`Turned` to answer with. Each call that goes on is an `InFlight` that is finished exactly once.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from callgate.errors import Reason, Refused
from callgate.gate import Call, Context, Decision, Gate
from callgate.jsonrpc import (
    TOOLS_CALL,
    BadMessage,
    Batch,
    Kind,
    Limits,
    Message,
    RequestId,
    error_reply,
    parse,
    peek,
    tool_call,
)

Clock = Callable[[], float]


class Outcome(msgspec.Struct, frozen=True):
    """How a call that was let through ended."""

    outcome: str
    at: int
    ms: int
    code: int | None = None
    size: int | None = None
    digest: str | None = None


class Ledger(Protocol):
    """Takes note of calls that ended and of decisions made; never raises."""

    def decided(self, call: Call, decision: Decision, seconds: float) -> None: ...

    def completed(self, call: Call, outcome: Outcome) -> None: ...


class InFlight:
    """A call on its way; `finish` counts once."""

    __slots__ = ("_clock", "_ledger", "_started", "call", "done", "rpc_id")

    def __init__(self, call: Call, rpc_id: RequestId, ledger: Ledger, clock: Clock) -> None:
        self.call = call
        self.rpc_id = rpc_id
        self.done = False
        self._ledger = ledger
        self._clock = clock
        self._started = clock()

    def finish(self, outcome: str, *, code: int | None = None, reply: bytes | None = None) -> None:
        if self.done:
            return
        self.done = True
        now = self._clock()
        digest = None if reply is None else "sha256:" + hashlib.sha256(reply).hexdigest()
        size = None if reply is None else len(reply)
        spent = round((now - self._started) * 1000)
        self._ledger.completed(self.call, Outcome(outcome, round(now * 1000), spent, code, size, digest))

    def replied(self, reply: bytes) -> bool:
        """Finish with a server's message if it is the reply to this call."""
        seen = peek(reply)
        if seen is None or not seen.is_reply or seen.outcome is None or not _same_id(seen.id, self.rpc_id):
            return False
        self.finish(seen.outcome, code=seen.code, reply=reply)
        return True


class Entry(msgspec.Struct, frozen=True):
    """A client's message that may go on, with the calls in it."""

    message: Message | Batch
    calls: tuple[InFlight, ...] = ()

    @property
    def raw(self) -> bytes:
        return self.message.raw

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.message.messages if isinstance(self.message, Batch) else (self.message,)


class Turned(Exception):
    """A client's message that goes no further: what to answer, if anything is to be answered."""

    def __init__(self, refused: Refused, reply: bytes | None) -> None:
        super().__init__(str(refused))
        self.refused = refused
        self.reply = reply


class Door:
    """The way in, for every transport and every server of a configuration."""

    def __init__(self, gate: Gate, ledger: Ledger, limits: Limits, clock: Clock = time.time) -> None:
        self.gate = gate
        self.limits = limits
        self._ledger = ledger
        self._clock = clock

    def read(self, raw: bytes) -> Message | Batch:
        """Read a client's message; raises Turned."""
        try:
            return parse(raw, self.limits)
        except BadMessage as error:
            raise Turned(error, error_reply(error.rpc_id, error)) from None

    async def admit(self, message: Message | Batch, context: Context) -> Entry:
        """Put each call of a message before the gate; raises Turned. A message that starts nothing passes."""
        if isinstance(message, Batch):
            return await self._admit_batch(message, context, self.gate.closed())
        if message.method == TOOLS_CALL:
            call = self._call(message, context)
            refused = await self._decide(call)
            if refused is not None:
                raise Turned(refused, error_reply(message.id, refused, call=call.id))
            return Entry(message, (self._in_flight(call, message),))
        if message.kind is Kind.REQUEST and (closed := self.gate.closed()) is not None:
            raise Turned(closed, error_reply(message.id, closed))
        return Entry(message)

    def last_look(self, entry: Entry) -> None:
        """Before a message leaves: the switch may have been turned since it was decided; raises Turned."""
        closed = self.gate.closed()
        if closed is None or all(message.kind is not Kind.REQUEST for message in entry.messages):
            return
        for flight in entry.calls:
            flight.finish("blocked", code=closed.code)
        raise Turned(closed, refuse_all(entry.message, closed))

    async def _admit_batch(self, batch: Batch, context: Context, closed: Refused | None) -> Entry:
        """All or nothing: one refused call refuses the batch, so that nothing is half done."""
        calls = [(m, self._call(m, context)) for m in batch.messages if m.method == TOOLS_CALL]
        refusals: dict[RequestId | None, Refused] = {}
        for message, call in calls:
            refused = await self._decide(call)
            if refused is not None:
                refusals[message.id] = refused
        in_flight = tuple(self._in_flight(call, message) for message, call in calls if message.id not in refusals)
        first = next(iter(refusals.values()), closed)
        if first is None:
            return Entry(batch, in_flight)
        for flight in in_flight:
            flight.finish("batch_refused")
        raise Turned(first, refuse_all(batch, closed or Refused(Reason.BATCH_REFUSED), refusals))

    async def _decide(self, call: Call) -> Refused | None:
        started = time.perf_counter()
        decision = await self.gate.decide(call)
        self._ledger.decided(call, decision, time.perf_counter() - started)
        return decision.refused

    def _call(self, message: Message, context: Context) -> Call:
        if message.kind is not Kind.REQUEST:
            # A notification gets no answer, but a careless server might still run it: it never reaches one.
            refused = Refused(Reason.INVALID_REQUEST, "tools/call has to be a request with an id")
            raise Turned(refused, error_reply(None, refused))
        try:
            wanted = tool_call(message)
        except BadMessage as error:
            raise Turned(error, error_reply(message.id, error)) from None
        at = round(self._clock() * 1000)
        return Call(
            new_call_id(at), at, wanted.name, wanted.arguments, wanted.canonical, message.raw, message.meta, context
        )

    def _in_flight(self, call: Call, message: Message) -> InFlight:
        assert message.id is not None
        return InFlight(call, message.id, self._ledger, self._clock)


def refuse_all(
    message: Message | Batch, refused: Refused, others: Mapping[RequestId | None, Refused] = MappingProxyType({})
) -> bytes | None:
    """The answer to every request in there: its own refusal, or the one that holds for all."""
    if isinstance(message, Message):
        return error_reply(message.id, refused)
    replies = [error_reply(m.id, others.get(m.id, refused)) for m in message.messages if m.kind is Kind.REQUEST]
    return b"[" + b",".join(replies) + b"]" if replies else None


class _Randomness:
    """Random hexadecimal digits from the system, fetched by the page: a system call for each id would cost more."""

    def __init__(self) -> None:
        self._pool = ""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._pool = ""

    def take(self, digits: int) -> str:
        if len(self._pool) < digits:
            self._pool = secrets.token_hex(512)
        taken, self._pool = self._pool[:digits], self._pool[digits:]
        return taken


_randomness: Final = _Randomness()


def new_call_id(at_ms: int) -> str:
    """32 hexadecimal digits: 48 bits of time, so that ids sort by age, and 80 random bits."""
    return f"{at_ms:012x}{_randomness.take(20)}"


@lru_cache(maxsize=4096)
def session_digest(session: str) -> str:
    """What the records keep of a session id: enough to join calls, not enough to take the session over."""
    return hashlib.sha256(b"callgate session\x00" + session.encode()).hexdigest()[:32]


def _same_id(left: RequestId | None, right: RequestId) -> bool:
    # 1 and "1" are different ids (JSON-RPC 2.0 §4), and so are 1 and true.
    return type(left) is type(right) and left == right

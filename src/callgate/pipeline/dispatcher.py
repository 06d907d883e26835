"""What every transport does with a client's message: read, decide, change, and pass on or answer."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import secrets
import time
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from callgate.errors import Reason, Refused, SentBefore, Spent, StoreError, place
from callgate.gate import Call, Context, Decision, Gate, Headers
from callgate.jsonrpc import (
    TOOLS_CALL,
    BadMessage,
    Batch,
    Limits,
    Message,
    MessageKind,
    Peek,
    RequestId,
    error_of,
    error_reply,
    parse,
    peek,
    tool_call,
)
from callgate.pipeline.context import NOBODY_KNOWN, RequestContext, StreamContext, agent_of
from callgate.pipeline.timeouts import pauses

Clock: TypeAlias = Callable[[], float]


class CallOutcome(msgspec.Struct, frozen=True):
    """How a call that was let through ended."""

    outcome: str
    at: int
    ms: int
    code: int | None = None
    size: int | None = None
    digest: str | None = None


class CallRecorder(Protocol):
    """Takes note of calls that ended and of decisions made; never raises."""

    def decided(self, call: Call, decision: Decision, seconds: float) -> None: ...

    def completed(self, call: Call, outcome: CallOutcome) -> None: ...


class InFlight(msgspec.Struct, eq=False):
    """A call on its way; `finish` counts once. `started` is when it was let through."""

    call: Call
    rpc_id: RequestId
    recorder: CallRecorder
    clock: Clock
    started: float
    done: bool = False

    def finish(self, outcome: str, *, code: int | None = None, reply: bytes | None = None) -> None:
        if self.done:
            return
        self.done = True
        now = self.clock()
        digest, size = None, None
        if reply is not None:
            digest, size = "sha256:" + hashlib.sha256(reply).hexdigest(), len(reply)
        spent = round((now - self.started) * 1000)
        self.recorder.completed(self.call, CallOutcome(outcome, round(now * 1000), spent, code, size, digest))

    def replied(self, reply: bytes, seen: Peek | None = None) -> bool:
        """Finish with a server's message if it is the reply to this call; `seen` is the message in outline."""
        seen = seen or peek(reply)
        # 1 and "1" are different ids (JSON-RPC 2.0 §4), and so are 1 and true.
        if (
            seen is None
            or seen.method is not None
            or seen.outcome is None
            or seen.id != self.rpc_id
            or type(seen.id) is not type(self.rpc_id)
        ):
            return False
        self.finish(seen.outcome, code=seen.code, reply=reply)
        return True


Transform: TypeAlias = Callable[[bytes], bytes]


class AsyncTransform(Protocol):
    """The same where something has to be written down first; `seen` is the message in outline, where it is known."""

    def __call__(self, raw: bytes, seen: Peek | None = None, /) -> Awaitable[bytes]: ...


# Takes what a server says: as many messages as have come.
Deliver: TypeAlias = Callable[[Sequence[bytes]], Awaitable[None]]


class Admitted(msgspec.Struct, frozen=True):
    """A client's message that may go on, with the calls in it.

    `amend` is to be given what the server answers before the client gets it: the same bytes, or others. Then `after`,
    which may take its time: what it has to remember of an answer is durable before the client sees it.
    """

    message: Message | Batch
    calls: tuple[InFlight, ...] = ()
    amend: Transform | None = None
    after: AsyncTransform | None = None
    # For the head of the answer: what is left to the caller.
    headers: Headers = ()

    async def passing(self, raw: bytes) -> bytes:
        """What the client gets of a message of the server's."""
        if self.amend is not None:
            raw = self.amend(raw)
        return raw if self.after is None else await self.after(raw)

    @property
    def raw(self) -> bytes:
        return self.message.raw

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.message.messages if isinstance(self.message, Batch) else (self.message,)


class Rejected(Exception):
    """A client's message that goes no further: what to answer, if anything is to be answered.

    `silent`: nothing is, because the client took its request back. `headers` are for the head of the answer. `replay`
    is a call that is not on record, because it was sent before.
    """

    def __init__(
        self,
        refused: Refused,
        reply: bytes | None,
        *,
        silent: bool = False,
        headers: Headers = (),
        replay: Message | None = None,
    ) -> None:
        super().__init__(str(refused))
        self.refused = refused
        self.reply = reply
        self.silent = silent
        self.headers = headers
        self.replay = replay


class LocalResponse(Exception):
    """A client's request that the gateway answers itself."""

    def __init__(self, reply: bytes) -> None:
        super().__init__()
        self.reply = reply


class SubstituteResult(dict[str, Any]):
    """In a refusal's `data`: the result that the client gets instead of the error, or nothing at all."""

    def __init__(self, result: Mapping[str, Any] | None) -> None:
        super().__init__()
        self.result = result


class AllowedCall(msgspec.Struct, frozen=True):
    """A call that may go on."""

    message: Message
    call: Call
    decision: Decision


class Stage(Protocol):
    """What the gateway does for servers beside relaying: answers of its own, and changes to what passes."""

    # The requests that `incoming` may answer, those that it gets ready for, and the gateway's own tools.
    methods: frozenset[str]
    prepares: frozenset[str]
    tools: frozenset[str]

    async def incoming(
        self, message: Message | Batch, context: Context, call: Call | None = None
    ) -> dict[str, Any] | None:
        """A client's message before it goes on; `call` where it calls a tool of the gateway's own.

        The result of a request that is the gateway's to answer, and anything but None for another message that was
        meant for the gateway. None where it goes on. Raises Refused.
        """

    def pre_dispatch_check(self, call: Call) -> Refused | None:
        """Why a call that was let through must not leave after all."""

    async def recheck(self, call: Call, *, unchanged: bool = False) -> Refused | None:
        """The same with time to look again. `unchanged`: the tool has to be as it was when the call was decided."""

    def outgoing(
        self, message: Message | Batch, context: Context, calls: Sequence[AllowedCall] = ()
    ) -> tuple[Message | Batch, Transform | None, AsyncTransform | None]:
        """A message as the server is to see it, and what to do with what comes back: at once, then with time to write
        something down. Those two never raise."""

    def unasked(self, context: Context) -> AsyncTransform | None:
        """What to do with messages of a server that answer nothing that was asked. Never raises."""

    def refused(self, call: Call, refused: Refused) -> None:
        """Told of a call that goes no further; never raises."""

    def heard_by(
        self, context: Context, push: Callable[[bytes], None], subscription: RequestId | None = None
    ) -> AbstractContextManager[None]:
        """Around a stream on which messages of the gateway's own can reach the client."""


log = logging.getLogger("callgate.door")

_encode: Final = msgspec.json.Encoder().encode
# What may be over in a moment: a list has changed, a server has come to those that are seen together.
_MAY_PASS: Final = frozenset({Reason.TOOLSET_UNVERIFIED, Reason.SET_NOT_REVIEWED})


class Dispatcher:
    """The way in, for every transport and every server of a configuration."""

    def __init__(
        self,
        gate: Gate,
        recorder: CallRecorder,
        limits: Limits,
        clock: Clock = time.time,
        stages: Stage | None = None,
        *,
        refusals: Literal["auto", "error", "result"] = "auto",
    ) -> None:
        self.gate = gate
        self.limits = limits
        self.stages = stages
        self._recorder = recorder
        self._clock = clock
        self._refusals = refusals

    def read(self, raw: bytes) -> Message | Batch:
        """Read a client's message; raises Rejected."""
        try:
            return parse(raw, self.limits)
        except BadMessage as error:
            raise Rejected(error, error_reply(error.rpc_id, error)) from None

    async def admit(self, message: Message | Batch, context: Context) -> Admitted:
        """Put each call of a message before the gate; raises Rejected, or LocalResponse where the gateway answers."""
        if isinstance(message, Message) and message.method == TOOLS_CALL:
            return await self._admit_call(message, context)
        closed = self.gate.closed()
        if closed is not None:
            closed = await self.gate.still_closed(closed)
        if isinstance(message, Batch):
            return await self._admit_batch(message, context, closed)
        if closed is not None and message.kind is MessageKind.REQUEST:
            raise Rejected(closed, error_reply(message.id, closed))
        if self.stages is None:
            return Admitted(message)
        if message.method in self.stages.methods or message.method in self.stages.prepares:
            await self._answer(message, context, self.stages)
        outgoing, amend, after = self.stages.outgoing(message, context)
        return Admitted(outgoing, (), amend, after)

    async def takes(self, message: Message | Batch, context: Context) -> bool:
        """Whether a message was meant for the gateway itself and goes no further; raises Rejected."""
        if self.stages is None or (isinstance(message, Message) and message.kind is MessageKind.REQUEST):
            return False
        try:
            return await self.stages.incoming(message, context) is not None
        except Refused as refused:
            raise Rejected(refused, refuse_all(message, refused)) from None

    async def _admit_call(self, message: Message, context: Context) -> Admitted:
        stages = self.stages
        try:
            call = self._call(message, context)
        except Rejected:
            # It goes no further, and what it uses up is used up all the same.
            if context.uses:
                with suppress(Spent, StoreError):
                    await self.gate.use_up(context.uses)
            raise
        if stages is not None and call.tool in stages.tools and self.gate.closed() is None:
            await self._answer(message, context, stages, call)
        started = time.perf_counter()
        decision = await self.gate.decide(call)
        # How long the call waited for a person says nothing of the gate.
        waited = context.line.waited if isinstance(context, RequestContext) else 0.0
        if not isinstance(decision.refused, SentBefore):
            self._recorder.decided(call, decision, time.perf_counter() - started - waited)
        if decision.refused is not None:
            if stages is not None:
                stages.refused(call, decision.refused)
            raise self._rejected(message, call, decision.refused, decision.headers)
        assert message.id is not None
        flights = (InFlight(call, message.id, self._recorder, self._clock, self._clock()),)
        if stages is None:
            return Admitted(message, flights, headers=decision.headers)
        changed = await stages.recheck(call) if waited else None
        outgoing, amend, after = stages.outgoing(message, context, (AllowedCall(message, call, decision),))
        if changed is not None:
            flights[0].finish("blocked", code=changed.code)
            raise self._rejected(message, call, changed)
        return Admitted(outgoing, flights, amend, after, decision.headers)

    @staticmethod
    async def _answer(message: Message, context: Context, stages: Stage, call: Call | None = None) -> None:
        """Let the stages have a message before it goes on; raises LocalResponse where they answer it."""
        if message.kind is not MessageKind.REQUEST and (call is not None or message.method in stages.methods):
            refused = Refused(Reason.INVALID_REQUEST, f"{message.method} has to be a request with an id")
            raise Rejected(refused, error_reply(None, refused))
        try:
            result = await stages.incoming(message, context, call)
        except Refused as refused:
            raise Rejected(refused, error_reply(message.id, refused)) from None
        except StoreError as error:
            log.error("request failed", extra={"fields": {"method": message.method, "error": place(error)}})
            unavailable = Refused(Reason.STORE_UNAVAILABLE)
            raise Rejected(unavailable, error_reply(message.id, unavailable)) from None
        if result is not None:
            raise LocalResponse(_reply(message, result))

    async def pre_dispatch_check(self, entry: Admitted, barred: Refused | None = None) -> None:
        """Before a message leaves: what it was decided by may have changed since; raises Rejected.

        Where a list has to be read again, or servers have to be looked at together, it waits for as long as a check may
        take.
        """
        closed = self.objection(entry, barred)
        if closed is None:
            return
        if closed.reason in _MAY_PASS and self.stages is not None:
            closed = await self._settle(entry, barred, self.stages)
        if closed is None or all(message.kind is not MessageKind.REQUEST for message in entry.messages):
            return
        for flight in entry.calls:
            flight.finish("blocked", code=closed.code)
        if isinstance(entry.message, Message) and entry.calls:
            raise self._rejected(entry.message, entry.calls[0].call, closed)
        raise Rejected(closed, refuse_all(entry.message, closed))

    def objection(self, entry: Admitted, barred: Refused | None = None) -> Refused | None:
        """What has changed since a message was decided, so that it must not leave as it is."""
        closed = barred or self.gate.closed()
        stages = self.stages
        if closed is None and stages is not None:
            for flight in entry.calls:
                if (closed := stages.pre_dispatch_check(flight.call)) is not None:
                    break
        return closed

    async def _settle(self, entry: Admitted, barred: Refused | None, stages: Stage) -> Refused | None:
        """Look again until the servers rest; why the message does not leave, None where it does."""
        found: Refused | None = Refused(Reason.TOOLSET_UNVERIFIED)
        try:
            async with asyncio.timeout(self.gate.limit):
                for pause in pauses(self.gate.limit):
                    await asyncio.sleep(pause)
                    for flight in entry.calls:
                        if (found := await stages.recheck(flight.call, unchanged=True)) is not None:
                            return found
                    found = self.objection(entry, barred)
                    if found is None or found.reason not in _MAY_PASS:
                        return found
        except TimeoutError:
            log.warning("the tools were not looked at in time", extra={"fields": {"calls": len(entry.calls)}})
        return found or Refused(Reason.TOOLSET_UNVERIFIED)

    async def _admit_batch(self, batch: Batch, context: Context, closed: Refused | None) -> Admitted:
        """All or nothing: one refused call refuses the batch, so that nothing is half done."""
        calls = [(m, self._call(m, context)) for m in batch.messages if m.method == TOOLS_CALL]
        refusals: dict[RequestId | None, Refused] = {}
        if self.stages is not None:
            alone = Refused(Reason.BATCH_REFUSED, "this method cannot be part of a batch", advice="Send it alone.")
            refusals = {m.id: alone for m in batch.messages if m.method in self.stages.methods}
            for message in batch.messages:
                if message.method in self.stages.prepares:
                    await self._answer(message, context, self.stages)
        decided: list[AllowedCall] = []
        for message, call in calls:
            started = time.perf_counter()
            decision = await self.gate.decide(call)
            waited = context.line.waited if isinstance(context, RequestContext) else 0.0
            self._recorder.decided(call, decision, time.perf_counter() - started - waited)
            if self.stages is not None and decision.refused is not None:
                self.stages.refused(call, decision.refused)
            decided.append(AllowedCall(message, call, decision))
            if decision.refused is not None:
                refusals[message.id] = decision.refused
        in_flight = tuple(
            InFlight(call, message.id, self._recorder, self._clock, self._clock())
            for message, call in calls
            if message.id is not None and message.id not in refusals
        )
        first = next(iter(refusals.values()), closed)
        if first is None and self.stages is None:
            return Admitted(batch, in_flight)
        if self.stages is not None:
            # Where the batch is refused, nobody waits for the replies any more.
            outgoing, amend, after = self.stages.outgoing(batch, context, decided)
            if first is None:
                return Admitted(outgoing, in_flight, amend, after)
        for flight in in_flight:
            flight.finish("batch_refused")
        assert first is not None
        raise Rejected(first, refuse_all(batch, closed or Refused(Reason.BATCH_REFUSED), refusals))

    def _call(self, message: Message, context: Context) -> Call:
        if message.kind is not MessageKind.REQUEST:
            # A notification gets no answer, but a careless server might still run it: it never reaches one.
            refused = Refused(Reason.INVALID_REQUEST, "tools/call has to be a request with an id")
            raise Rejected(refused, error_reply(None, refused))
        at = round(self._clock() * 1000)
        call_id = new_call_id(at)
        agent = {} if context.caller is None else agent_of(context)
        try:
            wanted = tool_call(message)
        except BadMessage as error:
            raise Rejected(error, error_reply(message.id, error)) from None
        return Call(
            call_id, at, wanted.name, wanted.arguments, wanted.canonical, message.raw, message.meta, context, agent
        )

    def _rejected(self, message: Message, call: Call, refused: Refused, headers: Headers = ()) -> Rejected:
        """A call that goes no further, in the form that its client shows."""
        if isinstance(refused, SentBefore):
            return Rejected(refused, error_reply(message.id, refused), replay=message)
        if isinstance(refused.data, SubstituteResult):
            if refused.data.result is None:
                return Rejected(refused, None, silent=True, headers=headers)
            return Rejected(refused, _reply(message, refused.data.result), headers=headers)
        if form_for(self._refusals, call.context, refused) == "error":
            return Rejected(refused, error_reply(message.id, refused, call=call.id), headers=headers)
        # For HTTP it is an answer like any other.
        told = Refused(
            refused.reason, refused.message, code=refused.code, advice=refused.advice, data=refused.data, status=200
        )
        return Rejected(told, _reply(message, refusal_result(refused, call.context, call.id)), headers=headers)


def _reply(message: Message, result: Mapping[str, Any]) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": message.id, "result": result})


def refuse_all(
    message: Message | Batch, refused: Refused, others: Mapping[RequestId | None, Refused] = MappingProxyType({})
) -> bytes | None:
    """The answer to every request in there: its own refusal, or the one that holds for all."""
    if isinstance(message, Message):
        return error_reply(message.id, refused)
    replies = [error_reply(m.id, others.get(m.id, refused)) for m in message.messages if m.kind is MessageKind.REQUEST]
    return b"[" + b",".join(replies) + b"]" if replies else None


class CallIds:
    """Ids of calls. The random digits are fetched by the page: a system call for each id would cost more."""

    def __init__(self) -> None:
        self._digits = ""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._digits = ""

    def new(self, at_ms: int) -> str:
        """32 hexadecimal digits: 48 bits of time, so that ids sort by age, and 80 random bits."""
        digits = self._digits
        if len(digits) < 20:
            digits = secrets.token_hex(512)
        self._digits = digits[20:]
        return f"{at_ms:012x}{digits[:20]}"


new_call_id: Final = CallIds().new


@lru_cache(maxsize=4096)
def session_digest(session: str) -> str:
    """What the records keep of a session id: enough to join calls, not enough to take the session over."""
    return hashlib.sha256(b"callgate session\x00" + session.encode()).hexdigest()[:32]


Form: TypeAlias = Literal["error", "result"]
REFUSAL_META: Final = "dev.callgate/refusal"
# Who has to prove first who they are is told by the HTTP status, and their client may do something about it.
_UNPROVED: Final = 401


class KnownClient(NamedTuple):
    """A client whose form is known, and how that was found out."""

    title: str
    form: Form
    seen: str


@cache
def known_clients() -> Mapping[str, KnownClient]:
    """By the name that they give themselves."""
    read = tomllib.loads(files("callgate.pipeline").joinpath("refusal_forms.toml").read_text("utf-8"))
    return {name: KnownClient(**entry) for name, entry in read.items()}


def form_for(setting: Literal["auto", "error", "result"], context: Context, refused: Refused) -> Form:
    """As configured, else as the client is known to show it. Whoever does SEP-2672 reads the error, whatever is set."""
    client = context.client if isinstance(context, StreamContext) else NOBODY_KNOWN
    if client.ceremony or refused.status == _UNPROVED:
        return "error"
    if setting != "auto":
        return setting
    # A bridge such as mcp-remote names itself behind its client: `claude-ai (via mcp-remote 0.1.37)`.
    known = known_clients().get(client.name.partition(" (via ")[0])
    return "error" if known is None else known.form


def refusal_result(refused: Refused, context: Context, call: str) -> dict[str, Any]:
    """A refusal as the result of the call: in words for the model and its user, and whole as the error would be."""
    text = (
        f"Callgate refused this call, and it was not run: {refused}\n{refused.advice}\nReason: {refused.reason.value}"
    )
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    if isinstance(context, StreamContext) and context.modern:
        result["resultType"] = "complete"
    return {**result, "_meta": {REFUSAL_META: error_of(refused, call=call)}}

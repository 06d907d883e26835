"""What passes the pipeline: messages that may go on, those that go no further, and who has a say in both."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

import msgspec

from callgate.errors import Refused
from callgate.gate import Call, Context, Decision
from callgate.jsonrpc import Batch, Message, Peek, RequestId, peek

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


class InFlight:
    """A call on its way; `finish` counts once."""

    __slots__ = ("_clock", "_recorder", "_started", "call", "done", "rpc_id")

    def __init__(self, call: Call, rpc_id: RequestId, recorder: CallRecorder, clock: Clock) -> None:
        self.call = call
        self.rpc_id = rpc_id
        self.done = False
        self._recorder = recorder
        self._clock = clock
        self._started = clock()

    def finish(self, outcome: str, *, code: int | None = None, reply: bytes | None = None) -> None:
        if self.done:
            return
        self.done = True
        now = self._clock()
        digest, size = None, None
        if reply is not None:
            digest, size = "sha256:" + hashlib.sha256(reply).hexdigest(), len(reply)
        spent = round((now - self._started) * 1000)
        self._recorder.completed(self.call, CallOutcome(outcome, round(now * 1000), spent, code, size, digest))

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
# The same where something has to be written down first.
AsyncTransform: TypeAlias = Callable[[bytes], Awaitable[bytes]]
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

    `silent`: nothing is, because the client took its request back.
    """

    def __init__(self, refused: Refused, reply: bytes | None, *, silent: bool = False) -> None:
        super().__init__(str(refused))
        self.refused = refused
        self.reply = reply
        self.silent = silent


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

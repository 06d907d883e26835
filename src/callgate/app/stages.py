"""The stages in their order: pinning decides what passes of a list, approval marks what is left of it, and trust takes
note of what the client is about to see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

from callgate.errors import Refused
from callgate.gate import Call, Context, Decision
from callgate.jsonrpc import Batch, Message, RequestId, error_reply
from callgate.pinning.model import PENDING_TOOL
from callgate.pipeline.replies import ToolListReply, TransformById
from callgate.pipeline.stage import AllowedCall, AsyncTransform, Transform

LIST: Final = "tools/list"

if TYPE_CHECKING:
    from callgate.approval.stage import ApprovalStage
    from callgate.pinning.stage import PinningStage
    from callgate.trust.stage import TrustStage


class Stages:
    """Pinning, verified approval and trust, each where it is set up."""

    def __init__(
        self, pins: PinningStage | None, approval: ApprovalStage | None, trust: TrustStage | None = None
    ) -> None:
        self._pins = pins
        self._approval = approval
        self._trust = trust
        self.methods: frozenset[str] = frozenset() if approval is None else approval.methods
        if trust is not None:
            self.methods |= trust.methods
        self.prepares: frozenset[str] = frozenset() if pins is None else pins.prepares
        self.tools: frozenset[str] = frozenset() if pins is None else frozenset({PENDING_TOOL})
        if trust is not None:
            self.tools |= trust.tools
        # Asked before every call leaves: pinning's own, without a step between.
        self.pre_dispatch_check: Callable[[Call], Refused | None] = (
            _nothing_against if pins is None else pins.pre_dispatch_check
        )

    async def prepare(self, message: Message, context: Context) -> None:
        if self._pins is not None:
            await self._pins.prepare(message, context)

    async def answer(self, message: Message, context: Context) -> dict[str, Any] | None:
        if self._trust is not None and message.method in self._trust.methods:
            return await self._trust.answer(message, context)
        return None if self._approval is None else await self._approval.answer(message, context)

    async def answer_call(self, message: Message, call: Call) -> dict[str, Any] | None:
        found = None if self._pins is None else await self._pins.answer_call(message, call)
        if found is None and self._trust is not None:
            return await self._trust.answer_call(call)
        return found

    async def revalidate(self, call: Call) -> Refused | None:
        return None if self._pins is None else await self._pins.revalidate(call)

    async def settle(self, call: Call) -> Refused | None:
        return None if self._pins is None else await self._pins.settle(call)

    def forward(
        self, message: Message, call: Call, decision: Decision
    ) -> tuple[Message, Transform | None, AsyncTransform | None]:
        amend, after = None, None
        if self._pins is not None:
            amend = self._pins.screen(call.context)
        if self._approval is not None:
            message, marked = self._approval.forward(message, call, decision)
            # Few calls have both: only one that a person approved is amended for that.
            amend = amend if marked is None else _chain(amend, marked)
        if self._trust is not None:
            message, after = self._trust.forward(message, call)
        return message, amend, after

    def leaving(self, message: Message | Batch, calls: Sequence[AllowedCall] = ()) -> Message | Batch:
        return message if self._trust is None else self._trust.leaving(message, calls)

    def screen(self, context: Context) -> Transform | None:
        return None if self._pins is None else self._pins.screen(context)

    def heard_by(
        self, context: Context, push: Callable[[bytes], None], subscription: RequestId | None = None
    ) -> AbstractContextManager[None]:
        return nullcontext() if self._pins is None else self._pins.bell.heard_by(context, push, subscription)

    def _list(self, context: Context, cursor: object, asked: int, otherwise: Transform | None, raw: bytes) -> bytes:
        """A reply to `tools/list`, read once and written once. Trust learns from all of it, pinning keeps what was
        approved, approval marks what is left, and trust has a tool of its own to add."""
        reply = ToolListReply.read(raw)
        if reply is None:
            return raw if otherwise is None else otherwise(raw)
        if self._trust is not None:
            self._trust.learn(context.server, reply)
        kept: ToolListReply | Refused = reply
        if self._pins is not None:
            kept = self._pins.filter_list(context, cursor, asked, reply)
        if isinstance(kept, Refused):
            return error_reply(reply.value.get("id"), kept)
        if self._approval is not None:
            kept = self._approval.mark_list(context.server, kept)
        if self._trust is not None:
            kept = self._trust.offer_on(kept)
        return raw if kept is reply else kept.raw()

    def amend(self, message: Message | Batch, context: Context) -> Transform | None:
        trust = None if self._trust is None else self._trust.amend(message, context)
        pins = None if self._pins is None else self._pins.amend(message, context)
        approval = None if self._approval is None else self._approval.amend(message, context)
        offer = None if self._trust is None else self._trust.offer(message)
        # Trust learns from a list before entries of it are taken away or marked, and has a tool of its own to add.
        chained = _chain(trust, pins, approval, offer)
        if not isinstance(message, Message) or message.method != LIST or message.id is None:
            return chained
        # As it is before the request leaves: what the server says from then on may be of a later list.
        asked = 0 if self._pins is None else self._pins.generation(context.server)
        cursor = message.params.get("cursor") if isinstance(message.params, dict) else None
        listed = partial(self._list, context, cursor, asked, chained)
        return TransformById({message.id: listed}, _same if self._pins is None else self._pins.screen(context))

    def refused(self, call: Call, refused: Refused) -> None:
        if self._trust is not None:
            self._trust.refused(call, refused)

    def after(
        self, message: Message | Batch, context: Context, calls: Sequence[AllowedCall] = ()
    ) -> AsyncTransform | None:
        return None if self._trust is None else self._trust.after(message, context, calls)

    def after_others(self, context: Context) -> AsyncTransform | None:
        return None if self._trust is None else self._trust.after_others(context)

    async def takes(self, message: Message | Batch, context: Context) -> bool:
        if self._trust is not None and self._trust.takes(message, context):
            return True
        return self._approval is not None and await self._approval.takes(message, context)


def _same(raw: bytes) -> bytes:
    return raw


def _nothing_against(_call: Call) -> Refused | None:
    return None


def _chain(*amends: Transform | None) -> Transform | None:
    wanted = [amend for amend in amends if amend is not None]
    if len(wanted) < 2:
        return wanted[0] if wanted else None
    return lambda raw: reduce(lambda text, amend: amend(text), wanted, raw)

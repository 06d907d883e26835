"""The stages in their order: pinning decides what passes of a list, approval marks what is left of it, and trust takes
note of what the client is about to see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

import msgspec

from callgate.approval.delegation import DelegationUse
from callgate.errors import Refused
from callgate.gate import Call, Context, Pass
from callgate.jsonrpc import Batch, Message, Peek, RequestId, error_reply, replace_member
from callgate.jsonrpc.reading import decode_leniently
from callgate.pipeline.dispatcher import AllowedCall, AsyncTransform, Transform
from callgate.pipeline.replies import ToolListReply, TransformById

LIST: Final = "tools/list"
_encode: Final = msgspec.json.Encoder().encode

if TYPE_CHECKING:
    from callgate.agents.stage import AgentCheck
    from callgate.approval.stage import ApprovalStage
    from callgate.pinning.stage import PinningStage
    from callgate.trust.stage import TrustStage


class Stages:
    """Pinning, verified approval and trust, each where it is set up."""

    def __init__(
        self,
        pins: PinningStage | None,
        approval: ApprovalStage | None,
        trust: TrustStage | None = None,
        agents: AgentCheck | None = None,
    ) -> None:
        self._agents = agents
        self._pins = pins
        self._approval = approval
        self._trust = trust
        self.methods: frozenset[str] = frozenset() if approval is None else approval.methods
        if trust is not None:
            self.methods |= trust.methods
        self.prepares: frozenset[str] = frozenset() if pins is None else pins.prepares
        self.tools: frozenset[str] = frozenset() if pins is None else pins.tools
        if trust is not None:
            self.tools |= trust.tools
        # Asked before every call leaves: pinning's own, without a step between.
        self.pre_dispatch_check: Callable[[Call], Refused | None] = (
            _nothing_against if pins is None else pins.pre_dispatch_check
        )

    async def incoming(
        self, message: Message | Batch, context: Context, call: Call | None = None
    ) -> dict[str, Any] | None:
        found: dict[str, Any] | None = None
        may_call = _anything
        if call is not None and self._agents is not None:
            if not self._agents.answers(call):
                # The gate refuses it, and has that on record.
                return None
            may_call = partial(self._agents.may_call, context)
        if self._pins is not None:
            found = await self._pins.incoming(message, context, call, may_call)
        if found is None and self._trust is not None:
            found = await self._trust.incoming(message, context, call)
        if found is None and self._approval is not None and call is None:
            found = await self._approval.incoming(message, context)
        return found

    async def recheck(self, call: Call, *, unchanged: bool = False) -> Refused | None:
        return None if self._pins is None else await self._pins.recheck(call, unchanged=unchanged)

    def outgoing(
        self, message: Message | Batch, context: Context, calls: Sequence[AllowedCall] = ()
    ) -> tuple[Message | Batch, Transform | None, AsyncTransform | None]:
        if len(calls) != 1 or not isinstance(message, Message):
            return self._others(message, context, calls)
        amend: Transform | None = None if self._pins is None else partial(self._pins.screen_all, context)
        after: AsyncTransform | None = None
        call, answers = calls[0].call, calls[0].decision.answers
        last = answers[-1].verdict if answers else None
        if self._approval is not None and not (isinstance(last, Pass) and last.untouched):
            message, marked = self._approval.outgoing(message, call, calls[0].decision)
            # Few calls have both: only one that a person approved is amended for that.
            amend = amend if marked is None else _chain(amend, marked)
        if self._trust is not None:
            message, after = self._trust.outgoing(message, call, seen=not _beforehand(last))
        return message, amend, after

    def _others(
        self, message: Message | Batch, context: Context, calls: Sequence[AllowedCall]
    ) -> tuple[Message | Batch, Transform | None, AsyncTransform | None]:
        """What is no call, or a batch that may have calls in it."""
        amend = self._amend(message, context)
        if self._trust is None:
            return message, amend, None
        return self._trust.leaving(message, calls), amend, self._trust.after(message, context, calls)

    def unasked(self, context: Context) -> AsyncTransform | None:
        if self._pins is None:
            return None if self._trust is None else self._trust.unasked(context)
        screen = self._pins.screen(context)
        after = None if self._trust is None else self._trust.unasked(context)

        async def passing(raw: bytes, _seen: Peek | None = None, /) -> bytes:
            raw = screen(raw)
            return raw if after is None else await after(raw)

        return passing

    def heard_by(
        self, context: Context, push: Callable[[bytes], None], subscription: RequestId | None = None
    ) -> AbstractContextManager[None]:
        return nullcontext() if self._pins is None else self._pins.notifier.heard_by(context, push, subscription)

    def _list(self, context: Context, cursor: object, asked: int, otherwise: Transform | None, raw: bytes) -> bytes:
        """A reply to `tools/list`, read once and written once. Trust learns from all of it, pinning keeps what was
        approved, approval marks what is left, trust has a tool of its own to add, and of all that agents' rules keep
        what the caller may call."""
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
        if self._agents is not None:
            shown = self._agents.callable_tools(context, kept.result["tools"], self.tools)
            kept = kept if len(shown) == len(kept.result["tools"]) else kept.with_result(tools=shown)
        return raw if kept is reply else kept.raw()

    def _amend(self, message: Message | Batch, context: Context) -> Transform | None:
        trust = None if self._trust is None else self._trust.amend(message, context)
        pins = None if self._pins is None else self._pins.amend(message, context)
        approval = None if self._approval is None else self._approval.amend(message, context)
        offer = None if self._trust is None else self._trust.offer(message)
        agents = None if self._agents is None else _screened_lists(self._agents, context, message, self.tools)
        # Trust learns from a list before entries of it are taken away or marked, and has a tool of its own to add.
        chained = _chain(trust, pins, approval, offer, agents)
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


def _beforehand(verdict: object) -> bool:
    """Whether a grant let the call through, so that no person has seen it."""
    return isinstance(verdict, Pass) and isinstance(verdict.use, DelegationUse)


def _screened_lists(
    agents: AgentCheck, context: Context, message: Message | Batch, own: Collection[str]
) -> Transform | None:
    """Only tools that the caller may call, in lists that are written in an odd way, or answered in a batch."""

    def screen(raw: bytes) -> bytes:
        reply = decode_leniently(raw)
        result = reply.get("result") if isinstance(reply, dict) else None
        tools = result.get("tools") if isinstance(result, dict) else None
        if not isinstance(tools, list):
            return raw
        shown = agents.callable_tools(context, tools, own)
        return raw if len(shown) == len(tools) else replace_member(raw, ("result", "tools"), _encode(shown))

    messages = message.messages if isinstance(message, Batch) else (message,)
    found: dict[RequestId, Transform] = {
        one.id: screen for one in messages if one.method == LIST and one.id is not None
    }
    return TransformById(found) if found else None


def _same(raw: bytes) -> bytes:
    return raw


def _anything(_tool: str) -> bool:
    return True


def _nothing_against(_call: Call) -> Refused | None:
    return None


def _chain(*amends: Transform | None) -> Transform | None:
    wanted = [amend for amend in amends if amend is not None]
    if len(wanted) < 2:
        return wanted[0] if wanted else None
    return lambda raw: reduce(lambda text, amend: amend(text), wanted, raw)

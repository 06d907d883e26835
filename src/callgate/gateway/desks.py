"""Two desks at one door: pinning decides what passes of a list, approval marks what is left of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from callgate.errors import Refused
from callgate.gate import Call, Context, Decision
from callgate.gateway.door import Amend
from callgate.gateway.pin_desk import PinDesk
from callgate.jsonrpc import Batch, Message, RequestId
from callgate.pinning.model import PENDING_TOOL

if TYPE_CHECKING:
    from callgate.gateway.desk import ApprovalDesk


class Desks:
    """Pinning, and verified approval where that is set up."""

    def __init__(self, pins: PinDesk, approval: ApprovalDesk | None) -> None:
        self._pins = pins
        self._approval = approval
        self.methods: frozenset[str] = frozenset() if approval is None else approval.methods
        self.prepares = pins.prepares

    async def prepare(self, message: Message, context: Context) -> None:
        await self._pins.prepare(message, context)

    async def answer(self, message: Message, context: Context) -> dict[str, Any] | None:
        return None if self._approval is None else await self._approval.answer(message, context)

    def owns(self, tool: str) -> bool:
        return tool == PENDING_TOOL

    async def answer_call(self, message: Message, call: Call) -> dict[str, Any] | None:
        return await self._pins.answer_call(message, call)

    async def look_anew(self, call: Call) -> Refused | None:
        return await self._pins.look_anew(call)

    def last_look(self, call: Call) -> Refused | None:
        return self._pins.last_look(call)

    def outgoing(self, message: Message, call: Call, decision: Decision) -> Message:
        return message if self._approval is None else self._approval.outgoing(message, call, decision)

    def screen(self, context: Context) -> Amend | None:
        return self._pins.screen(context)

    def heard_by(
        self, context: Context, push: Callable[[bytes], None], subscription: RequestId | None = None
    ) -> AbstractContextManager[None]:
        return self._pins.bell.heard_by(context, push, subscription)

    def amend(self, message: Message | Batch, context: Context) -> Amend | None:
        approval = None if self._approval is None else self._approval.amend(message, context)
        return _after(self._pins.amend(message, context), approval)

    def amend_call(self, message: Message, call: Call, decision: Decision) -> Amend | None:
        approval = None if self._approval is None else self._approval.amend_call(message, call, decision)
        return _after(self._pins.screen(call.context), approval)

    async def takes(self, message: Message | Batch, context: Context) -> bool:
        return self._approval is not None and await self._approval.takes(message, context)


def _after(first: Amend, second: Amend | None) -> Amend:
    if second is None:
        return first
    return lambda raw: second(first(raw))

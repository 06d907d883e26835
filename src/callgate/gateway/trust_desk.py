"""Trust at the door: labels on what leaves, a label for what comes back, and what is kept of it.

What a result is stands in the store before the client sees the result. Where that cannot be done the result is not
passed on: a session that has read something and does not know it would be worse than a call without an answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from callgate.approval.names import METHODS
from callgate.errors import CallgateError, Reason, Refused, place
from callgate.gate import Call, Context
from callgate.gateway.amending import Amends
from callgate.gateway.catalogue import decode_leniently
from callgate.gateway.entering import After, Amend, Decided
from callgate.gateway.line import Visit
from callgate.gateway.trust_check import Judged, Trust
from callgate.gateway.trust_outgoing import for_the_server, labelled
from callgate.gateway.trust_released import RESULT_TOOL, offered
from callgate.gateway.trust_results import Results
from callgate.jsonrpc import (
    TOOLS_CALL,
    Batch,
    Kind,
    Message,
    RequestId,
    elements,
    error_reply,
    peek,
)
from callgate.trust.propagation import Share, outgoing
from callgate.trust.resolving import answer as resolved

log = logging.getLogger("callgate.trust")

RESOLVE: Final = "tools/resolve"
LIST: Final = "tools/list"
# Requests whose answers are the protocol's own business. The answer to every other is data of its server, which may
# reach a model: a resource, a prompt, a result that was waited for.
_PROTOCOL: Final = frozenset(
    {
        "initialize",
        "server/discover",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "subscriptions/listen",
        LIST,
        RESOLVE,
    }
)


# Members of requests and notifications that say what they belong to.
_MARKS: Final = frozenset({"_meta", "elicitationId", "level", "mode", "progressToken", "requestId", "taskId"})

_Settles: TypeAlias = Mapping[RequestId, After]


async def _as_it_is(raw: bytes) -> bytes:
    return raw


class TrustDesk:
    """What the gateway does for servers and clients so that labels travel."""

    methods: Final = frozenset({RESOLVE})

    def __init__(
        self,
        check: Trust,
        results: Results,
        *,
        learn: Callable[[str, object], None],
        share: Callable[[str], Share | None],
        relays_resolve: Callable[[str], bool],
    ) -> None:
        self._check = check
        self._results = results
        self._learn = learn
        # How attribution is given to a server; None where labels are not sent on at all.
        self._share = share
        self._relays_resolve = relays_resolve
        self._writing: set[asyncio.Task[None]] = set()

    # ---- tools/resolve ----

    async def answer(self, message: Message, context: Context) -> dict[str, Any] | None:
        """What a call with these arguments would do, from the operator's rules; None where the server answers."""
        params = message.params if isinstance(message.params, dict) else {}
        tool, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(tool, str) or not tool or not isinstance(arguments, dict):
            raise Refused(Reason.INVALID_PARAMS, "tools/resolve needs a tool's name and an object of arguments")
        if self._relays_resolve(context.server):
            return None
        labels = self._check.labels
        listed = labels.listed(context.server, tool, self._check.approved(context, tool))
        return resolved(tool, self._check.label(context, tool, arguments), listed)

    # ---- results that were held back ----

    def owns(self, tool: str) -> bool:
        return tool == RESULT_TOOL and self._check.policy.holds_back

    async def answer_call(self, call: Call) -> dict[str, Any] | None:
        """The gateway's own tool; None for every other."""
        if not self.owns(call.tool):
            return None
        name = self._check.naming.name(call.context, call.meta)
        modern = isinstance(call.context, Visit) and call.context.modern
        handle = call.arguments.get("handle")
        return await self._results.released(handle, name, call, modern=modern)

    def offer(self, message: Message | Batch) -> Amend | None:
        """The tool at the end of a list, where results may be held back."""
        if not self._check.policy.holds_back:
            return None
        asked = message.messages if isinstance(message, Batch) else (message,)
        found = {one.id: offered for one in asked if one.method == LIST and one.id is not None}
        return Amends(found) if found else None

    # ---- what leaves ----

    def outgoing(self, message: Message, call: Call) -> Message:
        """With the session's labels, and without what was meant for the gateway alone."""
        judged = self._check.look(call)
        share = self._share(call.context.server)
        annotations = None if judged is None or share is None else outgoing(judged.facts.session, share=share)
        raw = labelled(message, annotations, as_it_came=message.raw is call.raw)
        return message if raw is message.raw else msgspec.structs.replace(message, raw=raw)

    def leaving(self, message: Message | Batch, calls: Sequence[Decided] = ()) -> Message | Batch:
        """The same for what is no call, and for each message of a batch."""
        if isinstance(message, Message):
            raw = for_the_server(message)
            return message if raw is message.raw else msgspec.structs.replace(message, raw=raw)
        by_id = {one.message.id: one.call for one in calls}
        slices = elements(message.raw) or []
        parts = [msgspec.structs.replace(one, raw=raw) for one, raw in zip(message.messages, slices, strict=True)]
        sent = [
            self.outgoing(one, by_id[one.id]) if one.method == TOOLS_CALL and one.id in by_id else self.leaving(one)
            for one in parts
        ]
        if all(after is before for before, after in zip(parts, sent, strict=True)):
            return message
        return Batch(b"[" + b",".join([one.raw for one in sent]) + b"]", message.messages)

    # ---- what comes back ----

    def amend(self, message: Message | Batch, context: Context) -> Amend | None:
        """Lists of tools are learnt from as they pass."""
        found: dict[RequestId, Amend] = {}
        for one in message.messages if isinstance(message, Batch) else (message,):
            if one.kind is Kind.REQUEST and one.method == LIST and one.id is not None:
                found[one.id] = partial(self._listed, context.server)
        return Amends(found) if found else None

    def _listed(self, server: str, raw: bytes) -> bytes:
        message = decode_leniently(raw)
        if isinstance(message, dict):
            self._learn(server, message.get("result"))
        return raw

    def after(self, message: Message | Batch, context: Context, calls: Sequence[Decided] = ()) -> After | None:
        by_id: dict[RequestId, After] = {}
        for asked in calls:
            judged = self._check.take(asked.call)
            if asked.message.id is not None:
                by_id[asked.message.id] = partial(self._results.of_call, asked.call, judged)
        for one in message.messages if isinstance(message, Batch) else (message,):
            if one.kind is Kind.REQUEST and one.id is not None and one.method != TOOLS_CALL:
                read = one.method not in _PROTOCOL and one.method not in METHODS
                by_id[one.id] = partial(self._results.of_read, one, context) if read else _as_it_is
        return partial(self._passing, by_id, context)

    def after_others(self, context: Context) -> After | None:
        return partial(self._passing, None, context)

    def _passing(self, by_id: _Settles | None, context: Context, raw: bytes) -> Awaitable[bytes]:
        """`by_id` has what was asked for; None where nothing was."""
        if raw[:1] == b"{":
            return self._one(by_id, context, raw)
        try:
            several = elements(raw)
        except CallgateError:
            several = None
        return self._one(by_id, context, raw) if several is None else self._each(by_id, context, raw, several)

    async def _each(self, by_id: _Settles | None, context: Context, raw: bytes, several: list[bytes]) -> bytes:
        passed = [await self._one(by_id, context, part) for part in several]
        return raw if passed == several else b"[" + b",".join(passed) + b"]"

    async def _one(self, by_id: _Settles | None, context: Context, raw: bytes) -> bytes:
        seen = peek(raw)
        if seen is None or (seen.method is None and seen.outcome is None):
            # What is no message reaches nobody on a stream of the server's own; as an answer, in whatever form, it may.
            if by_id is None:
                return raw
        elif seen.method is not None:
            message = decode_leniently(raw)
            if not _answers(message):
                return await self._said(context, seen.method, raw) if _speaks(message) else raw
        rpc_id = seen.id if seen is not None else None
        settle = by_id.get(rpc_id) if by_id is not None and rpc_id is not None else None
        try:
            if settle is not None:
                return await settle(raw)
            # It answers nothing that was asked here, and a client may take it for an answer all the same.
            return await self._results.unasked(context, raw)
        except Refused as refused:
            return error_reply(rpc_id, refused)
        except Exception as error:  # noqa: BLE001 - what nobody could label is not passed on, whatever broke
            log.error("result not passed on", extra={"fields": {"server": context.server, "error": place(error)}})
            return error_reply(rpc_id, Refused(Reason.RESULT_WITHHELD))

    async def _said(self, context: Context, method: str, raw: bytes) -> bytes:
        """What a server says or asks by itself. Its id is the server's, so a refusal has none."""
        try:
            return await self._results.unasked(context, raw, method)
        except Refused as refused:
            return error_reply(None, refused)
        except Exception as error:  # noqa: BLE001 - as above
            log.error("message not passed on", extra={"fields": {"server": context.server, "error": place(error)}})
            return error_reply(None, Refused(Reason.RESULT_WITHHELD))

    # ---- what was refused ----

    def refused(self, call: Call, refused: Refused) -> None:
        """A call that goes no further is part of the session's picture too."""
        judged = self._check.take(call)
        if judged is None or judged.ruling.effect == "allow":
            return
        task = asyncio.get_running_loop().create_task(self._write_refused(judged, refused))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write_refused(self, judged: Judged, refused: Refused) -> None:
        try:
            await self._results.refused(judged, refused)
        except CallgateError as error:
            log.warning("refusal missing in the session's picture", extra={"fields": {"error": str(error)}})

    def takes(self, message: Message | Batch, _context: Context) -> bool:
        """Answers to our own elicitations: whatever they say, the page decides."""
        return isinstance(message, Message) and message.kind is Kind.RESPONSE and self._results.asked(message.id)


def _answers(message: object) -> bool:
    """Whether what asks or notifies answers as well: readers decide for themselves which of the two it is."""
    return isinstance(message, dict) and not message.keys().isdisjoint(("result", "error"))


def _speaks(message: object) -> bool:
    """Whether what asks or notifies has words in it."""
    if not isinstance(message, dict):
        return True
    params = message.get("params")
    if not isinstance(params, dict):
        return bool(params)
    return any(isinstance(value, str | dict | list) and value for name, value in params.items() if name not in _MARKS)

"""Trust in the pipeline: labels on what leaves, a label for what comes back, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from callgate.errors import CallgateError, Reason, Refused, place
from callgate.gate import Call, Context
from callgate.jsonrpc import (
    TOOLS_CALL,
    Batch,
    Message,
    MessageKind,
    RequestId,
    drop_member,
    elements,
    error_reply,
    member_span,
    peek,
    put_member,
)
from callgate.jsonrpc.peeking import decode_leniently
from callgate.pipeline.context import RequestContext
from callgate.pipeline.dispatcher import AllowedCall, AsyncTransform, Transform
from callgate.pipeline.replies import ToolListReply, TransformById
from callgate.protocol import METHODS
from callgate.trust.check import JudgedCall, TrustCheck
from callgate.trust.model import ANNOTATIONS_META, CONSENT_META, PROMPT_META, SESSION_META
from callgate.trust.propagation import Share, outgoing
from callgate.trust.released_results import RESULT_TOOL, offered, offered_on
from callgate.trust.resolving import answer as resolved
from callgate.trust.result_recorder import ResultRecorder

# Members of `_meta` that are for the gateway alone.
PRIVATE: Final = (PROMPT_META, SESSION_META, CONSENT_META)
_encode: Final = msgspec.json.Encoder().encode
_scan: Final = json.JSONDecoder().raw_decode
_SPACE: Final = b" \t\r\n"
_OBJECT: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*\{")


def for_the_server(message: Message) -> bytes:
    """A message without what it told the gateway alone; the same bytes where there is no such thing."""
    raw, meta = message.raw, message.meta
    for name in PRIVATE:
        if name in meta:
            raw = drop_member(raw, ("params", "_meta", name))
    return raw


def labelled(message: Message, annotations: Mapping[str, Any] | None, *, as_it_came: bool) -> bytes:
    """The same with these annotations, and without any others; `as_it_came` where nobody has changed its bytes."""
    meta = message.meta
    dropped = [name for name in PRIVATE if name in meta]
    if annotations is None and ANNOTATIONS_META in meta:
        # What the client wrote there is in the session's labels by now, and those are not for this server.
        dropped.append(ANNOTATIONS_META)
    if annotations is None and not dropped:
        return message.raw
    span = _certain(message) if as_it_came else None
    if span is None:
        return _slowly(message, annotations, dropped)
    raw = message.raw
    if span[0] == span[1]:
        comma = b"," if message.params else b""
        return raw[: span[0]] + b'"_meta":{"annotations":' + _encode(annotations) + b"}" + comma + raw[span[1] :]
    if meta.keys() <= {*dropped, ANNOTATIONS_META}:
        inner = b"{}" if annotations is None else b'{"annotations":' + _encode(annotations) + b"}"
    else:
        inner = raw[span[0] : span[1]]
        for name in dropped:
            inner = _without(inner, name)
        if annotations is not None and ANNOTATIONS_META in meta:
            inner = put_member(inner, ANNOTATIONS_META, _encode(annotations))
        elif annotations is not None:
            # Something else is in there, so a comma comes before it.
            inner = inner[:-1].rstrip(_SPACE) + b',"annotations":' + _encode(annotations) + b"}"
    return raw[: span[0]] + inner + raw[span[1] :]


def _certain(message: Message) -> tuple[int, int] | None:
    """Where `_meta` stands, or where it can be put in; None where that takes a closer look.

    Without such escapes a name is written as it is, and quotes around it are no part of a string: what occurs once, and
    is known to be there, is there.
    """
    raw, params = message.raw, message.params
    if not isinstance(params, dict) or (b"\\" in raw and b"\\u" in raw):
        return None
    at = _once(raw, b'"params"')
    if at < 0:
        return None
    if "_meta" not in params:
        found = _OBJECT.match(raw, at)
        return None if found is None else (found.end(), found.end())
    at = _once(raw, b'"_meta"')
    if at < 0 or not isinstance(params["_meta"], dict):
        return None
    rest = raw[raw.index(b"{", at) :]
    if not rest.isascii():
        return None
    start = len(raw) - len(rest)
    return start, start + _scan(rest.decode("ascii"))[1]


def _once(raw: bytes, name: bytes) -> int:
    """Where a name ends that occurs once; -1 where it occurs more or less often."""
    at = raw.find(name)
    end = at + len(name)
    return end if at >= 0 and raw.find(name, end) < 0 else -1


def _without(inner: bytes, name: str) -> bytes:
    """An object of ASCII without this member, which it is known to have, and the comma that goes with it.

    Without escapes a name is written as it is: one that occurs once is that member's.
    """
    written = b'"' + name.encode() + b'"'
    end = _once(inner, written)
    if b"\\" in inner or end < 0:
        return drop_member(inner, (name,))
    start = end - len(written)
    colon = inner.index(b":", end) + 1
    while inner[colon] in _SPACE:
        colon += 1
    end = _scan(inner.decode("ascii"), colon)[1]
    before, behind = inner[:start].rstrip(_SPACE), inner[end:]
    if before != b"{":
        return before[:-1].rstrip(_SPACE) + behind
    rest = behind.lstrip(_SPACE)
    return inner[:start] + (rest[1:].lstrip(_SPACE) if rest[:1] == b"," else behind)


def _slowly(message: Message, annotations: Mapping[str, Any] | None, dropped: list[str]) -> bytes:
    raw = message.raw
    for name in dropped:
        raw = drop_member(raw, ("params", "_meta", name))
    if annotations is None:
        return raw
    span = member_span(raw, ("params",))
    if span is None:
        return raw
    params = raw[span[0] : span[1]]
    inner = member_span(params, ("_meta",))
    meta = b"{}" if inner is None else params[inner[0] : inner[1]]
    meta = put_member(meta if meta[:1] == b"{" else b"{}", ANNOTATIONS_META, _encode(annotations))
    return raw[: span[0]] + put_member(params, "_meta", meta) + raw[span[1] :]


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

_Settles: TypeAlias = Mapping[RequestId, AsyncTransform]


async def _as_it_is(raw: bytes) -> bytes:
    return raw


class TrustStage:
    """What the gateway does for servers and clients so that labels travel."""

    methods: Final = frozenset({RESOLVE})
    # Asked about where results may be held back.
    tools: Final = frozenset({RESULT_TOOL})

    def __init__(
        self,
        check: TrustCheck,
        results: ResultRecorder,
        *,
        learn: Callable[[str, object], None],
        share: Share,
        shares: Mapping[str, Share | None],
        relays_resolve: Callable[[str], bool],
    ) -> None:
        self._check = check
        self._results = results
        self._learn = learn
        # How attribution is given to servers, and to some in another way; None where labels are not sent on at all.
        self._share = share
        self._shares = shares
        self._relays_resolve = relays_resolve
        self._writing: set[asyncio.Task[None]] = set()

    # ---- what is for the gateway itself ----

    async def incoming(
        self, message: Message | Batch, context: Context, call: Call | None = None
    ) -> dict[str, Any] | None:
        """`tools/resolve`, a result that was held back, and answers to our own elicitations."""
        if call is not None:
            return await self._released(call)
        if not isinstance(message, Message):
            return None
        if message.method == RESOLVE and message.kind is MessageKind.REQUEST:
            return self._resolved(message, context)
        # Whatever the client answers, the page decides.
        return {} if message.kind is MessageKind.RESPONSE and self._results.asked(message.id) else None

    def _resolved(self, message: Message, context: Context) -> dict[str, Any] | None:
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

    async def _released(self, call: Call) -> dict[str, Any] | None:
        """The gateway's own tool; None for every other."""
        if call.tool != RESULT_TOOL or not self._check.policy.holds_back:
            return None
        name = self._check.naming.name(call.context, call.meta)
        modern = isinstance(call.context, RequestContext) and call.context.modern
        handle = call.arguments.get("handle")
        return await self._results.released(handle, name, call, modern=modern)

    # ---- what a list gets in addition ----

    def offer(self, message: Message | Batch) -> Transform | None:
        """The tool at the end of a list, where results may be held back."""
        if not self._check.policy.holds_back:
            return None
        asked = message.messages if isinstance(message, Batch) else (message,)
        found = {one.id: offered for one in asked if one.method == LIST and one.id is not None}
        return TransformById(found) if found else None

    def offer_on(self, reply: ToolListReply) -> ToolListReply:
        """The same for a list that was read before."""
        return offered_on(reply) if self._check.policy.holds_back else reply

    # ---- what leaves ----

    def outgoing(self, message: Message, call: Call) -> tuple[Message, AsyncTransform]:
        """A call that may go on, as the server is to see it, and what to do with its reply."""
        judged = self._check.take(call)
        sent = self._labelled(message, call, judged)
        assert message.id is not None
        by_id = {message.id: partial(self._results.of_call, call, judged)}
        return sent, partial(self._passing, by_id, call.context)

    def _labelled(self, message: Message, call: Call, judged: JudgedCall | None) -> Message:
        """With the session's labels, and without what was meant for the gateway alone."""
        share = self._shares.get(call.context.server, self._share)
        annotations = None if judged is None or share is None else outgoing(judged.facts.session, share=share)
        if annotations is None and not call.meta:
            return message
        raw = labelled(message, annotations, as_it_came=message.raw is call.raw)
        return message if raw is message.raw else msgspec.structs.replace(message, raw=raw)

    def leaving(self, message: Message | Batch, calls: Sequence[AllowedCall] = ()) -> Message | Batch:
        """The same for what is no call, and for each message of a batch."""
        if isinstance(message, Message):
            raw = for_the_server(message)
            return message if raw is message.raw else msgspec.structs.replace(message, raw=raw)
        by_id = {one.message.id: one.call for one in calls}
        slices = elements(message.raw) or []
        parts = [msgspec.structs.replace(one, raw=raw) for one, raw in zip(message.messages, slices, strict=True)]
        sent = [
            self._labelled(one, by_id[one.id], self._check.look(by_id[one.id]))
            if one.method == TOOLS_CALL and one.id in by_id
            else self.leaving(one)
            for one in parts
        ]
        if all(after is before for before, after in zip(parts, sent, strict=True)):
            return message
        return Batch(b"[" + b",".join([one.raw for one in sent]) + b"]", message.messages)

    # ---- what comes back ----

    def amend(self, message: Message | Batch, context: Context) -> Transform | None:
        """Lists of tools are learnt from as they pass."""
        found: dict[RequestId, Transform] = {}
        for one in message.messages if isinstance(message, Batch) else (message,):
            if one.kind is MessageKind.REQUEST and one.method == LIST and one.id is not None:
                found[one.id] = partial(self._listed, context.server)
        return TransformById(found) if found else None

    def learn(self, server: str, reply: ToolListReply) -> None:
        """A list as it came."""
        self._learn(server, reply.result)

    def _listed(self, server: str, raw: bytes) -> bytes:
        message = decode_leniently(raw)
        if isinstance(message, dict):
            self._learn(server, message.get("result"))
        return raw

    def after(self, message: Message | Batch, context: Context, calls: Sequence[AllowedCall] = ()) -> AsyncTransform:
        """What to do with the replies to what is no call, or to a batch that may have calls in it."""
        by_id: dict[RequestId, AsyncTransform] = {}
        for asked in calls:
            judged = self._check.take(asked.call)
            if asked.message.id is not None:
                by_id[asked.message.id] = partial(self._results.of_call, asked.call, judged)
        for one in message.messages if isinstance(message, Batch) else (message,):
            if one.kind is MessageKind.REQUEST and one.id is not None and one.method != TOOLS_CALL:
                read = one.method not in _PROTOCOL and one.method not in METHODS
                by_id[one.id] = partial(self._results.of_read, one, context) if read else _as_it_is
        return partial(self._passing, by_id, context)

    def unasked(self, context: Context) -> AsyncTransform:
        """What to do with messages that answer nothing."""
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

    async def _write_refused(self, judged: JudgedCall, refused: Refused) -> None:
        try:
            await self._results.refused(judged, refused)
        except CallgateError as error:
            log.warning("refusal missing in the session's picture", extra={"fields": {"error": str(error)}})


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

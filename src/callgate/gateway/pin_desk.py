"""Tool pinning at the door: what passes of a list, what is added to a greeting, and the tool of the gateway itself."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import msgspec

from callgate.errors import CallgateError, MessageError, Reason, Refused, UpstreamError, place
from callgate.gate import Call, Context
from callgate.gateway.amending import Amends, add_list_changed
from callgate.gateway.bell import Bell
from callgate.gateway.catalogue import decode_leniently
from callgate.gateway.entering import Amend
from callgate.gateway.line import Visit
from callgate.gateway.pin_check import Pinning
from callgate.gateway.pin_pending import ENTRY, answer
from callgate.gateway.toolsets import DISCOVER, Toolsets
from callgate.jsonrpc import Batch, Kind, Message, RequestId, error_reply, member_span, peek, put_member
from callgate.pinning.judging import Toolset
from callgate.pinning.listing import Page, check_readable
from callgate.pinning.model import PENDING_TOOL, TOOLSET_META

log = logging.getLogger("callgate.pinning")

LIST: Final = "tools/list"
_GREETINGS: Final = frozenset({"initialize", DISCOVER})
_encode: Final = msgspec.json.Encoder().encode


class PinDesk:
    """What the gateway does for servers whose tools are pinned."""

    prepares: Final = frozenset({LIST})

    def __init__(
        self,
        toolsets: Toolsets,
        check: Pinning,
        *,
        bell: Bell,
        settle_in: Callable[[str], Awaitable[None]],
        review: Callable[[], Awaitable[str]],
    ) -> None:
        self._toolsets = toolsets
        self._check = check
        # Asked before every call leaves: the check's own, without a step between.
        self.last_look: Callable[[Call], Refused | None] = check.last_look
        self.bell = bell
        self._settle_in = settle_in
        # Where tools are reviewed, in words.
        self._review = review

    @property
    def _enforcing(self) -> bool:
        return self._toolsets.settings.mode == "enforce"

    async def prepare(self, message: Message, context: Context) -> None:
        """Before a list is asked for: everything that reading it needs is at hand."""
        if self._check.stale and self._enforcing:
            raise Refused(Reason.STORE_UNAVAILABLE)
        if isinstance(context, Visit):
            await self._toolsets.introduce(context, message.meta)
        await self._toolsets.warm(context)
        try:
            await self._settle_in(context.server)
        except CallgateError as error:
            # Whoever only looks on keeps nobody from anything.
            if self._enforcing:
                raise
            log.warning("no place for a server", extra={"fields": {"server": context.server, "error": str(error)}})

    async def answer_call(self, message: Message, call: Call) -> dict[str, Any] | None:
        """The gateway's own tool; None for every other."""
        settings = self._toolsets.settings
        if call.tool != PENDING_TOOL or not self._enforcing or not settings.pending_tool:
            return None
        visit = call.context
        assert isinstance(visit, Visit)
        toolset = self._toolsets.current(visit) or await self._toolsets.verify(visit, message.meta)
        return answer(visit.server, toolset, await self._review(), modern=visit.modern)

    async def look_anew(self, call: Call) -> Refused | None:
        return await self._check.look_anew(call)

    async def settle(self, call: Call) -> Refused | None:
        return await self._check.settle(call)

    # ---- what passes ----

    def amend(self, message: Message | Batch, context: Context) -> Amend:
        """What to do with the replies to a message, and with whatever else comes on its stream."""
        found: dict[RequestId, Amend] = {}
        for one in message.messages if isinstance(message, Batch) else (message,):
            if one.kind is not Kind.REQUEST or one.id is None:
                continue
            if one.method in _GREETINGS:
                found[one.id] = partial(self._greeting, one.method, context)
            elif one.method == LIST:
                params = one.params if isinstance(one.params, dict) else {}
                # As it is before the request leaves: what the server says from then on may be of a later list.
                asked = self._toolsets.generation(context.server)
                found[one.id] = partial(self._list, context, params.get("cursor"), asked)
        return Amends(found, partial(self._screen, context))

    def screen(self, context: Context) -> Amend:
        """For everything that a server sends: a list that nobody asked for is a list all the same."""
        return partial(self._screen_all, context)

    def _screen_all(self, context: Context, raw: bytes) -> bytes:
        # Nearly every reply is one message that holds nothing like a list.
        if raw[:1] == b"{":
            return raw if _has_no_list(raw) else self._screen(context, raw)
        return Amends({}, partial(self._screen, context))(raw)

    def _screen(self, context: Context, raw: bytes) -> bytes:
        return raw if _has_no_list(raw) else self._or_nothing(context, partial(self._screened, context), raw)

    def _screened(self, context: Context, raw: bytes) -> bytes:
        page = self._toolsets.page(raw)
        if page is None:
            check_readable(raw)
        if page is None or not self._enforcing:
            return raw
        # It belongs to no place in a sequence of pages, so it does not count as verified.
        return _with_entries(raw, page, self._toolsets.passing(context, page, "\x00"))

    def _list(self, context: Context, cursor: Any, asked: int, raw: bytes) -> bytes:
        """A reply to `tools/list`: only what was approved goes on, each entry as the bytes it came as."""
        return self._or_nothing(context, partial(self._listed, context, cursor, asked), raw)

    def _or_nothing(self, context: Context, amend: Amend, raw: bytes) -> bytes:
        """A list that breaks us is not shown, whatever broke."""
        try:
            return amend(raw)
        except MessageError as error:
            # Its sentence may quote the server, and ours reach the model.
            return self._garbled(raw, UpstreamError(Reason.UPSTREAM_GARBAGE, error.reason.meaning))
        except Refused as refused:
            return self._garbled(raw, refused)
        except Exception as error:  # noqa: BLE001 - said above
            log.error("list not passed on", extra={"fields": {"server": context.server, "error": place(error)}})
            return self._garbled(raw, Refused(Reason.INTERNAL_ERROR))

    def _listed(self, context: Context, cursor: Any, asked: int, raw: bytes) -> bytes:
        page = self._toolsets.page(raw)
        if page is None:
            return raw
        kept = self._toolsets.passing(context, page, cursor if isinstance(cursor, str) else None, asked)
        if not self._enforcing:
            return raw
        toolset = self._toolsets.current(context, whatever_age=True)
        if toolset is None or page.cursor is not None:
            return _with_entries(raw, page, kept)
        if toolset.waits and self._toolsets.settings.pending_tool:
            kept.append(ENTRY)
        return _with_version(_with_entries(raw, page, kept), toolset)

    def _greeting(self, method: str, context: Context, raw: bytes) -> bytes:
        """A server's greeting: what it says of itself is part of its identity."""
        message = decode_leniently(raw)
        result = message.get("result") if isinstance(message, dict) else None
        if isinstance(result, dict) and method == "initialize":
            self._heard(context, result.get("serverInfo"))
        elif method == DISCOVER:
            self._toolsets.discovered(context.server, raw)
        if not self._enforcing:
            return raw
        # A greeting that holds a list is no way around the review either.
        try:
            return self._screen(context, add_list_changed(raw))
        except MessageError as error:
            text = f"the server's greeting: {error.reason.meaning}"
            return self._garbled(raw, UpstreamError(Reason.UPSTREAM_GARBAGE, text))

    def _heard(self, context: Context, info: object) -> None:
        opening = context.opening if isinstance(context, Visit) else None
        if opening is None:
            self._toolsets.greeted(context.server, context.session, info)
            return
        self._toolsets.greeted(context.server, None, info)
        opening.then(lambda session: self._toolsets.greeted(context.server, session, info))

    def _garbled(self, raw: bytes, refused: Refused) -> bytes:
        if not self._enforcing:
            return raw
        seen = peek(raw)
        return error_reply(None if seen is None else seen.id, refused)


def _has_no_list(raw: bytes) -> bool:
    """Whether no member of it can be `tools`, spelt with escapes or in another case for readers that do not mind."""
    # One byte is found many times faster than two: an escape is looked for where there is some backslash only. `find`,
    # because `in` asks first whether the bytes are a number.
    escape = raw.find(b"\\")
    return (escape < 0 or raw.find(b"\\u", escape) < 0) and raw.lower().find(b"tools") < 0


def _with_entries(raw: bytes, page: Page, kept: list[bytes]) -> bytes:
    if kept and tuple(kept) == page.entries:
        return raw
    return raw[: page.span[0]] + b"[" + b",".join(kept) + b"]" + raw[page.span[1] :]


def _with_version(raw: bytes, toolset: Toolset) -> bytes:
    """The version of the list, for callers that want to be held to it."""
    span = member_span(raw, ("result",))
    assert span is not None
    result = raw[span[0] : span[1]]
    inner = member_span(result, ("_meta",))
    meta = b"{}" if inner is None else result[inner[0] : inner[1]]
    meta = put_member(meta if meta[:1] == b"{" else b"{}", TOOLSET_META, _encode(toolset.version))
    return raw[: span[0]] + put_member(result, "_meta", meta) + raw[span[1] :]

"""Pinning in the pipeline: is this the tool that was approved, and what passes of a tool list?

A call is held against the decisions of now, on its channel and under its server's identity. A list keeps only what was
approved, and so does a greeting: what a server says of itself for models to read is held back until then. The gateway's
own tool says what waits for a reviewer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from callgate.errors import CallgateError, MessageError, Reason, Refused, UpstreamError, place
from callgate.gate import Call, Context, Pass, Refuse, Verdict, nothing_overdue
from callgate.jsonrpc import (
    Batch,
    Message,
    MessageKind,
    RequestId,
    drop_member,
    drop_members,
    error_reply,
    member_span,
    member_spans,
    peek,
    put_member,
)
from callgate.jsonrpc.reading import decode_leniently
from callgate.pinning.judging import Standing, Toolset
from callgate.pinning.judging import odd as odd_arguments
from callgate.pinning.listing import INFO_KEPT, ListPage, check_greeting, check_readable, page_of, spoken
from callgate.pinning.model import INSTRUCTIONS, PENDING_TOOL, PROMPT, SERVER_INFO, TOOLSET_META
from callgate.pinning.toolsets import DISCOVER, SERVER_INFO_META, ToolList, Toolsets
from callgate.pipeline.context import RequestContext, ToolDigests
from callgate.pipeline.dispatcher import Transform
from callgate.pipeline.list_changed import ListChangedNotifier
from callgate.pipeline.replies import ToolListReply, TransformById, add_list_changed

_MOST: Final = 50
# Names are the server's words: only those that can be nothing but a name are repeated.
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
ENTRY: Final = msgspec.json.encode(
    {
        "name": PENDING_TOOL,
        "title": "Tools that wait for review",
        "description": "Says which tools and texts of this server are hidden until a person has reviewed them, and "
        "where that is done. Takes no arguments and changes nothing.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "annotations": {
            "readOnlyHint": True,
            "destructiveHint": False,
            "openWorldHint": False,
            "inputMetadata": {"destination": "ephemeral", "sensitivity": "none", "outcomes": "benign"},
            # The names in the answer are the server's own.
            "returnMetadata": {"source": "untrustedPublic", "sensitivity": "none"},
        },
    }
)

_ENTRY: Final = msgspec.json.decode(ENTRY)


def answer(
    server: str,
    toolset: Toolset,
    pending: Sequence[str],
    review: str,
    others: Sequence[Toolset] = (),
    *,
    modern: bool,
) -> dict[str, Any]:
    """The result of calling it: names and states, never a word of what the tools say. `others` are its other texts."""
    lines = [f"{_count(len(pending), server)} for a reviewer:"] if pending else []
    lines += [f"- {_shown(name)}: {_why(toolset.standings[name])}" for name in pending[:_MOST]]
    if len(pending) > _MOST:
        lines.append(f"- and {len(pending) - _MOST} more")
    texts = sorted({name for one in others for name in one.pending})
    if texts:
        lines.append(f"Other texts of {server} that wait: {_named(texts)}.")
    if toolset.listing.problem:
        lines.append(f"No tool of {server} can be used: {toolset.listing.problem}.")
    lines.append(f"A person reviews tools {review}." if lines else f"No tool of {server} waits for review.")
    result: dict[str, Any] = {"content": [{"type": "text", "text": "\n".join(lines)}], "isError": False}
    return {**result, "resultType": "complete"} if modern else result


def _count(number: int, server: str) -> str:
    return f"1 tool of {server} waits" if number == 1 else f"{number} tools of {server} wait"


def _shown(name: str) -> str:
    return name if _NAME.fullmatch(name) else "a tool with an unusual name"


def _named(texts: Sequence[str]) -> str:
    own = {INSTRUCTIONS: "its instructions", SERVER_INFO: "what it says of itself"}
    prompts = sum(name not in own for name in texts)
    told = [own[name] for name in texts if name in own]
    return ", ".join([*told, *([f"{prompts} prompt{'' if prompts == 1 else 's'}"] if prompts else [])])


def _why(standing: Standing) -> str:
    """As a call of it is refused, in a line of a list."""
    if standing.reason is None:
        # Held for a review with another server: the refusal names a tool there, in that server's words.
        return "approved, but not together with another server"
    text = standing.detail or standing.reason.meaning
    return text[:1].lower() + text[1:].rstrip(".")


log = logging.getLogger("callgate.pinning")

_encode: Final = msgspec.json.Encoder().encode
_REVIEWED: Final = frozenset({Reason.TOOL_NOT_APPROVED, Reason.TOOL_CHANGED, Reason.SET_NOT_REVIEWED})


LIST: Final = "tools/list"
PROMPTS: Final = "prompts/list"
PROMPT_GET: Final = "prompts/get"
_GREETINGS: Final = frozenset({"initialize", DISCOVER})
# Lists whose entries change all day: they are inspected, and nobody approves them.
_RESOURCES: Final = {"resources/list": "resources", "resources/templates/list": "resourceTemplates"}
# What a list may have beside its entries (2026-07-28: results, caching).
LIST_MEMBERS: Final = frozenset({"nextCursor", "_meta", "resultType", "ttlMs", "cacheScope"})
# Where a greeting has what a server says of itself: one path for each era.
_STAMP: Final = ("result", "_meta", SERVER_INFO_META)
_INFO_PATHS: Final[tuple[tuple[str, ...], ...]] = (("result", "serverInfo"), _STAMP)


class PinningStage:
    """Pinning of one configuration: the check that `Gate(pinning=…)` takes, and what changes in messages that pass."""

    prepares: Final = frozenset({LIST, PROMPTS, PROMPT_GET}) | _GREETINGS
    tools: Final = frozenset({PENDING_TOOL})

    def __init__(
        self,
        toolsets: Toolsets,
        *,
        stale: Callable[[], bool],
        settle_in: Callable[[str], Awaitable[None]],
        looked: Callable[[Toolset, str], Awaitable[bool]],
        notifier: ListChangedNotifier,
        review: Callable[[], Awaitable[str]],
        catch_up: Callable[[], Awaitable[None]] = nothing_overdue,
        odd: Callable[[Call, tuple[str, ...]], None] = lambda _call, _found: None,
    ) -> None:
        self._toolsets = toolsets
        # Whether the decisions have been unreadable for so long that nobody knows them.
        self._stale = stale
        # Waits, within a bound, for a reading of them that is overdue.
        self._catch_up = catch_up
        # Takes a server's place among those that are seen together; raises Refused where there is none.
        self._settle_in = settle_in
        # Waits where nobody has looked yet at a tool among those of other servers; whether somebody has since.
        self._looked = looked
        # Told what is unusual about the arguments of a call that passes.
        self._odd = odd
        # Where tools are reviewed, in words.
        self._review = review
        self.notifier = notifier

    def label(self, context: Context, tool: str) -> str:
        """The label that a tool was approved with; empty where nobody settled one."""
        # That of a call is asked for right after the call was held against this list.
        held = context.line.held if isinstance(context, RequestContext) else None
        line = held if type(held) is ToolList else self._toolsets.in_force(context, whatever_age=True)
        return "" if line is None or line.toolset is None else line.toolset.standing(tool).label

    async def stale(self) -> bool:
        """The same after waiting for a reading that is overdue."""
        if self._stale():
            await self._catch_up()
        return self._stale()

    def at_once(self, call: Call) -> Verdict | None:
        """The answer where nothing stands in the way and nobody has to be asked; None where it takes longer."""
        context = call.context
        toolsets = self._toolsets
        if self._stale() or (toolsets.sets.refusals and toolsets.refused(context.server)):
            return None
        line = self._toolsets.in_force(context)
        toolset = None if line is None else line.toolset
        if line is None or toolset is None:
            return None
        tool = call.tool
        verdict = line.passes.get(tool) or _let_pass(line, toolset, tool)
        if verdict is None:
            return None
        shown = line.shown
        # Nearly every caller was shown this very list, or none, and names no version.
        other = TOOLSET_META in call.meta or (shown is not None and shown is not toolset)
        if other and _outdated(call, toolset, shown) is not None:
            return None
        if found := odd_arguments(call.canonical):
            self._odd(call, found)
        if isinstance(context, RequestContext):
            context.line.held = line
            listed = toolset.listing.tools[tool]
            context.line.judged.setdefault(tool, (listed.approval_hash, listed.beside))
        return verdict

    async def __call__(self, call: Call) -> Verdict:
        observing = self._toolsets.settings.mode == "observe"
        try:
            verdict = await self._judge(call)
        except Refused as refused:
            if not observing:
                return Refuse(refused.reason, refused.message, data=refused.data, advice=refused.advice)
            return Pass({"pin": {"state": "unknown", "reason": refused.reason.value}})
        if isinstance(verdict, Refuse) and observing:
            verdict = Pass(verdict.facts)
        if isinstance(verdict, Pass) and (found := odd_arguments(call.canonical)):
            self._odd(call, found)
        return verdict

    async def _judge(self, call: Call) -> Verdict:
        if await self.stale():
            raise Refused(Reason.STORE_UNAVAILABLE)
        visit = call.context
        assert isinstance(visit, RequestContext)
        visit.line.held = None
        toolset = self._toolsets.current(visit)
        if toolset is None:
            await self._settle_in(visit.server)
            toolset = await self._toolsets.verify(visit, call.meta)
        toolset = await self._among_others(visit, call, toolset)
        if over := self._toolsets.refused(call.context.server):
            return Refuse(Reason.SERVER_LIMIT, over)
        standing, facts = toolset.standing(call.tool), toolset.facts(call.tool)
        if standing.reason is not None:
            return Refuse(standing.reason, standing.detail, facts, advice=await self._advice(standing.reason))
        shown = self._toolsets.line(call.context).shown
        if (outdated := _outdated(call, toolset, shown)) is not None:
            return Refuse(Reason.TOOLSET_OUTDATED, outdated, facts)
        visit.line.judged.setdefault(call.tool, _entry(toolset, call.tool))
        line = self._toolsets.line(call.context)
        passed = _let_pass(line, toolset, call.tool) if line.toolset is toolset else None
        return passed or Pass(facts)

    async def _among_others(self, visit: RequestContext, call: Call, toolset: Toolset) -> Toolset:
        """The tools after the look that the call has to wait for, where there is one and it ends in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._toolsets.ask_seconds):
                while toolset.standing(call.tool).reason is Reason.SET_NOT_REVIEWED:
                    if not await self._looked(toolset, call.tool):
                        break
                    toolset = self._toolsets.current(visit) or await self._toolsets.verify(visit, call.meta)
        return toolset

    async def _advice(self, reason: Reason) -> str:
        """Where a reviewer finds the tool; empty where the reason's own advice says all there is."""
        return f"A person reviews it, {await self._review()}." if reason in _REVIEWED else ""

    async def recheck(self, call: Call, *, unchanged: bool = False) -> Refused | None:
        """After a person has taken their time, or after the list changed, or other servers came: the list is read again
        where it has grown old meanwhile, and the tool has to be open.

        `unchanged`: it has to have the same entry as well. The other checks went by that entry too: it may say by now
        that a person has to approve.
        """
        if self._toolsets.settings.mode == "observe" or not isinstance(call.context, RequestContext):
            return None
        visit = call.context
        before = visit.line.judged.get(call.tool)
        try:
            toolset = self._toolsets.current(visit) or await self._toolsets.verify(visit, call.meta)
            toolset = await self._among_others(visit, call, toolset)
        except Refused as problem:
            return problem
        except Exception as error:  # noqa: BLE001 - not knowing is no reason to let it pass, whatever broke
            log.error("call not looked at again", extra={"fields": {"call": call.id, "error": place(error)}})
            return Refused(Reason.TOOLSET_UNVERIFIED)
        if (refused := self.pre_dispatch_check(call)) is not None:
            return refused
        if (outdated := _outdated(call, toolset, self._toolsets.line(visit).shown)) is not None:
            return Refused(Reason.TOOLSET_OUTDATED, outdated)
        entry = visit.line.judged[call.tool] = _entry(toolset, call.tool)
        if unchanged and before != entry:
            return Refused(Reason.TOOLSET_UNVERIFIED, "the server changed the tool while the call was decided")
        return None

    def pre_dispatch_check(self, call: Call) -> Refused | None:
        """Before a call leaves: what it was let through by may have ended since."""
        if self._toolsets.settings.mode == "observe":
            return None
        if self._stale():
            return Refused(Reason.STORE_UNAVAILABLE)
        context = call.context
        held = context.line.held if isinstance(context, RequestContext) else None
        line = held if type(held) is ToolList else None
        if line is None or not self._toolsets.holds(line, context.server):
            line = self._toolsets.in_force(context, whatever_age=True)
        if line is None or line.toolset is None:
            text = "the server's list of tools changed while the call was decided"
            return Refused(Reason.TOOLSET_UNVERIFIED, text)
        if call.tool in line.passes:
            return None
        standing = line.toolset.standing(call.tool)
        return None if standing.reason is None else Refused(standing.reason, standing.detail)

    @property
    def _enforcing(self) -> bool:
        return self._toolsets.settings.mode == "enforce"

    async def incoming(
        self,
        message: Message | Batch,
        context: Context,
        call: Call | None = None,
        may_call: Callable[[str], bool] = lambda _tool: True,
    ) -> dict[str, Any] | None:
        """Get ready for a list before it is asked for; answer a call of the gateway's own tool, with the names of those
        tools that the caller may call."""
        if call is None:
            if isinstance(message, Message) and message.method in self.prepares:
                await self._prepare(message, context)
            return None
        if call.tool != PENDING_TOOL or not self._enforcing or not self._toolsets.settings.pending_tool:
            return None
        assert isinstance(context, RequestContext)
        toolset = self._toolsets.current(context) or await self._toolsets.verify(context, call.meta)
        others = self._toolsets.texts(context)
        pending = [name for name in toolset.pending if may_call(name)]
        return answer(context.server, toolset, pending, await self._review(), others, modern=context.modern)

    async def _prepare(self, message: Message, context: Context) -> None:
        """Everything that reading a list needs is at hand."""
        stale = await self.stale()
        if message.method in _GREETINGS:
            # Who it is is not known before it has said so; what decides it beside that is read from the disk here.
            await asyncio.to_thread(self._toolsets.expected, context.server)
            return
        if message.method in (PROMPTS, PROMPT_GET) and not self._toolsets.settings.prompts:
            return
        if stale and self._enforcing:
            raise Refused(Reason.STORE_UNAVAILABLE)
        if isinstance(context, RequestContext):
            await self._toolsets.introduce(context, message.meta)
        await self._toolsets.warm(context)
        try:
            await self._settle_in(context.server)
        except CallgateError as error:
            # Whoever only looks on keeps nobody from anything.
            if self._enforcing:
                raise
            log.warning("no place for a server", extra={"fields": {"server": context.server, "error": str(error)}})
        if message.method == PROMPT_GET and isinstance(context, RequestContext):
            await self._check_prompt(message, context)

    async def _check_prompt(self, message: Message, context: RequestContext) -> None:
        """A prompt is read only as somebody approved it; Refused where it is not, or where nobody can tell."""
        params = message.params if isinstance(message.params, dict) else {}
        name = params.get("name")
        if not self._enforcing or not isinstance(name, str):
            return
        prompts = self._prompts
        toolset = prompts.current(context) or await prompts.verify(context, message.meta)
        standing = toolset.standing(PROMPT + name)
        if standing.reason is not None:
            raise Refused(standing.reason, standing.detail, advice=await self._advice(standing.reason))
        shown = prompts.line(context).shown
        before = None if shown is None else shown.listing.tools.get(PROMPT + name)
        if before is not None and before.approval_hash != toolset.listing.tools[PROMPT + name].approval_hash:
            text = "the server listed the prompt with another text for the caller than it does now"
            raise Refused(Reason.TOOLSET_OUTDATED, text)

    @property
    def _prompts(self) -> Toolsets:
        assert self._toolsets.prompts is not None
        return self._toolsets.prompts

    # ---- what passes ----

    def amend(self, message: Message | Batch, context: Context) -> Transform:
        """What to do with the replies to a message, and with whatever else comes on its stream."""
        found: dict[RequestId, Transform] = {}
        for one in message.messages if isinstance(message, Batch) else (message,):
            if one.kind is not MessageKind.REQUEST or one.id is None:
                continue
            if one.method in _GREETINGS:
                found[one.id] = partial(self._greeting, one.method, context)
            elif one.method == LIST:
                params = one.params if isinstance(one.params, dict) else {}
                # As it is before the request leaves: what the server says from then on may be of a later list.
                asked = self._toolsets.generation(context.server)
                found[one.id] = partial(self._list, self._toolsets, context, params.get("cursor"), asked)
            elif one.method == PROMPTS and self._toolsets.settings.prompts:
                params = one.params if isinstance(one.params, dict) else {}
                asked = self._prompts.generation(context.server)
                found[one.id] = partial(self._list, self._prompts, context, params.get("cursor"), asked)
            elif one.method in _RESOURCES:
                found[one.id] = partial(self._or_nothing, context, partial(self._bare, _RESOURCES[one.method], context))
        return TransformById(found, partial(self._screen, context))

    def filter_list(
        self, context: Context, cursor: object, asked: int, reply: ToolListReply
    ) -> ToolListReply | Refused:
        """What was approved of a list, with its version; what the client is told where nobody can tell what that is."""
        try:
            return self._filtered(context, cursor, asked, reply)
        except Exception as error:  # noqa: BLE001 - a list that breaks us is not shown, whatever broke
            return _why_not_shown(context, error) if self._enforcing else reply

    def _filtered(self, context: Context, cursor: object, asked: int, reply: ToolListReply) -> ToolListReply:
        page = page_of(reply, self._toolsets.settings.list_bytes)
        kept = self._toolsets.passing(context, page, cursor if isinstance(cursor, str) else None, asked)
        if not self._enforcing:
            return reply
        reply = reply.without_others(LIST_MEMBERS)
        if "_meta" in reply.result:
            reply = reply.with_result(_meta=_with_bare_stamp(reply.result["_meta"]))
        by_bytes = dict(zip(page.entries, reply.result["tools"], strict=False))
        tools = [by_bytes[raw] for raw in kept]
        toolset = self._toolsets.current(context, whatever_age=True)
        if toolset is None or page.cursor is not None:
            return reply.with_result(tools=tools)
        if self._toolsets.settings.pending_tool and self._toolsets.waits(context, toolset):
            tools.append(_ENTRY)
        meta = reply.result.get("_meta")
        version = {**(meta if isinstance(meta, dict) else {}), TOOLSET_META: toolset.version}
        return reply.with_result(tools=tools, _meta=version)

    def generation(self, server: str) -> int:
        """Moves on when a server says that its list changed."""
        return self._toolsets.generation(server)

    def screen(self, context: Context) -> Transform:
        """For everything that a server sends: a list that nobody asked for is a list all the same."""
        return partial(self.screen_all, context)

    def screen_all(self, context: Context, raw: bytes) -> bytes:
        """The same at once."""
        # Nearly every reply is one message that holds nothing like a list.
        if raw[:1] == b"{":
            return raw if _has_no_list(raw) else self._screen(context, raw)
        return TransformById({}, partial(self._screen, context))(raw)

    def _screen(self, context: Context, raw: bytes) -> bytes:
        return raw if _has_no_list(raw) else self._or_nothing(context, partial(self._screened, context), raw)

    def _screened(self, context: Context, raw: bytes) -> bytes:
        if self._enforcing and member_span(raw, ("result", "capabilities")) is not None:
            # The answer to a greeting, whatever it was sent for.
            raw = self._reviewed(context, raw)
        return self._screen_lists(context, raw)

    def _screen_lists(self, context: Context, raw: bytes) -> bytes:
        for lists in self._toolsets.both() if self._toolsets.settings.prompts else [self._toolsets]:
            page = lists.page(raw)
            if page is None:
                check_readable(raw)
            elif self._enforcing:
                # It belongs to no place in a sequence of pages, so it does not count as verified.
                raw = _with_entries(raw, page, lists.passing(context, page, "\x00"))
        return raw

    def _list(self, lists: Toolsets, context: Context, cursor: Any, asked: int, raw: bytes) -> bytes:
        """A reply to `tools/list` or `prompts/list`: only what was approved goes on, each entry as the bytes it came
        as."""
        return self._or_nothing(context, partial(self._listed, lists, context, cursor, asked), raw)

    def _or_nothing(self, context: Context, amend: Transform, raw: bytes) -> bytes:
        """A list that breaks us is not shown, whatever broke."""
        try:
            return amend(raw)
        except Exception as error:  # noqa: BLE001 - said above
            return self._garbled(raw, _why_not_shown(context, error))

    def _listed(self, lists: Toolsets, context: Context, cursor: Any, asked: int, raw: bytes) -> bytes:
        page = lists.page(raw)
        if page is None:
            # No such list; it may be one of another kind.
            return self._screen_lists(context, raw)
        kept = lists.passing(context, page, cursor if isinstance(cursor, str) else None, asked)
        if not self._enforcing:
            return raw
        raw = _without_others(raw, {*LIST_MEMBERS, lists.of.member})
        page = lists.page(raw) or page
        toolset = lists.current(context, whatever_age=True)
        if lists is not self._toolsets or toolset is None or page.cursor is not None:
            return _with_entries(raw, page, kept)
        if self._toolsets.settings.pending_tool and self._toolsets.waits(context, toolset):
            kept.append(ENTRY)
        return _with_version(_with_entries(raw, page, kept), toolset)

    def _bare(self, member: str, context: Context, raw: bytes) -> bytes:
        """A list of resources with nothing beside it that the protocol does not know."""
        if self._enforcing and member_span(raw, ("result",)) is not None:
            raw = _without_others(raw, {*LIST_MEMBERS, member})
        return self._screened(context, raw)

    def _greeting(self, method: str, context: Context, raw: bytes) -> bytes:
        """A server's greeting: what it says of itself is part of its identity."""
        message = decode_leniently(raw)
        result = message.get("result") if isinstance(message, dict) else None
        if isinstance(result, dict) and method == "initialize":
            self._heard(context, result.get("serverInfo"))
        elif method == DISCOVER:
            self._toolsets.discovered(context.server, raw)
        # A greeting that holds a list is no way around the review either.
        try:
            said = self._reviewed(context, raw)
            return self._screen_lists(context, add_list_changed(said)) if self._enforcing else raw
        except MessageError as error:
            text = f"the server's greeting: {error.reason.meaning}"
            return self._garbled(raw, UpstreamError(Reason.UPSTREAM_GARBAGE, text))
        except Exception as error:  # noqa: BLE001 - a greeting that breaks us is not shown, whatever broke
            return self._garbled(raw, _why_not_shown(context, error))

    def _reviewed(self, context: Context, raw: bytes) -> bytes:
        """A greeting without what nobody has approved: instructions, and what else it tells a model of the server."""
        outer = member_spans(raw) or {}
        span = outer.get("result", (0, 0))
        result = raw[span[0] : span[1]]
        names = member_spans(result)
        if names is None:
            return raw
        value = decode_leniently(result)
        if not isinstance(value, dict):
            return raw
        check_greeting(names, ())
        infos: dict[tuple[str, ...], dict[str, Any]] = {}
        for path in _INFO_PATHS:
            place_, info = member_span(raw, path), _at(value, path[1:])
            if place_ is not None and isinstance(info, dict):
                # Raises where a key comes twice.
                check_greeting((), member_spans(raw[place_[0] : place_[1]]) or ())
                infos[path] = info
        said = self._toolsets.said(context, value, list(infos.values()))
        allowed = dict.fromkeys(said, False) if self._stale() else said
        if not allowed.get(INSTRUCTIONS, True):
            raw = drop_member(raw, ("result", "instructions"))
        if not allowed.get(SERVER_INFO, True):
            for path, info in infos.items():
                raw = drop_members(raw, path, set(spoken(info)))
        return raw

    def _heard(self, context: Context, info: object) -> None:
        opening = context.opening if isinstance(context, RequestContext) else None
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


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _entry(toolset: Toolset, tool: str) -> ToolDigests:
    """What the list says of a tool, as short as it can be told: a call may wait for a person and keep it as long."""
    listed = toolset.listing.tools[tool]
    return listed.approval_hash, listed.beside


def _let_pass(line: ToolList, toolset: Toolset, tool: str) -> Pass | None:
    """What is said of each call of a tool for as long as the toolset stands; None where it may not be called."""
    if toolset.standing(tool).reason is not None:
        return None
    # The same words on every call's record: written once.
    facts = {name: msgspec.Raw(_encode(fact)) for name, fact in toolset.facts(tool).items()}
    verdict = line.passes[tool] = Pass(facts)
    return verdict


def _outdated(call: Call, toolset: Toolset, shown: Toolset | None) -> str | None:
    """Whether the caller goes by another list: by its own word, or because another text was shown to it."""
    wanted = call.meta.get(TOOLSET_META)
    if wanted is not None and wanted != toolset.version:
        return "the call names another version of the list of tools than the one in force"
    if shown is None or shown is toolset:
        return None
    then, now = shown.listing.tools.get(call.tool), toolset.listing.tools.get(call.tool)
    same = shown.identity == toolset.identity
    if same and then is not None and now is not None and then.approval_hash != now.approval_hash:
        # Also where none of it was passed on: a server that shows its clients one text and us another is not called.
        return "the server listed the tool with another text for the caller than it does now"
    # Callers whom no session tells apart were shown a list each: nobody knows which.
    if call.context.session is None:
        return None
    before = shown.standing(call.tool)
    if before.open and before.approval_hash != toolset.standing(call.tool).approval_hash:
        return "the tool was approved anew with another text since the caller was shown its description"
    return None


def _why_not_shown(context: Context, error: Exception) -> Refused:
    if isinstance(error, MessageError):
        # Its sentence may quote the server, and ours reach the model.
        return UpstreamError(Reason.UPSTREAM_GARBAGE, error.reason.meaning)
    if isinstance(error, Refused):
        return error
    log.error("list not passed on", extra={"fields": {"server": context.server, "error": place(error)}})
    return Refused(Reason.INTERNAL_ERROR)


def _has_no_list(raw: bytes) -> bool:
    """Whether no member of it can be `tools` or `prompts`, nor one that every greeting has, spelt with escapes or in
    another case for readers that do not mind."""
    # One byte is found many times faster than two: an escape is looked for where there is some backslash only. `find`,
    # because `in` asks first whether the bytes are a number.
    escape = raw.find(b"\\")
    if escape >= 0 and raw.find(b"\\u", escape) >= 0:
        return False
    small = raw.lower()
    return small.find(b"tools") < 0 and small.find(b"prompts") < 0 and small.find(b"capabilities") < 0


def _with_entries(raw: bytes, page: ListPage, kept: list[bytes]) -> bytes:
    if kept and tuple(kept) == page.entries:
        return raw
    assert page.span is not None
    return raw[: page.span[0]] + b"[" + b",".join(kept) + b"]" + raw[page.span[1] :]


def _without_others(raw: bytes, known: Collection[str]) -> bytes:
    """A list without members that the protocol does not know: nobody reviews those, and a model may read them."""
    span = member_span(raw, ("result",))
    assert span is not None
    named = member_spans(raw[span[0] : span[1]]) or ()
    raw = drop_members(raw, ("result",), {name for name in named if name not in known})
    stamp = member_span(raw, _STAMP)
    said = None if stamp is None else member_spans(raw[stamp[0] : stamp[1]])
    return drop_members(raw, _STAMP, {name for name in said or () if name not in INFO_KEPT})


def _with_bare_stamp(meta: Any) -> Any:
    """What a list says of its server: as whom it is known, and nothing that belongs into a greeting."""
    stamp = meta.get(SERVER_INFO_META) if isinstance(meta, dict) else None
    if not isinstance(stamp, dict) or INFO_KEPT.issuperset(stamp):
        return meta
    return {**meta, SERVER_INFO_META: {name: value for name, value in stamp.items() if name in INFO_KEPT}}


def _with_version(raw: bytes, toolset: Toolset) -> bytes:
    """The version of the list, for callers that want to be held to it."""
    span = member_span(raw, ("result",))
    assert span is not None
    result = raw[span[0] : span[1]]
    inner = member_span(result, ("_meta",))
    meta = b"{}" if inner is None else result[inner[0] : inner[1]]
    meta = put_member(meta if meta[:1] == b"{" else b"{}", TOOLSET_META, _encode(toolset.version))
    return raw[: span[0]] + put_member(result, "_meta", meta) + raw[span[1] :]

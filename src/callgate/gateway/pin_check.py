"""The check: is this the tool that was approved? On its line, under its server's identity, by the decisions of now."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from callgate.errors import Reason, Refused, place
from callgate.gate import Call, Context, Pass, Refuse, Verdict
from callgate.gateway.known_lines import Line
from callgate.gateway.line import Entry, Visit
from callgate.gateway.toolsets import Toolsets
from callgate.pinning.arguments import odd as odd_arguments
from callgate.pinning.judging import Toolset
from callgate.pinning.model import TOOLSET_META

log = logging.getLogger("callgate.pinning")

_encode: Final = msgspec.json.Encoder().encode
_REVIEWED: Final = frozenset({Reason.TOOL_NOT_APPROVED, Reason.TOOL_CHANGED, Reason.SET_NOT_REVIEWED})


class Pinning:
    """The check that `Gate(pinning=…)` takes."""

    def __init__(
        self,
        toolsets: Toolsets,
        *,
        stale: Callable[[], bool],
        settle_in: Callable[[str], Awaitable[None]],
        looked: Callable[[Toolset, str], Awaitable[bool]],
        place: Callable[[str], str],
        odd: Callable[[Call, tuple[str, ...]], None] = lambda _call, _found: None,
        review: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self._toolsets = toolsets
        # Whether the decisions have been unreadable for so long that nobody knows them.
        self._stale = stale
        # Takes a server's place among those that are seen together; raises Refused where there is none.
        self._settle_in = settle_in
        # Waits where nobody has looked yet at a tool among those of other servers; whether somebody has since.
        self._looked = looked
        # Why a server may not be used at all; empty where it may.
        self._place = place
        # Told what is unusual about the arguments of a call that passes.
        self._odd = odd
        # Where tools are reviewed, in words.
        self._review = review

    def label(self, context: Context, tool: str) -> str:
        """The label that a tool was approved with; empty where nobody settled one."""
        line = self._toolsets.in_force(context, whatever_age=True)
        return "" if line is None or line.toolset is None else line.toolset.standing(tool).label

    @property
    def stale(self) -> bool:
        return self._stale()

    def at_once(self, call: Call) -> Verdict | None:
        """The answer where nothing stands in the way and nobody has to be asked; None where it takes longer."""
        context = call.context
        if self._stale() or self._place(context.server):
            return None
        line = self._toolsets.in_force(context)
        toolset = None if line is None else line.toolset
        if line is None or toolset is None:
            return None
        verdict = line.passes.get(call.tool) or _let_pass(line, toolset, call.tool)
        if verdict is None:
            return None
        shown = line.shown
        # Nearly every caller was shown this very list, or none, and names no version.
        other = TOOLSET_META in call.meta or (shown is not None and shown is not toolset)
        if other and _outdated(call, toolset, shown) is not None:
            return None
        if found := odd_arguments(call.canonical):
            self._odd(call, found)
        if isinstance(context, Visit):
            context.line.held = line
            context.line.judged.setdefault(call.tool, _entry(toolset, call.tool))
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
        if self._stale():
            raise Refused(Reason.STORE_UNAVAILABLE)
        visit = call.context
        assert isinstance(visit, Visit)
        toolset = self._toolsets.current(visit)
        if toolset is None:
            await self._settle_in(visit.server)
            toolset = await self._toolsets.verify(visit, call.meta)
        toolset = await self._among_others(visit, call, toolset)
        if over := self._place(call.context.server):
            return Refuse(Reason.SERVER_LIMIT, over)
        standing, facts = toolset.standing(call.tool), toolset.facts(call.tool)
        if standing.reason is not None:
            return Refuse(standing.reason, standing.detail, facts, advice=await self._advice(standing.reason))
        shown = self._toolsets.line(call.context).shown
        if (outdated := _outdated(call, toolset, shown)) is not None:
            return Refuse(Reason.TOOLSET_OUTDATED, outdated, facts)
        visit.line.judged.setdefault(call.tool, _entry(toolset, call.tool))
        return Pass(facts)

    async def _among_others(self, visit: Visit, call: Call, toolset: Toolset) -> Toolset:
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
        if self._review is None or reason not in _REVIEWED:
            return ""
        return f"A person reviews it, {await self._review()}."

    async def look_anew(self, call: Call) -> Refused | None:
        """After a person has taken their time: the list is read again where it has grown old meanwhile."""
        if self._toolsets.settings.mode == "observe" or not isinstance(call.context, Visit):
            return None
        visit = call.context
        try:
            toolset = self._toolsets.current(visit) or await self._toolsets.verify(visit, call.meta)
            toolset = await self._among_others(visit, call, toolset)
        except Refused as problem:
            return problem
        except Exception as error:  # noqa: BLE001 - not knowing is no reason to let it pass, whatever broke
            log.error("call not looked at again", extra={"fields": {"call": call.id, "error": place(error)}})
            return Refused(Reason.TOOLSET_UNVERIFIED)
        if (refused := self.last_look(call)) is not None:
            return refused
        if (outdated := _outdated(call, toolset, self._toolsets.line(visit).shown)) is not None:
            return Refused(Reason.TOOLSET_OUTDATED, outdated)
        visit.line.judged[call.tool] = _entry(toolset, call.tool)
        return None

    async def settle(self, call: Call) -> Refused | None:
        """The list changed after the call was decided, or other servers came: looked at again, the tool has to be open,
        and to have the same entry.

        The other checks went by that entry too: it may say by now that a person has to approve.
        """
        visit = call.context
        assert isinstance(visit, Visit)
        before = visit.line.judged.get(call.tool)
        if (refused := await self.look_anew(call)) is not None:
            return refused
        if before is None or before != visit.line.judged[call.tool]:
            return Refused(Reason.TOOLSET_UNVERIFIED, "the server changed the tool while the call was decided")
        return None

    def last_look(self, call: Call) -> Refused | None:
        """Before a call leaves: what it was let through by may have ended since."""
        if self._toolsets.settings.mode == "observe":
            return None
        if self._stale():
            return Refused(Reason.STORE_UNAVAILABLE)
        context = call.context
        line = context.line.held if isinstance(context, Visit) else None
        if line is None or not self._toolsets.holds(line, context.server):
            line = self._toolsets.in_force(context, whatever_age=True)
        if line is None or line.toolset is None:
            text = "the server's list of tools changed while the call was decided"
            return Refused(Reason.TOOLSET_UNVERIFIED, text)
        if call.tool in line.passes:
            return None
        standing = line.toolset.standing(call.tool)
        return None if standing.reason is None else Refused(standing.reason, standing.detail)


def _entry(toolset: Toolset, tool: str) -> Entry:
    """What the list says of a tool, as short as it can be told: a call may wait for a person and keep it as long."""
    listed = toolset.listing.tools[tool]
    return listed.approval_hash, listed.beside


def _let_pass(line: Line, toolset: Toolset, tool: str) -> Pass | None:
    """What is said of each call of a tool for as long as the toolset stands; None where it may not be called."""
    if not toolset.standing(tool).open:
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

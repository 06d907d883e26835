"""Calls of a pinned client: is this the tool that was approved? Each message passes the gate, and goes on record."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec
from mcp import Client, InputRequiredRoundsExceededError, MCPError
from mcp.client.extension import UnexpectedClaimedResult
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import (
    HEADER_MISMATCH,
    CallToolResult,
    InputRequiredResult,
    InputResponses,
    RequestParamsMeta,
    Result,
)

from callgate.audit import ArgumentsPolicy, AuditLog, OutcomeRecord
from callgate.audit.records import decision_record
from callgate.errors import CallgateError, Reason, Refused
from callgate.gate import Call, Context, Decision, Gate, Pass, Refuse, Verdict
from callgate.pinning.arguments import odd
from callgate.pinning.judging import Toolset
from callgate.pinning.listing import ObservedServer, ToolListing, observed
from callgate.pinning.model import Change, ServerSeen
from callgate.pinning.storage import PinRepository
from callgate.sdk.connection import answer_requests
from callgate.sdk.outcome import shorten
from callgate.sdk.pinned.store import PinStore, ServerLease
from callgate.sdk.pinned.tool_list import ConnectionTools, Identify, VerifiedTools

log = logging.getLogger("callgate.pinning")

_TOLD_MAX: Final = 1_000
_TOUCH_SECONDS: Final = 10.0
_BY: Final = "client"
_PAUSE_SECONDS: Final = 0.05
_PAUSE_MOST: Final = 0.25
_OUTDATED: Final = "the tool was approved anew with another text since its description was shown"


class PinRecorder:
    """One for each connection. `name`, `group` and `target` are the server's, as the author has them."""

    def __init__(
        self,
        shelf: PinRepository,
        audit: AuditLog,
        policy: ArgumentsPolicy,
        *,
        process: str,
        growth_percent: float,
        review: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._shelf = shelf
        self._audit = audit
        self._policy = policy
        self._process = process
        self._growth = growth_percent
        self._review = review
        self._clock = clock
        self._written: tuple[str, str, float] = ("", "", 0.0)

    def now(self) -> int:
        return round(self._clock() * 1000)

    # ---- calls ----

    async def record(self, call: Call, decision: Decision) -> None:
        """Make a decision durable before the call leaves."""
        await self._audit.decided(decision_record(call, decision, self._policy, self._process))
        if decision.refused is not None:
            # Whoever called is told by an exception.
            log.info("call of %r refused: %s", shorten(call.tool), decision.refused.reason.value)

    def answered(self, call: Call, result: Result, seconds: float) -> None:
        """How a call ended that was answered."""
        body = result.model_dump_json(by_alias=True, exclude_none=True).encode()
        outcome = "result"
        if isinstance(result, InputRequiredResult):
            outcome = "input_required"
        elif isinstance(result, CallToolResult) and result.is_error:
            outcome = "tool_error"
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        self._completed(call, outcome, seconds, bytes=len(body), result_hash=digest)

    def failed(self, call: Call, outcome: str, seconds: float, code: int | None = None) -> None:
        """How a call ended that was not."""
        self._completed(call, outcome, seconds, code=code)

    def _completed(self, call: Call, outcome: str, seconds: float, **more: Any) -> None:
        ms = round(seconds * 1000)
        self._audit.completed(OutcomeRecord(call=call.id, at=self.now(), outcome=outcome, ms=ms, **more))

    def odd_arguments(self, call: Call, what: tuple[str, ...]) -> None:
        """Arguments that look like something that should not leave; they are not repeated here."""
        detail = {"server": call.context.server, "tool": call.tool, "call": call.id, "found": list(what)}
        log.warning("odd arguments of %r: %s", call.tool, ", ".join(what), extra={"fields": dict(detail)})
        self._note("pinning.arguments", detail)

    # ---- lists ----

    async def met(self, sight: ObservedServer, found: VerifiedTools, toolset: Toolset) -> None:
        """A whole list was read: keep it for reviewers, and tell of what is another than before."""
        server, listing, at = sight.server, found.listing, self._clock()
        again = self._written[:2] == (server.server_id, listing.digest)
        if again and not found.fresh and at - self._written[2] < _TOUCH_SECONDS:
            return
        try:
            before = next((one for one in await self._shelf.servers() if one.lineage == server.lineage), None)
            changes = await self._shelf.saw(server, sight.tools, whole=sight.whole)
        except CallgateError as error:
            # Nobody can approve what could not be kept; what was approved before goes on.
            log.warning("tools of %s not kept for review: %s", server.name, error)
            return
        self._written = (server.server_id, listing.digest, at)
        if found.fresh or not again:
            self._checked(server, found, toolset)
        if before is not None and before.size and server.size > before.size * (1 + self._growth / 100):
            self._alert("grown", server, {"before": before.size, "after": server.size})
        for change in changes:
            if change.what != "new":
                self._alert("changed", server, _change_row(change))

    def _checked(self, server: ServerSeen, found: VerifiedTools, toolset: Toolset) -> None:
        states = {name: toolset.standings[name].state.value for name in sorted(toolset.standings)[:_TOLD_MAX]}
        detail = {
            "server": server.name,
            "server_id": server.server_id,
            "toolset": toolset.version,
            "count": len(toolset.standings),
            "problem": found.listing.problem or None,
            "tools": states,
        }
        self._note("pinning.checked", detail)
        if toolset.pending:
            count = len(toolset.pending)
            many = ("tools", "wait") if count > 1 else ("tool", "waits")
            log.warning("%d %s of %s %s for review: %s", count, many[0], server.name, many[1], self._review)

    def _alert(self, what: str, server: ServerSeen, detail: dict[str, Any]) -> None:
        words = "the list of %s has grown: %s" if what == "grown" else "a tool of %s has changed: %s"
        whole = {"server": server.name, "server_id": server.server_id, **detail}
        log.warning(words, server.name, json.dumps(detail), extra={"fields": dict(whole)})
        self._note(f"pinning.{what}", whole)

    def _note(self, action: str, detail: dict[str, Any]) -> None:
        try:
            self._audit.store.append_soon(self._audit.admin(action, _BY, detail))
        except (CallgateError, TypeError, ValueError) as error:
            log.error("%s is not on record: %s", action, error)


def _change_row(change: Change) -> dict[str, Any]:
    told: dict[str, Any] = {
        "tool": change.tool,
        "what": change.what,
        "before": change.before or None,
        "after": change.after or None,
    }
    return told | ({"members": list(change.members)} if change.members else {})


class PinnedCall(msgspec.Struct, frozen=True):
    """What the author calls: nobody can change it between the gate and the wire."""

    tool: str
    arguments: dict[str, Any]
    form: bytes
    meta: Mapping[str, Any]
    seconds: float | None = None
    progress: ProgressFnT | None = None


class GatedCalls:
    """Puts calls before the gate, and sends those that pass."""

    def __init__(
        self,
        client: Client,
        gate: Gate,
        check: PinCheck,
        *,
        recorder: PinRecorder,
        tools: ConnectionTools,
        where: Context,
    ) -> None:
        self._client = client
        self._gate = gate
        self._check = check
        self._recorder = recorder
        self._tools = tools
        self._where = where

    async def run(self, wanted: PinnedCall) -> CallToolResult:
        """The result, after as many rounds of further input as the SDK's client allows."""
        answers: InputResponses | None = None
        state: str | None = None
        pause = _PAUSE_SECONDS
        most = self._client.input_required_max_rounds
        for _ in range(most + 1):
            result = await self._send(wanted, answers, state)
            if isinstance(result, CallToolResult):
                return result
            if not isinstance(result, InputRequiredResult):
                raise UnexpectedClaimedResult(result)
            if result.input_requests:
                answers = await answer_requests(self._client.session, result)
            else:
                await asyncio.sleep(pause)
                answers, pause = None, min(2 * pause, _PAUSE_MOST)
            state = result.request_state
        raise InputRequiredRoundsExceededError(most)

    async def _send(self, wanted: PinnedCall, answers: InputResponses | None, state: str | None) -> Result:
        try:
            return await self._once(wanted, answers, state)
        except MCPError as error:
            if error.code != HEADER_MISMATCH or self._client.session.initialize_result is not None:
                raise
            # 2026-07-28: the server goes by another schema than it listed. It has to list it first.
            self._tools.invalidate()
            return await self._once(wanted, answers, state)

    async def _once(self, wanted: PinnedCall, answers: InputResponses | None, state: str | None) -> Result:
        call = self._call(wanted)
        decision = await self._gate.decide(call)
        if decision.refused is not None:
            raise decision.refused
        late = self._gate.closed() or self._check.pre_dispatch_check(call)
        if late is not None:
            self._recorder.failed(call, "blocked", 0.0, late.code)
            raise late
        begun = time.monotonic()
        try:
            # The session's method, not the client's: that one sends again by itself, past the gate.
            result = await self._client.session.call_tool(
                wanted.tool,
                wanted.arguments,
                read_timeout_seconds=wanted.seconds,
                progress_callback=wanted.progress,
                input_responses=answers,
                request_state=state,
                meta=cast("RequestParamsMeta", dict(wanted.meta)) if wanted.meta else None,
                allow_input_required=True,
                allow_claimed=True,
            )
        except MCPError as error:
            self._recorder.failed(call, "error", time.monotonic() - begun, error.code)
            raise
        except BaseException as error:
            outcome = "cancelled" if isinstance(error, asyncio.CancelledError) else "lost"
            self._recorder.failed(call, outcome, time.monotonic() - begun)
            raise
        self._recorder.answered(call, result, time.monotonic() - begun)
        return result

    def _call(self, wanted: PinnedCall) -> Call:
        at = self._recorder.now()
        number = f"{at:012x}{secrets.token_hex(10)}"
        return Call(number, at, wanted.tool, wanted.arguments, wanted.form, b"", wanted.meta, self._where)


class ResolvedServer(msgspec.Struct, frozen=True):
    """A server as its author names it. `identify` may read a program from the disk: call it on a thread."""

    identify: Identify
    target: str
    transport: str
    name: str = ""
    group: str = ""


class PinCheck:
    """The check that `Gate(pinning=…)` takes; the decisions are read before each answer, never remembered for it."""

    def __init__(
        self, store: PinStore, tools: ConnectionTools, lease: ServerLease, recorder: PinRecorder, place: ResolvedServer
    ) -> None:
        self._store = store
        self._tools = tools
        self._lease = lease
        self._recorder = recorder
        self._place = place
        self._met: VerifiedTools | None = None
        self._toolset: Toolset | None = None
        self._held: Mapping[str, str] = {}
        self._turn = asyncio.Lock()
        # The list that the caller goes by.
        self.shown: ToolListing | None = None

    async def look(self, *, anew: bool = False) -> tuple[VerifiedTools, Toolset]:
        """The verified list, and its tools under the decisions of now. `anew`: it is read, however young it is."""
        await self._refresh()
        found = await self._tools.verify(anew=anew)
        async with self._turn:
            await self._lease.join(found.identity.server_id)
            if found is not self._met:
                at, now = self._place, self._recorder.now()
                sight = observed(found.identity, found.listing, now, name=at.name, group=at.group, target=at.target)
                await self._recorder.met(sight, found, self._compile(found, {}))
                self._met = found
            self._held = await self._lease.held(found.listing.digest)
            return found, self._compile(found, self._held)

    async def _refresh(self) -> None:
        pins = self._store.pins
        # What was tampered with is believed again only after the whole of it was read.
        await (pins.reread() if pins.book.broken else pins.refresh())

    def _compile(self, found: VerifiedTools, held: Mapping[str, str]) -> Toolset:
        book = self._store.pins.book
        stamp = (id(book), book.version, bool(book.broken), held)
        made = self._toolset
        if made is None or made.listing is not found.listing or made.stamp != stamp:
            settings = self._store.pins.settings
            made = self._toolset = Toolset(found.identity, found.listing, book, settings, held, stamp=stamp)
        return made

    async def __call__(self, call: Call) -> Verdict:
        try:
            _, toolset = await self.look()
        except Refused as refused:
            return Refuse(refused.reason, refused.message, data=refused.data, advice=refused.advice)
        standing, facts = toolset.standing(call.tool), toolset.facts(call.tool)
        if standing.reason is not None:
            return Refuse(standing.reason, standing.detail, facts)
        if self._outdated(call.tool, toolset):
            return Refuse(Reason.TOOLSET_OUTDATED, _OUTDATED, facts)
        if found := odd(call.canonical):
            self._recorder.odd_arguments(call, found)
        return Pass(facts)

    def _outdated(self, tool: str, toolset: Toolset) -> bool:
        before = None if self.shown is None else self.shown.tools.get(tool)
        return before is not None and before.approval_hash != toolset.listing.tools[tool].approval_hash

    def pre_dispatch_check(self, call: Call) -> Refused | None:
        """Before a call leaves: what it was let through by may have ended since."""
        found = self._tools.current(whatever_age=True)
        if found is None:
            text = "the server's list of tools changed while the call was decided"
            return Refused(Reason.TOOLSET_UNVERIFIED, text)
        standing = self._compile(found, self._held).standing(call.tool)
        return None if standing.reason is None else Refused(standing.reason, standing.detail)

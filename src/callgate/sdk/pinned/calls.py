"""Calls of a pinned client: is this the tool that was approved? Each message passes the gate, and goes on record."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import secrets
import shlex
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import msgspec
from mcp import Client, ClientSession, InputRequiredRoundsExceededError, MCPError
from mcp.client.extension import UnexpectedClaimedResult
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import (
    HEADER_MISMATCH,
    SERVER_INFO_META_KEY,
    CallToolResult,
    InputRequiredResult,
    InputResponses,
    ListToolsResult,
    RequestParamsMeta,
    Result,
    Tool,
)

from callgate.audit import ArgumentsPolicy, AuditLog, OutcomeRecord
from callgate.audit.records import decision_record
from callgate.errors import CallgateError, Reason, Refused, StoreError, UpstreamError
from callgate.gate import Call, Context, Decision, Gate, Pass, Refuse, Verdict
from callgate.keyring import Keyring
from callgate.pinning.identity import reported_as
from callgate.pinning.judging import Toolset, odd
from callgate.pinning.listing import EntryReader, ObservedServer, ToolListing, bound, observed
from callgate.pinning.model import Connected, ListedTool, PinningSettings, ServerIdentity, ServerSeen
from callgate.pinning.service import Pins
from callgate.pinning.storage import PinRepository
from callgate.sdk.connection import answer_requests, raw_pages
from callgate.sdk.outcome import shorten
from callgate.sdk.store import open_store, store_option, store_section
from callgate.store import SqlPins

_KEY: Final = "pinning"

# What the advice of the gateway's reasons becomes where the store is this file.
_ADVICE: Final = {
    Reason.TOOL_NOT_APPROVED: ("A reviewer looks at it with", "review"),
    Reason.TOOL_CHANGED: ("A reviewer looks at the difference with", "review"),
    Reason.SET_NOT_REVIEWED: ("A reviewer looks at both servers with", "review"),
    Reason.TOOL_BLOCKED: ("Do without it, or ask the reviewer. This says why:", "tools list"),
    Reason.TOOL_UNFIT: ("The server's author puts it right. This says what is wrong:", "tools list"),
    Reason.PIN_TAMPERED: ("This says which decision does not hold:", "tools verify"),
    Reason.STORE_UNAVAILABLE: ("This says what is wrong with it:", "store check"),
    Reason.AUDIT_UNAVAILABLE: ("Look at free disk space, and at", "store check"),
    Reason.BLOCKED_BY_POLICY: ("An operator turns it off with", "block-all off"),
}
log = logging.getLogger("callgate.pinning")
_KEPT_SECONDS: Final = 90.0
_RENEW_SECONDS: Final = 30.0


class PinStore(msgspec.Struct, frozen=True):
    """The parts, opened. `closed` is the kill switch as the gate has it; `options` name this store in a command."""

    pins: Pins
    repository: SqlPins
    audit: AuditLog
    closed: Callable[[], Refused | None]
    options: tuple[str, ...]

    def command(self, words: str) -> str:
        """A command to type, on this store."""
        return shlex.join(["callgate", *words.split(), *self.options])

    def advised(self, refused: Refused) -> Refused:
        """The same refusal, with a next step that works on this store."""
        if refused.reason not in _ADVICE:
            return refused
        lead, words = _ADVICE[refused.reason]
        advice = f"{lead} `{self.command(words)}`."
        return Refused(refused.reason, refused.message, advice=advice, data=refused.data)

    @contextlib.contextmanager
    def with_advice(self) -> Iterator[None]:
        """Whatever is refused inside says what to do next; a store that fails is a refusal as well."""
        try:
            yield
        except StoreError as error:
            raise self.advised(Refused(Reason.STORE_UNAVAILABLE, str(error))) from error
        except Refused as refused:
            raise self.advised(refused) from refused.__cause__


@contextlib.asynccontextmanager
async def open_pin_store(place: str | Path, settings: PinningSettings) -> AsyncIterator[PinStore]:
    """Open everything; what is durable is flushed when the block ends. StoreError where the file cannot be used."""
    section = store_section(place)
    keyring = Keyring(section.keys_path)

    def keys() -> list[bytes]:
        return [key.secret for key in keyring.versions(_KEY)]

    async with open_store(section) as (store, audit, switch):
        repository = SqlPins(store)
        if await repository.head() is None:
            # Only where nothing was sealed yet: a key that is missing later must be missed.
            await asyncio.to_thread(keyring.make, _KEY)
        pins = Pins(repository, keys, settings=settings, witness=audit.admin)
        yield PinStore(pins, repository, audit, switch.refusal, store_option(section))


class ServerLease:
    """One for each connection; it runs out by itself when its process is gone."""

    def __init__(
        self, pins: Pins, name: str, group: str, holder: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._pins = pins
        self._name = name
        self._group = group
        self._holder = holder
        self._clock = clock
        self._server_id = ""
        self._held: Mapping[str, Mapping[str, str]] = {}
        # What the tools that wait were worked out from.
        self._basis: tuple[object, ...] | None = None
        self._due = 0.0
        # Moves with what has to wait.
        self.version = 0

    async def join(self, server_id: str) -> None:
        """Take or keep the place; Refused(SERVER_LIMIT) where there is none."""
        now = self._clock()
        if server_id == self._server_id and now < self._due:
            return
        if server_id != self._server_id:
            await self._pins.shelf.disconnect(self._holder)
            self._server_id = ""
        until = round((now + _KEPT_SECONDS) * 1000)
        place = Connected(self._name, self._group, server_id, self._holder, until)
        most = self._pins.settings.servers
        if not await self._pins.shelf.connect(place, round(now * 1000), most):
            self._server_id = ""
            text = f"{most} servers are connected already, which is as many as agents may see together"
            advice = "Disconnect one, allow more with Settings(servers=...), or give this client a `group` of its own."
            raise Refused(Reason.SERVER_LIMIT, text, advice=advice)
        self._server_id, self._due = server_id, now + _RENEW_SECONDS
        self._basis = None

    async def held(self, digest: str) -> Mapping[str, str]:
        """The tools of this server that wait until it was reviewed with another; `digest` is that of its list."""
        book = self._pins.book
        others = await self._pins.shelf.connected(round(self._clock() * 1000))
        company = frozenset((one.name, one.group, one.server_id) for one in others)
        basis = (book.version, bool(book.broken), digest, company)
        if basis != self._basis:
            found = await self._pins.held()
            if found != self._held:
                self._held = found
                self.version += 1
            self._basis = basis
        return self._held.get(self._server_id, {})

    async def keep(self) -> None:
        """Renew the place for as long as the connection lasts."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            if self._server_id:
                self._due = 0.0
                try:
                    await self.join(self._server_id)
                except CallgateError as error:
                    log.warning("the place of %s was not kept: %s", self._name, error)

    async def leave(self) -> None:
        try:
            await self._pins.shelf.disconnect(self._holder)
        except CallgateError as error:
            log.warning("the place of %s was not given back: %s", self._name, error)


# From what a server says of itself to who it is.
Identify: TypeAlias = Callable[[str], ServerIdentity]
_READ_BYTES: Final = 64 * 1024 * 1024
_TRIES: Final = 3
_AGAIN_SECONDS: Final = 1.0
_AGAIN_MOST: Final = 60.0
_ACK_SECONDS: Final = 5.0


class VerifiedTools(msgspec.Struct, frozen=True):
    """A whole list under one identity, and its entries as the SDK has them; `fresh`: the first on this connection."""

    identity: ServerIdentity
    listing: ToolListing
    tools: tuple[Tool, ...]
    generation: int
    at: float
    fresh: bool


class ConnectionTools:
    """One for each connection: what was verified on one says nothing of another."""

    def __init__(
        self,
        session: Callable[[], ClientSession],
        identify: Identify,
        settings: PinningSettings,
        *,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._identify = identify
        self._settings = settings
        self._seconds = seconds
        self._clock = clock
        self._generation = 0
        self._turn = asyncio.Lock()
        self.last: VerifiedTools | None = None

    def invalidate(self) -> None:
        """Nothing that was read before counts any more."""
        self._generation += 1

    def current(self, *, whatever_age: bool = False) -> VerifiedTools | None:
        """The list that was verified; None where it has to be read first."""
        found = self.last
        if found is None or found.generation != self._generation:
            return None
        if not whatever_age and self._clock() - found.at > self._settings.recheck_seconds:
            return None
        return found

    async def verify(self, *, anew: bool = False) -> VerifiedTools:
        """The list, read where it has to be; Refused where that is not possible. `anew`: read in any case."""
        try:
            async with asyncio.timeout(self._seconds), self._turn:
                for _ in range(_TRIES):
                    # Whoever had the turn before may have read it.
                    if not anew and (found := self.current()) is not None:
                        return found
                    if (found := await self._read()) is not None:
                        self.last = found
                        return found
        except TimeoutError:
            text = "the server did not list its tools in time, so nothing can be called"
            raise Refused(Reason.TOOLSET_UNVERIFIED, text) from None
        except MCPError as error:
            text = f"the server did not list its tools: {shorten(error.message)}"
            raise Refused(Reason.TOOLSET_UNVERIFIED, text) from None
        except ValueError as error:
            text = f"the server's list of tools cannot be read ({type(error).__name__})"
            raise UpstreamError(Reason.UPSTREAM_GARBAGE, text) from None
        except (RuntimeError, OSError) as error:
            text = f"the server did not list its tools ({type(error).__name__})"
            raise Refused(Reason.TOOLSET_UNVERIFIED, text) from None
        raise Refused(Reason.TOOLSET_UNVERIFIED, "the server's list of tools changes while it is read")

    async def _read(self) -> VerifiedTools | None:
        """Every page; None where the server said meanwhile that its list changed, or that it is another server."""
        generation, size = self._generation, 0
        reported: str | None = None
        listed: list[ListedTool] = []
        tools: list[Tool] = []
        async for page in raw_pages(self._session()):
            said = self._reported(page.raw)
            if reported is None:
                reported = said
                identity = await asyncio.to_thread(self._identify, said)
                reader = self._reader(identity)
            if said != reported:
                return None
            entries = [_bytes(entry) for entry in page.raw.get("tools", ())]
            listed += await asyncio.to_thread(reader.read_all, entries)
            tools += page.tools
            size += sum(map(len, entries))
            problem = await asyncio.to_thread(bound, listed, self._settings)
            # Beyond its bounds the list is not used, so the rest of it need not be read.
            if not page.next_cursor or problem:
                if self._generation != generation:
                    return None
                listing = ToolListing(listed, problem=problem)
                kept = self._absorb(tools)
                return VerifiedTools(identity, listing, kept, generation, self._clock(), self.last is None)
            if size > _READ_BYTES:
                break
        raise UpstreamError(Reason.UPSTREAM_TOO_LARGE, "the server's list of tools does not end")

    def _reported(self, result: dict[str, Any]) -> str:
        """What the server says of itself: at its greeting, or, where there is none, in this very answer."""
        session = self._session()
        greeted = session.initialize_result
        if greeted is not None:
            return reported_as(greeted.server_info.name, greeted.server_info.version)
        found = session.discover_result
        for meta in (result.get("_meta"), found.meta if found is not None else None):
            stamp = meta.get(SERVER_INFO_META_KEY) if isinstance(meta, dict) else None
            if isinstance(stamp, dict):
                return reported_as(stamp.get("name"), stamp.get("version"))
        return ""

    def _reader(self, identity: ServerIdentity) -> EntryReader:
        before = self.last
        known = before.listing.known if before is not None and before.identity == identity else None
        return EntryReader(identity.server_id, self._settings, known)

    def _absorb(self, tools: list[Tool]) -> tuple[Tool, ...]:
        """Let the session take in what it needs for calls: output schemas, and which arguments go into headers."""
        whole = ListToolsResult(tools=tools)
        absorb = getattr(self._session(), "_absorb_tool_listing", None)
        return tuple((whole if absorb is None else absorb(whole, complete=True)).tools)


def _bytes(entry: Any) -> bytes:
    """An entry as JSON again, with nothing lost: what has no JSON form is left for the reader to find unfit."""
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


@contextlib.asynccontextmanager
async def listening_for_changes(client: Client, tools: ConnectionTools, seconds: float) -> AsyncIterator[None]:
    """Hear while the block runs that the server's tools changed; it begins when the server has answered, or has taken
    long enough to.

    Up to 2025-11-25 the notification comes by itself and reaches the message handler. Since 2026-07-28 it comes only
    on a stream that was asked for (`subscriptions/listen`); a server that has none is asked for its list now and then.
    """
    if client.session.initialize_result is not None:
        yield
        return
    settled = asyncio.Event()
    task = asyncio.create_task(_listen(client, tools, settled), name="callgate-list-changes")
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, _ACK_SECONDS)):
                await settled.wait()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _listen(client: Client, tools: ConnectionTools, settled: asyncio.Event) -> None:
    pause, heard = _AGAIN_SECONDS, False
    while True:
        try:
            async with client.listen(tools_list_changed=True) as subscription:
                # What changed before the server heard of us, it tells nobody.
                tools.invalidate()
                settled.set()
                pause, heard = _AGAIN_SECONDS, True
                async for _event in subscription:
                    tools.invalidate()
        except (MCPError, SubscriptionLost, TimeoutError, RuntimeError, OSError, ValueError) as error:
            log.debug("no stream of changes: %s", type(error).__name__)
            if not heard and isinstance(error, MCPError):
                # It has no such stream.
                settled.set()
                return
        if pause == _AGAIN_SECONDS and heard:
            # Whatever is missed from here on is found when the list is read again.
            tools.invalidate()
        settled.set()
        await asyncio.sleep(pause)
        pause = min(2 * pause, _AGAIN_MOST)


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
        repository: PinRepository,
        audit: AuditLog,
        policy: ArgumentsPolicy,
        *,
        process: str,
        growth_percent: float,
        review: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._repository = repository
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
            before = next((one for one in await self._repository.servers() if one.lineage == server.lineage), None)
            changes = await self._repository.saw(server, sight.tools, whole=sight.whole)
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
                self._alert("changed", server, change.detail)

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

    def __init__(self, client: Client, gate: Gate, check: PinCheck, where: Context) -> None:
        self.check = check
        self._client = client
        self._gate = gate
        self._recorder = check.recorder
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
            self.check.tools.invalidate()
            return await self._once(wanted, answers, state)

    async def _once(self, wanted: PinnedCall, answers: InputResponses | None, state: str | None) -> Result:
        call = self._call(wanted)
        decision = await self._gate.decide(call)
        if decision.refused is not None:
            raise decision.refused
        late = self._gate.closed() or self.check.pre_dispatch_check(call)
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
        self.store = store
        self.tools = tools
        self._lease = lease
        self.recorder = recorder
        self._place = place
        self._met: VerifiedTools | None = None
        self.toolset: Toolset | None = None
        self._held: Mapping[str, str] = {}
        self._turn = asyncio.Lock()
        # The list that the caller goes by.
        self.shown: ToolListing | None = None

    async def look(self, *, anew: bool = False) -> tuple[VerifiedTools, Toolset]:
        """The verified list, and its tools under the decisions of now. `anew`: it is read, however young it is."""
        await self._refresh()
        found = await self.tools.verify(anew=anew)
        async with self._turn:
            await self._lease.join(found.identity.server_id)
            if found is not self._met:
                at, now = self._place, self.recorder.now()
                sight = observed(found.identity, found.listing, now, name=at.name, group=at.group, target=at.target)
                await self.recorder.met(sight, found, self._compile(found, {}))
                self._met = found
            self._held = await self._lease.held(found.listing.digest)
            return found, self._compile(found, self._held)

    async def _refresh(self) -> None:
        pins = self.store.pins
        # What was tampered with is believed again only after the whole of it was read.
        await (pins.reread() if pins.book.broken else pins.refresh())

    def _compile(self, found: VerifiedTools, held: Mapping[str, str]) -> Toolset:
        book = self.store.pins.book
        stamp = (id(book), book.version, bool(book.broken), held)
        made = self.toolset
        if made is None or made.listing is not found.listing or made.stamp != stamp:
            settings = self.store.pins.settings
            made = self.toolset = Toolset(found.identity, found.listing, book, settings, held, stamp=stamp)
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
            self.recorder.odd_arguments(call, found)
        return Pass(facts)

    def _outdated(self, tool: str, toolset: Toolset) -> bool:
        before = None if self.shown is None else self.shown.tools.get(tool)
        return before is not None and before.approval_hash != toolset.listing.tools[tool].approval_hash

    def pre_dispatch_check(self, call: Call) -> Refused | None:
        """Before a call leaves: what it was let through by may have ended since."""
        found = self.tools.current(whatever_age=True)
        if found is None:
            text = "the server's list of tools changed while the call was decided"
            return Refused(Reason.TOOLSET_UNVERIFIED, text)
        standing = self._compile(found, self._held).standing(call.tool)
        return None if standing.reason is None else Refused(standing.reason, standing.detail)

"""What happens in a store, read as it comes: calls from the audit log, approvals, the kill switch."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from rich.text import Text
from sqlalchemy import select

from callgate.approval import Request
from callgate.approval.overview import asker, phase
from callgate.audit.records import ADMIN, COLUMNS, DecisionRecord, OutcomeRecord, Record, decode
from callgate.canonical import parts_hash
from callgate.cli.common import console, say
from callgate.cli.links import approval_link, console_url
from callgate.cli.printing import plain
from callgate.config import Config
from callgate.store import SqlApprovals, SqlPins
from callgate.store.control import Block, read_block
from callgate.store.schema import pin

if TYPE_CHECKING:
    from callgate.store import Store

_MOST: Final = 1000
_REMEMBERED: Final = 10_000
_ROWS: Final = 2000
_OPEN_MOST: Final = 10_000
# A call that takes longer than this is told of before it ends, too.
_LONG_MS: Final = 3_000
# PostgreSQL hands out ids before they commit: a smaller one may appear this long after a larger one.
_LATE_MS: Final = 10_000
_NAMES: Final = ("agent", "name", "client", "peer")
_BODY: Final = 1 + COLUMNS.index("body")
_KIND: Final = 1 + COLUMNS.index("kind")
_WHERE: Final = 32
_NAME: Final = 60
_BELL: Final = "\a"
_STATES: Final = {
    "waiting": ("WAITS", "bold yellow"),
    "approved": ("approved", "green"),
    "used": ("approved", "green"),
    "refused": ("refused", "red"),
    "expired": ("expired", "dim"),
}
_encode: Final = msgspec.json.Encoder().encode


class ApprovalSeen(msgspec.Struct, frozen=True, kw_only=True, tag="approval", tag_field="event"):
    """A call that waits for a person, or what became of it. `new` is for those that began to wait just now."""

    at: int
    state: Literal["waiting", "approved", "refused", "used", "expired"]
    new: bool
    id: str
    user: str
    agent: str
    server: str
    tool: str
    page: str | None
    by: str | None = None


class SwitchSeen(msgspec.Struct, frozen=True, kw_only=True, tag="switch", tag_field="event"):
    """The kill switch as somebody turned it."""

    at: int
    on: bool
    by: str
    note: str


class VersionSeen(msgspec.Struct, frozen=True, kw_only=True, tag="version", tag_field="event"):
    """Another version of a server whose tools somebody has reviewed: nobody has decided on this one yet."""

    at: int
    server: str
    server_id: str
    tools: int


class WatchStarted(msgspec.Struct, frozen=True, kw_only=True, tag="watching", tag_field="event"):
    """The first line: from now on nothing is missed."""

    at: int
    waiting: int
    calls: bool
    blocked: bool


class CallSeen(msgspec.Struct, frozen=True, kw_only=True, tag="call", tag_field="event"):
    """A call that was refused, that ended, or that still runs after a while (and is told of again at its end)."""

    at: int
    state: Literal["refused", "done", "running"]
    call: str
    agent: str
    server: str
    tool: str
    verdict: str
    reason: str | None = None
    outcome: str | None = None
    ms: float | None = None
    # More than one where refusals of one caller are counted together.
    calls: int = 1


WatchEvent: TypeAlias = CallSeen | ApprovalSeen | SwitchSeen | VersionSeen | WatchStarted


class StoreFollower:
    """Everything since `begin`; each look gives what has happened since the last one."""

    def __init__(
        self,
        config: Config,
        store: Store,
        runner: asyncio.Runner,
        *,
        user: str | None = None,
        calls: bool = True,
        others: bool = True,
    ) -> None:
        self._store = store
        self._runner = runner
        self._user = user
        self._url = console_url(config)
        self._approval_store = SqlApprovals(store)
        self._calls = CallFollower(store) if calls else None
        # The kill switch and other versions of servers.
        self._others = others
        self._met: frozenset[str] | None = None
        self._waiting: dict[str, Request] = {}
        # What was told, so that a store with more than can be looked at does not tell it again.
        self._shown: OrderedDict[str, None] = OrderedDict()
        self._block = Block()

    def begin(self) -> list[WatchEvent]:
        """Where things stand; what waits already is shown, and does not count as new."""
        if self._calls is not None:
            self._calls.begin()
        self._block = self._read_block()
        list(self._versions())
        standing = list(self._approvals(new=False))
        started = WatchStarted(
            at=_now(), waiting=len(standing), calls=self._calls is not None, blocked=self._others and self._block.on
        )
        return [started, *standing]

    def look(self) -> Iterator[WatchEvent]:
        """Approvals first: they are what somebody waits for."""
        yield from self._approvals(new=True)
        yield from self._versions()
        block = self._read_block()
        if block != self._block:
            self._block = block
            yield SwitchSeen(at=block.at, on=block.on, by=block.by, note=block.note)
        if self._calls is not None:
            yield from self._calls.look(_now())

    def _read_block(self) -> Block:
        if not self._others:
            return self._block
        with self._store.reading() as conn:
            return read_block(conn)

    def _versions(self) -> Iterator[VersionSeen]:
        """Servers that were met since the last look, of which another version was reviewed."""
        if not self._others:
            return
        servers = self._runner.run(SqlPins(self._store).servers())
        known, self._met = self._met, frozenset(one.server_id for one in servers)
        fresh = [one for one in servers if known is not None and one.server_id not in known and one.tools]
        if not fresh:
            return
        with self._store.reading() as conn:
            decided = set(conn.execute(select(pin.c.server_key).distinct()).scalars())
        reviewed = {one.lineage for one in servers if parts_hash(one.server_id) in decided}
        for one in fresh:
            if one.lineage in reviewed and parts_hash(one.server_id) not in decided:
                names = ", ".join(one.called)
                yield VersionSeen(at=one.last_seen, server=names, server_id=one.server_id, tools=one.tools)

    def _approvals(self, *, new: bool) -> Iterator[ApprovalSeen]:
        now = _now()
        found = self._runner.run(self._approval_store.requests(self._user, states=("waiting",), limit=_MOST))
        waiting = {one.id: one for one in reversed(found) if phase(one, now) == "waiting"}
        for key, one in waiting.items():
            if key not in self._shown:
                self._remember(key)
                yield self._seen(one, now, new=new)
        over = [one for key, one in self._waiting.items() if key not in waiting]
        self._waiting = waiting
        for one in over:
            last = self._runner.run(self._approval_store.request(one.id))
            # Among more than can be looked at it may only be out of sight.
            if last is not None and phase(last, now) != "waiting":
                yield self._seen(last, now, new=False)

    def _remember(self, key: str) -> None:
        self._shown[key] = None
        while len(self._shown) > _REMEMBERED:
            self._shown.popitem(last=False)

    def _seen(self, request: Request, now: int, *, new: bool) -> ApprovalSeen:
        url = request.page or self._url
        state = phase(request, now)
        return ApprovalSeen(
            at=(request.created_at if state == "waiting" else request.decided_at) or now,
            state=state,
            new=new and state == "waiting",
            id=request.id,
            user=request.user,
            agent=asker(request),
            server=request.server,
            tool=request.tool,
            page=None if url is None else approval_link(url, request.id),
            by=request.decided_by,
        )


def _now() -> int:
    return int(time.time() * 1000)


class CallFollower:
    """Reads on from the newest record; what cannot be read is passed over, `callgate audit verify` is for that."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._floor = 0
        # Records beyond the floor that were read, and since when a smaller one has been missing.
        self._read: set[int] = set()
        self._gap_since: int | None = None
        self._open: OrderedDict[str, tuple[DecisionRecord, bool]] = OrderedDict()

    def begin(self) -> None:
        with self._store.audit_reading() as tables:
            self._floor = tables.newest()

    def look(self, now: int) -> Iterator[CallSeen]:
        more = True
        while more:
            records, more = self._next(now)
            for record in records:
                seen = self._take(record)
                if seen is not None:
                    yield seen
        for call, (decision, shown) in list(self._open.items()):
            if not shown and now - decision.at > _LONG_MS:
                self._open[call] = decision, True
                yield _call_seen(decision, None, "running")

    def _next(self, now: int) -> tuple[list[Record], bool]:
        with self._store.audit_reading() as tables:
            rows = list(islice(tables.rows(self._floor), _ROWS))
            fresh = [row for row in rows if row[0] not in self._read]
            records = [record for row in fresh if (record := _record(row)) is not None]
            known = self._open.keys() | {one.call for one in records if isinstance(one, DecisionRecord)}
            # Of a call that began before we did.
            missing = {one.call for one in records if isinstance(one, OutcomeRecord)} - known
            before = [tables.of_call(call) for call in missing]
        for found in before:
            for _, _, body in found:
                earlier = _decode(body)
                if isinstance(earlier, DecisionRecord):
                    self._open[earlier.call] = earlier, True
        self._advance([row[0] for row in rows], now)
        return records, len(rows) == _ROWS and bool(fresh)

    def _advance(self, ids: list[int], now: int) -> None:
        """The floor goes up over what was read without a gap; a gap that stays for long is none."""
        self._read.update(ids)
        while self._floor + 1 in self._read:
            self._floor += 1
            self._read.discard(self._floor)
            self._gap_since = None
        if not self._read:
            self._gap_since = None
        elif self._gap_since is None:
            self._gap_since = now
        elif now - self._gap_since > _LATE_MS:
            self._floor = min(self._read) - 1
            self._gap_since = None
            self._advance([], now)

    def _take(self, record: Record) -> CallSeen | None:
        if isinstance(record, DecisionRecord):
            if record.verdict == "refuse":
                return _call_seen(record, None, "refused")
            self._open[record.call] = record, False
            while len(self._open) > _OPEN_MOST:
                self._open.popitem(last=False)
        elif isinstance(record, OutcomeRecord) and record.call in self._open:
            return _call_seen(self._open.pop(record.call)[0], record, "done")
        return None


def _record(row: tuple[Any, ...]) -> Record | None:
    return None if row[_KIND] == ADMIN else _decode(row[_BODY])


def _decode(body: bytes) -> Record | None:
    try:
        return decode(body)
    except (msgspec.MsgspecError, TypeError):
        return None


def _call_seen(
    decision: DecisionRecord, outcome: OutcomeRecord | None, state: Literal["refused", "done", "running"]
) -> CallSeen:
    caller = decision.caller or {}
    return CallSeen(
        at=decision.at if outcome is None else outcome.at,
        state=state,
        call=decision.call,
        agent=next((str(caller[name]) for name in _NAMES if caller.get(name)), ""),
        server=decision.server,
        tool=decision.tool,
        verdict=decision.verdict,
        reason=decision.reason,
        outcome=None if outcome is None else outcome.outcome,
        ms=None if outcome is None else outcome.ms,
        calls=decision.calls,
    )


class Printer:
    """Lines only, so that nothing flickers and everything can be scrolled back to."""

    def __init__(self, *, as_json: bool, bell: bool) -> None:
        self._json = as_json
        self._bell = bell
        self._console = None if as_json else console()

    def begin(self, standing: Sequence[WatchEvent]) -> None:
        for one in standing:
            if self._json or not isinstance(one, WatchStarted):
                self.show(one)
                continue
            waits = "Nothing waits for approval" if not one.waiting else f"{one.waiting} waiting for approval"
            say(f"Watching. {waits}. Ctrl-C ends this.")
            if one.blocked:
                say("The kill switch is on: every call is refused.")

    def show(self, happened: WatchEvent) -> None:
        if self._console is None:
            sys.stdout.buffer.write(_encode(happened) + b"\n")
            sys.stdout.buffer.flush()
        elif not isinstance(happened, WatchStarted):
            # Whole, however narrow the window: a link that is cut in two cannot be opened.
            self._console.print(_line(happened), soft_wrap=True)
        if isinstance(happened, VersionSeen) or (isinstance(happened, ApprovalSeen) and happened.new):
            self._ring()

    def _ring(self) -> None:
        """On the terminal, if there is one: a pipe gets no bell."""
        for stream in (sys.stderr, sys.stdout) if self._bell else ():
            if stream.isatty():
                stream.write(_BELL)
                stream.flush()
                return


def _line(happened: CallSeen | ApprovalSeen | SwitchSeen | VersionSeen) -> Text:
    if isinstance(happened, SwitchSeen):
        (word, style), rest = _switch(happened)
    elif isinstance(happened, VersionSeen):
        (word, style), rest = _STATES["waiting"], _version(happened)
    elif isinstance(happened, ApprovalSeen):
        (word, style), rest = _STATES[happened.state], _approval(happened)
    else:
        (word, style), rest = _verdict(happened), _call(happened)
    at = f"{datetime.fromtimestamp(happened.at / 1000).astimezone():%H:%M:%S}"
    return Text.assemble((at, "dim"), "  ", (f"{word:8}", style), "  ", rest)


def _switch(seen: SwitchSeen) -> tuple[tuple[str, str], str]:
    by = f"{plain(seen.by)}: {plain(seen.note)}" if seen.note else plain(seen.by)
    if seen.on:
        return ("BLOCKED", "bold red"), f"the kill switch is on, every call is refused ({by})"
    return ("OPEN", "bold green"), f"the kill switch is off ({by})"


def _version(seen: VersionSeen) -> str:
    tools = "its tool" if seen.tools == 1 else f"its {seen.tools} tools"
    where = plain(seen.server, _NAME).ljust(_WHERE)
    return f"{where}  another version, {plain(seen.server_id)}: `callgate review` asks about {tools}"


def _approval(seen: ApprovalSeen) -> str:
    where = _where(seen)
    if seen.state == "waiting":
        page = f" at {plain(seen.page, len(seen.page))}" if seen.page else "; `callgate approvals list` shows it"
        return f"{where}  for {plain(seen.agent, _NAME)}: {plain(seen.user, _NAME)} approves{page}"
    by = f"  by {plain(seen.by, _NAME)}" if seen.by else ""
    return f"{where}{by}"


def _verdict(seen: CallSeen) -> tuple[str, str]:
    if seen.state == "refused":
        return "refuse", "red"
    return ("running", "cyan") if seen.state == "running" else ("allow", "green")


def _call(seen: CallSeen) -> str:
    by = f"  {plain(seen.agent, _NAME)}" if seen.agent else ""
    if seen.state == "refused":
        times = f"  {seen.calls:,} calls" if seen.calls > 1 else ""
        return f"{_where(seen)}  {plain(seen.reason or 'refused')}{times}{by}"
    took = "" if seen.ms is None else f"  {seen.ms:.0f} ms"
    # What an ordinary answer is called says nothing; an error does.
    outcome = "" if seen.outcome in (None, "result") else f"  {plain(seen.outcome)}"
    return f"{_where(seen)}{outcome}{took}{by}"


def _where(seen: CallSeen | ApprovalSeen) -> str:
    return f"{plain(seen.server, _NAME)}/{plain(seen.tool, _NAME)}".ljust(_WHERE)

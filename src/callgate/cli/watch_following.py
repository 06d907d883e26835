"""What happens in a store, read as it comes: calls from the audit log, the calls that wait, the kill switch."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec
from sqlalchemy import select

from callgate.approval.overview import asker, phase
from callgate.canonical import parts_hash
from callgate.cli.people import approval_link, console_url
from callgate.cli.watch_calls import Calls, CallSeen
from callgate.store import SqlApprovals, SqlPins
from callgate.store.control import Block, read_block
from callgate.store.schema import pin

if TYPE_CHECKING:
    from callgate.approval import Request
    from callgate.config import Config
    from callgate.store import Store

_MOST: Final = 1000
_REMEMBERED: Final = 10_000


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


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="watching", tag_field="event"):
    """The first line: from now on nothing is missed."""

    at: int
    waiting: int
    calls: bool
    blocked: bool


Happened: TypeAlias = CallSeen | ApprovalSeen | SwitchSeen | VersionSeen | Begun


class Following:
    """Everything since `begin`; each look gives what has happened since the last one."""

    def __init__(
        self, config: Config, store: Store, runner: asyncio.Runner, *, user: str | None = None, calls: bool = True
    ) -> None:
        self._store = store
        self._runner = runner
        self._user = user
        self._url = console_url(config)
        self._shelf = SqlApprovals(store)
        self._calls = Calls(store) if calls else None
        self.switch = True
        self.versions = True
        self._met: frozenset[str] | None = None
        self._waiting: dict[str, Request] = {}
        # What was told, so that a store with more than can be looked at does not tell it again.
        self._told: OrderedDict[str, None] = OrderedDict()
        self._block = Block()

    def begin(self) -> list[Happened]:
        """Where things stand; what waits already is told of, and does not count as new."""
        if self._calls is not None:
            self._calls.begin()
        self._block = self._read_block()
        list(self._versions())
        standing = list(self._approvals(new=False))
        started = Begun(
            at=_now(), waiting=len(standing), calls=self._calls is not None, blocked=self.switch and self._block.on
        )
        return [started, *standing]

    def look(self) -> Iterator[Happened]:
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
        if not self.switch:
            return self._block
        with self._store.reading() as conn:
            return read_block(conn)

    def _versions(self) -> Iterator[VersionSeen]:
        """Servers that were met since the last look, of which another version was reviewed."""
        if not self.versions:
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
        found = self._runner.run(self._shelf.requests(self._user, states=("waiting",), limit=_MOST))
        waiting = {one.id: one for one in reversed(found) if phase(one, now) == "waiting"}
        for key, one in waiting.items():
            if key not in self._told:
                self._remember(key)
                yield self._seen(one, now, new=new)
        over = [one for key, one in self._waiting.items() if key not in waiting]
        self._waiting = waiting
        for one in over:
            last = self._runner.run(self._shelf.request(one.id))
            # Among more than can be looked at it may only be out of sight.
            if last is not None and phase(last, now) != "waiting":
                yield self._seen(last, now, new=False)

    def _remember(self, key: str) -> None:
        self._told[key] = None
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)

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
    import time

    return int(time.time() * 1000)

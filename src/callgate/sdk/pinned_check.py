"""The check of a pinned client: is this the tool that was approved? On this connection, by the decisions of now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from callgate.errors import Reason, Refused
from callgate.gate import Call, Pass, Refuse, Verdict
from callgate.pinning.arguments import odd
from callgate.pinning.judging import Toolset
from callgate.pinning.listing import ToolListing, observed
from callgate.sdk.pinned_books import Books
from callgate.sdk.pinned_line import Line, Verified
from callgate.sdk.pinned_seat import Seat
from callgate.sdk.pinned_store import Desk

_OUTDATED: Final = "the tool was approved anew with another text since its description was shown"


class Place(msgspec.Struct, frozen=True):
    """The server as the author names it."""

    name: str
    group: str
    target: str


class PinCheck:
    """The check that `Gate(pinning=…)` takes; the decisions are read before each answer, never remembered for it."""

    def __init__(self, desk: Desk, line: Line, seat: Seat, books: Books, place: Place) -> None:
        self._desk = desk
        self._line = line
        self._seat = seat
        self._books = books
        self._place = place
        self._met: Verified | None = None
        self._toolset: Toolset | None = None
        self._held: Mapping[str, str] = {}
        self._turn = asyncio.Lock()
        # The list that the caller goes by.
        self.shown: ToolListing | None = None

    async def look(self, *, anew: bool = False) -> tuple[Verified, Toolset]:
        """The verified list, and its tools under the decisions of now. `anew`: it is read, however young it is."""
        await self._refresh()
        found = await self._line.verify(anew=anew)
        async with self._turn:
            await self._seat.join(found.identity.server_id)
            if found is not self._met:
                at, now = self._place, self._books.now()
                sight = observed(found.identity, found.listing, now, name=at.name, group=at.group, target=at.target)
                await self._books.met(sight, found, self._compile(found, {}))
                self._met = found
            self._held = await self._seat.held(found.listing.digest)
            return found, self._compile(found, self._held)

    async def _refresh(self) -> None:
        pins = self._desk.pins
        # What was tampered with is believed again only after the whole of it was read.
        await (pins.reread() if pins.book.broken else pins.refresh())

    def _compile(self, found: Verified, held: Mapping[str, str]) -> Toolset:
        book = self._desk.pins.book
        stamp = (id(book), book.version, bool(book.broken), held)
        made = self._toolset
        if made is None or made.listing is not found.listing or made.stamp != stamp:
            settings = self._desk.pins.settings
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
            self._books.odd_arguments(call, found)
        return Pass(facts)

    def _outdated(self, tool: str, toolset: Toolset) -> bool:
        before = None if self.shown is None else self.shown.tools.get(tool)
        return before is not None and before.approval_hash != toolset.listing.tools[tool].approval_hash

    def last_look(self, call: Call) -> Refused | None:
        """Before a call leaves: what it was let through by may have ended since."""
        found = self._line.current(whatever_age=True)
        if found is None:
            text = "the server's list of tools changed while the call was decided"
            return Refused(Reason.TOOLSET_UNVERIFIED, text)
        standing = self._compile(found, self._held).standing(call.tool)
        return None if standing.reason is None else Refused(standing.reason, standing.detail)

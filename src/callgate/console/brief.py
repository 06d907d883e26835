"""What waits for a reviewer, in brief: for badges, and for open pages that ask again and again."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Final, NamedTuple

from callgate.console.cards import mark_of
from callgate.pinning.review.views import Review
from callgate.pinning.service import Configured, Pins

_DAY: Final = 86_400_000


class Waits(NamedTuple):
    """How much waits for a reviewer: tools, and sets of servers that nobody has reviewed together; and results that
    are kept back until somebody has read them; and calls that wait for this person."""

    tools: int = 0
    sets: int = 0
    held: int = 0
    calls: int = 0

    @property
    def total(self) -> int:
        """Of tools and sets."""
        return self.tools + self.sets

    @classmethod
    def of(cls, review: Review) -> Waits:
        return cls(len(review.pending), sum(not one.reviewed for one in review.sets))


NOTHING: Final = Waits()


class NewVersion(NamedTuple):
    """Another version of a known server, which waits for one question: so many of its tools are as they were."""

    server_id: str
    server: str
    tools: int


class Brief(NamedTuple):
    """Of one review: how much waits, the marks of its texts, and a stamp that changes whenever what waits does."""

    waits: Waits
    marks: tuple[str, ...]
    stamp: str
    versions: tuple[NewVersion, ...] = ()

    @classmethod
    def of(cls, review: Review) -> Brief:
        marks = tuple(map(mark_of, review.pending))
        sets = (f"{one.group}\0{one.version}" for one in review.sets if not one.reviewed)
        text = "\n".join([*marks, *sets])
        stamp = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        same = [(one.seen, sum(tool.unchanged for tool in one.tools)) for one in review.servers]
        versions = [NewVersion(seen.server_id, ", ".join(seen.called), count) for seen, count in same if count]
        return cls(Waits.of(review), marks, stamp, tuple(versions))


class Briefing:
    """Remembers the last review, as long as nothing was met or decided since: one of thousands of tools is work."""

    def __init__(self, pins: Pins) -> None:
        self._pins = pins
        self._last: tuple[Hashable, Review, Brief] | None = None

    async def now(self, configured: Configured | None) -> Brief:
        return (await self._look(configured))[2]

    async def review(self, configured: Configured | None) -> Review:
        """All of it, for whoever reads the tools themselves."""
        return (await self._look(configured))[1]

    async def _look(self, configured: Configured | None) -> tuple[Hashable, Review, Brief]:
        # Read before the review: what comes in between is looked at again the next time.
        key = await self._key(configured)
        if self._last is None or self._last[0] != key:
            review = await self._pins.review(configured)
            self._last = (key, review, Brief.of(review))
        return self._last

    async def _key(self, configured: Configured | None) -> Hashable:
        """Everything that a review is made of, but for the texts: those come with a server's own time and digest."""
        shelf, now = self._pins.shelf, self._pins.now()
        head = await shelf.head()
        places = {(one.name, one.group, one.server_id) for one in await shelf.connected(now)}
        groups = None if configured is None else frozenset(configured.items())
        return (
            None if head is None else (head.seq, head.mac),
            tuple(await shelf.servers()),
            frozenset(places),
            groups,
            self._pins.settings,
            now // _DAY,
        )

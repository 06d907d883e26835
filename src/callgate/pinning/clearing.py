"""Room for what was met and nobody has decided on: who and what goes, so that no server fills the store.

A server that calls itself something else all the time pushes out its own names, not other servers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from callgate.pinning.keeping import too_many_bytes, too_many_servers
from callgate.pinning.storage import Bounds


class Kept(msgspec.Struct, frozen=True):
    """An identity on record. `size` has its texts that nobody decided on, in bytes.

    `fixed`: it is connected, or somebody decided on one of its tools, and it does not go.
    """

    key: bytes
    lineage: bytes
    name: str
    last_seen: int
    size: int
    fixed: bool = False


class Clearing(Protocol):
    """How a shelf drops things. Neither touches what was decided on."""

    def forget(self, keys: Sequence[bytes]) -> None:
        """Drop whole identities."""

    def trim(self, lineage: bytes | None, need: int) -> int:
        """Drop former texts and tools that are gone, the oldest first, of a lineage or of all; how many bytes."""


def make_room(met: Kept, others: Iterable[Kept], bounds: Bounds, out: Clearing, before: int | None) -> None:
    """Make room for an identity that was met just now; `before` is its size until then, None for a newcomer.

    Refused(SERVER_LIMIT) where what has to stay leaves none.
    """
    left = {one.key: one for one in others}

    def forget(many: Sequence[Kept]) -> int:
        if many:
            out.forget([one.key for one in many])
        for one in many:
            del left[one.key]
        return _size(many)

    same = [one for one in _own(left.values(), met) if one.name == met.name]
    forget(same[: max(0, len(same) + 1 - bounds.versions)])
    over = _size(left.values()) + met.size - bounds.total_bytes
    of_lineage = _size(one for one in left.values() if one.lineage == met.lineage) + met.size
    need = max(of_lineage - bounds.lineage_bytes, over)
    if need > 0:
        freed = forget(_enough(_own(left.values(), met), need))
        if freed < need:
            freed += out.trim(met.lineage, need - freed)
        over -= freed
    if over > 0:
        over -= forget(_enough(_largest(left.values(), met), over))
    if over > 0:
        over -= out.trim(None, over)
    if over > 0 and met.size > (before or 0):
        raise too_many_bytes(bounds)
    spare = len(left) + 1 - bounds.servers
    if before is None and spare > 0:
        free = [*_own(left.values(), met), *_foreign(left.values(), met)]
        if len(free) < spare:
            raise too_many_servers(bounds)
        forget(free[:spare])


def _own(left: Iterable[Kept], met: Kept) -> list[Kept]:
    """Who of the lineage may go, the first first: the same server, then others that one program makes."""
    free = [one for one in left if not one.fixed and one.lineage == met.lineage]
    return sorted(free, key=lambda one: (one.name != met.name, one.last_seen, one.key))


def _foreign(left: Iterable[Kept], met: Kept) -> list[Kept]:
    free = [one for one in left if not one.fixed and one.lineage != met.lineage]
    return sorted(free, key=lambda one: (one.last_seen, one.key))


def _largest(left: Iterable[Kept], met: Kept) -> list[Kept]:
    """Who of other lineages may go: of whichever holds most first, and there the oldest."""
    every = list(left)
    held: dict[bytes, int] = {}
    for one in every:
        held[one.lineage] = held.get(one.lineage, 0) + one.size
    return sorted(_foreign(every, met), key=lambda one: -held[one.lineage])


def _enough(free: Iterable[Kept], need: int) -> list[Kept]:
    chosen = []
    for one in free:
        if need <= 0:
            break
        if one.size:
            chosen.append(one)
            need -= one.size
    return chosen


def _size(many: Iterable[Kept]) -> int:
    return sum(one.size for one in many)

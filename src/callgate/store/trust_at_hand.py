"""Sessions as the store has them, kept beside a SQLite store for as long as nobody else writes to it."""

from __future__ import annotations

from threading import Lock
from typing import Final

import msgspec

from callgate.store.changes import Changes, Mark
from callgate.trust.model import Session

_MOST: Final = 2000


class Kept(msgspec.Struct, frozen=True, gc=False):
    """What a session's row has; without `session` only its version is known."""

    mark: Mark
    version: int
    # Versions up to this one may be others', all later ones are our writer's.
    theirs: int
    session: Session | None = None
    forgot: int = 0
    body: bytes = b""


class AtHand:
    """Shared by everything in a process that writes sessions to one store: all of it goes through the one writer."""

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self._kept: dict[str, Kept] = {}
        self._lock = Lock()

    def now(self, key: str) -> Kept | None:
        """What the store has now, or will have as soon as the writer's transaction is through; None: one has to ask."""
        mark = self.changes.others()
        kept = self._kept.get(key)
        return kept if kept is not None and kept.mark == mark else None

    def before(self, key: str) -> tuple[Mark | None, Kept | None]:
        """For who asks: to be handed to `learn` with the answer."""
        return self.changes.others(), self._kept.get(key)

    def learn(self, key: str, before: tuple[Mark | None, Kept | None], version: int) -> None:
        """An answer of the store; not where the writer has been at the session since it was asked."""
        mark, kept = before
        if mark is None or (kept is not None and kept.mark == mark and kept.version > version):
            # What the writer is about to commit is not in the store yet.
            return
        with self._lock:
            if self._kept.get(key) is kept:
                self._put(key, Kept(mark, version, version))

    def put(self, key: str, kept: Kept) -> None:
        """The writer's own, before it commits."""
        with self._lock:
            self._put(key, kept)

    def clear(self) -> None:
        """The writer's transaction came to nothing."""
        with self._lock:
            self._kept.clear()

    def _put(self, key: str, kept: Kept) -> None:
        self._kept.pop(key, None)
        self._kept[key] = kept
        if len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]

"""A shelf in process memory, for tests and for libraries without a store: nothing outlives the process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from callgate.errors import Reason, Refused
from callgate.trust import keeping
from callgate.trust.keeping import STEPS
from callgate.trust.model import Quarantined, Session, SessionLabel, Step
from callgate.trust.storage import NewStep


class _Step(NamedTuple):
    """A step as it is kept."""

    seq: int
    body: bytes
    memory: bytes
    strange: bool
    # When its memory expires, 0 where it has none.
    expires_at: int

    def forgetting(self) -> _Step:
        """The same without what its result said."""
        return self._replace(memory=b"", expires_at=0)


class _Kept:
    """One session and all that hangs on it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.steps: list[_Step] = []
        # Steps up to this one have no memory any more.
        self.forgot = 0
        # Digest to step and expiry.
        self.endorsed: dict[str, tuple[int, int]] = {}


class MemoryTrust:
    """The whole `TrustShelf` of storage.py, for one event loop; `witnesses` are those of everything done, in order."""

    def __init__(self) -> None:
        self.witnesses: list[Any] = []
        self._sessions: dict[str, _Kept] = {}
        self._objects: dict[str, int] = {}
        self._held: dict[str, tuple[Quarantined, int]] = {}

    # -- sessions ----------------------------------------------------------------------------------------------

    async def open(self, key: str, agent: str, now: int, idle_ms: int) -> Session:
        keeping.demand(key)
        kept = self._sessions.get(key)
        if kept is None:
            kept = self._sessions[key] = _Kept(keeping.begun(key, agent, now))
        else:
            after = keeping.opened(kept.session, agent, now, idle_ms)
            if after.opened_at != kept.session.opened_at:
                kept = self._sessions[key] = _Kept(after)
            kept.session = after
        return kept.session

    def peek(self, key: str) -> int | None:
        kept = self._sessions.get(key)
        return 0 if kept is None else kept.session.version

    def at_hand(self, key: str, known: int) -> int | None:  # noqa: ARG002 - nobody else is here
        return self.peek(key)

    async def version(self, key: str) -> int:
        return self.peek(key) or 0

    async def session(self, key: str) -> Session | None:
        kept = self._sessions.get(key)
        return None if kept is None else kept.session

    async def sessions(self, *, limit: int = 100, before: int | None = None) -> Sequence[Session]:
        found = [kept.session for kept in self._sessions.values()]
        if before is not None:
            found = [session for session in found if session.seen_at < before]
        return sorted(found, key=lambda session: (-session.seen_at, session.key))[: max(0, limit)]

    async def declassify(
        self, key: str, label: SessionLabel, by: str, note: str, now: int, *, witness: Any = None
    ) -> Session | None:
        kept = self._sessions.get(key)
        if kept is None:
            return None
        kept.session, step = keeping.declassified(kept.session, label, by, note, now)
        kept.steps = [one.forgetting() if one.strange else one for one in kept.steps]
        kept.steps = [*kept.steps, _Step(step.seq, keeping.packed(step), b"", strange=False, expires_at=0)][-STEPS:]
        if witness is not None:
            self.witnesses.append(witness)
        return kept.session

    # -- steps -------------------------------------------------------------------------------------------------

    async def steps(self, key: str, after: int = 0, limit: int = 1000) -> Sequence[Step]:
        kept = self._sessions.get(key)
        if kept is None or limit <= 0:
            return []
        found = [step for step in kept.steps if step.seq > after][-limit:]
        return [keeping.unpacked(step.body, step.seq, step.memory) for step in found]

    async def endorsed(self, key: str) -> frozenset[str]:
        kept = self._sessions.get(key)
        return frozenset() if kept is None else frozenset(kept.endorsed)

    async def add(self, new: NewStep, *, keep: int, expires_at: int) -> Session:
        return self._add(new, keep, expires_at)

    def add_soon(self, new: NewStep, *, keep: int, done: Callable[[Session | None], None]) -> None:
        done(self._add(new, keep, 0))

    async def landed(self) -> None:
        """They are at once."""

    def _add(self, new: NewStep, keep: int, expires_at: int) -> Session:
        keeping.check(new)
        kept = self._sessions.get(new.session)
        if kept is None:
            kept = self._sessions[new.session] = _Kept(keeping.begun(new.session, "", new.step.at))
        kept.session = keeping.stepped(kept.session, new.step.at, new.adds)
        seq = kept.session.steps
        step, memory = new.step, new.step.memory
        strange = keeping.strange(step.label)
        kept.steps.append(_Step(seq, keeping.packed(step), memory, strange, expires_at if memory else 0))
        if len(kept.steps) > STEPS:
            del kept.steps[:-STEPS]
        before = seq - len(kept.steps)
        for at in range(max(kept.forgot - before, 0), seq - keep - before):
            kept.steps[at] = kept.steps[at].forgetting()
        kept.forgot = max(kept.forgot, seq - keep)
        for digest in new.endorsed:
            kept.endorsed[digest] = seq, expires_at
        if len(kept.endorsed) > keeping.ENDORSED:
            newest = sorted(kept.endorsed.items(), key=lambda one: (-one[1][0], one[0]))
            kept.endorsed = dict(newest[: keeping.ENDORSED])
        for digest in new.objects:
            self._objects[digest] = max(expires_at, self._objects.get(digest, 0))
        return kept.session

    async def tainted(self, digests: Collection[str], now: int) -> frozenset[str]:
        return frozenset(digest for digest in digests if self._objects.get(digest, now) > now)

    # -- quarantine --------------------------------------------------------------------------------------------

    async def hold(self, held: Quarantined, expires_at: int) -> None:
        keeping.demand(held.handle, held.session)
        if held.handle in self._held:
            raise Refused(Reason.INVALID_PARAMS, "a result is held under this handle already")
        self._held[held.handle] = keeping.held(held), expires_at
        spare = len(self._held) - keeping.HELD
        if spare > 0:
            old = [one for one, _ in self._held.values() if one.handle != held.handle]
            old.sort(key=lambda one: (one.state == "held", one.session != held.session, one.at, one.handle))
            for one in old[:spare]:
                del self._held[one.handle]

    async def held(self, handle: str) -> Quarantined | None:
        found = self._held.get(handle)
        return None if found is None else found[0]

    async def holding(self, *, limit: int = 100) -> Sequence[Quarantined]:
        found = [held for held, _ in self._held.values() if held.state == "held"]
        return sorted(found, key=lambda held: (-held.at, held.handle))[: max(0, limit)]

    async def settle(self, handle: str, state: str, by: str, now: int, *, witness: Any = None) -> Quarantined:
        found = self._held.get(handle)
        if found is None:
            raise keeping.not_held()
        after = keeping.settled(*found, state=state, by=by, now=now)
        self._held[handle] = after, found[1]
        if witness is not None:
            self.witnesses.append(witness)
        return after

    # -- the end of things -------------------------------------------------------------------------------------

    async def prune(self, now: int, *, sessions: int) -> int:
        gone = 0
        for kept in self._sessions.values():
            over = [0 < step.expires_at <= now for step in kept.steps]
            kept.steps = [one.forgetting() if old else one for one, old in zip(kept.steps, over, strict=True)]
            endorsed = {digest: one for digest, one in kept.endorsed.items() if one[1] > now}
            gone += sum(over) + len(kept.endorsed) - len(endorsed)
            kept.endorsed = endorsed
        objects = {digest: expires_at for digest, expires_at in self._objects.items() if expires_at > now}
        held = {handle: one for handle, one in self._held.items() if one[1] > now}
        gone += len(self._objects) - len(objects) + len(self._held) - len(held)
        self._objects, self._held = objects, held
        kept_now = [kept.session for kept in self._sessions.values()]
        for key in keeping.spare(kept_now, len(kept_now) - max(0, sessions)):
            del self._sessions[key]
            gone += 1
        return gone

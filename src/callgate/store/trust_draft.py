"""What a batch does to sessions, worked out before any of it is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from callgate.audit.rows import AuditRow
from callgate.trust import keeping
from callgate.trust.model import Session, SessionLabel
from callgate.trust.storage import NewStep

# session, seq, expires_at, strange, body, memory
StepRow: TypeAlias = tuple[str, int, int, int, bytes, bytes]
# opened_at, seen_at, version, steps, forgot, body
SessionRow: TypeAlias = tuple[int, int, int, int, int, bytes]


class Body(msgspec.Struct, array_like=True):
    """What a session's row has beside its numbers."""

    agent: str
    label: SessionLabel


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Body).decode


def _pack(session: Session) -> bytes:
    body = Body(session.agent, session.label)
    try:
        return _encode(body)
    except UnicodeEncodeError:
        # Half characters, which msgpack has no way to write.
        return json.dumps(msgspec.to_builtins(body)).encode()


def session_of(key: str, row: SessionRow) -> Session:
    opened_at, seen_at, version, steps, _, body = row
    kept = msgspec.convert(json.loads(body), Body) if body[:1] == b"[" else _decode(body)
    return Session(
        key=key,
        agent=kept.agent,
        opened_at=opened_at,
        seen_at=seen_at,
        label=kept.label,
        version=version,
        steps=steps,
    )


class Draft:
    """One session while a batch changes it: read once, written once, however many steps there are."""

    __slots__ = ("_body", "dropped", "endorsed", "forget", "forgot", "key", "lessened", "session", "steps", "theirs")

    def __init__(self, key: str, session: Session | None = None, forgot: int = 0, body: bytes | None = None) -> None:
        self.key = key
        self.session = session
        self._body = body
        # Up to which version others may have written it; None where it is not there yet.
        self.theirs = None if session is None else session.version
        self.forgot = self.forget = forgot
        self.steps: list[StepRow] = []
        # Digest to step and expiry.
        self.endorsed: dict[str, tuple[int, int]] = {}
        # What is to be done to the rows there are, before new ones are written.
        self.dropped = False
        self.lessened = False

    @classmethod
    def of(cls, key: str, row: SessionRow | None) -> Draft:
        """From the row that the store has."""
        return cls(key) if row is None else cls(key, session_of(key, row), row[4], row[5])

    @property
    def row(self) -> SessionRow:
        now = self.session
        assert now is not None
        if self._body is None:
            self._body = _pack(now)
        return now.opened_at, now.seen_at, now.version, now.steps, self.forget, self._body

    def _become(self, after: Session) -> Session:
        before, self.session = self.session, after
        # A label that stays is the same object, and need not be written out again.
        if before is None or after.label is not before.label or after.agent is not before.agent:
            self._body = None
        return after

    def open(self, agent: str, now: int, idle_ms: int) -> Session:
        before = self.session
        if before is None:
            return self._become(keeping.begun(self.key, agent, now))
        after = keeping.opened(before, agent, now, idle_ms)
        if after.opened_at != before.opened_at:
            self.steps.clear()
            self.endorsed.clear()
            self.dropped, self.lessened, self.forgot, self.forget = True, False, 0, 0
        return self._become(after)

    def add(self, new: NewStep, body: bytes, keep: int, expires_at: int) -> Session:
        before = self.session or keeping.begun(self.key, "", new.step.at)
        after = self._become(keeping.stepped(before, new.step.at, new.adds))
        seq, memory = after.steps, new.step.memory
        strange = int(keeping.strange(new.step.label))
        self.steps.append((self.key, seq, expires_at if memory else 0, strange, body, memory))
        self.forget = max(self.forget, seq - keep)
        for digest in new.endorsed:
            self.endorsed[digest] = seq, expires_at
        return after

    def declassify(self, label: SessionLabel, by: str, note: str, now: int) -> Session | None:
        if self.session is None:
            return None
        after, step = keeping.declassified(self.session, label, by, note, now)
        self.lessened = True
        self.steps = [(*row[:2], 0, row[3], row[4], b"") if row[3] else row for row in self.steps]
        self.steps.append((self.key, step.seq, 0, 0, keeping.packed(step), b""))
        return self._become(after)


class Act(msgspec.Struct, frozen=True, gc=False):
    """Something that is done to one session, and what it brings beside it."""

    key: str
    do: Callable[[Draft], Any]
    objects: tuple[str, ...] = ()
    expires_at: int = 0
    witness: AuditRow | None = None
    # Whether it takes something away, which whoever has the session at hand must hear of.
    lessens: bool = False

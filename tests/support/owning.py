"""A gateway's sessions in a process of its own, which a test stops and kills: `python owning.py URL`.

A line on stdin is `read TEXT`, which it answers once that is in the store, or `found VALUE`, which it answers with where
the value was found.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from callgate.store import SqlTrust, Store
from callgate.store.leases import SessionLeases
from callgate.trust.model import Step
from callgate.trust.propagation import adds
from callgate.trust.provenance import Fingerprints, Memory, Retention, trace
from callgate.trust.session_cache import LiveSession, SessionName, TrustSessionCache
from callgate.trust.storage import NewStep, TrustShelf
from support.remembering import label, reading
from support.trust_store import KEY, LATER, NOW, STRANGE

FINGERPRINTS: Final = Fingerprints(bytes(32))
NAME: Final = SessionName(KEY, "127.0.0.1 host", idles=False)
SEND: Final = label("send", critical=("to",))


def impatient() -> None:
    """A dead owner is noticed soon."""
    SessionLeases.beat_seconds, SessionLeases.relied_seconds, SessionLeases.patience_seconds = 0.05, 0.4, 0.6


def sessions_on(shelf: TrustShelf) -> TrustSessionCache:
    kept = Retention(1000, 3600.0)
    return TrustSessionCache(
        shelf, lambda: Memory(FINGERPRINTS, retention=lambda: kept), idle_ms=lambda: 0, clock=lambda: NOW / 1000
    )


async def reads(sessions: TrustSessionCache, text: str, name: SessionName = NAME) -> None:
    """A result with a stranger's text, up to where its answer may leave."""

    def make(live: LiveSession) -> NewStep:
        tool = reading("read", "untrustedPublic")
        memory = live.memory.remember_result(tool, STRANGE, None, [text], {}, open_world=live.session.label.open_world)
        return NewStep(name.key, Step(0, NOW, "", "web", "read", "allow", label=STRANGE, memory=memory), adds(STRANGE))

    live = sessions.at_once(name) or await sessions.get(name)
    await sessions.add(live, make, keep=1000, expires_at=LATER)


async def found(sessions: TrustSessionCache, value: str, name: SessionName = NAME) -> str:
    """Where a call that is judged now finds a value."""
    live = sessions.at_once(name) or await sessions.get(name)
    return trace(live.memory, SEND, {"to": value}).values[0].found


async def _main(url: str) -> None:
    impatient()
    sessions = sessions_on(SqlTrust(Store.open(url)))
    while line := await asyncio.to_thread(sys.stdin.readline):
        what, _, text = line.strip().partition(" ")
        answer = "done" if what == "read" else await found(sessions, text)
        if what == "read":
            await reads(sessions, text)
        print(answer, flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))

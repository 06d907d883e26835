"""Agent sessions and held results as console and command line use them: look, declassify, release, drop.

Whatever takes a label away or lets a held result go is written to the audit log in the same transaction.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from callgate.errors import Reason, Refused
from callgate.trust.model import Quarantined, Session, SessionLabel, Step
from callgate.trust.picture import STEPS, Picture, picture
from callgate.trust.quarantine import PREFIX, Unopened
from callgate.trust.storage import TrustShelf

# Makes the audit row that says who did what; None where no log is kept.
Witness: TypeAlias = Callable[[str, str, dict[str, Any]], Any]
# A held reply, opened: `Seals.open`.
Unseal: TypeAlias = Callable[[bytes, str], bytes]
Settled: TypeAlias = Literal["released", "dropped"]

NOTE_CHARS: Final = 500
# Of a held reply; a person reads no more on a page, and the rest is counted.
TEXT_CHARS: Final = 65_536
_PAGE: Final = 1000
_PAGES: Final = 20
_FEW: Final = 5
_SHORTEST: Final = 4
_KEY: Final = re.compile(r"[!-~]{1,128}\Z")


class HeldView(msgspec.Struct, frozen=True):
    """A held result with what it says. `texts` are its readable parts, `raw` the whole reply; both empty, and `closed`
    says why, where it cannot be opened here."""

    held: Quarantined
    texts: tuple[str, ...] = ()
    raw: str = ""
    # Characters of the reply that are not in `raw`.
    beyond: int = 0
    closed: str = ""


def no_witness(_action: str, _by: str, _detail: dict[str, Any]) -> None:
    """For a store without a log."""


class TrustService:
    """What people may see and do of agents' sessions, over one store."""

    def __init__(
        self,
        shelf: TrustShelf,
        *,
        witness: Witness = no_witness,
        unseal: Unseal | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.shelf = shelf
        self._witness = witness
        self._unseal = unseal
        self._clock = clock

    def now(self) -> int:
        """Milliseconds since 1970."""
        return int(self._clock() * 1000)

    # -- sessions ------------------------------------------------------------------------------------------------

    async def sessions(self, *, limit: int = 100, before: int | None = None) -> Sequence[Session]:
        """The latest seen first."""
        return await self.shelf.sessions(limit=limit, before=before)

    async def find(self, given: str) -> Session:
        """The session of a key, or of the only key that begins like this."""
        if not _KEY.match(given):
            raise Refused(Reason.AGENT_SESSION_UNKNOWN)
        exact = await self.shelf.session(given)
        if exact is not None:
            return exact
        found = await self._beginning(given) if len(given) >= _SHORTEST else {}
        if len(found) == 1:
            return next(iter(found.values()))
        if found:
            some = ", ".join(key[: len(given) + 8] for key in list(found)[:_FEW])
            raise Refused(
                Reason.AGENT_SESSION_UNKNOWN, f"{given} is the beginning of several keys: {some}", advice="Type more."
            )
        raise Refused(Reason.AGENT_SESSION_UNKNOWN)

    async def _beginning(self, given: str) -> dict[str, Session]:
        found: dict[str, Session] = {}
        before: int | None = None
        for _ in range(_PAGES):
            some = await self.shelf.sessions(limit=_PAGE, before=before)
            found |= {one.key: one for one in some if one.key.startswith(given)}
            if len(some) < _PAGE:
                break
            # Sessions of the same millisecond at a page's end would be skipped otherwise.
            last = some[-1].seen_at + 1
            before = last if last != before else last - 1
        return found

    async def steps(self, key: str, limit: int = STEPS) -> Sequence[Step]:
        return await self.shelf.steps(key, 0, limit)

    async def view(self, given: str, *, most: int = STEPS) -> Picture:
        """The picture of one session."""
        session = await self.find(given)
        return picture(session, await self.steps(session.key, most), most=most)

    async def declassify(self, given: str, *, by: str, note: str) -> Session:
        """Take all labels off a session, and make it forget what it remembers of strangers' text."""
        said = _noted(note)
        if not said:
            raise Refused(
                Reason.INVALID_PARAMS, "a session is not declassified without a reason", advice="Give it with --note."
            )
        session = await self.find(given)
        detail = {"session": session.key, "agent": session.agent, "was": _told(session.label), "note": said}
        row = self._witness("trust.declassify", by, detail)
        after = await self.shelf.declassify(session.key, SessionLabel(), by, said, self.now(), witness=row)
        if after is None:
            raise Refused(Reason.AGENT_SESSION_UNKNOWN)
        return after

    # -- quarantine ----------------------------------------------------------------------------------------------

    async def holding(self, *, limit: int = 100) -> Sequence[Quarantined]:
        """The results that wait for a person, the newest first."""
        return await self.shelf.holding(limit=limit)

    async def find_held(self, given: str) -> Quarantined:
        """The result of a handle, or of the only handle of one that waits which begins like this."""
        if not _KEY.match(given):
            raise Refused(Reason.QUARANTINE_UNKNOWN)
        exact = await self.shelf.held(given)
        if exact is not None:
            return exact
        beginning = given if given.startswith(PREFIX) else PREFIX + given
        long_enough = len(beginning) >= len(PREFIX) + _SHORTEST
        held = await self.shelf.holding(limit=_PAGE) if long_enough else ()
        found = [one for one in held if one.handle.startswith(beginning)]
        if len(found) != 1:
            several = "This is the beginning of several handles." if found else ""
            raise Refused(Reason.QUARANTINE_UNKNOWN, several, advice="Type more of it." if found else "")
        return found[0]

    async def show(self, given: str) -> HeldView:
        """A held result and what it says."""
        held = await self.find_held(given)
        if not held.sealed:
            return HeldView(held, closed="It was dropped; nothing of it is kept.")
        if self._unseal is None:
            return HeldView(held, closed="The key that opens it is not here.")
        try:
            raw = self._unseal(held.sealed, held.handle).decode("utf-8", "replace")
        except Unopened as error:
            return HeldView(held, closed=f"It cannot be opened: {error}.")
        return HeldView(held, _texts(raw), raw[:TEXT_CHARS], max(len(raw) - TEXT_CHARS, 0))

    async def settle(self, given: str, state: Settled, *, by: str, note: str = "") -> Quarantined:
        """Release a held result to its agent, or drop it; `Spent` where somebody has decided already."""
        held = await self.find_held(given)
        detail = {
            "handle": held.handle,
            "session": held.session,
            "call": held.call,
            "server": held.server,
            "tool": held.tool,
            "warnings": list(held.warnings),
            "note": _noted(note),
        }
        row = self._witness("trust.release" if state == "released" else "trust.drop", by, detail)
        return await self.shelf.settle(held.handle, state, by, self.now(), witness=row)


def _noted(note: str) -> str:
    return "".join(char if char.isprintable() else " " for char in note)[:NOTE_CHARS].strip()


def _told(label: SessionLabel) -> dict[str, Any]:
    return {
        "open_world": label.open_world,
        "malicious": label.malicious,
        "sensitivity": sorted(label.sensitivity),
        "attribution": list(label.attribution),
    }


def _texts(raw: str) -> tuple[str, ...]:
    """The readable parts of a reply; its structure as JSON. Empty where it has none: then the whole is what is read."""
    try:
        reply = msgspec.json.decode(raw.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return ()
    result = reply.get("result") if isinstance(reply, dict) else None
    if not isinstance(result, dict):
        return ()
    found: list[str] = []
    content = result.get("content")
    for item in content if isinstance(content, list) else ():
        text = item.get("text") if isinstance(item, dict) else None
        if isinstance(text, str):
            found.append(text)
    structured = result.get("structuredContent")
    if structured is not None:
        found.append(msgspec.json.format(msgspec.json.encode(structured), indent=2).decode())
    return _bounded(found)


def _bounded(texts: Sequence[str]) -> tuple[str, ...]:
    room, kept = TEXT_CHARS, []
    for text in texts[:100]:
        if room <= 0:
            break
        kept.append(text[:room])
        room -= len(text)
    return tuple(kept)

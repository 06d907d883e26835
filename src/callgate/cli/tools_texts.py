"""Any two texts of a tool that are kept: those that were met, and those that somebody decided on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from callgate.cli.people import moment
from callgate.cli.pinned import Opened, shown

if TYPE_CHECKING:
    from callgate.pinning.review.views import TextDifference, ToolView

# Enough to look at a text. To approve one takes all of its hash.
DIGITS: Final = 8


class Compared(NamedTuple):
    """Two texts, each by its hash and when it was met, and what lies between them."""

    before: str
    after: str
    difference: TextDifference


class _Kept(NamedTuple):
    approval_hash: str
    raw: bytes
    told: str


def between(opened: Opened, view: ToolView, before: str | None, after: str | None) -> Compared | None:
    """From one text to another; by default to the newest, from what was decided on or else met before it.

    None where there is only one.
    """
    kept = _kept(opened, view)
    new = _by_hash(view, kept, after) if after is not None else kept[0]
    if before is not None:
        old = _by_hash(view, kept, before)
    else:
        decided = {one.approval_hash for one in opened.pins.book.history(view.server_id, view.tool)}
        others = [one for one in kept if one.approval_hash != new.approval_hash]
        found = [one for one in others if one.approval_hash in decided] or others
        if not found:
            return None
        old = found[0]
    return Compared(old.told, new.told, _difference(view, old, new))


def _kept(opened: Opened, view: ToolView) -> list[_Kept]:
    """The newest first; a text that was decided on is kept for good, others not without end."""
    met = opened.wait(opened.shelf.texts(view.server_id, view.tool))
    found = [_Kept(one.approval_hash, one.raw, f"{one.approval_hash}, met {moment(one.first_seen)}") for one in met]
    known = {one.approval_hash for one in found}
    for pin in reversed(opened.pins.book.history(view.server_id, view.tool)):
        if pin.approval_hash and pin.raw and pin.approval_hash not in known:
            known.add(pin.approval_hash)
            told = f"{pin.approval_hash}, decided {moment(pin.approved_at)}"
            found.append(_Kept(pin.approval_hash, pin.raw, told))
    return found


def _by_hash(view: ToolView, kept: list[_Kept], given: str) -> _Kept:
    from callgate.errors import CallgateError

    # As the list prints it, with the mark that there is more.
    digits = given.strip().lower().removeprefix("sha256:").removesuffix("…")
    found = [one for one in kept if one.approval_hash.removeprefix("sha256:").startswith(digits)]
    if len(digits) >= DIGITS and len(found) == 1:
        return found[0]
    if len(digits) < DIGITS:
        what = f"{given!r} is too little of a hash: give its first {DIGITS} digits or more"
    elif found:
        what = f"{len(found)} texts of {shown(view.tool)} have hashes that begin with {given!r}: give all digits"
    else:
        what = f"no text of {shown(view.tool)} is kept under the hash {given!r}"
    texts = "\n".join(f"  {one.told}" for one in kept)
    raise CallgateError(what, advice=f"These are kept:\n{texts}")


def _difference(view: ToolView, old: _Kept, new: _Kept) -> TextDifference:
    from callgate.pinning.model import ListedTool, Pin
    from callgate.pinning.review.differences import difference

    pin = Pin(
        action="withdraw",
        server_id=view.server_id,
        lineage="",
        server=view.server,
        tool=view.tool,
        approval_hash=old.approval_hash,
        approved_at=0,
        approved_by="",
        raw=old.raw,
    )
    try:
        entry = json.loads(new.raw)
    except ValueError:
        entry = {}
    return difference(pin, ListedTool(view.tool, new.raw, entry if isinstance(entry, dict) else {}))

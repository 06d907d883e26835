"""Blocks that another version of the same server left behind: its next identity has no decision, and inherits none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from callgate.cli.people import moment
from callgate.cli.pinned import Opened, shown

if TYPE_CHECKING:
    from callgate.pinning.model import Pin
    from callgate.pinning.views import ToolView


class Blocks:
    """The blocks in force by lineage, as of one moment."""

    def __init__(self, opened: Opened) -> None:
        from callgate.pinning.known import Known

        self._known = Known(opened.pins.book)
        self._lineages = {one.server_id: one.lineage for one in opened.wait(opened.shelf.servers())}

    def of(self, view: ToolView) -> Sequence[Pin]:
        """The blocks of this tool under other identities of its server."""
        lineage = self._lineages.get(view.server_id, "")
        found = self._known.blocked(lineage, view.tool) if lineage else ()
        return [pin for pin in found if pin.server_id != view.server_id]


def blocked_words(pin: Pin) -> str:
    """Who blocked it, as what and why; without a full stop."""
    why = f": {shown(pin.note)}" if pin.note else ""
    return (
        f"{shown(pin.approved_by)} blocked it under another identity of this server, {shown(pin.server_id)}, "
        f"{moment(pin.approved_at)}{why}"
    )


def blocked_row(pin: Pin) -> dict[str, Any]:
    """A block for machines."""
    return {
        "server_id": pin.server_id,
        "approved_by": pin.approved_by,
        "approved_at": pin.approved_at,
        "note": pin.note,
    }


def to_withdraw(opened: Opened, pin: Pin) -> str:
    """What lifts a block."""
    return opened.command("tools", "withdraw", "--server", pin.server_id, "--tool", pin.tool)

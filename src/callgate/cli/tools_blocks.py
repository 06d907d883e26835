"""How the blocks of `ToolView.blocks` are told: they were made of another version of the same server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callgate.cli.people import moment
from callgate.cli.pinned import Opened, shown

if TYPE_CHECKING:
    from callgate.pinning.model import Pin


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

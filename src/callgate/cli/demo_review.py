"""What `callgate demo` does before it serves: it reviews its own example server, all of it but one tool."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from callgate.cli.common import open_log
from callgate.cli.pinned import Opened, changing

if TYPE_CHECKING:
    from callgate.gateway.places import Place

SERVER: Final = "notes"
# Left to the newcomer, who learns from it what a review is.
LEFT: Final = "delete_note"
_BY: Final = "callgate demo"
_NOTE: Final = "Came with Callgate, as an example."


def review(path: Path, argv: Sequence[str]) -> None:
    """Approve the example's tools, each for its text of now. Only once: what a person decides later stays decided."""
    from callgate.gateway.places import place

    with open_log(path, None, create=True):
        pass
    with changing(path, None) as opened:
        server = opened.config.servers.get(SERVER)
        # A folder of the user's own may hold another server of that name, which is nobody's to approve here.
        if server is None or server.argv != list(argv) or opened.config.pinning.mode == "off":
            return
        if opened.wait(opened.shelf.head()) is None:
            opened.wait(_approve(opened, place(SERVER, server)))


async def _approve(opened: Opened, place: Place) -> None:
    from callgate.demo.notes import Notes
    from callgate.demo.server import SERVER_INFO
    from callgate.pinning.identity import reported_as
    from callgate.pinning.listing import Listing, Reader
    from callgate.pinning.service import Choice
    from callgate.pinning.sighting import sighting

    pins = opened.pins
    identity = place.identify(reported_as(SERVER_INFO["name"], SERVER_INFO["version"]))
    reader = Reader(identity.server_id, pins.settings)
    tools = Notes(Path()).tools().values()
    listing = Listing(reader.read(json.dumps(tool.listed(), separators=(",", ":")).encode()) for tool in tools)
    met = sighting(identity, listing, pins.now(), name=place.name, group=place.group, target=place.target)
    await opened.shelf.saw(met.server, met.tools, whole=met.whole)
    choices = [
        Choice("approve", identity.server_id, tool.name, tool.approval_hash, note=_NOTE)
        for tool in listing.tools.values()
        if tool.name != LEFT
    ]
    await pins.decide(choices, by=_BY, together=[identity.server_id])

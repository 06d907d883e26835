"""What is written down of a list that was read whole, for reviewers in other processes."""

from __future__ import annotations

import msgspec

from callgate.pinning.listing import Listing
from callgate.pinning.model import Identity, Listed, ServerSeen, ToolSeen


class Sighting(msgspec.Struct, frozen=True):
    """A server and its tools as they were met at one moment, as `PinShelf.saw` takes them."""

    server: ServerSeen
    tools: list[ToolSeen]
    whole: bool


def sighting(
    identity: Identity, listing: Listing, now: int, *, name: str, group: str = "", target: str = ""
) -> Sighting:
    """The sighting of a list under an identity at `now`, in milliseconds."""
    server = ServerSeen(
        server_id=identity.server_id,
        lineage=identity.lineage,
        name=name,
        group=group,
        kind=identity.kind,
        chosen=identity.chosen,
        target=target,
        reported=identity.reported,
        warnings=identity.warnings,
        problem=listing.problem,
        digest=listing.digest,
        tools=listing.count,
        size=listing.size,
        first_seen=now,
        last_seen=now,
    )
    # Of a list that is not used nothing is kept: it may be as long as a server likes.
    listed = [] if listing.problem else list(listing.tools.values())
    return Sighting(server, [_tool(identity.server_id, tool, now) for tool in listed], whole=not listing.problem)


def _tool(server_id: str, tool: Listed, now: int) -> ToolSeen:
    return ToolSeen(
        server_id=server_id,
        tool=tool.name,
        approval_hash=tool.approval_hash,
        raw=tool.raw,
        beside=tool.beside,
        problem=tool.problem,
        size=len(tool.raw),
        first_seen=now,
        last_seen=now,
    )

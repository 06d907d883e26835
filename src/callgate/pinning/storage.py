"""What pinning asks of a store. Decisions are a chain that is only added to; sightings say what was met, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from callgate.pinning.model import Change, Connected, ServerSeen, ToolSeen


class Sealed(msgspec.Struct, frozen=True):
    """One decision as it is stored: `body` is a Pin in msgpack, `mac` authenticates it and everything before it."""

    seq: int
    body: bytes
    mac: bytes


class Head(msgspec.Struct, frozen=True):
    """The end of the chain: the last decision, under a seal of its own, so that a cut chain is noticed."""

    seq: int
    mac: bytes
    seal: bytes


class Wanted(msgspec.Struct, frozen=True):
    """A decision holds only if the newest text of this tool, as it was met, still has this hash.

    An empty hash asks only that the tool was met.
    """

    server_id: str
    tool: str
    approval_hash: str


# Makes the next rows and the new head from the head that is there: runs inside the transaction, and may run again.
Link: TypeAlias = Callable[[Head | None], tuple[Sequence[Sealed], Head]]


class Bounds(msgspec.Struct, frozen=True):
    """How much is kept of what was met: texts of one tool, tools of one server, servers.

    What nobody has decided on has less room: `versions` of one server (a lineage under one name), `lineage_bytes` for
    one lineage, and `total_bytes`. The oldest goes first. A list that is met, a server that is connected and whatever
    was decided on never go.
    """

    texts: int = 20
    tools: int = 10_000
    servers: int = 1_000
    versions: int = 20
    lineage_bytes: int = 64 * 1024 * 1024
    total_bytes: int = 512 * 1024 * 1024


USUAL: Final = Bounds()


class PinShelf(Protocol):
    """Each method is one transaction. A witness is what the audit log writes in the same one."""

    async def head(self) -> Head | None: ...

    async def chain(self, after: int = 0, most: int = 10_000) -> list[Sealed]:
        """Decisions with a greater number than `after`, oldest first."""

    async def since(self, after: int = 0) -> tuple[Head | None, list[Sealed]]:
        """The head and every decision after a number in one view.

        Read one after the other, a decision made meanwhile would look like a chain that does not fit its head.
        """

    async def decide(self, wanted: Sequence[Wanted], link: Link, witnesses: Sequence[Any] = ()) -> None:
        """Add decisions, all or none, one writer at a time over all processes; others on the store are told.

        Refused(TOOL_CHANGED) where a wanted tool has another text by now, Refused(TOOL_UNKNOWN) where it was never met.
        """

    async def saw(
        self, server: ServerSeen, tools: Sequence[ToolSeen], *, whole: bool, bounds: Bounds = USUAL
    ) -> tuple[Change, ...]:
        """Remember what was met; what of it is new or another than before. `whole`: a tool that is not there is gone.

        Of several gateways that meet the same change, one is told of it.
        """

    async def servers(self) -> list[ServerSeen]:
        """Every identity that was met, the last met first."""

    async def tools(self, server_id: str | None = None) -> list[ToolSeen]:
        """The newest text of each tool of a server.

        Of all servers at once, a text that nobody decided on comes without its bytes (`raw`): what waits may be as
        large as servers like.
        """

    async def texts(self, server_id: str, tool: str) -> list[ToolSeen]:
        """Every text of one tool that is kept, the newest first."""

    async def forget(self, server_id: str, witnesses: Sequence[Any] = ()) -> None:
        """Drop what was met of an identity; its decisions stay in the chain."""

    async def connect(self, place: Connected, now: int, most: int) -> bool:
        """Take or keep a server's place among at most `most` others of its group; False if there is none."""

    async def connected(self, now: int) -> list[Connected]: ...

    async def disconnect(self, gateway: str, name: str | None = None) -> None:
        """Give back a gateway's place for one server, or all of its places."""

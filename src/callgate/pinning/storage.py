"""What pinning needs of a store, and what every store does the same way: compare, refuse, make room."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from callgate.errors import Reason, Refused
from callgate.pinning.document import entry_digest
from callgate.pinning.model import LOGGED, Change, Connected, ItemKind, ServerSeen, ToolSeen


class Sealed(msgspec.Struct, frozen=True):
    """One decision as it is stored: `body` is a Pin in msgpack, `mac` authenticates it and everything before it."""

    seq: int
    body: bytes
    mac: bytes


class ChainHead(msgspec.Struct, frozen=True):
    """The end of the chain: the last decision, under a seal of its own, so that a cut chain is noticed."""

    seq: int
    mac: bytes
    seal: bytes


class ExpectedTool(msgspec.Struct, frozen=True):
    """A decision holds only if the newest text of this tool, as it was met, still has this hash.

    An empty hash asks only that the tool was met.
    """

    server_id: str
    tool: str
    approval_hash: str
    # An approval holds only if the newest entry is the one that was reviewed, with everything beside its text.
    entry: str = ""


# Makes the next rows and the new head from the head that is there: runs inside the transaction, and may run again.
Link: TypeAlias = Callable[[ChainHead | None], tuple[Sequence[Sealed], ChainHead]]


class PinBounds(msgspec.Struct, frozen=True):
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


USUAL: Final = PinBounds()


# When each server was met last, and with which list, by its key in the store.
ServerMarks: TypeAlias = Mapping[bytes, tuple[int, bytes]]


class PinRepository(Protocol):
    """Each method is one transaction. A witness is what the audit log writes in the same one."""

    async def head(self) -> ChainHead | None: ...

    async def chain(self, after: int = 0, most: int = 10_000) -> list[Sealed]:
        """Decisions with a greater number than `after`, oldest first."""

    async def since(self, after: int = 0) -> tuple[ChainHead | None, list[Sealed]]:
        """The head and every decision after a number in one view.

        Read one after the other, a decision made meanwhile would look like a chain that does not fit its head.
        """

    async def decide(self, wanted: Sequence[ExpectedTool], link: Link, witnesses: Sequence[Any] = ()) -> None:
        """Add decisions, all or none, one writer at a time over all processes; others on the store are told.

        Refused(TOOL_CHANGED) where a wanted tool has another text by now, Refused(TOOL_UNKNOWN) where it was never met.
        """

    async def saw(
        self,
        server: ServerSeen,
        tools: Sequence[ToolSeen],
        *,
        whole: bool,
        bounds: PinBounds = USUAL,
        kind: ItemKind = "tool",
    ) -> tuple[Change, ...]:
        """Remember what was met; what of it is new or another than before. `whole`: a tool that is not there is gone,
        or another item of that `kind`; what is kept of the server's list of tools is then as before.

        Of several gateways that meet the same change, one is told of it.
        """

    async def servers(self) -> list[ServerSeen]:
        """Every identity that was met, the last met first."""

    async def servers_since(self, known: ServerMarks) -> tuple[ServerMarks, list[ServerSeen]]:
        """Those that were met anew or otherwise since these marks were read, the first first; and the marks of now."""

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


_MIB: Final = 1024 * 1024
# A server is met under a few names; whoever makes up more does not fill the store.
_NAMES: Final = 32
_SERVERS_ADVICE: Final = "`callgate tools servers` lists them; forget those that are no longer used."


def names_of(before: ServerSeen | None, server: ServerSeen) -> dict[str, int]:
    """The names that a server was met under, with the one of now; of very many, those met last."""
    known = {} if before is None else {before.name: before.last_seen, **before.names}
    found = {**known, server.name: max(server.last_seen, known.get(server.name, 0))}
    return dict(sorted(found.items(), key=lambda one: -one[1])[:_NAMES])


def compare(before: ToolSeen | None, now: ToolSeen) -> Change | None:
    """The difference between the newest text of a tool and the one that is met now."""
    if before is None:
        return Change(now.server_id, now.tool, "new", after=now.approval_hash)
    names = before.beside.keys() | now.beside.keys()
    members = tuple(sorted(name for name in names if before.beside.get(name) != now.beside.get(name)))
    # A definition that is unfit has no hash: whatever differs in it counts as its text.
    unfit = not before.approval_hash and not now.approval_hash
    if before.approval_hash != now.approval_hash or (unfit and before.raw != now.raw):
        what: Literal["text", "back", "beside"] = "text"
    elif before.gone:
        what = "back"
    elif members:
        what = "beside"
    else:
        return None
    # One that flaps is told of, whether in its text or beside it.
    count = before.changes + (what == "text" or (what == "beside" and not LOGGED.issuperset(members)))
    return Change(now.server_id, now.tool, what, before.approval_hash, now.approval_hash, members, count)


def vanish(before: ToolSeen) -> Change:
    """A tool that is no longer on the list."""
    return Change(before.server_id, before.tool, "gone", before=before.approval_hash, changes=before.changes)


def surplus(texts: Sequence[str], approved: Collection[str], most: int) -> list[str]:
    """Which of a tool's texts (hashes, the newest first) need not be kept: the oldest, but none that was decided on."""
    spare = max(0, len(texts) - max(1, most))
    return [text for text in reversed(texts[1:]) if text not in approved][:spare]


def check_wanted(wanted: ExpectedTool, newest: ToolSeen | None) -> None:
    """Refuse a decision on a text that is not, or no longer, the newest one."""
    if newest is None:
        raise Refused(Reason.TOOL_UNKNOWN, f"no tool {wanted.tool!r} was met at this server")
    if not wanted.approval_hash:
        return
    if newest.gone:
        raise Refused(Reason.TOOL_UNKNOWN, f"the server does not list {wanted.tool!r} any more")
    if newest.approval_hash != wanted.approval_hash:
        raise Refused(
            Reason.TOOL_CHANGED,
            f"{wanted.tool!r} has another text by now than the one that was reviewed",
            data={"met": newest.approval_hash, "reviewed": wanted.approval_hash},
        )
    if wanted.entry:
        met = entry_digest(newest.approval_hash, newest.beside)
        if met != wanted.entry:
            raise Refused(
                Reason.TOOL_CHANGED,
                f"what {wanted.tool!r} has beside its text is not what was reviewed",
                data={"met": met, "reviewed": wanted.entry},
            )


def check_link(before: ChainHead | None, rows: Sequence[Sealed], after: ChainHead) -> None:
    """Take only rows that follow the last one, and a head that is their end; no rows is a head sealed anew."""
    start = 1 if before is None else before.seq + 1
    last = rows[-1] if rows else before
    numbers = [row.seq for row in rows]
    if last is None or numbers != [*range(start, start + len(rows))] or (after.seq, after.mac) != (last.seq, last.mac):
        raise ValueError("these decisions do not follow the last one")


def too_many_tools(server: ServerSeen, bounds: PinBounds) -> Refused:
    return Refused(
        Reason.TOOLSET_TOO_LARGE, f"the server {server.name!r} has more than {bounds.tools:,} tools on record"
    )


def too_many_servers(bounds: PinBounds) -> Refused:
    return Refused(
        Reason.SERVER_LIMIT,
        f"{bounds.servers:,} server identities with decisions are on record already",
        advice=_SERVERS_ADVICE,
    )


def too_many_bytes(bounds: PinBounds) -> Refused:
    return Refused(
        Reason.SERVER_LIMIT,
        f"{bounds.total_bytes // _MIB:,} MiB of tools that nobody has decided on are on record already",
        advice="`callgate review` asks for decisions; `callgate tools servers` lists what can be forgotten.",
    )


class KeptServer(msgspec.Struct, frozen=True):
    """An identity on record. `size` has its texts that nobody decided on, in bytes.

    `fixed`: it is connected, or somebody decided on one of its tools, and it does not go.
    """

    key: bytes
    lineage: bytes
    name: str
    last_seen: int
    size: int
    fixed: bool = False


def make_room(
    met: KeptServer,
    others: Iterable[KeptServer],
    bounds: PinBounds,
    before: int | None,
    *,
    drop: Callable[[Sequence[bytes]], None],
    trim: Callable[[bytes | None, int], int],
) -> None:
    """Make room for an identity that was met just now; `before` is its size until then, None for a newcomer.

    `drop` removes whole identities; `trim` former texts and tools that are gone, the oldest first, of a lineage or of
    all, and says how many bytes that was. Neither touches what was decided on. Refused(SERVER_LIMIT) where what has to
    stay leaves no room.
    """
    left = {one.key: one for one in others}

    def forget(many: Sequence[KeptServer]) -> int:
        if many:
            drop([one.key for one in many])
        for one in many:
            del left[one.key]
        return _size(many)

    same = [one for one in _own(left.values(), met) if one.name == met.name]
    forget(same[: max(0, len(same) + 1 - bounds.versions)])
    over = _size(left.values()) + met.size - bounds.total_bytes
    of_lineage = _size(one for one in left.values() if one.lineage == met.lineage) + met.size
    need = max(of_lineage - bounds.lineage_bytes, over)
    if need > 0:
        freed = forget(_enough(_own(left.values(), met), need))
        if freed < need:
            freed += trim(met.lineage, need - freed)
        over -= freed
    if over > 0:
        over -= forget(_enough(_largest(left.values(), met), over))
    if over > 0:
        over -= trim(None, over)
    if over > 0 and met.size > (before or 0):
        raise too_many_bytes(bounds)
    spare = len(left) + 1 - bounds.servers
    if before is None and spare > 0:
        free = [*_own(left.values(), met), *_foreign(left.values(), met)]
        if len(free) < spare:
            raise too_many_servers(bounds)
        forget(free[:spare])


def _own(left: Iterable[KeptServer], met: KeptServer) -> list[KeptServer]:
    """Who of the lineage may go, the first first: the same server, then others that one program makes."""
    free = [one for one in left if not one.fixed and one.lineage == met.lineage]
    return sorted(free, key=lambda one: (one.name != met.name, one.last_seen, one.key))


def _foreign(left: Iterable[KeptServer], met: KeptServer) -> list[KeptServer]:
    free = [one for one in left if not one.fixed and one.lineage != met.lineage]
    return sorted(free, key=lambda one: (one.last_seen, one.key))


def _largest(left: Iterable[KeptServer], met: KeptServer) -> list[KeptServer]:
    """Who of other lineages may go: of whichever holds most first, and there the oldest."""
    every = list(left)
    held: dict[bytes, int] = {}
    for one in every:
        held[one.lineage] = held.get(one.lineage, 0) + one.size
    return sorted(_foreign(every, met), key=lambda one: -held[one.lineage])


def _enough(free: Iterable[KeptServer], need: int) -> list[KeptServer]:
    chosen = []
    for one in free:
        if need <= 0:
            break
        if one.size:
            chosen.append(one)
            need -= one.size
    return chosen


def _size(many: Iterable[KeptServer]) -> int:
    return sum(one.size for one in many)

"""What every shelf of pins goes by: which decisions it takes, and what of a tool is another than before."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal

from callgate.errors import Reason, Refused
from callgate.pinning.document import entry_digest
from callgate.pinning.model import Change, ServerSeen, ToolSeen
from callgate.pinning.storage import Bounds, Head, Sealed, Wanted

_MIB: Final = 1024 * 1024
# A server is met under a few names; whoever makes up more does not fill the store.
_NAMES: Final = 32
_SERVERS_ADVICE: Final = "`callgate tools servers` lists them; forget those that are no longer used."


class Reviewed(Wanted, frozen=True):
    """An approval holds only if the newest entry is the one that was reviewed, with everything beside its text."""

    entry: str


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
    count = before.changes + (what == "text")
    return Change(now.server_id, now.tool, what, before.approval_hash, now.approval_hash, members, count)


def vanish(before: ToolSeen) -> Change:
    """A tool that is no longer on the list."""
    return Change(before.server_id, before.tool, "gone", before=before.approval_hash, changes=before.changes)


def surplus(texts: Sequence[str], approved: Collection[str], most: int) -> list[str]:
    """Which of a tool's texts (hashes, the newest first) need not be kept: the oldest, but none that was decided on."""
    spare = max(0, len(texts) - max(1, most))
    return [text for text in reversed(texts[1:]) if text not in approved][:spare]


def check_wanted(wanted: Wanted, newest: ToolSeen | None) -> None:
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
    if isinstance(wanted, Reviewed):
        met = entry_digest(newest.approval_hash, newest.beside)
        if met != wanted.entry:
            raise Refused(
                Reason.TOOL_CHANGED,
                f"what {wanted.tool!r} has beside its text is not what was reviewed",
                data={"met": met, "reviewed": wanted.entry},
            )


def check_link(before: Head | None, rows: Sequence[Sealed], after: Head) -> None:
    """Take only rows that follow the last one, and a head that is their end; no rows is a head sealed anew."""
    start = 1 if before is None else before.seq + 1
    last = rows[-1] if rows else before
    numbers = [row.seq for row in rows]
    if last is None or numbers != [*range(start, start + len(rows))] or (after.seq, after.mac) != (last.seq, last.mac):
        raise ValueError("these decisions do not follow the last one")


def too_many_tools(server: ServerSeen, bounds: Bounds) -> Refused:
    return Refused(
        Reason.TOOLSET_TOO_LARGE, f"the server {server.name!r} has more than {bounds.tools:,} tools on record"
    )


def too_many_servers(bounds: Bounds) -> Refused:
    return Refused(
        Reason.SERVER_LIMIT,
        f"{bounds.servers:,} server identities with decisions are on record already",
        advice=_SERVERS_ADVICE,
    )


def too_many_bytes(bounds: Bounds) -> Refused:
    return Refused(
        Reason.SERVER_LIMIT,
        f"{bounds.total_bytes // _MIB:,} MiB of tools that nobody has decided on are on record already",
        advice="`callgate review` asks for decisions; `callgate tools servers` lists what can be forgotten.",
    )

"""Which of all servers that were ever met are there now, and which are on record for no good reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from callgate.pinning.book import Book
from callgate.pinning.combined import Present
from callgate.pinning.judging import judge
from callgate.pinning.known import Known
from callgate.pinning.looking import Looking
from callgate.pinning.model import Connected, Listed, Pin, ServerSeen, State, ToolSeen
from callgate.pinning.settings import Settings
from callgate.pinning.views import ServerStatus

_DAY: Final = 86_400_000
_WAITING: Final = (State.NEW, State.CHANGED, State.RETIRED)


def current(
    servers: Sequence[ServerSeen],
    connected: Iterable[Connected],
    configured: Mapping[str, str] | None,
    wanted: Collection[str],
    since: int,
) -> list[Present]:
    """The servers of a review, without their tools: connected, configured, or met since then, each as it was met last.

    Agents see together what is connected or configured. `wanted` identities are there in any case.
    """
    live: dict[str, dict[str, Connected]] = {}
    for held in connected:
        live.setdefault(held.name, {})[held.server_id] = held
    newest = _newest(servers)
    made: dict[str, Present] = {}
    for seen in servers:
        places = {name: live[name][seen.server_id] for name in live if seen.server_id in live[name]}
        # Two names may stand for one server: it is there under each that no other server has now.
        last = {name: at for name, (at, owner) in newest.items() if owner == seen.server_id and name not in live}
        kept = {name for name, at in last.items() if at >= since}
        named = {name for name in last if configured is not None and name in configured}
        joined = bool(places or named or (configured is None and kept))
        if joined or seen.server_id in wanted or kept:
            names = [*sorted(places), *sorted(named), *sorted(kept - named)]
            first = seen.name if seen.name in names or not names else names[0]
            place = places.get(first) or next(iter(places.values()), None)
            group = place.group if place is not None else (configured or {}).get(first, seen.group)
            also = {name: seen.names.get(name, seen.last_seen) for name in names}
            one = msgspec.structs.replace(seen, name=first, names=also)
            made[seen.server_id] = Present(
                one, group, (), connected=bool(places), joined=joined, earlier=frozenset(seen.called)
            )
    return list(made.values())


def _newest(servers: Iterable[ServerSeen]) -> dict[str, tuple[int, str]]:
    """For each name the server that was met under it last, and when."""
    found: dict[str, tuple[int, str]] = {}
    for seen in servers:
        for name, at in {**seen.names, seen.name: max(seen.last_seen, seen.names.get(seen.name, 0))}.items():
            if name not in found or at > found[name][0]:
                found[name] = at, seen.server_id
    return found


def statuses(
    book: Book,
    settings: Settings,
    *,
    servers: Sequence[ServerSeen],
    tools: Iterable[ToolSeen],
    connected: Sequence[Connected],
    configured: Mapping[str, str] | None,
    now: int,
    looking: Looking,
) -> list[ServerStatus]:
    """One for every identity that was met or has decisions, the last met first."""
    known = Known(book)
    by_server: dict[str, list[ToolSeen]] = {}
    for tool in tools:
        by_server.setdefault(tool.server_id, []).append(tool)
    met = {seen.server_id for seen in servers}
    every = [*servers, *(_recorded(pins[-1]) for server_id, pins in sorted(known.pins.items()) if server_id not in met)]
    since = now - settings.orphan_days * _DAY
    here = {one.seen.server_id for one in current(servers, connected, configured, (), since)}
    live = {place.server_id for place in connected}
    made = []
    for seen in (_named_now(seen, configured, since) for seen in every):
        one = Present(seen, seen.group, tuple(by_server.get(seen.server_id, ())))
        states = [
            judge(_listed(seen.server_id, tool, settings, looking), one.identity, book, settings).state
            for tool in one.tools
            if not tool.gone
        ]
        odd = [
            *_orphan(seen, seen.server_id in live, configured, now, settings.orphan_days),
            *_duplicate(seen, every, connected),
        ]
        made.append(
            ServerStatus(
                seen=seen,
                connected=seen.server_id in live,
                recheck_seconds=settings.recheck_seconds,
                approved=states.count(State.APPROVED),
                pending=sum(state in _WAITING for state in states) if seen.server_id in here else 0,
                blocked=states.count(State.BLOCKED),
                oddities=tuple(odd),
            )
        )
    return made


def _named_now(seen: ServerSeen, configured: Mapping[str, str] | None, since: int) -> ServerSeen:
    """Without names that nobody uses any more."""
    kept = {
        name: at
        for name, at in seen.names.items()
        if name == seen.name or (at >= since if configured is None else name in configured)
    }
    return msgspec.structs.replace(seen, names=kept)


def _listed(server_id: str, tool: ToolSeen, settings: Settings, looking: Looking) -> Listed:
    """A text that nobody decided on comes without its bytes; how it stands hangs on its hash alone."""
    if tool.raw or tool.problem:
        return looking.listed(server_id, tool, settings)
    return Listed(tool.tool, b"", {}, tool.approval_hash, tool.beside)


def _orphan(
    seen: ServerSeen, connected: bool, configured: Mapping[str, str] | None, now: int, days: int
) -> Iterable[str]:
    if connected:
        return
    if not seen.last_seen:
        yield "orphan: it has decisions, but nothing is on record of the server itself"
    elif now - seen.last_seen > days * _DAY:
        yield f"orphan: it was not met for {(now - seen.last_seen) // _DAY} days"
    elif configured is not None and not any(name in configured for name in seen.called):
        yield "orphan: no configured server has its name, and it is not connected"


def _duplicate(seen: ServerSeen, every: Iterable[ServerSeen], connected: Iterable[Connected]) -> Iterable[str]:
    # The same package under another name is another server of the same kind: one folder each, say.
    others = [
        one.server_id
        for one in every
        if one.lineage == seen.lineage and one.name == seen.name and one.server_id != seen.server_id
    ]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        yield f"duplicate: the same server is on record as {others[0]}{more}"
    names = sorted({place.name for place in connected if place.server_id == seen.server_id} - {seen.name})
    if names:
        yield f"duplicate: it is connected under the names {', '.join([seen.name, *names])}"


def _recorded(pin: Pin) -> ServerSeen:
    """A server of which only decisions are left."""
    kind: Literal["stdio", "http", "library"] = "stdio"
    if pin.server_id.startswith(("http://", "https://")):
        kind = "http"
    elif pin.server_id.startswith("library:"):
        kind = "library"
    return ServerSeen(server_id=pin.server_id, lineage=pin.lineage, name=pin.server, kind=kind)

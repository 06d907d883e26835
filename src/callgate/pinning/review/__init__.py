"""A review: every server that is there and every tool, with its state, its findings and what changed."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from callgate.caching import BoundedCache
from callgate.errors import Reason
from callgate.inspection import ToolFinding
from callgate.pinning.chain import DecisionChain, DecisionIndex
from callgate.pinning.document import approval_hash, entry_digest
from callgate.pinning.judging import Standing, judge
from callgate.pinning.model import (
    BLOCKED_BEFORE,
    Connected,
    ListedTool,
    Pin,
    PinningSettings,
    ServerSeen,
    State,
    ToolSeen,
    kind_of,
    run_of,
)
from callgate.pinning.review.differences import Effort, difference
from callgate.pinning.review.neighbours import InspectionCache
from callgate.pinning.review.sets import PresentServer, PresentServers
from callgate.pinning.review.views import (
    NO_LABELS,
    ArgumentView,
    Labelling,
    Review,
    ServerStatus,
    ServerView,
    TextDifference,
    ToolView,
)

_DAY: Final = 86_400_000
_WAITING: Final = (State.NEW, State.CHANGED, State.RETIRED)


def current(
    servers: Sequence[ServerSeen],
    connected: Iterable[Connected],
    configured: Mapping[str, str] | None,
    wanted: Collection[str],
    since: int,
) -> list[PresentServer]:
    """The servers of a review, without their tools: connected, configured, or met since then, each as it was met last.

    Agents see together what is connected or configured. `wanted` identities are there in any case.
    """
    live: dict[str, dict[str, Connected]] = {}
    for held in connected:
        live.setdefault(held.name, {})[held.server_id] = held
    newest = _newest(servers)
    made: dict[str, PresentServer] = {}
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
            made[seen.server_id] = PresentServer(
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
    book: DecisionChain,
    settings: PinningSettings,
    *,
    servers: Sequence[ServerSeen],
    tools: Iterable[ToolSeen],
    connected: Sequence[Connected],
    configured: Mapping[str, str] | None,
    now: int,
    looking: InspectionCache,
) -> list[ServerStatus]:
    """One for every identity that was met or has decisions, the last met first."""
    known = DecisionIndex(book)
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
        one = PresentServer(seen, seen.group, tuple(by_server.get(seen.server_id, ())))
        states = [
            judge(_listed(seen.server_id, tool, settings, looking), one.seen.identity, book, settings).state
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


def _listed(server_id: str, tool: ToolSeen, settings: PinningSettings, looking: InspectionCache) -> ListedTool:
    """A text that nobody decided on comes without its bytes; how it stands hangs on its hash alone."""
    if tool.raw or tool.problem:
        return looking.listed(server_id, tool, settings)
    return ListedTool(tool.tool, b"", {}, tool.approval_hash, tool.beside)


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


# After so many changes of its text a tool is told to keep still.
RESTLESS: Final = 3
_LEISURE: Final = 1_000
_SUMMARY: Final = 200
_SENTENCE: Final = re.compile(r"(.+?(?:[.!?。](?=\s|\Z)|\n|\Z))", re.DOTALL)
_REORDERED: Final = (
    "It has the words of the text that was decided on, in another order. A server that lists things in another order "
    "at each start is asked about each time: ask its author to sort them. Another order can say something else, so "
    "no approval is carried over."
)
_STEADY: Final = (
    "Its text changes again and again. State belongs in what a tool answers, not in its description: ask the server's "
    "author to move it into a tool such as list_resources or get_context, and to keep the description constant."
)


class Reviewer:
    """Makes views. What it has read, inspected or compared once it remembers by its hash."""

    def __init__(self, labelling: Labelling = NO_LABELS) -> None:
        self.looking = InspectionCache()
        self.labelling = labelling
        self._proposals: BoundedCache[tuple[str, bytes], tuple[str, str]] = BoundedCache(20_000)
        self._differences: BoundedCache[tuple[int, bytes, bool], TextDifference] = BoundedCache(20_000)

    def compare(self, pin: Pin, listed: ListedTool, effort: Effort, *, other: bool) -> TextDifference:
        key = (pin.seq, hashlib.sha256(listed.raw).digest(), other)
        made = self._differences.get(key)
        if made is None:
            made = difference(pin, listed, other_identity=other, effort=effort)
            if effort.left >= 0:
                self._differences.put(key, made)
        return made

    def propose(self, server_id: str, listed: ListedTool) -> tuple[str, str]:
        """The label that is proposed for a tool, and its line."""
        key = (server_id, hashlib.sha256(listed.raw).digest())
        return self._proposals.get_or_make(key, lambda: self.labelling.propose(server_id, listed.entry))


class ReviewSession:
    """One review under the decisions of one moment. Make it where nobody else reads the book meanwhile."""

    def __init__(
        self, reviewer: Reviewer, book: DecisionChain, settings: PinningSettings, present: Sequence[PresentServer]
    ) -> None:
        self._reviewer = reviewer
        self._looking = reviewer.looking
        self._book = book
        self._settings = settings
        self._effort = Effort()
        self.known = DecisionIndex(book)
        self.combined = PresentServers(reviewer.looking, book, settings, present)
        # Of a great many approved tools only what touches others is looked at again; each alone shows all of it.
        self._at_leisure = sum(len(one.tools) for one in present) <= _LEISURE

    def review(self) -> Review:
        """All of it. Takes its time where much is new: call it on a thread."""
        servers = [self.server(one) for one in self.combined.present.values()]
        # What a person should look at comes first, of all servers.
        servers.sort(key=lambda view: (not view.pending, view.concern, view.seen.name, view.seen.server_id))
        return Review(on_behalf_of=self._settings.on_behalf_of, servers=tuple(servers), sets=self.combined.sets())

    # ---- servers ----

    def server(self, one: PresentServer) -> ServerView:
        wanted = [tool for tool in one.tools if not tool.gone or self._book.pin(one.seen.server_id, tool.tool)]
        views = [self.tool(one, tool, whole=self._at_leisure) for tool in wanted]
        views.sort(key=lambda view: (not view.needs_review, view.state == State.GONE, view.concern, *_order(view)))
        return ServerView(
            seen=one.seen,
            connected=one.connected,
            tools=tuple(views),
            notices=tuple(self._notices(one, views)),
            started=tuple(started_with(one.seen)) if any(view.needs_review for view in views) else (),
            arguments=tuple(argument_views(one.seen, self._book)),
        )

    def _notices(self, one: PresentServer, views: Iterable[ToolView]) -> Iterable[str]:
        seen = one.seen
        yield from seen.warnings
        if seen.problem:
            yield f"None of its tools can be used: {seen.problem}."
        if not any(view.needs_review for view in views):
            return
        known = [self._book.latest_of(seen.lineage, view.tool) for view in views if view.unchanged]
        if any(pin is not None and run_of(pin.server_id) != run_of(seen.server_id) for pin in known):
            yield "It is started in another way than what was approved: other code may run, whatever its tools say."
        if former := self.known.former_identity(seen.lineage, seen.server_id, self._beside(one)):
            yield (
                f"A known server has a new identity. It was {former} and is {seen.server_id} now; "
                "no approval was carried over."
            )
        for other in self.known.namesakes(seen.name, seen.lineage):
            yield f"Another server had the name {seen.name} before: {other}. None of its approvals hold for this one."

    def _beside(self, one: PresentServer) -> set[str]:
        """Identities that are there now and never shared a configured name with this server: one program may start
        several servers. What had one of its names before is what it was before."""
        return {
            other.seen.server_id
            for other in self.combined.present.values()
            if other.joined and not other.every_name & one.every_name
        }

    # ---- tools ----

    def tool(self, one: PresentServer, tool: ToolSeen, *, whole: bool = True) -> ToolView:
        """One tool; `whole` with all findings even if it is one of many approved ones."""
        listed = self.combined.listed(one, tool)
        standing = self._standing(one, tool, listed)
        pin = self._book.pin(one.seen.server_id, tool.tool)
        compared = self._difference(one, listed, standing, pin)
        label, does = self.label(one, tool, listed)
        held_by = self.combined.held.get(one.seen.server_id, {}).get(tool.tool, "") if standing.open else ""
        return ToolView(
            server_id=one.seen.server_id,
            server=one.seen.name,
            also=one.seen.called[1:],
            tool=tool.tool,
            state=standing.state,
            approval_hash=listed.approval_hash,
            entry_digest=entry_digest(listed.approval_hash, listed.beside),
            summary=summary(listed.description),
            description=listed.description,
            input_schema=listed.input_schema,
            raw=listed.raw.decode("utf-8", "backslashreplace"),
            findings=self._findings(one, tool, standing, whole=whole),
            difference=compared,
            pin=pin,
            label=label,
            does=does,
            unchanged=self._is_unchanged(one, listed, standing),
            blocks=self.blocks(one, tool),
            hints=tuple(self._hints(one, tool, listed, pin)),
            problem=listed.problem,
            refusal=held_by or _refusal(standing),
            first_seen=tool.first_seen,
            last_seen=tool.last_seen,
            size=tool.size or len(tool.raw),
            tokens=self._looking.tokens(tool.raw),
        )

    def label(self, one: PresentServer, tool: ToolSeen, listed: ListedTool) -> tuple[str, str]:
        """What a tool does, and the line that tells it: as it was approved, also for another version of its server as
        long as its text is the same; else as it is proposed."""
        if listed.problem or kind_of(tool.tool) != "tool":
            return "", ""
        pin = self._book.pin(one.seen.server_id, tool.tool)
        if pin is not None and pin.action == "approve" and pin.approval_hash == listed.approval_hash and pin.label:
            return pin.label, self._reviewer.labelling.line(pin.label)
        former = self._book.latest_of(one.seen.lineage, tool.tool)
        if former is not None and former.label and _same_text(former, listed):
            return former.label, self._reviewer.labelling.line(former.label)
        return self._reviewer.propose(one.seen.server_id, listed)

    def _is_unchanged(self, one: PresentServer, listed: ListedTool, standing: Standing) -> bool:
        """Whether a tool that waits is, word for word, what is approved for another version of its server."""
        if standing.state not in (State.NEW, State.RETIRED) or listed.problem:
            return False
        former = self._book.latest_of(one.seen.lineage, listed.name)
        if former is None or former.server_id == one.seen.server_id or not self._holds(former):
            return False
        return _same_text(former, listed) and dict(former.beside) == dict(listed.beside)

    def _findings(
        self, one: PresentServer, tool: ToolSeen, standing: Standing, *, whole: bool
    ) -> tuple[ToolFinding, ...]:
        if whole or standing.state not in (State.APPROVED, State.GONE):
            return (*self.findings(one, tool), *self.combined.beyond(one, tool))
        crossing = self.combined.crossing(one.seen.server_id).get(tool.tool, ())
        return (*crossing, *self.combined.spoken_of(one, tool))

    def findings(self, one: PresentServer, tool: ToolSeen) -> tuple[ToolFinding, ...]:
        """What a reviewer should know of a tool: from the inspection, and from blocks under other identities."""
        return (*map(_blocked, self.blocks(one, tool)), *self.combined.findings(one, tool))

    def blocks(self, one: PresentServer, tool: ToolSeen) -> tuple[Pin, ...]:
        """The blocks of this tool under other identities of its server."""
        found = self.known.blocked(one.seen.lineage, tool.tool)
        return tuple(pin for pin in found if pin.server_id != one.seen.server_id)

    def _standing(self, one: PresentServer, tool: ToolSeen, listed: ListedTool) -> Standing:
        if tool.gone and not self._book.broken:
            return Standing(State.GONE, Reason.TOOL_UNKNOWN, "the server does not list this tool any more")
        return judge(listed, one.seen.identity, self._book, self._settings)

    def _difference(
        self, one: PresentServer, listed: ListedTool, standing: Standing, pin: Pin | None
    ) -> TextDifference | None:
        if listed.problem or standing.state in (State.GONE, State.UNFIT):
            return None
        if standing.state is State.APPROVED:
            if pin is None or dict(pin.beside) == dict(listed.beside):
                return None
            return self._reviewer.compare(pin, listed, self._effort, other=False)
        since = self._since(one, listed.name, standing)
        if since is None:
            return None
        other = since.server_id != one.seen.server_id
        return self._reviewer.compare(since, listed, self._effort, other=other)

    def _since(self, one: PresentServer, tool: str, standing: Standing) -> Pin | None:
        """The approval that a text is compared with: the last under this identity, else the last of its lineage."""
        latest = self._book.latest_of(one.seen.lineage, tool)
        if standing.state is State.RETIRED:
            return latest
        own = [pin for pin in self._book.history(one.seen.server_id, tool) if pin.action == "approve"]
        return own[-1] if own else latest

    def _hints(self, one: PresentServer, tool: ToolSeen, listed: ListedTool, pin: Pin | None) -> Iterable[str]:
        if tool.changes >= RESTLESS:
            yield _STEADY
        if pin is not None and pin.approval_hash != listed.approval_hash and _is_reordered(pin.raw, listed.raw):
            yield _REORDERED
        if pin is not None and pin.action == "block" and listed.approval_hash != pin.approval_hash:
            yield "Its text has changed since it was blocked; it stays blocked."
        if pin is None:
            former = self._book.latest_of(one.seen.lineage, tool.tool)
            if former is not None and former.server_id != one.seen.server_id and self._holds(former):
                yield f"It was approved for {former.server_id}, not yet for {one.seen.server_id}."
        if self._settings.strict_schemas and (why := self._looking.catch_all(listed)):
            yield f"It cannot be approved, because pinning.strict_schemas is on and its input schema is open: {why}."

    def _holds(self, former: Pin) -> bool:
        """Whether an approval is still the last word under its identity: nobody has blocked or withdrawn it since."""
        newest = self._book.pin(former.server_id, former.tool)
        return newest is not None and newest.action == "approve"


def _is_reordered(before: bytes | str, now: bytes) -> bool:
    one, other = (
        re.findall(r"\w+", str(text, "utf-8", "replace") if isinstance(text, bytes) else text) for text in (before, now)
    )
    return one != other and sorted(one) == sorted(other)


def _order(view: ToolView) -> tuple[bool, bool, str]:
    """What the server says of itself, then its tools, then its prompts."""
    return view.kind != "server", view.kind == "prompt", view.tool


# An interpreter and the file that it runs.
_INTERPRETED: Final = re.compile(r"[\w.+-]+ file:")


def started_with(seen: ServerSeen) -> Iterable[str]:
    """What an approval holds for beside the package or file, and what may vary."""
    bound = [f"`{part.shown}`" for part in seen.bound if not part.data and not part.marked]
    if bound:
        yield f"Approvals hold for it only as it is started now, with {', '.join(bound)}."
    if _INTERPRETED.match(seen.server_id):
        yield "The file that it runs is bound by its content. What that file loads from beside it is not."
    if data := [f"`{part.shown}`" for part in seen.bound if part.data or part.marked]:
        yield f"What may be another one, without a new review: {', '.join(data)}."


_FIXED: Final = {
    "launcher": "it is a program that starts the server",
    "option": "it stands before the package or file and can change which code runs",
    "variable": "it is a variable that can make it load other code",
    "project": "it is a file of the folder that it starts in and can say what runs",
}
_UNKNOWN: Final = "nobody has looked at it yet; start the server once more"


def argument_views(seen: ServerSeen, book: DecisionChain) -> list[ArgumentView]:
    """Everything that a command is bound to, as far as it is not data already, with what a reviewer can do about it."""
    bound = [part for part in seen.bound if not part.data]
    marks = book.varying(seen.lineage).get(tuple(part.digest for part in bound), {})
    return [
        ArgumentView(
            kind=part.kind,
            place=place,
            shown=part.shown,
            digest=part.digest,
            varies=part.varies,
            fixed="" if part.varies else _FIXED.get(part.kind) or part.fixed or _UNKNOWN,
            pin=marks.get(place),
        )
        for place, part in enumerate(bound)
    ]


def _same_text(pin: Pin, listed: ListedTool) -> bool:
    """Whether a text is the one of an approval, under whatever identity."""
    named = (pin.server_id, listed.name, listed.entry.get("description"), listed.entry.get("inputSchema"))
    return hmac.compare_digest(approval_hash(*named), pin.approval_hash)


def _blocked(pin: Pin) -> ToolFinding:
    """A block that was made of another version of the same server; approving the tool now overrules it."""
    why = f": {pin.note}" if pin.note else ""
    return ToolFinding(
        BLOCKED_BEFORE,
        "hard",
        "name",
        f"{pin.approved_by} blocked it under another identity of this server, {pin.server_id}{why}.",
        "Who blocks a tool means the tool, not one version of its server.",
    )


def _refusal(standing: Standing) -> str:
    return "" if standing.reason is None else standing.detail or standing.reason.meaning


def summary(text: str) -> str:
    """The first sentence."""
    match = _SENTENCE.match(text.strip())
    first = " ".join(match[1].split()) if match else ""
    return first if len(first) <= _SUMMARY else first[: _SUMMARY - 1] + "…"

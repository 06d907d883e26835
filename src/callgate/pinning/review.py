"""What is put before a reviewer: every tool of every server, how it stands, what was found, and what changed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from callgate.errors import Reason
from callgate.pinning.book import Book
from callgate.pinning.diffing import difference
from callgate.pinning.document import digest
from callgate.pinning.judging import Standing, judge
from callgate.pinning.known import Known
from callgate.pinning.looking import Looking, Surrounding
from callgate.pinning.model import Finding, Identity, Listed, Pin, ServerSeen, State, ToolSeen
from callgate.pinning.sets import Member, Together, by_group, held_in, open_pairs, set_version
from callgate.pinning.settings import Settings
from callgate.pinning.views import Difference, Review, ServerView, SetView, ToolView
from callgate.pinning.words import Effort

# After so many changes of its text a tool is told to keep still.
RESTLESS: Final = 3
_SUMMARY: Final = 200
_SENTENCE: Final = re.compile(r"(.+?(?:[.!?。](?=\s|\Z)|\n|\Z))", re.DOTALL)
_STEADY: Final = (
    "Its text changes again and again. State belongs in what a tool answers, not in its description: ask the server's "
    "author to move it into a tool such as list_resources or get_context, and to keep the description constant."
)


class Present(msgspec.Struct, frozen=True):
    """A server on the review, with the newest text of each of its tools. `joined`: agents see it with its group."""

    seen: ServerSeen
    group: str
    tools: tuple[ToolSeen, ...]
    connected: bool = False
    joined: bool = True

    @property
    def member(self) -> Member:
        return Member(self.seen.name, self.group, self.seen.server_id, self.seen.lineage)

    @property
    def identity(self) -> Identity:
        seen = self.seen
        return Identity(seen.server_id, seen.lineage, seen.kind, seen.chosen, seen.reported, seen.warnings)


class Reviewer:
    """Makes views. What it has read, inspected or compared once it remembers by its hash."""

    def __init__(self) -> None:
        self.looking = Looking()
        self._differences: dict[tuple[int, bytes, bool], Difference] = {}

    def compare(self, pin: Pin, listed: Listed, effort: Effort, *, other: bool) -> Difference:
        key = (pin.seq, hashlib.sha256(listed.raw).digest(), other)
        made = self._differences.get(key)
        if made is None:
            made = difference(pin, listed, other_identity=other, effort=effort)
            if effort.left >= 0:
                if len(self._differences) > 20_000:
                    self._differences.clear()
                self._differences[key] = made
        return made


class Sitting:
    """One review under the decisions of one moment. Make it where nobody else reads the book meanwhile."""

    def __init__(self, reviewer: Reviewer, book: Book, settings: Settings, present: Sequence[Present]) -> None:
        self._reviewer = reviewer
        self._book = book
        self._settings = settings
        self._present = present
        self.known = Known(book)
        self._together = Together(book)
        self._around = Surrounding(present, settings.growth_percent)
        self.groups = by_group(one.member for one in present if one.joined)
        self._effort = Effort()
        self._found: dict[str, dict[str, tuple[Finding, ...]]] = {}

    def review(self) -> Review:
        """All of it. Takes its time where much is new: call it on a thread."""
        servers = [self.server(one) for one in self._present]
        servers.sort(key=lambda view: (not view.pending, view.seen.name, view.seen.server_id))
        return Review(on_behalf_of=self._settings.on_behalf_of, servers=tuple(servers), sets=self.sets())

    # ---- sets ----

    @cached_property
    def held(self) -> dict[str, dict[str, str]]:
        """By server_id the tools that wait for a review of two servers together, each with a sentence."""
        made: dict[str, dict[str, str]] = {}
        for members in self.groups.values():
            if len(members) > 1 and self._settings.set_review != "never":
                found = {one.server_id: self._findings(one.server_id) for one in members}
                made |= held_in(members, found, self._book, self._together, self._settings)
        return made

    def version(self, members: Sequence[Member]) -> str:
        """Of a set, with the texts that its reviewer has in view."""
        wanted = {member.server_id for member in members}
        texts = {
            one.seen.server_id: digest([[tool.tool, tool.approval_hash] for tool in one.tools if not tool.gone])
            for one in self._present
            if one.seen.server_id in wanted
        }
        return set_version(members, texts)

    def sets(self) -> tuple[SetView, ...]:
        made = []
        for group, members in self.groups.items():
            waiting = open_pairs(members, self._together) if self._settings.set_review != "never" else []
            names = {frozenset((one.server_id, other.server_id)) for one, other in waiting}
            found = tuple(
                finding
                for member in members
                for findings in self._findings(member.server_id).values()
                for finding in findings
                if any(
                    frozenset((member.server_id, other.server_id)) in names
                    for other in members
                    if finding.server and finding.server in (other.name, other.server_id)
                )
            )
            made.append(
                SetView(
                    group=group,
                    version=self.version(members),
                    servers=tuple(member.name for member in members),
                    most=self._settings.servers,
                    reviewed=not waiting and not any(self.held.get(one.server_id) for one in members),
                    open_pairs=tuple((one.name, other.name) for one, other in waiting),
                    findings=found,
                )
            )
        return tuple(made)

    def _findings(self, server_id: str) -> Mapping[str, tuple[Finding, ...]]:
        made = self._found.get(server_id)
        if made is None:
            one = next(one for one in self._present if one.seen.server_id == server_id)
            made = {tool.tool: self.findings(one, tool) for tool in one.tools if not tool.gone}
            self._found[server_id] = made
        return made

    def findings(self, one: Present, tool: ToolSeen) -> tuple[Finding, ...]:
        listed = self._reviewer.looking.listed(one.seen.server_id, tool, self._settings)
        before = self._approved(one, tool.tool)
        return self._reviewer.looking.findings(listed, self._around.of(one), before)

    # ---- servers ----

    def server(self, one: Present) -> ServerView:
        wanted = [tool for tool in one.tools if not tool.gone or self._book.pin(one.seen.server_id, tool.tool)]
        views = [self.tool(one, tool) for tool in wanted]
        views.sort(key=lambda view: (not view.needs_review, view.state == State.GONE, view.tool))
        return ServerView(
            seen=one.seen, connected=one.connected, tools=tuple(views), notices=tuple(self._notices(one, views))
        )

    def _notices(self, one: Present, views: Iterable[ToolView]) -> Iterable[str]:
        seen = one.seen
        yield from seen.warnings
        if seen.problem:
            yield f"None of its tools can be used: {seen.problem}."
        if not any(view.needs_review for view in views):
            return
        if former := self.known.former_identity(seen.lineage, seen.server_id):
            yield (
                f"A known server has a new identity. It was {former} and is {seen.server_id} now; "
                "no approval was carried over."
            )
        for other in self.known.namesakes(seen.name, seen.lineage):
            yield f"Another server had the name {seen.name} before: {other}. None of its approvals hold for this one."

    # ---- tools ----

    def tool(self, one: Present, tool: ToolSeen) -> ToolView:
        looking = self._reviewer.looking
        listed = looking.listed(one.seen.server_id, tool, self._settings)
        standing = self._standing(one, tool, listed)
        pin = self._book.pin(one.seen.server_id, tool.tool)
        compared = self._difference(one, listed, standing, pin)
        held_by = self.held.get(one.seen.server_id, {}).get(tool.tool, "") if standing.open else ""
        return ToolView(
            server_id=one.seen.server_id,
            server=one.seen.name,
            tool=tool.tool,
            state=standing.state,
            approval_hash=listed.approval_hash,
            summary=summary(listed.description),
            description=listed.description,
            input_schema=listed.input_schema,
            raw=listed.raw.decode("utf-8", "backslashreplace"),
            findings=self._findings(one.seen.server_id).get(tool.tool) or self.findings(one, tool),
            difference=compared,
            pin=pin,
            hints=tuple(self._hints(one, tool, listed, pin)),
            problem=listed.problem,
            refusal=held_by or _refusal(standing),
            first_seen=tool.first_seen,
            last_seen=tool.last_seen,
            size=tool.size or len(tool.raw),
            tokens=looking.tokens(tool.raw),
        )

    def _standing(self, one: Present, tool: ToolSeen, listed: Listed) -> Standing:
        if tool.gone and not self._book.broken:
            return Standing(State.GONE, Reason.TOOL_UNKNOWN, "the server does not list this tool any more")
        return judge(listed, one.identity, self._book, self._settings)

    def _difference(self, one: Present, listed: Listed, standing: Standing, pin: Pin | None) -> Difference | None:
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

    def _since(self, one: Present, tool: str, standing: Standing) -> Pin | None:
        """The approval that a text is compared with: the last under this identity, else the last of its lineage."""
        latest = self._book.latest_of(one.seen.lineage, tool)
        if standing.state is State.RETIRED:
            return latest
        own = [pin for pin in self._book.history(one.seen.server_id, tool) if pin.action == "approve"]
        return own[-1] if own else latest

    def _approved(self, one: Present, tool: str) -> Pin | None:
        pin = self._book.pin(one.seen.server_id, tool)
        return pin if pin is not None and pin.action == "approve" else self._book.latest_of(one.seen.lineage, tool)

    def _hints(self, one: Present, tool: ToolSeen, listed: Listed, pin: Pin | None) -> Iterable[str]:
        if tool.changes >= RESTLESS:
            yield _STEADY
        if pin is not None and pin.action == "block" and listed.approval_hash != pin.approval_hash:
            yield "Its text has changed since it was blocked; it stays blocked."
        if pin is None:
            former = self._book.latest_of(one.seen.lineage, tool.tool)
            if former is not None and former.server_id != one.seen.server_id:
                yield f"It was approved for {former.server_id}, not yet for {one.seen.server_id}."
        for other in self.known.blocked(one.seen.lineage, tool.tool):
            if other.server_id != one.seen.server_id:
                why = f": {other.note}" if other.note else ""
                yield f"{other.approved_by} blocked it under another identity of this server, {other.server_id}{why}."
        if self._settings.strict_schemas and (why := self._reviewer.looking.catch_all(listed)):
            yield f"It cannot be approved, because pinning.strict_schemas is on and its input schema is open: {why}."


def _refusal(standing: Standing) -> str:
    return "" if standing.reason is None else standing.detail or standing.reason.meaning


def summary(text: str) -> str:
    """The first sentence."""
    match = _SENTENCE.match(text.strip())
    first = " ".join(match[1].split()) if match else ""
    return first if len(first) <= _SUMMARY else first[: _SUMMARY - 1] + "…"

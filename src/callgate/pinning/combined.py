"""All servers of a review side by side: what their tools say of each other, and what waits because of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from callgate.pinning.book import Book
from callgate.pinning.document import digest
from callgate.pinning.looking import Looking
from callgate.pinning.model import Finding, Identity, Listed, Pin, ServerSeen, ToolSeen
from callgate.pinning.sets import Member, Together, by_group, held_in, open_pairs, set_version
from callgate.pinning.settings import Settings
from callgate.pinning.views import SetView


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


class Combined:
    """The servers that are there, under the decisions of one moment."""

    def __init__(self, looking: Looking, book: Book, settings: Settings, present: Sequence[Present]) -> None:
        self._looking = looking
        self._book = book
        self._settings = settings
        self.present = {one.seen.server_id: one for one in present}
        self.groups = by_group(one.member for one in present if one.joined)
        self._together = Together(book)
        self._neighbours = {
            group: looking.neighbours([self.present[member.server_id] for member in members])
            for group, members in self.groups.items()
        }
        self._crossing: dict[str, dict[str, tuple[Finding, ...]]] = {}

    def listed(self, one: Present, tool: ToolSeen) -> Listed:
        return self._looking.listed(one.seen.server_id, tool, self._settings)

    def findings(self, one: Present, tool: ToolSeen) -> tuple[Finding, ...]:
        """Everything the inspection has to say of a tool among its neighbours."""
        return self._looked_at(one, tool, self.others(one, tool))

    def others(self, one: Present, tool: ToolSeen) -> Mapping[str, frozenset[str]]:
        """The tools of other servers that this one may touch."""
        neighbours = self._neighbours.get(one.group)
        return {} if neighbours is None else neighbours.of(one, self.listed(one, tool))

    def _looked_at(self, one: Present, tool: ToolSeen, others: Mapping[str, frozenset[str]]) -> tuple[Finding, ...]:
        before = self._before(one, tool.tool)
        return self._looking.findings(
            self.listed(one, tool), one.seen.name, others, before, self._settings.growth_percent
        )

    def _before(self, one: Present, tool: str) -> Pin | None:
        pin = self._book.pin(one.seen.server_id, tool)
        return pin if pin is not None and pin.action == "approve" else self._book.latest_of(one.seen.lineage, tool)

    def crossing(self, server_id: str) -> Mapping[str, tuple[Finding, ...]]:
        """For each tool of a server what was found between it and other servers: mostly nothing, and that is cheap."""
        made = self._crossing.get(server_id)
        if made is None:
            one = self.present[server_id]
            made = {}
            for tool in one.tools:
                if not tool.gone:
                    others = self.others(one, tool)
                    found = self._looked_at(one, tool, others) if others else ()
                    made[tool.tool] = tuple(finding for finding in found if finding.server)
            self._crossing[server_id] = made
        return made

    # ---- sets ----

    @cached_property
    def held(self) -> dict[str, dict[str, str]]:
        """By server_id the tools that wait for a review of two servers together, each with a sentence."""
        made: dict[str, dict[str, str]] = {}
        for members in self.groups.values():
            if len(members) > 1 and self._settings.set_review != "never":
                found = {one.server_id: self.crossing(one.server_id) for one in members}
                made |= held_in(members, found, self._book, self._together, self._settings)
        return made

    def version(self, group: str) -> str:
        """Of a set, with the texts that its reviewer has in view."""
        members = self.groups.get(group, [])
        texts = {
            member.server_id: digest(
                [[tool.tool, tool.approval_hash] for tool in self.present[member.server_id].tools if not tool.gone]
            )
            for member in members
        }
        return set_version(members, texts)

    def sets(self) -> tuple[SetView, ...]:
        made = []
        for group, members in self.groups.items():
            asked = self._settings.set_review != "never"
            waiting = open_pairs(members, self._together) if asked else []
            held = any(self.held.get(one.server_id) for one in members)
            made.append(
                SetView(
                    group=group,
                    version=self.version(group),
                    servers=tuple(dict.fromkeys(member.name for member in members)),
                    most=self._settings.servers,
                    reviewed=not waiting and not held,
                    open_pairs=tuple((one.name, other.name) for one, other in waiting),
                    findings=tuple(self._between(members)) if waiting or held else (),
                )
            )
        return tuple(made)

    def _between(self, members: Sequence[Member]) -> Iterator[Finding]:
        """What one server's tools say of another's, where the two wait for a review; each names who says it."""
        for member in members:
            for tool, findings in self.crossing(member.server_id).items():
                held = tool in self.held.get(member.server_id, {})
                for finding in findings:
                    if held or self._is_open(member, finding.server, members):
                        what = f"{tool} of {member.name}: {finding.what}"
                        yield msgspec.structs.replace(finding, what=what)

    def _is_open(self, member: Member, server: str, members: Sequence[Member]) -> bool:
        return any(
            not self._together.since(member.server_id, other.server_id)
            for other in members
            if server in (other.name, other.server_id) and other.lineage != member.lineage
        )

"""All servers of a review side by side: what their tools say of each other, and what waits because of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from callgate.inspection import ToolFinding
from callgate.pinning.book import Book
from callgate.pinning.document import digest
from callgate.pinning.looking import Looking
from callgate.pinning.model import Identity, Listed, Pin, ServerSeen, ToolSeen
from callgate.pinning.sets import Member, Together, Touch, by_group, held_in, open_pairs, set_version, touched
from callgate.pinning.settings import Settings
from callgate.pinning.spoken import as_approved, inbound
from callgate.pinning.views import SetView

# An inspection is sure to tell of so many tools of one server by one rule, and to look for so many names in all: of a
# text with more, it may have left some off.
_SURE_OF_A_SERVER: Final = 20
_SURE_IN_ALL: Final = 200
# So many who speak of one tool are named on its page; the others are counted.
_TOLD: Final = 20


class Present(msgspec.Struct, frozen=True):
    """A server on the review, with the newest text of each of its tools. `joined`: agents see it with its group."""

    seen: ServerSeen
    group: str
    tools: tuple[ToolSeen, ...]
    connected: bool = False
    joined: bool = True
    # Configured names that it was ever met under; some may stand for another server now.
    earlier: frozenset[str] = frozenset()

    @property
    def every_name(self) -> frozenset[str]:
        return self.earlier.union(self.seen.called)

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
        self._crossing: dict[str, dict[str, tuple[ToolFinding, ...]]] = {}
        self._touching: dict[str, dict[str, tuple[Touch, ...]]] = {}
        self._approved: dict[str, dict[str, Pin]] = {server_id: {} for server_id in self.present}
        for pin in book.pins():
            if pin.action == "approve" and pin.server_id in self._approved:
                self._approved[pin.server_id][pin.tool] = pin

    def listed(self, one: Present, tool: ToolSeen) -> Listed:
        return self._looking.listed(one.seen.server_id, tool, self._settings)

    def findings(self, one: Present, tool: ToolSeen) -> tuple[ToolFinding, ...]:
        """Everything the inspection has to say of a tool among its neighbours."""
        return self._looked_at(one, tool, self.others(one, tool))

    def others(self, one: Present, tool: ToolSeen) -> Mapping[str, frozenset[str]]:
        """The tools of other servers that this one may touch."""
        neighbours = self._neighbours.get(one.group)
        return {} if neighbours is None else neighbours.of(one, self.listed(one, tool))

    def _looked_at(self, one: Present, tool: ToolSeen, others: Mapping[str, frozenset[str]]) -> tuple[ToolFinding, ...]:
        before = self._before(one, tool.tool)
        return self._looking.findings(
            self.listed(one, tool), one.seen.name, others, before, self._settings.growth_percent
        )

    def _before(self, one: Present, tool: str) -> Pin | None:
        pin = self._book.pin(one.seen.server_id, tool)
        return pin if pin is not None and pin.action == "approve" else self._book.latest_of(one.seen.lineage, tool)

    # ---- between servers ----

    def crossing(self, server_id: str) -> Mapping[str, tuple[ToolFinding, ...]]:
        """For each tool of a server what was found between it and other servers: mostly nothing, and that is cheap."""
        made = self._crossing.get(server_id)
        if made is None:
            one = self.present[server_id]
            made = {
                name: tuple(self._told(one, listed, approved)) for name, (listed, approved) in self._texts(one).items()
            }
            self._crossing[server_id] = made
        return made

    def _texts(self, one: Present) -> dict[str, tuple[ToolSeen | None, ToolSeen | None]]:
        """The texts that count of each tool: the one that is listed, and the approved one where that is another.

        A server may go back to the latter at any moment, and nobody is asked again: who counts on it being away is
        late then.
        """
        made: dict[str, tuple[ToolSeen | None, ToolSeen | None]] = {
            tool.tool: (tool, None) for tool in one.tools if not tool.gone
        }
        for name, pin in self._approved[one.seen.server_id].items():
            listed, _ = made.get(name, (None, None))
            if pin.raw and (listed is None or listed.raw != pin.raw):
                hashed = pin.approval_hash
                made[name] = listed, ToolSeen(server_id=pin.server_id, tool=name, approval_hash=hashed, raw=pin.raw)
        return made

    def _told(self, one: Present, listed: ToolSeen | None, approved: ToolSeen | None) -> Iterator[ToolFinding]:
        found = () if listed is None else self._between_servers(one, listed, self.others(one, listed))
        yield from found
        if approved is not None:
            known = {(finding.rule, finding.server, finding.tool) for finding in found}
            for finding in self._between_servers(one, approved, self.others(one, approved)):
                if (finding.rule, finding.server, finding.tool) not in known:
                    yield as_approved(finding)

    def _between_servers(
        self, one: Present, tool: ToolSeen, others: Mapping[str, frozenset[str]]
    ) -> tuple[ToolFinding, ...]:
        found = self._looked_at(one, tool, others) if others else ()
        return tuple(finding for finding in found if finding.server)

    def touching(self, server_id: str) -> Mapping[str, tuple[Touch, ...]]:
        """The same for whoever works out what has to wait, each text by itself: nothing that it touches is left off."""
        made = self._touching.get(server_id)
        if made is None:
            one = self.present[server_id]
            made = {
                name: tuple(self._touch(one, text) for text in texts if text is not None)
                for name, texts in self._texts(one).items()
            }
            self._touching[server_id] = made
        return made

    def _touch(self, one: Present, tool: ToolSeen) -> Touch:
        others = self.others(one, tool)
        found = self._between_servers(one, tool, others)
        return Touch(self.listed(one, tool), found, _left_off(others, found))

    def beyond(self, one: Present, tool: ToolSeen) -> tuple[ToolFinding, ...]:
        """What a reviewer of a tool should know that is not in its listed text."""
        listed, approved = self._texts(one).get(tool.tool, (None, None))
        before = [finding for finding in self._told(one, listed, approved) if not finding.where]
        return (*before, *self.spoken_of(one, tool))

    def spoken_of(self, one: Present, tool: ToolSeen) -> tuple[ToolFinding, ...]:
        """Who speaks of a tool, among those that agents see with it."""
        told = self._spoken_of.get((one.seen.server_id, tool.tool))
        if not told:
            return ()
        # That two names are alike is told by its own findings, mostly.
        own = {(found.server, found.tool) for found in self.crossing(one.seen.server_id).get(tool.tool, ())}
        others = [
            (member, name, finding, text)
            for (member, name), (finding, text) in told.items()
            if finding.where != "name" or not own & {(member.name, name), (member.server_id, name)}
        ]
        made = [inbound(finding, member.name, name, text.entry) for member, name, finding, text in others[:_TOLD]]
        if len(others) > _TOLD:
            made[-1] = msgspec.structs.replace(
                made[-1], what=f"{made[-1].what} So do {len(others) - _TOLD:,} more tools."
            )
        return tuple(made)

    @cached_property
    def _spoken_of(self) -> dict[tuple[str, str], dict[tuple[Member, str], tuple[ToolFinding, Listed]]]:
        """By server_id and tool: for each tool that speaks of it, where."""
        made: dict[tuple[str, str], dict[tuple[Member, str], tuple[ToolFinding, Listed]]] = {}
        for members in self.groups.values():
            for member in members if len(members) > 1 else ():
                for name, touches in self.touching(member.server_id).items():
                    for finding, text in ((finding, touch.text) for touch in touches for finding in touch.findings):
                        for other in touched(member, finding.server, members):
                            told = made.setdefault((other.server_id, finding.tool), {})
                            # What it says tells more than that its name is alike.
                            if (member, name) not in told or told[member, name][0].where == "name":
                                told[member, name] = finding, text
        return made

    # ---- sets ----

    @cached_property
    def held(self) -> dict[str, dict[str, str]]:
        """By server_id the tools that wait for a review of two servers together, each with a sentence."""
        made: dict[str, dict[str, str]] = {}
        for members in self.groups.values():
            if len(members) > 1 and self._settings.set_review != "never":
                found = {one.server_id: self.touching(one.server_id) for one in members}
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

    def _between(self, members: Sequence[Member]) -> Iterator[ToolFinding]:
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


def _left_off(others: Mapping[str, frozenset[str]], found: Sequence[ToolFinding]) -> dict[str, frozenset[str]]:
    """The names that an inspection may have found without telling. Whoever names many is taken to name them all."""
    counts = Counter((finding.rule, finding.server) for finding in found)
    many = {server for (_, server), count in counts.items() if count >= _SURE_OF_A_SERVER}
    if sum(map(len, others.values())) > _SURE_IN_ALL:
        many = set(others)
    named: dict[str, set[str]] = {}
    for finding in found:
        named.setdefault(finding.server, set()).add(finding.tool)
    left = {server: others[server].difference(named.get(server, ())) for server in others if server in many}
    return {server: names for server, names in left.items() if names}

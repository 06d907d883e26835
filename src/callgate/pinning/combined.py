"""All servers of a review side by side: what their tools say of each other, and what waits because of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from callgate.pinning.book import Book
from callgate.pinning.document import digest
from callgate.pinning.looking import Looking
from callgate.pinning.model import Finding, Identity, Listed, Pin, ServerSeen, ToolSeen
from callgate.pinning.sets import Member, Together, by_group, held_in, open_pairs, set_version, touched
from callgate.pinning.settings import Settings
from callgate.pinning.spoken import as_approved, inbound
from callgate.pinning.views import SetView

# So often a text is looked at again for names that were left off behind others.
_ROUNDS: Final = 2
# So many who speak of one tool are named on its page; the others are counted.
_TOLD: Final = 20


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
        self._touching: dict[str, dict[str, tuple[tuple[Finding, Listed], ...]]] = {}
        self._approved: dict[str, dict[str, Pin]] = {server_id: {} for server_id in self.present}
        for pin in book.pins():
            if pin.action == "approve" and pin.server_id in self._approved:
                self._approved[pin.server_id][pin.tool] = pin

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

    # ---- between servers ----

    def crossing(self, server_id: str) -> Mapping[str, tuple[Finding, ...]]:
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

    def _told(self, one: Present, listed: ToolSeen | None, approved: ToolSeen | None) -> Iterator[Finding]:
        found = () if listed is None else self._between_servers(one, listed, self.others(one, listed))
        yield from found
        if approved is not None:
            known = {(finding.rule, finding.server, finding.tool) for finding in found}
            for finding in self._between_servers(one, approved, self.others(one, approved)):
                if (finding.rule, finding.server, finding.tool) not in known:
                    yield as_approved(finding)

    def _between_servers(
        self, one: Present, tool: ToolSeen, others: Mapping[str, frozenset[str]]
    ) -> tuple[Finding, ...]:
        found = self._looked_at(one, tool, others) if others else ()
        return tuple(finding for finding in found if finding.server)

    def touching(self, server_id: str) -> Mapping[str, tuple[tuple[Finding, Listed], ...]]:
        """The same with nothing left off, each with the text it is in, for whoever works out what has to wait."""
        made = self._touching.get(server_id)
        if made is None:
            one = self.present[server_id]
            made = {
                name: tuple(
                    (finding, self.listed(one, text))
                    for text in texts
                    if text is not None
                    for finding in self._every(one, text)
                )
                for name, texts in self._texts(one).items()
            }
            self._touching[server_id] = made
        return made

    def _every(self, one: Present, tool: ToolSeen) -> Iterator[Finding]:
        """An inspection tells a few findings of a kind: it is asked again for the tools that it has not named."""
        rest = self.others(one, tool)
        for _ in range(_ROUNDS):
            found = self._between_servers(one, tool, rest)
            yield from found
            rest = _without(rest, found)
            if not found or not rest:
                return
        # Whoever names that many is taken to name all that there may be.
        for server, tools in rest.items():
            for name in sorted(tools):
                yield msgspec.structs.replace(found[0], span=None, server=server, tool=name)

    def beyond(self, one: Present, tool: ToolSeen) -> tuple[Finding, ...]:
        """What a reviewer of a tool should know that is not in its listed text."""
        listed, approved = self._texts(one).get(tool.tool, (None, None))
        before = [finding for finding in self._told(one, listed, approved) if not finding.where]
        return (*before, *self.spoken_of(one, tool))

    def spoken_of(self, one: Present, tool: ToolSeen) -> tuple[Finding, ...]:
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
    def _spoken_of(self) -> dict[tuple[str, str], dict[tuple[Member, str], tuple[Finding, Listed]]]:
        """By server_id and tool: for each tool that speaks of it, where."""
        made: dict[tuple[str, str], dict[tuple[Member, str], tuple[Finding, Listed]]] = {}
        for members in self.groups.values():
            for member in members if len(members) > 1 else ():
                for name, found in self.touching(member.server_id).items():
                    for finding, text in found:
                        for other in touched(member, finding, members):
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
                found = {
                    one.server_id: {
                        tool: [finding for finding, _ in of] for tool, of in self.touching(one.server_id).items()
                    }
                    for one in members
                }
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


def _without(rest: Mapping[str, frozenset[str]], found: Sequence[Finding]) -> dict[str, frozenset[str]]:
    named = {(finding.server, finding.tool) for finding in found}
    left = {server: frozenset(name for name in tools if (server, name) not in named) for server, tools in rest.items()}
    return {server: tools for server, tools in left.items() if tools}

"""Servers that agents see together: which tools touch those of another server, and what has to wait for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, Final, TypeAlias

import msgspec

from callgate.inspection import ToolFinding
from callgate.pinning.chain import DecisionChain
from callgate.pinning.document import digest
from callgate.pinning.model import ListedTool, Pin, PinningSettings, ServerSeen, ToolSeen
from callgate.pinning.review.neighbours import InspectionCache
from callgate.pinning.review.views import SetView

SPOKEN_OF: Final = "shadowing.spoken-of"
_BEFORE: Final = 120
_AFTER: Final = 240
_NAME: Final = 128
# Told to whoever reviews, and no more: many servers have a tool "search".
_HOLDS_NOTHING: Final = frozenset({"mention.same-word"})


def inbound(finding: ToolFinding, server: str, tool: str, entry: Mapping[str, Any]) -> ToolFinding:
    """A finding in a tool of `server`, as the tool that it is about is told of it.

    Never hard: a server could keep everybody else's tools from being approved.
    """
    what = f"{_spelt(tool[:_NAME])} of the server {_spelt(server[:_NAME])} touches it ({finding.rule})"
    if finding.where != "name" and finding.span is not None:
        text = _said(entry, finding, finding.span)
        what += f", in its {_spelt(finding.where[:_NAME])}: “{_around(text, finding.span)}”"
    why = "What another server's text says can change how this tool is used; read that text before both are in use."
    return ToolFinding(SPOKEN_OF, "soft", "", f"{what}.", why, None, server, tool)


def as_approved(finding: ToolFinding) -> ToolFinding:
    """A finding in the approved text of a tool that is listed with another, or not at all: its place is not there."""
    what = f"As it was approved, and may be again at any time: {finding.what}"
    return msgspec.structs.replace(finding, tier="soft", where="", what=what, span=None)


def _around(text: str, span: tuple[int, int]) -> str:
    start, end = max(0, span[0] - _BEFORE), span[1] + _AFTER
    return f"{'…' if start else ''}{_spelt(text[start:end])}{'…' if end < len(text) else ''}"


def _spelt(text: str) -> str:
    """In a sentence of ours: what does not print is spelt out."""
    return "".join(char if char.isprintable() else " " if char in "\n\t" else f"\\u{{{ord(char):x}}}" for char in text)


def _said(entry: Mapping[str, Any], finding: ToolFinding, span: tuple[int, int]) -> str:
    """The text that a finding is in. A key and its value have one path: it is the one with the tool's name in it."""
    from callgate.inspection import InspectionContext, ToolDefinition
    from callgate.inspection.text import fold
    from callgate.inspection.tool_texts import ToolTexts

    texts = [
        one.raw for one in ToolTexts(ToolDefinition.of(entry), InspectionContext()).texts if one.where == finding.where
    ]
    name = fold(finding.tool).text
    return next((text for text in texts if fold(text[slice(*span)]).text == name), texts[0] if texts else "")


class CrossMention(msgspec.Struct, frozen=True):
    """What one text touches of other servers: what was found in it, and by server the names that may be in it too."""

    text: ListedTool
    findings: Sequence[ToolFinding]
    rest: Mapping[str, frozenset[str]]


# What the texts of each tool of each server touch: server_id, tool.
Found: TypeAlias = Mapping[str, Mapping[str, Sequence[CrossMention]]]


class SetMember(msgspec.Struct, frozen=True):
    """A server of a set."""

    name: str
    group: str
    server_id: str
    lineage: str


class JointReviews:
    """When two servers were last reviewed together, as the number of the decision that was made then."""

    def __init__(self, book: DecisionChain) -> None:
        self.version = book.version
        self._last: dict[frozenset[str], int] = {}
        self._confirmed: dict[frozenset[str], int] = {}
        reviews: dict[tuple[str, tuple[str, ...]], int] = {}
        for pin in _approvals(book):
            key = (pin.server_id if pin.tool else "", pin.together)
            reviews[key] = max(reviews.get(key, 0), pin.seq)
        for (server_id, together), seq in reviews.items():
            for pair in _pairs(server_id, together):
                self._last[pair] = max(self._last.get(pair, 0), seq)
                if not server_id:
                    self._confirmed[pair] = max(self._confirmed.get(pair, 0), seq)

    def since(self, one: str, other: str) -> int:
        """Zero if they never were."""
        return self._last.get(frozenset((one, other)), 0)

    def confirmed(self, one: str, other: str) -> int:
        """The same, for reviews of whole sets: they show all that is said between the servers."""
        return self._confirmed.get(frozenset((one, other)), 0)


def set_version(members: Iterable[SetMember], texts: Mapping[str, str]) -> str:
    """Digits that change when a server comes, goes or becomes another one, or a text of its tools does.

    `texts` has a digest of each server's tools. All digits: servers choose their texts, and must not find two sets of
    them that are confirmed by the same.
    """
    parts = sorted({(member.name, member.server_id) for member in members})
    return digest([[name, one, texts.get(one, "")] for name, one in parts]).removeprefix("sha256:")


def by_group(members: Iterable[SetMember]) -> dict[str, list[SetMember]]:
    """The sets, each in the order of names."""
    groups: dict[str, list[SetMember]] = {}
    for member in sorted(members, key=lambda one: (one.group, one.name, one.server_id)):
        groups.setdefault(member.group, []).append(member)
    return groups


def open_pairs(members: Sequence[SetMember], together: JointReviews) -> list[tuple[SetMember, SetMember]]:
    """Every two of a set that nobody has reviewed together, where they are two servers and not one in two versions."""
    return [
        (one, other)
        for one, other in combinations(members, 2)
        if one.lineage != other.lineage and not together.since(one.server_id, other.server_id)
    ]


def held_in(
    members: Sequence[SetMember], found: Found, book: DecisionChain, together: JointReviews, settings: PinningSettings
) -> dict[str, dict[str, str]]:
    """The tools of one set that wait for a review of two servers together, by server_id: for each tool a sentence."""
    waiting: dict[str, dict[str, str]] = {}
    if settings.set_review == "never" or len(members) < 2:
        return waiting
    if settings.set_review == "always":
        visible = {pin.server_id for pin in book.pins() if pin.action == "approve"}
        for one, other in open_pairs(members, together):
            # Agents see nothing of a server that nobody approved anything of: it takes nothing from others.
            if not {one.server_id, other.server_id} <= visible:
                continue
            for first, second in ((one, other), (other, one)):
                text = f"nobody has reviewed {first.name} together with {second.name}, which the same agent sees"
                tools = waiting.setdefault(first.server_id, {})
                for tool in found.get(first.server_id, {}):
                    tools.setdefault(tool, text)
    for member in members:
        for tool in found.get(member.server_id, {}):
            pin = book.pin(member.server_id, tool)
            if pin is None or pin.action != "approve":
                continue
            why = _why_it_waits(member, pin, members, found, book=book, together=together)
            if why:
                waiting.setdefault(member.server_id, {}).setdefault(tool, why)
    return waiting


def _why_it_waits(
    member: SetMember,
    pin: Pin,
    members: Sequence[SetMember],
    found: Found,
    *,
    book: DecisionChain,
    together: JointReviews,
) -> str:
    """Empty where somebody has seen an approved tool beside everything that it touches and that agents see too."""
    for touch in found[member.server_id][pin.tool]:
        for finding in touch.findings:
            for other in touched(member, finding.server, members):
                spoken = _approved(book, other, finding.tool)
                if spoken is None or finding.rule in _HOLDS_NOTHING:
                    continue
                there = found.get(other.server_id, {})
                if finding.where == "name" and _says_so_too(member, pin.tool, finding, there):
                    # Of two names that are alike, only the one that was approved later waits.
                    free = spoken.seq > pin.seq or _both_in_view(pin, other, None, together)
                else:
                    free = _both_in_view(pin, other, spoken, together)
                if not free:
                    return _sentence(member, other, f"touches {finding.tool or 'a tool'} there ({finding.rule})")
        if why := _why_the_rest_waits(member, pin, members, touch, book=book, together=together):
            return why
    return ""


def _why_the_rest_waits(
    member: SetMember,
    pin: Pin,
    members: Sequence[SetMember],
    touch: CrossMention,
    *,
    book: DecisionChain,
    together: JointReviews,
) -> str:
    """The same for names that may be in a text, and that its inspection did not tell of."""
    for server, names in touch.rest.items():
        for other in touched(member, server, members):
            for name in sorted(names):
                spoken = _approved(book, other, name)
                if spoken is not None and not _both_in_view(pin, other, spoken, together, told=False):
                    return _sentence(member, other, f"names so many tools that {name} there may be one of them")
    return ""


def _approved(book: DecisionChain, member: SetMember, tool: str) -> Pin | None:
    """The approval of a tool; None where agents do not see it."""
    pin = book.pin(member.server_id, tool)
    return pin if pin is not None and pin.action == "approve" else None


def _sentence(member: SetMember, other: SetMember, what: str) -> str:
    return f"nobody has reviewed {member.name} together with {other.name}, and its definition {what}"


def touched(member: SetMember, server: str, members: Iterable[SetMember]) -> Iterator[SetMember]:
    """The servers of that name that a tool of one of them may be about: two may have one name."""
    for other in members:
        if server in (other.name, other.server_id) and other.lineage != member.lineage:
            yield other


def _says_so_too(
    member: SetMember, tool: str, finding: ToolFinding, there: Mapping[str, Sequence[CrossMention]]
) -> bool:
    return any(
        (back.rule, back.where, back.tool) == (finding.rule, "name", tool)
        and back.server in (member.name, member.server_id)
        for touch in there.get(finding.tool, ())
        for back in touch.findings
    )


def _both_in_view(pin: Pin, other: SetMember, spoken: Pin | None, together: JointReviews, *, told: bool = True) -> bool:
    """Whether somebody has seen both a text and the tool that it speaks of, each as it was approved last.

    That is whoever reviewed the set since; or whoever made the later one of the two approvals with the other server in
    view, because the page of either tool tells what the one says of the other. The page of a third tool does not, nor
    does that of a tool that is not `told` of it.
    """
    last, seen = pin, other.server_id in pin.together
    if spoken is not None and spoken.seq > pin.seq:
        last, seen = spoken, told and pin.server_id in spoken.together
    return seen or together.confirmed(pin.server_id, other.server_id) > last.seq


def _approvals(book: DecisionChain) -> Iterator[Pin]:
    yield from book.sets()
    for newest in book.pins():
        for pin in book.history(newest.server_id, newest.tool):
            if pin.action == "approve" and len(pin.together) > 1:
                yield pin


def _pairs(server_id: str, together: Sequence[str]) -> Iterator[frozenset[str]]:
    """An approval was made for one server with the others beside it; a review of a set was made for all of them."""
    if not server_id:
        yield from map(frozenset, combinations(sorted(set(together)), 2))
    elif server_id in together:
        yield from (frozenset((server_id, other)) for other in together if other != server_id)


# An inspection is sure to tell of so many tools of one server by one rule, and to look for so many names in all: of a
# text with more, it may have left some off.
_SURE_OF_A_SERVER: Final = 20
_SURE_IN_ALL: Final = 200
# So many who speak of one tool are named on its page; the others are counted.
_TOLD: Final = 20


class PresentServer(msgspec.Struct, frozen=True):
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
    def member(self) -> SetMember:
        return SetMember(self.seen.name, self.group, self.seen.server_id, self.seen.lineage)


class PresentServers:
    """The servers that are there, under the decisions of one moment."""

    def __init__(
        self, looking: InspectionCache, book: DecisionChain, settings: PinningSettings, present: Sequence[PresentServer]
    ) -> None:
        self._looking = looking
        self._book = book
        self._settings = settings
        self.present = {one.seen.server_id: one for one in present}
        self.groups = by_group(one.member for one in present if one.joined)
        self._together = JointReviews(book)
        self._neighbours = {
            group: looking.neighbours([self.present[member.server_id] for member in members])
            for group, members in self.groups.items()
        }
        self._crossing: dict[str, dict[str, tuple[ToolFinding, ...]]] = {}
        self._touching: dict[str, dict[str, tuple[CrossMention, ...]]] = {}
        self._approved: dict[str, dict[str, Pin]] = {server_id: {} for server_id in self.present}
        for pin in book.pins():
            if pin.action == "approve" and pin.server_id in self._approved:
                self._approved[pin.server_id][pin.tool] = pin

    def listed(self, one: PresentServer, tool: ToolSeen) -> ListedTool:
        return self._looking.listed(one.seen.server_id, tool, self._settings)

    def findings(self, one: PresentServer, tool: ToolSeen) -> tuple[ToolFinding, ...]:
        """Everything the inspection has to say of a tool among its neighbours."""
        return self._looked_at(one, tool, self.others(one, tool))

    def others(self, one: PresentServer, tool: ToolSeen) -> Mapping[str, frozenset[str]]:
        """The tools of other servers that this one may touch."""
        neighbours = self._neighbours.get(one.group)
        return {} if neighbours is None else neighbours.of(one, self.listed(one, tool))

    def _looked_at(
        self, one: PresentServer, tool: ToolSeen, others: Mapping[str, frozenset[str]]
    ) -> tuple[ToolFinding, ...]:
        before = self._before(one, tool.tool)
        return self._looking.findings(
            self.listed(one, tool), one.seen.name, others, before, self._settings.growth_percent
        )

    def _before(self, one: PresentServer, tool: str) -> Pin | None:
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

    def _texts(self, one: PresentServer) -> dict[str, tuple[ToolSeen | None, ToolSeen | None]]:
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

    def _told(self, one: PresentServer, listed: ToolSeen | None, approved: ToolSeen | None) -> Iterator[ToolFinding]:
        found = () if listed is None else self._between_servers(one, listed, self.others(one, listed))
        yield from found
        if approved is not None:
            known = {(finding.rule, finding.server, finding.tool) for finding in found}
            for finding in self._between_servers(one, approved, self.others(one, approved)):
                if (finding.rule, finding.server, finding.tool) not in known:
                    yield as_approved(finding)

    def _between_servers(
        self, one: PresentServer, tool: ToolSeen, others: Mapping[str, frozenset[str]]
    ) -> tuple[ToolFinding, ...]:
        found = self._looked_at(one, tool, others) if others else ()
        return tuple(finding for finding in found if finding.server)

    def touching(self, server_id: str) -> Mapping[str, tuple[CrossMention, ...]]:
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

    def _touch(self, one: PresentServer, tool: ToolSeen) -> CrossMention:
        others = self.others(one, tool)
        found = self._between_servers(one, tool, others)
        return CrossMention(self.listed(one, tool), found, _left_off(others, found))

    def beyond(self, one: PresentServer, tool: ToolSeen) -> tuple[ToolFinding, ...]:
        """What a reviewer of a tool should know that is not in its listed text."""
        listed, approved = self._texts(one).get(tool.tool, (None, None))
        before = [finding for finding in self._told(one, listed, approved) if not finding.where]
        return (*before, *self.spoken_of(one, tool))

    def spoken_of(self, one: PresentServer, tool: ToolSeen) -> tuple[ToolFinding, ...]:
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
    def _spoken_of(self) -> dict[tuple[str, str], dict[tuple[SetMember, str], tuple[ToolFinding, ListedTool]]]:
        """By server_id and tool: for each tool that speaks of it, where."""
        made: dict[tuple[str, str], dict[tuple[SetMember, str], tuple[ToolFinding, ListedTool]]] = {}
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

    def _between(self, members: Sequence[SetMember]) -> Iterator[ToolFinding]:
        """What one server's tools say of another's, where the two wait for a review; each names who says it."""
        for member in members:
            for tool, findings in self.crossing(member.server_id).items():
                held = tool in self.held.get(member.server_id, {})
                for finding in findings:
                    if held or self._is_open(member, finding.server, members):
                        what = f"{tool} of {member.name}: {finding.what}"
                        yield msgspec.structs.replace(finding, what=what)

    def _is_open(self, member: SetMember, server: str, members: Sequence[SetMember]) -> bool:
        others = touched(member, server, members)
        return any(not self._together.since(member.server_id, other.server_id) for other in others)


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

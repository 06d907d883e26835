"""Servers that one agent sees together: which of them were reviewed together, and what waits until they are.

A text of one server can redirect the use of another's tools. So what counts is pairs: somebody has to have had the
tools of both before their eyes, and not before the text in question was approved, nor the tool that it speaks of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

import msgspec

from callgate.inspection import ToolFinding
from callgate.pinning.book import Book
from callgate.pinning.document import digest
from callgate.pinning.model import Listed, Pin
from callgate.pinning.settings import Settings


class Touch(msgspec.Struct, frozen=True):
    """What one text touches of other servers: what was found in it, and by server the names that may be in it too."""

    text: Listed
    findings: Sequence[ToolFinding]
    rest: Mapping[str, frozenset[str]]


# What the texts of each tool of each server touch: server_id, tool.
Found: TypeAlias = Mapping[str, Mapping[str, Sequence[Touch]]]


class Member(msgspec.Struct, frozen=True):
    """A server of a set."""

    name: str
    group: str
    server_id: str
    lineage: str


class Together:
    """When two servers were last reviewed together, as the number of the decision that was made then."""

    def __init__(self, book: Book) -> None:
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


def set_version(members: Iterable[Member], texts: Mapping[str, str]) -> str:
    """Digits that change when a server comes, goes or becomes another one, or a text of its tools does.

    `texts` has a digest of each server's tools. All digits: servers choose their texts, and must not find two sets of
    them that are confirmed by the same.
    """
    parts = sorted({(member.name, member.server_id) for member in members})
    return digest([[name, one, texts.get(one, "")] for name, one in parts]).removeprefix("sha256:")


def by_group(members: Iterable[Member]) -> dict[str, list[Member]]:
    """The sets, each in the order of names."""
    groups: dict[str, list[Member]] = {}
    for member in sorted(members, key=lambda one: (one.group, one.name, one.server_id)):
        groups.setdefault(member.group, []).append(member)
    return groups


def pairs(members: Sequence[Member]) -> Iterator[tuple[Member, Member]]:
    """Every two of a set that are two servers, and not one in two versions."""
    for one, other in combinations(members, 2):
        if one.lineage != other.lineage:
            yield one, other


def open_pairs(members: Sequence[Member], together: Together) -> list[tuple[Member, Member]]:
    """Those that nobody has reviewed together."""
    return [(one, other) for one, other in pairs(members) if not together.since(one.server_id, other.server_id)]


def held_in(
    members: Sequence[Member], found: Found, book: Book, together: Together, settings: Settings
) -> dict[str, dict[str, str]]:
    """The tools of one set that wait for a review of two servers together, by server_id: for each tool a sentence."""
    waiting: dict[str, dict[str, str]] = {}
    if settings.set_review == "never" or len(members) < 2:
        return waiting
    if settings.set_review == "always":
        for one, other in open_pairs(members, together):
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
    member: Member, pin: Pin, members: Sequence[Member], found: Found, *, book: Book, together: Together
) -> str:
    """Empty where somebody has seen an approved tool beside everything that it touches."""
    for touch in found[member.server_id][pin.tool]:
        for finding in touch.findings:
            for other in touched(member, finding.server, members):
                spoken = book.pin(other.server_id, finding.tool)
                # Of two names that are alike, only the one that was approved later waits.
                if finding.where == "name" and _says_so_too(member, pin.tool, finding, found.get(other.server_id, {})):
                    spoken = None
                if not _both_in_view(pin, other, spoken, together):
                    return _sentence(member, other, f"touches {finding.tool or 'a tool'} there ({finding.rule})")
        for server, names in touch.rest.items():
            for other in touched(member, server, members):
                for name in sorted(names):
                    if not _both_in_view(pin, other, book.pin(other.server_id, name), together, told=False):
                        return _sentence(member, other, f"names so many tools that {name} there may be one of them")
    return ""


def _sentence(member: Member, other: Member, what: str) -> str:
    return f"nobody has reviewed {member.name} together with {other.name}, and its definition {what}"


def touched(member: Member, server: str, members: Iterable[Member]) -> Iterator[Member]:
    """The servers of that name that a tool of one of them may be about: two may have one name."""
    for other in members:
        if server in (other.name, other.server_id) and other.lineage != member.lineage:
            yield other


def _says_so_too(member: Member, tool: str, finding: ToolFinding, there: Mapping[str, Sequence[Touch]]) -> bool:
    return any(
        (back.rule, back.where, back.tool) == (finding.rule, "name", tool)
        and back.server in (member.name, member.server_id)
        for touch in there.get(finding.tool, ())
        for back in touch.findings
    )


def _both_in_view(pin: Pin, other: Member, spoken: Pin | None, together: Together, *, told: bool = True) -> bool:
    """Whether somebody has seen both a text and the tool that it speaks of, each as it was approved last.

    That is whoever reviewed the set since; or whoever made the later one of the two approvals with the other server in
    view, because the page of either tool tells what the one says of the other. The page of a third tool does not, nor
    does that of a tool that is not `told` of it.
    """
    last, seen = pin, other.server_id in pin.together
    if spoken is not None and spoken.action == "approve" and spoken.seq > pin.seq:
        last, seen = spoken, told and pin.server_id in spoken.together
    return seen or together.confirmed(pin.server_id, other.server_id) > last.seq


def _approvals(book: Book) -> Iterator[Pin]:
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

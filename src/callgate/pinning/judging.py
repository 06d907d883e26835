"""How each tool of a list stands: held against the decisions in force, one by one. What is not known is refused."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from callgate.caching import BoundedCache
from callgate.errors import Reason, Refused
from callgate.pinning.chain import DecisionChain
from callgate.pinning.document import beside, digest, entry_digest, loosely
from callgate.pinning.listing import MEMBERS, ToolListing
from callgate.pinning.model import ListedTool, Pin, PinningSettings, ServerIdentity, State, run_of

_VERSION_DIGITS: Final = 16


class Standing(msgspec.Struct, frozen=True):
    """A tool's state, and why it may not be seen or called; `reason` is None for one that may."""

    state: State
    reason: Reason | None = None
    detail: str = ""
    approval_hash: str = ""
    # What the person who approved it said that it does; this room only keeps it.
    label: str = ""

    @property
    def open(self) -> bool:
        return self.reason is None


UNKNOWN: Final = Standing(State.GONE, Reason.TOOL_UNKNOWN)


def judge(tool: ListedTool, identity: ServerIdentity, book: DecisionChain, settings: PinningSettings) -> Standing:
    """The standing of one listed tool."""
    if book.broken:
        return Standing(State.UNFIT, Reason.PIN_TAMPERED)
    if tool.problem or not tool.approval_hash:
        return Standing(State.UNFIT, Reason.TOOL_UNFIT, f"nobody can approve this tool: {tool.problem or 'no hash'}")
    pin = book.pin(identity.server_id, tool.name)
    if pin is not None and pin.action == "block":
        note = f": {pin.note}" if pin.note else ""
        return Standing(State.BLOCKED, Reason.TOOL_BLOCKED, f"{pin.approved_by} has blocked this tool{note}")
    if pin is None or pin.action != "approve":
        return _new(tool, identity, book)
    if not hmac.compare_digest(pin.approval_hash.encode(), tool.approval_hash.encode()):
        return Standing(State.CHANGED, Reason.TOOL_CHANGED, approval_hash=pin.approval_hash)
    if dict(pin.beside) != dict(tool.beside):
        changed = changed_members(pin.beside, tool.beside)
        if settings.beside == "block" or _poisoned(tool, pin, changed):
            text = f"the tool's {named_members(changed)} changed since it was approved"
            return Standing(State.CHANGED, Reason.TOOL_CHANGED, text, pin.approval_hash)
    return _current(pin, identity, book, settings)


def named_members(members: Sequence[str]) -> str:
    """Members in a sentence, which may reach the model: names that the specification knows, no word of the server's."""
    known = [name for name in members if name in MEMBERS]
    return ", ".join([*known, *(["other members"] if len(known) < len(members) else [])])


def _poisoned(tool: ListedTool, pin: Pin, changed: Sequence[str]) -> bool:
    """Whether a change beside the approval brings what nobody could have approved without overruling a finding.

    An override is for a rule at a place: the same words elsewhere were overruled by nobody.
    """
    found = _hard(tool, [name for name in changed if name in tool.beside])
    return not found.issubset(pin.overruled or _overruled_by(pin))


# Rules and places of what was found in members, by the digest of these. Lists come again and again, and are judged
# where everybody else waits.
_found: Final[BoundedCache[str, frozenset[tuple[str, str] | None]]] = BoundedCache(4_096)
# Rules and places that decisions without places overruled, by what was decided on.
_overruled: Final[BoundedCache[tuple[str, tuple[str, ...]], frozenset[tuple[str, str]]]] = BoundedCache(4_096)


def _overruled_by(pin: Pin) -> frozenset[tuple[str, str]]:
    """The places of a decision of an earlier version, which names rules alone: where its own entry has them."""
    if not pin.overrides:
        return frozenset()
    key = (entry_digest(pin.approval_hash, pin.beside), pin.overrides)

    def make() -> frozenset[tuple[str, str]]:
        spots = _inspected(loosely(pin.raw))
        return frozenset(spot for spot in spots if spot is not None and spot[0] in pin.overrides)

    return _overruled.get_or_make(key, make)


def beside_of(raw: bytes | str) -> dict[str, str]:
    """A digest for each member beside the approval, of an entry's own bytes; none of an entry that is unfit."""
    try:
        return beside(loosely(raw))
    except (Refused, RecursionError):
        return {}


def _hard(tool: ListedTool, members: Sequence[str]) -> frozenset[tuple[str, str] | None]:
    """The hard findings in some members of a tool, and None for any that no override can name."""
    key = digest([[name, tool.beside[name]] for name in members])
    return _found.get_or_make(key, lambda: frozenset(_inspected({name: tool.entry[name] for name in members})))


def _inspected(members: Mapping[str, Any]) -> Iterator[tuple[str, str] | None]:
    from callgate.inspection import ToolDefinition, inspect
    from callgate.inspection.engine import MOST_OF_A_RULE

    found = [finding for finding in inspect(ToolDefinition.of(members)) if finding.tier == "hard"]
    yield from (finding.spot for finding in found)
    # Of one rule the inspection tells so many and no more: behind those that were overruled there may be others.
    if any(count >= MOST_OF_A_RULE for count in Counter(finding.rule for finding in found).values()):
        yield None


def _new(tool: ListedTool, identity: ServerIdentity, book: DecisionChain) -> Standing:
    former = book.latest_of(identity.lineage, tool.name)
    if former is None or former.server_id == identity.server_id:
        return Standing(State.NEW, Reason.TOOL_NOT_APPROVED)
    text = "the server is another one, or another version, than the one this tool was approved for"
    return Standing(State.NEW, Reason.TOOL_NOT_APPROVED, text)


def _current(pin: Pin, identity: ServerIdentity, book: DecisionChain, settings: PinningSettings) -> Standing:
    """An approval holds until a later one was given to another version, where the version is the server's own word.

    Two servers that one program makes, under two names, are no versions of each other.
    """
    if settings.rollback == "ask" and not identity.chosen:
        latest = book.latest_of(identity.lineage, pin.tool, pin.server, run_of(identity.server_id))
        if latest is not None and latest.server_id != identity.server_id:
            text = "another version of this server was approved since; this one has to be approved again"
            return Standing(State.RETIRED, Reason.TOOL_CHANGED, text, pin.approval_hash)
    return Standing(State.APPROVED, approval_hash=pin.approval_hash, label=pin.label)


def changed_members(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Which members beside the approval differ."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


class Toolset:
    """A list as it stands under the decisions of one moment: what may be seen, what may be called, and its version.

    `held` has tools that wait for a review of their server together with another.
    """

    def __init__(
        self,
        identity: ServerIdentity,
        listing: ToolListing,
        book: DecisionChain,
        settings: PinningSettings,
        held: Mapping[str, str] | None = None,
        *,
        stamp: object = None,
    ) -> None:
        self.identity = identity
        self.listing = listing
        # What it was made from, for whoever keeps it.
        self.stamp = stamp
        self._held = held or {}
        self.standings = {name: judge(tool, identity, book, settings) for name, tool in listing.tools.items()}
        self._facts: dict[str, dict[str, Any]] = {}

    def standing(self, name: str) -> Standing:
        """How a tool stands; one that is on no list is unknown."""
        if self.listing.problem:
            return Standing(State.UNFIT, Reason.TOOLSET_TOO_LARGE, self.listing.problem)
        found = self.standings.get(name, UNKNOWN)
        held = self._held.get(name)
        if held is not None and found.open:
            return Standing(found.state, Reason.SET_NOT_REVIEWED, held, found.approval_hash)
        return found

    @cached_property
    def open(self) -> frozenset[str]:
        """What may be seen and called."""
        return frozenset(name for name in self.standings if self.standing(name).open)

    @cached_property
    def version(self) -> str:
        """Digits that change with anything that may be called: the tools and the hashes they were approved under."""
        names = sorted(self.open)
        document = [self.identity.server_id, [[name, self.standings[name].approval_hash] for name in names]]
        return digest(document)[7 : 7 + _VERSION_DIGITS]

    @cached_property
    def pending(self) -> tuple[str, ...]:
        """What waits for a reviewer."""
        waiting = (State.NEW, State.CHANGED, State.RETIRED)
        return tuple(
            sorted(
                name
                for name, found in self.standings.items()
                if found.state in waiting or (found.open and name in self._held)
            )
        )

    @property
    def waits(self) -> bool:
        """Whether there is something to say to a person: a tool that waits, or a list of which nothing can be used."""
        return bool(self.pending or self.listing.problem)

    def facts(self, name: str) -> dict[str, Any]:
        """What the record of a call says of its tool."""
        made = self._facts.get(name)
        if made is None:
            listed = self.listing.tools.get(name)
            standing = self.standing(name)
            pin: dict[str, Any] = {
                "server_id": self.identity.server_id,
                "approval_hash": standing.approval_hash or None,
                "state": standing.state.value,
                "toolset": self.version,
            }
            if listed is not None and listed.approval_hash != standing.approval_hash:
                pin["listed_hash"] = listed.approval_hash or None
            made = {"pin": pin}
            if listed is not None:
                self._facts[name] = made
        return made

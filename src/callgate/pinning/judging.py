"""What the decisions say of a list of tools, and what is unusual about the arguments of a call."""

from __future__ import annotations

import hmac
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from callgate.caching import BoundedCache
from callgate.errors import Reason, Refused
from callgate.pinning.chain import DecisionChain
from callgate.pinning.document import beside, digest, entry_digest, loosely
from callgate.pinning.listing import MEMBERS, ToolListing
from callgate.pinning.model import (
    LOGGED,
    ItemKind,
    ListedTool,
    Pin,
    PinningSettings,
    ServerIdentity,
    State,
    kind_of,
    run_of,
)

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
_NO_PROMPT: Final = Standing(State.GONE, Reason.TOOL_UNKNOWN, "the server lists no prompt of that name")
# What an item is called in a sentence.
_NOUNS: Final[Mapping[ItemKind, str]] = {"tool": "tool", "prompt": "prompt", "server": "text"}


def judge(tool: ListedTool, identity: ServerIdentity, book: DecisionChain, settings: PinningSettings) -> Standing:
    """The standing of one listed tool, or of another item."""
    noun = _NOUNS[kind_of(tool.name)]
    if book.broken:
        return Standing(State.UNFIT, Reason.PIN_TAMPERED)
    if tool.problem or not tool.approval_hash:
        return Standing(State.UNFIT, Reason.TOOL_UNFIT, f"nobody can approve this {noun}: {tool.problem or 'no hash'}")
    pin = book.pin(identity.server_id, tool.name)
    if pin is not None and pin.action == "block":
        note = f": {pin.note}" if pin.note else ""
        return Standing(State.BLOCKED, Reason.TOOL_BLOCKED, f"{pin.approved_by} has blocked this {noun}{note}")
    if pin is None or pin.action != "approve":
        return _new(tool, identity, book)
    if not hmac.compare_digest(pin.approval_hash.encode(), tool.approval_hash.encode()):
        detail = "" if noun == "tool" else f"the {noun} is not the one that was approved"
        return Standing(State.CHANGED, Reason.TOOL_CHANGED, detail, pin.approval_hash)
    if dict(pin.beside) != dict(tool.beside):
        changed = changed_members(pin.beside, tool.beside)
        if needs_review(changed, settings) or _poisoned(tool, pin, changed):
            text = f"the {noun}'s {named_members(changed)} changed since it was approved"
            return Standing(State.CHANGED, Reason.TOOL_CHANGED, text, pin.approval_hash)
    return _current(pin, identity, book, settings)


def needs_review(changed: Sequence[str], settings: PinningSettings) -> bool:
    """Whether a change of these members, which are not part of the hash, asks for a new approval."""
    if settings.beside == "review":
        return not LOGGED.issuperset(changed)
    return settings.beside == "block" and bool(changed)


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
        kind = kind_of(tool.name)
        detail = "" if kind == "tool" else f"nobody has approved this {_NOUNS[kind]} yet"
        return Standing(State.NEW, Reason.TOOL_NOT_APPROVED, detail)
    noun = _NOUNS[kind_of(tool.name)]
    text = f"the server is another one, or another version, than the one this {noun} was approved for"
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
        found = self.standings.get(name) or (_NO_PROMPT if kind_of(name) == "prompt" else UNKNOWN)
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


# Looked at: the beginning and the end of what may be megabytes.
_WINDOW: Final = 65_536
# Arguments larger than this are worth a word, whatever is usual.
_LARGE: Final = 65_536

# How often one mark is followed up: nobody makes this slow by repeating it.
_TRIES: Final = 64
_MOST: Final = 8


class _Shape(NamedTuple):
    """What it is, how it begins, and what follows from there; looked for by its beginning, which is rare and quick."""

    what: str
    marks: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


def _shape(what: str, marks: str, pattern: bytes) -> _Shape:
    return _Shape(f"looks like {what}", tuple(mark.encode() for mark in marks.split("|")), re.compile(pattern))


_SHAPES: Final = (
    _shape("an AWS access key", "AKIA|ASIA|AGPA|AIDA|AROA", rb"[A-Z]{4}[A-Z0-9]{16}(?![A-Z0-9])"),
    _shape("a GitHub token", "ghp_|gho_|ghu_|ghs_|ghr_", rb"gh[pousr]_[A-Za-z0-9]{36}"),
    _shape("a GitHub token", "github_pat_", rb"github_pat_[A-Za-z0-9_]{50}"),
    _shape("a GitLab token", "glpat-", rb"glpat-[A-Za-z0-9_-]{20}"),
    _shape("a Slack token", "xox", rb"xox[abeoprs]-[A-Za-z0-9-]{16}"),
    _shape("a Slack token", "hooks.slack.com/", rb"hooks\.slack\.com/services/T[A-Z0-9/]{16}"),
    _shape("a Google key", "AIza|ya29.", rb"AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{30}"),
    _shape("a Stripe key", "k_live_|k_test_", rb"(?<=[rs])k_(?:live|test)_[A-Za-z0-9]{16}"),
    _shape(
        "an API key of a model provider",
        "sk-",
        rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))sk-(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{32}",
    ),
    _shape("a package registry's token", "npm_|pypi-", rb"npm_[A-Za-z0-9]{36}|pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{20}"),
    _shape("a Hugging Face token", "hf_", rb"hf_[A-Za-z0-9]{30}"),
    _shape(
        "a JSON Web Token",
        "eyJ",
        rb"eyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{8}",
    ),
    _shape("a private key", "-----BEGIN ", rb"-----BEGIN (?:[A-Z]{2,10} ){0,3}PRIVATE KEY-----"),
)
# `api_key=`, `"token": "`, `password: `: a value of some length after a secret's name; looked for in small letters.
_NAMES: Final = (
    *(b"api_key", b"apikey", b"api-key", b"access_key", b"accesskey", b"access-key", b"private_key", b"secret"),
    *(b"token", b"passwd", b"password", b"passphrase", b"credential", b"authorization", b"bearer"),
)
# Every shape has so many of these letters in a row, or is a private key's head; most arguments have neither.
_SHORT: Final = 400
# The shortest object that holds one has an access key for a name.
_LEAST: Final = len('{"AKIA0123456789ABCDEF":1}')
_LETTERS: Final = bytes(bool(re.match(rb"[A-Za-z0-9+/_.=~-]", bytes([byte]))) for byte in range(256))
_RUN: Final = b"\1" * 16
_HEAD: Final = b"-----BEGIN "
_VALUE: Final = re.compile(
    rb"[A-Za-z0-9_-]{0,40}\\?[\"']?\s{0,3}[:= ]\s{0,3}(?:\\?[\"']){0,2}(?:[Bb]earer\s)?([A-Za-z0-9+/_.=~-]{16,512})"
)
_UNDER_ITS_NAME: Final = "looks like a secret under its name"


def odd(canonical: bytes, usual: int | None = None) -> tuple[str, ...]:
    """What is unusual about a call's arguments, in words: kinds of secrets, and size.

    `usual` is how many bytes they mostly have, where that is known.
    """
    size = len(canonical)
    if size < _LEAST:
        return ()
    # `find`, because `in` asks first whether the bytes are a number: this is done for every call.
    if size <= _SHORT and canonical.translate(_LETTERS).find(_RUN) < 0 and canonical.find(_HEAD) < 0:
        return ()
    found: dict[str, None] = {}
    for window in _windows(canonical):
        for shape in _SHAPES:
            for mark in shape.marks:
                if mark in window and any(shape.pattern.match(window, at) for at in _places(window, mark)):
                    found[shape.what] = None
        small = window.lower()
        for name in _NAMES:
            if name in small and any(_is_secret(window, at) for at in _places(small, name)):
                found[_UNDER_ITS_NAME] = None
                break
    if len(canonical) > (_LARGE if usual is None else max(4_096, 10 * usual)):
        found[f"is unusually large: {len(canonical)} bytes"] = None
    return tuple(found)[:_MOST]


def _places(window: bytes, mark: bytes) -> Iterator[int]:
    at = window.find(mark)
    for _ in range(_TRIES):
        if at < 0:
            return
        yield at
        at = window.find(mark, at + 1)


def _is_secret(window: bytes, at: int) -> bool:
    match = _VALUE.match(window, at)
    return match is not None and _is_random(match[1])


def _windows(data: bytes) -> tuple[bytes, ...]:
    if len(data) <= 2 * _WINDOW:
        return (data,)
    return data[:_WINDOW], data[-_WINDOW:]


def _is_random(value: bytes) -> bool:
    """Letters and digits mixed as no word or path is: most of them different, and of several kinds."""
    text = value.decode("ascii", "replace")
    kinds = (any(c.isdigit() for c in text), any(c.islower() for c in text), any(c.isupper() for c in text))
    if sum(kinds) < 2 or not kinds[0]:
        return False
    return len(set(text)) >= min(12, len(text) * 6 // 10)

"""What trust speaks of: labels of tools and of data, an agent's session, and what a call's arguments are made of.

The words are those of the trust annotations: possible values are sets, and a set that nobody gave is
unknown, which counts as the most restrictive there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

# From the most harmless to the most far-reaching.
DESTINATIONS: Final = ("ephemeral", "system", "user", "internal", "public")
OUTCOMES: Final = ("benign", "consequential", "irreversible")
# From the most to the least trusted.
SOURCES: Final = ("system", "user", "internal", "trustedPublic", "untrustedPublic")
UNTRUSTED: Final = "untrustedPublic"
# From the least to the most sensitive; a regulated class is written `regulated:SCOPE`, an organisation's own as its
# reverse-DNS name, and what nobody knows stands above all.
CLASSES: Final = ("none", "user", "pii", "financial", "regulated", "credentials", "unknown")

# `_meta` members of ours.
PROMPT_META: Final = "dev.callgate/prompt"
CONSENT_META: Final = "dev.callgate/consent"
WARNING_META: Final = "dev.callgate/warning"
# SEP: request and result labels; GitHub's form of the same.
ANNOTATIONS_META: Final = "annotations"
IFC_META: Final = "ifc"

Origin: TypeAlias = Literal["operator", "review", "server", "hints", "default"]


class LabelProblem(msgspec.Struct, frozen=True):
    """Something in annotations that cannot be read: where, and what is wrong with it."""

    path: str
    text: str


class InputMetadata(msgspec.Struct, frozen=True):
    """What a tool may do with its input; each a set of possible values, never empty."""

    destination: frozenset[str]
    sensitivity: frozenset[str]
    outcomes: frozenset[str]


class ReturnMetadata(msgspec.Struct, frozen=True):
    """Where a tool's output may come from, and how sensitive it may be."""

    source: frozenset[str]
    sensitivity: frozenset[str]


class Annotations(msgspec.Struct, frozen=True):
    """`ToolAnnotations` as read from a peer or from the operator; None where nothing is said.

    `critical` names the arguments that decide who or what is affected, `fields` the origin of single fields of a
    result. Both are ours (`dev.callgate/criticalArgs`, `dev.callgate/fields`; `x-criticalArgs` is read too).
    """

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    malicious: bool | None = None
    attribution: tuple[str, ...] = ()
    input: InputMetadata | None = None
    returns: ReturnMetadata | None = None
    critical: tuple[str, ...] | None = None
    fields: Mapping[str, str] = {}
    problems: tuple[LabelProblem, ...] = ()


class ToolLabel(msgspec.Struct, frozen=True):
    """What holds for a call of a tool: operator, server and defaults together, narrowed by its arguments.

    Sets are possible values. `unknown` names what nobody said: `destination`, `outcomes`, `source`, `sensitivity`,
    `accepts`. `origins` tells who said what of the rest.
    """

    server: str
    tool: str
    destinations: frozenset[str]
    outcomes: frozenset[str]
    accepts: frozenset[str]
    sources: frozenset[str]
    returns: frozenset[str]
    read_only: bool = False
    destructive: bool = True
    open_world: bool = True
    malicious: bool = False
    critical: tuple[str, ...] = ()
    # Approved by somebody who was shown what it does, or that nothing tells it.
    reviewed: bool = False
    # False where `critical` was guessed from the schema.
    critical_declared: bool = False
    # Path in a result (`items[].body`, `**.id`) to the source of what is there.
    fields: Mapping[str, str] = {}
    # Path of an argument to the values that its approved schema has for it: those are nobody's text.
    fixed: Mapping[str, frozenset[str]] = {}
    # Arguments that make it graver, what it does with them, and what it does without any of them.
    spared: tuple[frozenset[str], tuple[str, ...], tuple[str, ...]] | None = None
    attribution: tuple[str, ...] = ()
    unknown: frozenset[str] = frozenset()
    origins: Mapping[str, Origin] = {}

    @property
    def destination(self) -> str:
        """The farthest place that input may reach."""
        return max(self.destinations, key=_destination_rank, default="public")

    @property
    def outcome(self) -> str:
        """The gravest outcome; unknown counts as consequential, and `may_be_irreversible` says the rest."""
        if "outcomes" in self.unknown:
            return "consequential"
        if len(self.outcomes) == 1:
            return next(iter(self.outcomes))
        return max(self.outcomes, key=_outcome_rank, default="consequential")

    @property
    def may_be_irreversible(self) -> bool:
        return "irreversible" in self.outcomes

    @property
    def trusted_source(self) -> bool:
        """Whether nothing that the tool returns can be a stranger's."""
        return bool(self.sources) and UNTRUSTED not in self.sources and self.sources <= frozenset(SOURCES)


class DataLabel(msgspec.Struct, frozen=True):
    """A result's label: what its data is, as one unit (the SEP knows no labels on single items)."""

    open_world: bool
    malicious: bool = False
    sources: frozenset[str] = frozenset()
    sensitivity: frozenset[str] = frozenset()
    attribution: tuple[str, ...] = ()
    # Why it is suspicious: what the server or our own detectors say, in one sentence each.
    warnings: tuple[str, ...] = ()
    # What kinds of keys, tokens and passwords are in it, and how many of them the model did not get.
    secrets: tuple[str, ...] = ()
    masked: int = 0


class SessionLabel(msgspec.Struct, frozen=True):
    """What an agent's session has taken in. Joins only ever add; only a recorded act of an operator takes away."""

    open_world: bool = False
    malicious: bool = False
    sensitivity: frozenset[str] = frozenset()
    attribution: tuple[str, ...] = ()


class Session(msgspec.Struct, frozen=True):
    """An agent session as the store knows it. `key` is a digest: ids that agents choose are not kept."""

    key: str
    # Whom it belongs to, in words: `stdio`, an address and client, or an authenticated agent.
    agent: str
    opened_at: int
    seen_at: int
    label: SessionLabel = SessionLabel()
    # Grows with each step and each change; equal versions mean that nothing was missed.
    version: int = 0
    steps: int = 0


# Where the value of an argument was met before. From the most to the least trustworthy:
# `endorsed` by a person in this session; in the user's own words (`prompt`), or among what was sent before anything
# untrusted had been read (`clean`); in a `trusted` result; the id of a thing that the user named (`linked`); one of the
# values that the tool's `schema` has for the argument; in a field that the server itself fills in (`own`); `nowhere`;
# only in text that a stranger may have written (`untrusted`).
Found: TypeAlias = Literal["endorsed", "prompt", "clean", "trusted", "linked", "schema", "own", "nowhere", "untrusted"]
FOUND: Final = ("endorsed", "prompt", "clean", "trusted", "linked", "schema", "own", "nowhere", "untrusted")
# What a value is: something that decides who or what (`identity`), a `quantity`, a `time`, a `link` or `text`.
ValueKind: TypeAlias = Literal["identity", "quantity", "time", "link", "text"]


class Traced(msgspec.Struct, frozen=True):
    """One value among a call's arguments, and where it was met before."""

    path: str
    kind: ValueKind
    found: Found
    critical: bool
    # Shortened, for people.
    shown: str
    # Steps of the session that it occurs in (their `seq`), for the picture of the session.
    steps: tuple[int, ...] = ()


class Provenance(msgspec.Struct, frozen=True):
    """What a call's arguments are made of."""

    values: tuple[Traced, ...] = ()
    # A link or address inside a text that is sent on, met only in a stranger's text.
    foreign_links: tuple[Traced, ...] = ()
    # Whether anything in the call is the user's own (endorsed, prompt, clean, trusted, linked).
    any_own_words: bool = False
    prompt_known: bool = False
    # Financial, regulated or secret details among the arguments that the user did not write: their classes.
    guarded: tuple[str, ...] = ()
    # Paths of links that were met nowhere as they stand, and whose host is not the user's.
    new_links: tuple[str, ...] = ()
    # Nothing among the arguments tells whom or what the call affects, and the user's words do not ask for it.
    untraceable: bool = False
    # Paths of arguments with which a change empties something or writes where programs start from.
    far_reaching: tuple[str, ...] = ()
    # Paths of texts that are a stranger's, in a call of a tool whose arguments decide something.
    strange_texts: tuple[str, ...] = ()
    # The session has read running text, which may hold an order of somebody else's.
    texts_read: bool = False
    # The user's words are known, and do not ask for what the tool does.
    unasked: bool = False
    # Paths of ids where the user's latest words name another one.
    others_than_named: tuple[str, ...] = ()


class Step(msgspec.Struct, frozen=True):
    """One call of a session, as remembered: the node of its picture, and what its result left in memory."""

    seq: int
    at: int
    call: str
    server: str
    tool: str
    # `allow`, `ask` (a person approved), `refuse`
    verdict: str
    rule: str = ""
    why: str = ""
    label: DataLabel | None = None
    tool_label: Mapping[str, Any] = {}
    provenance: tuple[Traced, ...] = ()
    # Hashed values of the result, as `provenance` packs them; empty after they expired.
    memory: bytes = b""


class Quarantined(msgspec.Struct, frozen=True):
    """A result kept back until a person releases it; `sealed` is the reply, encrypted with a key beside the store."""

    handle: str
    session: str
    call: str
    server: str
    tool: str
    at: int
    warnings: tuple[str, ...]
    sealed: bytes
    state: Literal["held", "released", "dropped"] = "held"
    decided_by: str = ""
    decided_at: int = 0


def _destination_rank(value: str) -> int:
    return DESTINATIONS.index(value) if value in DESTINATIONS else len(DESTINATIONS)


def _outcome_rank(value: str) -> int:
    return OUTCOMES.index(value) if value in OUTCOMES else len(OUTCOMES)


def class_rank(value: str) -> int:
    """How sensitive a class is. A value that nobody knows ranks highest; an organisation's own as regulated."""
    head = value.partition(":")[0]
    if head in CLASSES:
        return CLASSES.index(head)
    return CLASSES.index("regulated") if "." in value else CLASSES.index("unknown")


def highest(classes: frozenset[str]) -> str:
    """The most sensitive of some classes; `none` of none."""
    return max(classes, key=class_rank, default="none")

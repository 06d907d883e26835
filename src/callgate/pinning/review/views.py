"""What a reviewer is shown, in the console, in the terminal and as JSON: one form for all three."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple

import msgspec

from callgate.inspection import ToolFinding
from callgate.pinning.model import INSTRUCTIONS, SERVER_INFO, ItemKind, PartKind, Pin, ServerSeen, State, kind_of


class Piece(msgspec.Struct, frozen=True):
    """A run of words of a text that was kept, taken away or added."""

    op: Literal["same", "gone", "new"]
    text: str


class SchemaEdit(msgspec.Struct, frozen=True):
    """One difference between two schemas: where, what stood there and what stands there now (canonical JSON)."""

    path: str
    op: Literal["gone", "new", "changed"]
    before: str = ""
    after: str = ""
    # What it means, where that can be told: "takes longer texts", "a new free-form field".
    meaning: str = ""


class TextDifference(msgspec.Struct, frozen=True):
    """From the text that was approved last to the one that was met."""

    description: tuple[Piece, ...] = ()
    schema: tuple[SchemaEdit, ...] = ()
    # Members beside the approval that changed: annotations, title, outputSchema, _meta.
    beside: tuple[SchemaEdit, ...] = ()
    # Which approval this is compared with; "another identity" where the same lineage had one under another server_id.
    since: Pin | None = None
    other_identity: bool = False

    @property
    def empty(self) -> bool:
        return all(piece.op == "same" for piece in self.description) and not self.schema and not self.beside


class Labelling(NamedTuple):
    """What another room knows of labels: the one that it proposes for a tool of a server, and the line that tells what
    a label says. A proposal comes with its own line, which may add what it rests on."""

    propose: Callable[[str, Mapping[str, Any]], tuple[str, str]]
    line: Callable[[str], str]


# Where nobody knows labels, as in a client's own pins.
NO_LABELS: Final = Labelling(lambda _server_id, _entry: ("", ""), lambda _label: "")


# Rules on the form of a schema, not on what a definition says.
NOTES: Final = frozenset({"schema.catch-all"})
_HEADINGS: Final[Mapping[str, str]] = {
    INSTRUCTIONS: "Instructions, as the model gets them when a client connects",
    SERVER_INFO: "What the server says of itself",
}
_KINDS: Final[Mapping[ItemKind, tuple[str, str]]] = {
    "tool": ("tool", "tools"),
    "prompt": ("prompt", "prompts"),
    "server": ("other text", "other texts"),
}


def count_parts(items: Iterable[ToolView]) -> list[str]:
    """How many there are of each kind."""
    counts = Counter(item.kind for item in items)
    return [f"{counts[kind]} {names[counts[kind] != 1]}" for kind, names in _KINDS.items() if counts[kind]]


def count_items(items: Iterable[ToolView]) -> str:
    """The same in words: "12 tools, 3 prompts and 1 other text"."""
    return in_words(count_parts(items)) or "0 tools"


def in_words(parts: Sequence[str]) -> str:
    """One, two and three."""
    return " and ".join([*([", ".join(parts[:-1])] if parts[:-1] else []), *parts[-1:]])


class ToolView(msgspec.Struct, frozen=True, kw_only=True):
    """One tool before its reviewer, or another item: nothing shortened. `raw` is the entry as it was received, byte for
    byte."""

    server_id: str
    server: str
    tool: str
    state: State
    approval_hash: str
    # Of the whole entry, what stands beside the approval included: what a reviewer decides on.
    entry_digest: str = ""
    # The first sentence of the description, to find one's way; the whole text is in `description`.
    summary: str
    description: str
    input_schema: Any
    raw: str
    findings: tuple[ToolFinding, ...] = ()
    difference: TextDifference | None = None
    pin: Pin | None = None
    # What the tool does, as it is proposed to whoever approves it: the label, and the line that is shown.
    label: str = ""
    does: str = ""
    # Another version of its server has this very entry, approved.
    unchanged: bool = False
    # Other configured names of its server.
    also: tuple[str, ...] = ()
    # Blocks of this tool under other identities of its server, which it does not inherit: `findings` tells them too.
    blocks: tuple[Pin, ...] = ()
    # Advice that belongs to this tool: a text that changes all the time, a known tool under a new identity.
    hints: tuple[str, ...] = ()
    problem: str = ""
    # Why it may not be called; empty for an approved one.
    refusal: str = ""
    first_seen: int = 0
    last_seen: int = 0
    size: int = 0
    tokens: int = 0

    @property
    def kind(self) -> ItemKind:
        return kind_of(self.tool)

    @property
    def text_heading(self) -> str:
        """What stands above its text."""
        return _HEADINGS.get(self.tool, "Description, as the model gets it")

    @property
    def schema_heading(self) -> str:
        """What stands above its schema; empty where it has none to show."""
        if self.kind == "tool":
            return "Input schema"
        return "Arguments" if self.kind == "prompt" and self.input_schema is not None else ""

    @property
    def needs_review(self) -> bool:
        return self.state in (State.NEW, State.CHANGED, State.RETIRED)

    @property
    def plain(self) -> bool:
        """Whether nothing was found in its words. That a schema takes more than it needs is worth a note, no more: half
        of all honest tools have one that does."""
        return all(finding.rule in NOTES for finding in self.findings)

    @property
    def concern(self) -> int:
        """What waits is shown in this order: 0 with hard findings, 1 with others, 2 without."""
        return 2 if not self.needs_review or self.plain else 1 - bool(self.hard)

    @property
    def unlabelled(self) -> bool:
        """Approved before labels came with approvals; one with hard findings is looked at for itself."""
        approved = self.state is State.APPROVED and self.pin is not None and not self.pin.label
        return approved and bool(self.label) and not self.hard

    @property
    def held(self) -> bool:
        """Approved, and closed until its server was reviewed together with another."""
        return self.state is State.APPROVED and bool(self.refusal)

    @property
    def hard(self) -> tuple[ToolFinding, ...]:
        return tuple(found for found in self.findings if found.tier == "hard")


def worst(view: ToolView) -> ToolFinding:
    """The finding to name first of an item that has some."""
    told = (finding for finding in view.findings if finding.rule not in NOTES)
    return next(iter(view.hard), next(told, view.findings[0]))


class ArgumentView(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a server's command before a reviewer, who can mark it as data.

    `varies` is what may stand there then ("--root=folder"), `fixed` why nobody can mark it, `pin` the mark in force.
    """

    kind: PartKind
    place: int
    shown: str
    digest: str
    varies: str = ""
    fixed: str = ""
    pin: Pin | None = None

    @property
    def standing(self) -> str:
        """How it stands, in words."""
        if self.pin is not None:
            return f"may be another {self.sort}, as {self.pin.approved_by} decided"
        return f"cannot be marked as data: {self.fixed}" if self.fixed else f"could be marked as data: any {self.sort}"

    @property
    def sort(self) -> str:
        """What another value has to be, in a word or two."""
        return {"file": "file of data", "name": "plain name"}.get(found := self.varies.rpartition("=")[2], found)


class ServerView(msgspec.Struct, frozen=True, kw_only=True):
    """One server on the review, with what is to be known of its identity."""

    seen: ServerSeen
    connected: bool
    tools: tuple[ToolView, ...]
    # A known origin with a new identity, an unpinned version, a list beyond its bounds, a set not reviewed together.
    notices: tuple[str, ...] = ()
    # What approvals hold for beside the package or file, and of that the arguments.
    started: tuple[str, ...] = ()
    arguments: tuple[ArgumentView, ...] = ()

    @property
    def pending(self) -> int:
        return sum(tool.needs_review for tool in self.tools)

    @property
    def concern(self) -> int:
        """That of what waits and is worst."""
        return min((tool.concern for tool in self.tools if tool.needs_review), default=2)


class SetView(msgspec.Struct, frozen=True, kw_only=True):
    """The servers that one agent sees together, and whether they were reviewed together."""

    group: str
    version: str
    servers: tuple[str, ...]
    most: int
    reviewed: bool
    # Pairs of configured names that nobody has reviewed together yet, and what was found between them.
    open_pairs: tuple[tuple[str, str], ...] = ()
    findings: tuple[ToolFinding, ...] = ()

    @property
    def is_first(self) -> bool:
        """Whether no two of several servers were on one review: ten of them have 45 pairs."""
        pairs = set(map(frozenset, self.open_pairs))
        return len(pairs) > 1 and pairs == set(map(frozenset, combinations(self.servers, 2)))


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that waits for a reviewer, of all servers together, and the tools that stand beside it."""

    on_behalf_of: str
    servers: tuple[ServerView, ...]
    sets: tuple[SetView, ...]

    @property
    def pending(self) -> tuple[ToolView, ...]:
        return tuple(tool for server in self.servers for tool in server.tools if tool.needs_review)

    @property
    def unlabelled(self) -> tuple[ToolView, ...]:
        """Tools that were approved before labels came with approvals: they work, and nobody has said what they do."""
        return tuple(tool for server in self.servers for tool in server.tools if tool.unlabelled)

    @property
    def waits(self) -> int:
        return len(self.pending) + sum(not one.reviewed for one in self.sets)


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A server's line in `callgate tools servers`: how often it is checked, when it was, and what is odd."""

    seen: ServerSeen
    connected: bool
    recheck_seconds: float
    approved: int
    pending: int
    blocked: int
    # "orphan": not met for long or not configured; "duplicate": the same server under several identities or names.
    oddities: tuple[str, ...] = ()

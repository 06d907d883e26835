"""What a reviewer is shown, in the console, in the terminal and as JSON: one form for all three."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from callgate.inspection import ToolFinding
from callgate.pinning.model import Pin, ServerSeen, State


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


class ToolView(msgspec.Struct, frozen=True, kw_only=True):
    """One tool before its reviewer: nothing shortened. `raw` is the entry as it was received, byte for byte."""

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
    def needs_review(self) -> bool:
        return self.state in (State.NEW, State.CHANGED, State.RETIRED)

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


class ServerView(msgspec.Struct, frozen=True, kw_only=True):
    """One server on the review, with what is to be known of its identity."""

    seen: ServerSeen
    connected: bool
    tools: tuple[ToolView, ...]
    # A known origin with a new identity, an unpinned version, a list beyond its bounds, a set not reviewed together.
    notices: tuple[str, ...] = ()
    # What approvals hold for beside the package or file.
    started: tuple[str, ...] = ()

    @property
    def pending(self) -> int:
        return sum(tool.needs_review for tool in self.tools)


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

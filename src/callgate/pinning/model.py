"""What pinning speaks of: a server's identity, a tool as it was listed, what a person decided of it, what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

import msgspec

# How `approval_hash` is made; part of every record, so that a later way can be told from this one.
SCHEME: Final = 1
# The tool that the gateway itself offers while something waits for review.
PENDING_TOOL: Final = "callgate_pending"
# In the `_meta` of a list of tools, and of a call that wants to be held to it.
# What a model reads of a server beside its tools has a name of this form, and is approved under it as a tool is.
INSTRUCTIONS: Final = "server:instructions"
SERVER_INFO: Final = "server:info"
PROMPT: Final = "prompt:"
# The rule of a finding that comes from a decision: a block of the tool under another identity.
BLOCKED_BEFORE: Final = "decision.blocked"
TOOLSET_META: Final = "dev.callgate/toolset"

Action: TypeAlias = Literal["approve", "block", "withdraw"]
# Of an argument of a server's command: it is only data and may vary, or it may not any more.
ArgumentAction: TypeAlias = Literal["vary", "bind"]


# Members of an entry that no model reads and no client acts on: a change of them is logged, and no more.
LOGGED: Final = frozenset({"_meta", "icons"})
# What is reviewed: a tool, a prompt, or what a server says of itself when a client connects.
ItemKind: TypeAlias = Literal["tool", "prompt", "server"]


def kind_of(name: str) -> ItemKind:
    """What a name on the review stands for. No tool has a name of ours: one that is listed with it is unfit."""
    if name.startswith(PROMPT):
        return "prompt"
    return "server" if name.startswith("server:") else "tool"


PartKind: TypeAlias = Literal["launcher", "option", "argument", "variable", "project"]
# In this order they stand in an identity.
KINDS: Final[tuple[PartKind, ...]] = ("launcher", "option", "argument", "variable", "project")


class BoundPart(msgspec.Struct, frozen=True):
    """One thing that decides what a server's command runs, beside the package or file that it names.

    `shown` is for people, without secrets; `digest` is of all of it. What is `data` may vary: it is not bound.
    `varies` says what may stand there where a person marks it as data ("folder", "--root=folder"); it is empty where
    nobody can, and `fixed` says why. Of one that is `marked` so, `digest` is of what stood there when that was done.
    """

    kind: PartKind
    shown: str
    digest: str
    data: bool = False
    varies: str = ""
    fixed: str = ""
    marked: bool = False


def run_of(server_id: str) -> str:
    """The part of an identity that says how its program is started; empty where it is started plainly."""
    return server_id.partition(" (")[0].partition(" with ")[2]


class ServerIdentity(msgspec.Struct, frozen=True):
    """Who a server is. Approvals are bound to `server_id`; `lineage` is the same server in whatever version.

    `chosen`: the version is the operator's choice (a pinned package), not the server's own word. `reported` is what
    the server says of itself, for people.
    """

    server_id: str
    lineage: str
    kind: Literal["stdio", "http", "library"]
    chosen: bool = False
    reported: str = ""
    warnings: tuple[str, ...] = ()
    bound: tuple[BoundPart, ...] = ()


class ListedTool(msgspec.Struct, frozen=True):
    """One entry of a list of tools: its own bytes, what they say, and its hashes under a server's identity.

    `beside` has a digest for each member that is not part of the approval: annotations, title, outputSchema, _meta.
    `problem` says why nobody can approve it; then there is no hash. `source` are the bytes that a prompt came as: its
    `raw` is written as a tool's would be.
    """

    name: str
    raw: bytes
    entry: Mapping[str, Any]
    approval_hash: str = ""
    beside: Mapping[str, str] = {}
    problem: str = ""
    source: bytes = b""

    @property
    def wire(self) -> bytes:
        """The entry as the server sent it."""
        return self.source or self.raw

    @property
    def description(self) -> str:
        text = self.entry.get("description")
        return text if isinstance(text, str) else ""

    @property
    def input_schema(self) -> Any:
        return self.entry.get("inputSchema")


class MarkedArgument(msgspec.Struct, frozen=True):
    """One argument of a command, by its place among the bound parts: all of them by their digests, so that a mark holds
    for this command alone, and what may stand in that place."""

    parts: tuple[str, ...]
    place: int
    varies: str
    shown: str


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody decided of a tool, and of which text: the newest for a server_id and tool is in force.

    `raw` is the entry as it was received, `together` the identities of all servers whose tools were on the same
    review. `overrides` are the rules of the hard findings that were overruled, `overruled` each rule with its place.
    """

    seq: int = 0
    scheme: int = SCHEME
    action: Action | ArgumentAction
    server_id: str
    lineage: str
    server: str
    tool: str
    approval_hash: str
    approved_at: int
    approved_by: str
    beside: Mapping[str, str] = {}
    raw: bytes = b""
    note: str = ""
    overrides: tuple[str, ...] = ()
    overruled: tuple[tuple[str, str], ...] = ()
    together: tuple[str, ...] = ()
    # What the tool does, as whoever approved it agreed; empty where nobody was asked. Other rooms read it.
    label: str = ""
    # What is decided on where it is no tool.
    argument: MarkedArgument | None = None


class State(StrEnum):
    """How a tool stands now."""

    APPROVED = "approved"
    NEW = "new"
    CHANGED = "changed"
    BLOCKED = "blocked"
    # Approved once, and after that another version of the same server was approved.
    RETIRED = "retired"
    # Too large, or written so that two readers could read two things.
    UNFIT = "unfit"
    GONE = "gone"


class ServerSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A server as it was met last: under which configured name, and what its list looked like (times in ms)."""

    server_id: str
    lineage: str
    name: str
    group: str = ""
    kind: Literal["stdio", "http", "library"]
    chosen: bool = False
    target: str = ""
    reported: str = ""
    warnings: tuple[str, ...] = ()
    problem: str = ""
    digest: str = ""
    tools: int = 0
    size: int = 0
    first_seen: int = 0
    last_seen: int = 0
    # Every configured name that it was met under, and when last: two may stand for one package.
    names: Mapping[str, int] = {}
    bound: tuple[BoundPart, ...] = ()

    @property
    def called(self) -> tuple[str, ...]:
        """All of its names, the one that it was met under last first."""
        return (self.name, *sorted(self.names.keys() - {self.name}))

    @property
    def identity(self) -> ServerIdentity:
        return ServerIdentity(
            self.server_id, self.lineage, self.kind, self.chosen, self.reported, self.warnings, self.bound
        )


class ToolSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One text of one tool, as it was met; `changes` counts how often the newest text was another than before,
    or what stands beside it and is reviewed."""

    server_id: str
    tool: str
    approval_hash: str
    raw: bytes
    beside: Mapping[str, str] = {}
    problem: str = ""
    size: int = 0
    first_seen: int = 0
    last_seen: int = 0
    changes: int = 0
    gone: bool = False


class Change(msgspec.Struct, frozen=True):
    """A tool that is not what it was when it was met before."""

    server_id: str
    tool: str
    what: Literal["new", "text", "beside", "gone", "back"]
    before: str = ""
    after: str = ""
    # Which members beside the approval changed.
    members: tuple[str, ...] = ()
    changes: int = 0

    @property
    def detail(self) -> dict[str, Any]:
        """What goes on record of it."""
        texts = {"before": self.before or None, "after": self.after or None}
        return {"tool": self.tool, "what": self.what, **texts} | (
            {"members": list(self.members)} if self.members else {}
        )


class Connected(msgspec.Struct, frozen=True):
    """A server that some gateway serves just now."""

    name: str
    group: str
    server_id: str
    gateway: str
    until: int


class PinningSettings(msgspec.Struct, frozen=True, kw_only=True):
    """As `[pinning]` in callgate.toml says it; see there for each."""

    mode: Literal["enforce", "observe", "off"] = "enforce"
    recheck_seconds: float = 15.0
    tool_bytes: int = 65_536
    tool_tokens: int = 16_384
    list_tools: int = 1_000
    list_bytes: int = 4 * 1024 * 1024
    list_tokens: int = 524_288
    growth_percent: float = 10.0
    beside: Literal["flag", "review", "block"] = "review"
    instructions: bool = True
    server_info: bool = True
    prompts: bool = True
    strict_schemas: bool = False
    servers: int = 20
    set_review: Literal["shadowing", "always", "never"] = "shadowing"
    rollback: Literal["ask", "allow"] = "ask"
    pending_tool: bool = True
    on_behalf_of: str = "every agent that uses this gateway"
    # An identity that was not met for so long counts as an orphan.
    orphan_days: int = 30

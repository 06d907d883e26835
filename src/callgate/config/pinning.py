"""Which tools may be seen and called: `[pinning]` and `[servers.NAME.pinning]`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from callgate.config import rules
from callgate.config.rules import KeyRule, Section
from callgate.config.secret import Secret, mask_url


class Pinning(Section, frozen=True):
    """Tool pinning: only tools whose exact description and schema somebody has approved are seen and called."""

    mode: Literal["enforce", "observe", "off"] = "enforce"
    """`enforce`: tools that nobody approved, or that changed since, are hidden and refused. `observe`: they are looked
    at and changes are reported, but nothing is held back. `off`: nothing of it."""
    recheck_seconds: Annotated[float, Meta(ge=0, le=86400)] = 15.0
    """For how long a list of tools that was checked is believed; the next call after that checks it again first. 0
    checks before every call."""
    tool_bytes: Annotated[int, Meta(ge=256, le=2**24), KeyRule(read=rules.read_size)] = 65536
    """Largest definition of one tool, also as a size such as `64 KiB`."""
    tool_tokens: Annotated[int, Meta(ge=64, le=2**24)] = 16384
    """Most tokens (estimated) that the definition of one tool may cost."""
    list_tools: Annotated[int, Meta(ge=1, le=10000)] = 1000
    """Most tools of one server."""
    list_bytes: Annotated[int, Meta(ge=1024, le=2**28), KeyRule(read=rules.read_size)] = 4194304
    """Largest list of tools of one server, also as a size such as `4 MiB`."""
    list_tokens: Annotated[int, Meta(ge=64, le=2**28)] = 524288
    """Most tokens (estimated) that all tools of one server may cost."""
    growth_percent: Annotated[float, Meta(ge=0, le=100000)] = 10.0
    """A server's list that has grown by more than this since it was met last is reported, even if all of it was
    approved."""
    beside: Literal["flag", "review", "block"] = "review"
    """What a change of a member does that is not part of the approval's hash. `review`: one of annotations, title,
    output schema or a member that MCP does not name takes the tool away until somebody has reviewed it, one of `_meta`
    or icons is reported. `flag` reports every such change, `block` takes the tool away for every one."""
    instructions: bool = True
    """Hold back a server's `instructions`, which clients give to the model when they connect, until somebody has
    approved them; they are on the review beside the tools. Off, they pass as they come."""
    server_info: bool = True
    """The same for what a server says of itself beside its name and version: title, description, address."""
    prompts: bool = True
    """The same for a server's prompts: one that nobody has approved, or that changed since, is neither listed nor
    read."""
    strict_schemas: bool = False
    """Tools whose input schema takes nearly anything cannot be approved; by default, flagged."""
    servers: Annotated[int, Meta(ge=1, le=1000)] = 20
    """Most servers connected at once, in each group."""
    set_review: Literal["shadowing", "always", "never"] = "shadowing"
    """Servers approved one by one that now meet: `shadowing` holds back tools that speak of the other's tools until
    somebody has reviewed both together; `always` holds all of them; `never` none."""
    rollback: Literal["ask", "allow"] = "ask"
    """A server that goes back to a version which was approved before a later one: `ask` for approval again, or `allow`
    it. Versions that the operator chooses (pinned packages) are always allowed."""
    data_arguments: Annotated[
        tuple[str, ...],
        KeyRule(check=rules.matching(r"\S.* (?:\*|--?[A-Za-z][\w-]*)", 'write it as "npm:@org/pkg --root"')),
    ] = ()
    """Arguments of servers that are only data, such as a folder, and may be others without a new review:
    `npm:@org/pkg --root` for the value of an option, `npm:@org/pkg *` for folders that stand alone. The package or file
    is written as in the server's identity. Every other argument is part of the identity."""
    pending_tool: bool = True
    """Offer agents a read-only tool `callgate_pending` while tools wait for review: it says which, and where to review
    them."""
    reviewers: Annotated[tuple[str, ...], KeyRule(check=rules.user_name)] = ()
    """Who may approve tools in the console. By default everybody who can sign in."""
    on_behalf_of: Annotated[str, KeyRule(check=rules.word)] = "every agent that uses this gateway"
    """Whose agents the reviewers approve tools for; the review says it."""
    webhook: Annotated[Secret | None, KeyRule(check=rules.http_url, expand=True, shown=mask_url)] = None
    """Changes of tools are also posted to this address, as JSON. `${NAME}` is expanded."""


class ServerPinning(Section, frozen=True):
    """How a server is known, and with which others it may be seen."""

    identity: Annotated[str | None, KeyRule(check=rules.word)] = None
    """For a server reached by `url`: the identity it is authenticated by, such as its OAuth client id. A change makes
    it another server, whose tools are approved anew. By default the name in its TLS certificate."""
    group: Annotated[str | None, KeyRule(check=rules.group_name)] = None
    """Keeps this server apart: it is served only under `/groups/GROUP/servers/NAME/mcp`, for an agent instance of its
    own."""

"""Which tools may be seen and called: `[pinning]` and `[servers.NAME.pinning]`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from callgate.config import rules
from callgate.config.rules import KeyRule, Section
from callgate.config.secret import Secret, mask_url


class Pinning(Section, frozen=True):
    """Tool pinning: only tools whose exact description and schema somebody has approved are seen and called."""

    mode: Annotated[
        Literal["enforce", "observe", "off"],
        Meta(
            description="`enforce`: tools that nobody approved, or that changed since, are hidden and refused. "
            "`observe`: they are looked at and changes are reported, but nothing is held back. `off`: nothing of it."
        ),
    ] = "enforce"
    recheck_seconds: Annotated[
        float,
        Meta(
            description="For how long a list of tools that was checked is believed; the next call after that checks it "
            "again first. 0 checks before every call.",
            ge=0,
            le=86400,
        ),
    ] = 15.0
    tool_bytes: Annotated[
        int,
        Meta(description="Largest definition of one tool, also as a size such as `64 KiB`.", ge=256, le=2**24),
        KeyRule(read=rules.read_size),
    ] = 65536
    tool_tokens: Annotated[
        int, Meta(description="Most tokens (estimated) that the definition of one tool may cost.", ge=64, le=2**24)
    ] = 16384
    list_tools: Annotated[int, Meta(description="Most tools of one server.", ge=1, le=10000)] = 1000
    list_bytes: Annotated[
        int,
        Meta(description="Largest list of tools of one server, also as a size such as `4 MiB`.", ge=1024, le=2**28),
        KeyRule(read=rules.read_size),
    ] = 4194304
    list_tokens: Annotated[
        int, Meta(description="Most tokens (estimated) that all tools of one server may cost.", ge=64, le=2**28)
    ] = 524288
    growth_percent: Annotated[
        float,
        Meta(
            description="A server's list that has grown by more than this since it was met last is reported, even if "
            "all of it was approved.",
            ge=0,
            le=100000,
        ),
    ] = 10.0
    beside: Annotated[
        Literal["flag", "block"],
        Meta(
            description="What a change of annotations, title, output schema or `_meta` does, which the approval does "
            "not cover: `flag` reports it, `block` takes the tool away as a change of its description does."
        ),
    ] = "flag"
    strict_schemas: Annotated[
        bool,
        Meta(description="Tools whose input schema takes nearly anything cannot be approved; by default, flagged."),
    ] = False
    servers: Annotated[int, Meta(description="Most servers connected at once, in each group.", ge=1, le=1000)] = 20
    set_review: Annotated[
        Literal["shadowing", "always", "never"],
        Meta(
            description="Servers approved one by one that now meet: `shadowing` holds back tools that speak of "
            "the other's tools until somebody has reviewed both together; `always` holds all of them; `never` none."
        ),
    ] = "shadowing"
    rollback: Annotated[
        Literal["ask", "allow"],
        Meta(
            description="A server that goes back to a version which was approved before a later one: `ask` for "
            "approval again, or `allow` it. Versions that the operator chooses (pinned packages) are always allowed."
        ),
    ] = "ask"
    pending_tool: Annotated[
        bool,
        Meta(
            description="Offer agents a read-only tool `callgate_pending` while tools wait for review: it says which, "
            "and where to review them."
        ),
    ] = True
    reviewers: Annotated[
        tuple[str, ...],
        Meta(description="Who may approve tools in the console. By default everybody who can sign in."),
        KeyRule(check=rules.user_name),
    ] = ()
    on_behalf_of: Annotated[
        str,
        Meta(description="Whose agents the reviewers approve tools for; the review says it."),
        KeyRule(check=rules.word),
    ] = "every agent that uses this gateway"
    webhook: Annotated[
        Secret | None,
        Meta(description="Changes of tools are also posted to this address, as JSON. `${NAME}` is expanded."),
        KeyRule(check=rules.http_url, expand=True, shown=mask_url),
    ] = None


class ServerPinning(Section, frozen=True):
    """How a server is known, and with which others it may be seen."""

    identity: Annotated[
        str | None,
        Meta(
            description="For a server reached by `url`: the identity it is authenticated by, such as its OAuth client "
            "id. A change makes it another server, whose tools are approved anew. By default the name in its "
            "TLS certificate."
        ),
        KeyRule(check=rules.word),
    ] = None
    group: Annotated[
        str | None,
        Meta(
            description="Keeps this server apart: it is served only under `/groups/GROUP/servers/NAME/mcp`, for an "
            "agent instance of its own."
        ),
        KeyRule(check=rules.group_name),
    ] = None

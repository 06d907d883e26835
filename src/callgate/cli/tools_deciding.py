"""Decisions on tools by command: one tool and one text at a time, or a file of them, all or none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from callgate.cli.common import ConfigOption, StoreOption, console, operator, say
from callgate.cli.pinned import Opened, changing, find_tool, shown

if TYPE_CHECKING:
    from callgate.errors import Refused
    from callgate.pinning.service import Choice
    from callgate.pinning.views import ToolView

ServerOption = Annotated[str, typer.Option("--server", metavar="SERVER", help="A server's name, or its identity.")]
ToolOption = Annotated[str, typer.Option("--tool", metavar="TOOL", help="The tool's name, exactly.")]
NoteOption = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; it is recorded with the decision.")]

_DIGITS: Final = 16
_WHOLE: Final = 64


def register(verbs: typer.Typer) -> None:
    verbs.command("approve")(approve)
    verbs.command("block")(block)
    verbs.command("withdraw")(withdraw)
    verbs.command("together")(together)


def approve(
    *,
    server: Annotated[
        str | None, typer.Option("--server", metavar="SERVER", help="A server's name, or its identity.")
    ] = None,
    tool: Annotated[str | None, typer.Option("--tool", metavar="TOOL", help="The tool's name, exactly.")] = None,
    approval_hash: Annotated[
        str | None,
        typer.Option("--hash", metavar="HASH", help="The hash of the text that you reviewed; 16 digits or more."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Approve all that a file lists, as `tools list --json` prints it."),
    ] = None,
    note: NoteOption = "",
    override: Annotated[
        bool, typer.Option("--override", help="In spite of hard findings; they are recorded with the approval.")
    ] = False,
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Approve a tool, for exactly the description and schema that have this hash.

    If the tool has another text by now, nothing is approved. The entries of a file are approved all or not at all.
    """
    from callgate.cli.tools_file import approve_file
    from callgate.errors import CallgateError

    one = (server, tool, approval_hash)
    if file is not None and any(one):
        raise CallgateError("--from names the tools already", advice="Leave out --server, --tool and --hash.")
    with changing(config, store) as opened:
        if file is not None:
            approve_file(opened, file, note=note, override=override)
        elif server is not None and tool is not None and approval_hash is not None:
            _approve(opened, find_tool(opened, server, tool), approval_hash, note=note, override=override)
        else:
            raise CallgateError(
                "an approval is for one tool and one text of it",
                advice="Give --server, --tool and --hash; "
                f"`{opened.command('tools', 'show', '--server', server or 'SERVER', '--tool', tool or 'TOOL')}` "
                "shows the text and its hash. Or give a file of reviewed tools with --from.",
            )
        still_waiting(opened)


def _approve(opened: Opened, view: ToolView, given: str, *, note: str, override: bool) -> None:
    from callgate.pinning.service import Choice

    _same_text(opened, view, given)
    choice = Choice("approve", view.server_id, view.tool, view.approval_hash, note=note, override=override)
    decide(opened, [choice], {(view.server_id, view.tool): view})
    typer.echo(f"Approved: {shown(view.tool)} on {shown(view.server)}, {view.approval_hash}.")


def _same_text(opened: Opened, view: ToolView, given: str) -> None:
    """Refuses a hash that is not the one of the newest text, or too little of it."""
    from callgate.errors import CallgateError, Reason, Refused

    digits = given.strip().lower().removeprefix("sha256:")
    if len(digits) < _DIGITS or not all(char in "0123456789abcdef" for char in digits):
        raise CallgateError(
            f"{given!r} is not a hash, or too little of one",
            advice=f"Give all of its {_WHOLE} digits, or the first {_DIGITS} at least. {_see(opened, view)}",
        )
    if not view.approval_hash:
        raise Refused(Reason.TOOL_UNFIT, f"nobody can approve {shown(view.tool)}: {shown(view.problem)} (tool_unfit)")
    if not view.approval_hash.removeprefix("sha256:").startswith(digits):
        raise _changed(opened, view, digits)


def _changed(opened: Opened, view: ToolView, digits: str) -> Refused:
    from callgate.errors import Reason, Refused

    texts = opened.wait(opened.shelf.texts(view.server_id, view.tool))
    before = [one for one in texts if one.approval_hash.removeprefix("sha256:").startswith(digits)]
    if not before:
        return Refused(
            Reason.TOOL_CHANGED,
            f"no text of {shown(view.tool)} that was met has the hash {digits}: nothing was approved (tool_changed)",
            advice=f"Its hash is {view.approval_hash}. {_see(opened, view)}",
        )
    words = ("--server", view.server_id, "--tool", view.tool, "--from", before[0].approval_hash)
    return Refused(
        Reason.TOOL_CHANGED,
        f"{shown(view.tool)} has changed since the text that you reviewed: nothing was approved (tool_changed)",
        advice=f"To see the difference: `{opened.command('tools', 'diff', *words, '--to', view.approval_hash)}`.",
    )


def _see(opened: Opened, view: ToolView) -> str:
    command = opened.command("tools", "show", "--server", view.server_id, "--tool", view.tool)
    return f"To see the tool and its hash: `{command}`."


def block(
    *,
    server: ServerOption,
    tool: ToolOption,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; callers are told.")],
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Block a tool, whatever its text becomes, until somebody approves it or withdraws this."""
    from callgate.errors import CallgateError
    from callgate.pinning.service import Choice

    if not note.strip():
        raise CallgateError("a tool is blocked for a reason", advice="Say it with --note.")
    with changing(config, store) as opened:
        view = find_tool(opened, server, tool)
        decide(opened, [Choice("block", view.server_id, view.tool, view.approval_hash, note=note)])
        typer.echo(f"Blocked: {shown(view.tool)} on {shown(view.server)}.")


def withdraw(
    *,
    server: ServerOption,
    tool: ToolOption,
    note: NoteOption = "",
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Take back the decision on a tool, an approval or a block: it waits for review again, and cannot be called."""
    from callgate.errors import CallgateError
    from callgate.pinning.service import Choice

    with changing(config, store) as opened:
        view = find_tool(opened, server, tool)
        if view.pin is None or view.pin.action == "withdraw":
            raise CallgateError(
                f"there is no decision on {shown(view.tool)} that could be withdrawn", advice=_see(opened, view)
            )
        decide(opened, [Choice("withdraw", view.server_id, view.tool, view.approval_hash, note=note)])
        typer.echo(f"Withdrawn: {shown(view.tool)} on {shown(view.server)} waits for review again.")


def together(
    *,
    version: Annotated[str, typer.Option("--version", metavar="VERSION", help="Of the set that you reviewed.")],
    group: Annotated[str, typer.Option("--group", metavar="GROUP", help="The group, where servers are in one.")] = "",
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Record that the servers which agents see together were reviewed together. `callgate review` shows them.

    If other servers or other tools are connected by now, nothing is recorded.
    """
    with changing(config, store) as opened:
        opened.wait(opened.pins.review_set(group, version, by=operator()))
    where = f"in group {shown(group)}" if group else "of this gateway"
    typer.echo(f"Recorded: the servers {where} were reviewed together.")


def decide(opened: Opened, choices: list[Choice], views: dict[tuple[str, str], ToolView] | None = None) -> None:
    """Store decisions, all or none; what stands against one is shown before it is refused."""
    from callgate.cli.tools_lines import print_lines
    from callgate.cli.tools_show import finding_lines
    from callgate.errors import Reason, Refused

    servers = tuple(dict.fromkeys(choice.server_id for choice in choices))
    try:
        opened.wait(opened.pins.decide(choices, by=operator(), together=servers))
    except Refused as refused:
        if refused.reason == Reason.FINDINGS_NOT_OVERRIDDEN:
            for view in (views or {}).values():
                for finding in view.hard:
                    entry = {"description": view.description, "inputSchema": view.input_schema}
                    print_lines(console(stderr=True), finding_lines(finding, entry))
        raise _named(refused) from None


def _named(refused: Refused) -> Refused:
    """With the reason in the message, for whoever reads it in a log of a build."""
    from callgate.errors import Refused

    if refused.reason.value in refused.message:
        return refused
    message = f"{refused.message.rstrip('.')} ({refused.reason.value})"
    return Refused(refused.reason, message, advice=refused.advice, code=refused.code, data=refused.data)


def still_waiting(opened: Opened) -> None:
    review = opened.wait(opened.pins.review())
    left = len(review.pending)
    if left:
        tools = "1 tool waits" if left == 1 else f"{left} tools wait"
        say(f"{tools} for review still: `{opened.command('review')}`.")

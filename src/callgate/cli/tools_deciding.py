"""Decisions on tools by command: one tool and one text at a time, or a file of them, all or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from callgate.cli.common import ConfigOption, StoreOption, console, operator
from callgate.cli.pinned import Opened, changing, find_tool, shown
from callgate.cli.tool_labels import does_line, relabelled
from callgate.cli.tools_blocks import blocked_words, to_withdraw
from callgate.cli.tools_hints import still_waiting

if TYPE_CHECKING:
    from callgate.errors import Refused
    from callgate.pinning.review.views import ToolView
    from callgate.pinning.service import Choice

ServerOption = Annotated[str, typer.Option("--server", metavar="SERVER", help="A server's name, or its identity.")]
ToolOption = Annotated[str, typer.Option("--tool", metavar="TOOL", help="The tool's name, exactly.")]
NoteOption = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; it is recorded with the decision.")]

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
        typer.Option("--hash", metavar="HASH", help=f"The hash of the text that you reviewed, all {_WHOLE} digits."),
    ] = None,
    entry: Annotated[
        str | None,
        typer.Option(
            "--entry",
            metavar="DIGEST",
            help="The digest of the whole entry that you reviewed: title, annotations and the like have to be the "
            "same too. `tools show` prints it with the command to approve, and as entry_digest with --json.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Approve all that a file lists, as `tools list --json` prints it."),
    ] = None,
    note: NoteOption = "",
    override: Annotated[
        bool,
        typer.Option(
            "--override",
            help="In spite of hard findings, which are recorded with the approval, or of a block of another version.",
        ),
    ] = False,
    findings: Annotated[
        bool,
        typer.Option("--with-findings", help="With --from: also tools with findings that are not hard."),
    ] = False,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="EFFECT",
            help="What the tool does, where the proposal is wrong: reads_own, reads_others, changes, sends, destroys "
            "or runs. May be given several times.",
        ),
    ] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Approve a tool, for exactly the description and schema that have this hash.

    If the tool has another text by now, or another entry than the one given, nothing is approved. The entries of a
    file are approved all or not at all.
    """
    from callgate.cli.tools_file import approve_file

    one = (server, tool, approval_hash, entry)
    if file is not None and any(word is not None for word in one):
        raise typer.BadParameter("--from names the tools already: leave out --server, --tool, --hash and --entry")
    if file is None and (server is None or tool is None or approval_hash is None):
        raise typer.BadParameter(
            "an approval is for one tool and one text of it: give --server, --tool and --hash, which "
            "`callgate tools show --server SERVER --tool TOOL` prints, or a file of reviewed tools with --from"
        )
    if file is None and findings:
        raise typer.BadParameter("--with-findings is for --from: who names one tool and its hash has read it")
    if file is not None and label:
        raise typer.BadParameter("--label is for one tool: in a file, each entry has its own `label`")
    with changing(config, store) as opened:
        if file is not None:
            done = approve_file(opened, file, note=note, override=override, findings=findings)
        elif server is not None and tool is not None and approval_hash is not None:
            done = [find_tool(opened, server, tool)]
            _approve(opened, done[0], approval_hash, entry, note=note, override=override, label=label)
        still_waiting(opened, {(view.server_id, view.tool) for view in done})


def approval(view: ToolView, *, note: str, override: bool, label: Sequence[str] | None = None) -> Choice:
    """The approval of a tool as it was looked at: all of its entry, in spite of these findings and no others. `label`
    says what the tool does in the place of the proposal."""
    from callgate.pinning.service import Choice

    chosen = (view.server_id, view.tool, view.approval_hash)
    settled = relabelled(view.label, label) if label is not None else view.label
    return Choice(
        "approve", *chosen, note=note, override=override, entry=view.entry_digest, shown=view.hard, label=settled
    )


def _approve(
    opened: Opened,
    view: ToolView,
    given: str,
    entry: str | None = None,
    *,
    note: str,
    override: bool,
    label: Sequence[str] | None = None,
) -> None:
    _same_text(opened, view, given)
    if entry is not None:
        _same_entry(opened, view, entry)
    if not override:
        _not_blocked(opened, view)
    chosen = approval(view, note=note, override=override, label=label)
    decide(opened, [chosen], {(view.server_id, view.tool): view})
    typer.echo(f"Approved: {shown(view.tool)} on {shown(view.server)}, {view.approval_hash}.")
    typer.echo(does_line(chosen.label))


def _same_text(opened: Opened, view: ToolView, given: str) -> None:
    """Refuses a hash that is not the one of the newest text, or not all of it."""
    from callgate.errors import Reason, Refused

    digits = _digits(opened, view, given)
    if not view.approval_hash:
        raise Refused(Reason.TOOL_UNFIT, f"nobody can approve {shown(view.tool)}: {shown(view.problem)} (tool_unfit)")
    if view.approval_hash.removeprefix("sha256:") != digits:
        raise _changed(opened, view, digits)


def _same_entry(opened: Opened, view: ToolView, given: str) -> None:
    """Refuses an entry with the text that was reviewed, and something else beside it."""
    from callgate.errors import Reason, Refused

    if view.entry_digest.removeprefix("sha256:") != _digits(opened, view, given):
        raise Refused(
            Reason.TOOL_CHANGED,
            f"{shown(view.tool)} has not the title, annotations and the like any more that you reviewed: nothing was "
            "approved (tool_changed)",
            # Of what stands beside a text only the newest is kept: there is nothing to compare with.
            advice=_see(opened, view),
        )


def _digits(opened: Opened, view: ToolView, given: str) -> str:
    from callgate.errors import CallgateError

    digits = given.strip().lower().removeprefix("sha256:")
    if len(digits) != _WHOLE or not all(char in "0123456789abcdef" for char in digits):
        # The server writes the texts: two whose hashes begin alike cost it little, two that are equal more than it has.
        raise CallgateError(
            f"{given!r} is not a whole hash, and an approval takes no other",
            advice=f"Give all {_WHOLE} digits: a server can write two texts whose first digits are the same. "
            f"{_see(opened, view)}",
        )
    return digits


def _changed(opened: Opened, view: ToolView, digits: str) -> Refused:
    from callgate.errors import Reason, Refused

    texts = opened.wait(opened.shelf.texts(view.server_id, view.tool))
    before = [one for one in texts if one.approval_hash.removeprefix("sha256:") == digits]
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


def _not_blocked(opened: Opened, view: ToolView) -> None:
    """What somebody has blocked does not come back as another version of its server unless it is said to."""
    from callgate.errors import Reason, Refused

    if not view.blocks:
        return
    _print_hard([view])
    lines = [f"  {to_withdraw(opened, pin)}" for pin in view.blocks]
    raise Refused(
        Reason.TOOL_BLOCKED,
        f"{shown(view.tool)}: {'; '.join(map(blocked_words, view.blocks))}. Nothing was approved (tool_blocked)",
        advice="To approve it all the same, add --override. To lift the block:\n" + "\n".join(lines),
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
        pin = opened.pins.book.pin(server, tool)
        if pin is not None and pin.action != "withdraw" and not _met(opened, server, tool):
            # Decisions outlive what was met of their server.
            decide(opened, [Choice("withdraw", server, tool, pin.approval_hash, note=note)])
            typer.echo(f"Withdrawn: {shown(tool)} on {shown(pin.server)}.")
            return
        view = find_tool(opened, server, tool)
        if view.pin is None or view.pin.action == "withdraw":
            raise CallgateError(
                f"there is no decision on {shown(view.tool)} that could be withdrawn", advice=_see(opened, view)
            )
        decide(opened, [Choice("withdraw", view.server_id, view.tool, view.approval_hash, note=note)])
        typer.echo(f"Withdrawn: {shown(view.tool)} on {shown(view.server)} waits for review again.")


def _met(opened: Opened, server_id: str, tool: str) -> bool:
    return any(one.tool == tool for one in opened.wait(opened.shelf.tools(server_id)))


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


def decide(
    opened: Opened,
    choices: list[Choice],
    views: dict[tuple[str, str], ToolView] | None = None,
    together: Iterable[str] = (),
) -> None:
    """Store decisions, all or none; what stands against one is shown before it is refused.

    `together` are the servers of which everything that waits was reviewed.
    """
    from callgate.errors import Reason, Refused

    try:
        opened.wait(opened.pins.decide(choices, by=operator(), together=together))
    except Refused as refused:
        if refused.reason == Reason.FINDINGS_NOT_OVERRIDDEN:
            _print_hard((views or {}).values())
        raise _named(refused) from None


def _print_hard(views: Iterable[ToolView]) -> None:
    from callgate.cli.tools_lines import print_lines
    from callgate.cli.tools_show import finding_lines

    for view in views:
        for finding in view.hard:
            entry = {"description": view.description, "inputSchema": view.input_schema}
            print_lines(console(stderr=True), finding_lines(finding, entry))


def _named(refused: Refused) -> Refused:
    """With the reason in the message, for whoever reads it in a log of a build."""
    from callgate.errors import Refused

    if refused.reason.value in refused.message:
        return refused
    message = f"{refused.message.rstrip('.')} ({refused.reason.value})"
    return Refused(refused.reason, message, advice=refused.advice, code=refused.code, data=refused.data)

"""Decisions on tools by command: one tool and one text at a time, or a file of them, all or none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from callgate.cli.common import ConfigOption, StoreOption, console, operator
from callgate.cli.printing import escaped, print_lines
from callgate.cli.services import OpenedStore, edit_pins, find_tool
from callgate.cli.tools.hints import blocked_words, still_waiting, to_withdraw
from callgate.cli.tools.show import decision_text, finding_lines
from callgate.errors import CallgateError, Reason, Refused
from callgate.pinning.model import Pin
from callgate.pinning.review.views import ServerView, ToolView
from callgate.pinning.service import Choice
from callgate.trust import effects as known
from callgate.trust.effects import EFFECTS, decode

ServerOption = Annotated[str, typer.Option("--server", metavar="SERVER", help="A server's name, or its identity.")]
ToolOption = Annotated[str, typer.Option("--tool", metavar="TOOL", help="The tool's name, exactly.")]
NoteOption = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; it is recorded with the decision.")]

_WHOLE: Final = 64
_MOST_BYTES: Final = 64 * 1024 * 1024
_KEYS: Final = ("server_id", "tool", "approval_hash")
# The digest of the whole entry: a file that has none names a text, whatever stands beside it.
_ENTRY: Final = "entry_digest"
_LABEL: Final = "label"
_FINDINGS: Final = 20


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
    with edit_pins(config, store) as opened:
        if file is not None:
            done = approve_file(opened, file, note=note, override=override, findings=findings)
        elif server is not None and tool is not None and approval_hash is not None:
            done = [find_tool(opened, server, tool)]
            _approve(opened, done[0], approval_hash, entry, note=note, override=override, label=label)
        still_waiting(opened, {(view.server_id, view.tool) for view in done})


def approval(view: ToolView, *, note: str, override: bool, label: Sequence[str] | None = None) -> Choice:
    """The approval of a tool as it was looked at: all of its entry, in spite of these findings and no others. `label`
    says what the tool does in the place of the proposal."""
    chosen = (view.server_id, view.tool, view.approval_hash)
    settled = relabel(view.label, label) if label is not None else view.label
    return Choice(
        "approve", *chosen, note=note, override=override, entry=view.entry_digest, shown=view.hard, label=settled
    )


def _approve(
    opened: OpenedStore,
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
    typer.echo(f"Approved: {escaped(view.tool)} on {escaped(view.server)}, {view.approval_hash}.")
    typer.echo(does_line(chosen.label))


def _same_text(opened: OpenedStore, view: ToolView, given: str) -> None:
    """Refuses a hash that is not the one of the newest text, or not all of it."""
    digits = _digits(opened, view, given)
    if not view.approval_hash:
        raise Refused(
            Reason.TOOL_UNFIT, f"nobody can approve {escaped(view.tool)}: {escaped(view.problem)} (tool_unfit)"
        )
    if view.approval_hash.removeprefix("sha256:") != digits:
        raise _text_changed(opened, view, digits)


def _same_entry(opened: OpenedStore, view: ToolView, given: str) -> None:
    """Refuses an entry with the text that was reviewed, and something else beside it."""
    if view.entry_digest.removeprefix("sha256:") != _digits(opened, view, given):
        raise Refused(
            Reason.TOOL_CHANGED,
            f"{escaped(view.tool)} has not the title, annotations and the like any more that you reviewed: nothing was "
            "approved (tool_changed)",
            # Of what stands beside a text only the newest is kept: there is nothing to compare with.
            advice=_see(opened, view),
        )


def _digits(opened: OpenedStore, view: ToolView, given: str) -> str:
    digits = given.strip().lower().removeprefix("sha256:")
    if len(digits) != _WHOLE or not all(char in "0123456789abcdef" for char in digits):
        # The server writes the texts: two whose hashes begin alike cost it little, two that are equal more than it has.
        raise CallgateError(
            f"{given!r} is not a whole hash, and an approval takes no other",
            advice=f"Give all {_WHOLE} digits: a server can write two texts whose first digits are the same. "
            f"{_see(opened, view)}",
        )
    return digits


def _text_changed(opened: OpenedStore, view: ToolView, digits: str) -> Refused:
    texts = opened.wait(opened.pin_store.texts(view.server_id, view.tool))
    before = [one for one in texts if one.approval_hash.removeprefix("sha256:") == digits]
    if not before:
        return Refused(
            Reason.TOOL_CHANGED,
            f"no text of {escaped(view.tool)} that was met has the hash {digits}: nothing was approved (tool_changed)",
            advice=f"Its hash is {view.approval_hash}. {_see(opened, view)}",
        )
    words = ("--server", view.server_id, "--tool", view.tool, "--from", before[0].approval_hash)
    return Refused(
        Reason.TOOL_CHANGED,
        f"{escaped(view.tool)} has changed since the text that you reviewed: nothing was approved (tool_changed)",
        advice=f"To see the difference: `{opened.command('tools', 'diff', *words, '--to', view.approval_hash)}`.",
    )


def _not_blocked(opened: OpenedStore, view: ToolView) -> None:
    """What somebody has blocked does not come back as another version of its server unless it is said to."""
    if not view.blocks:
        return
    _print_hard([view])
    lines = [f"  {to_withdraw(opened, pin)}" for pin in view.blocks]
    raise Refused(
        Reason.TOOL_BLOCKED,
        f"{escaped(view.tool)}: {'; '.join(map(blocked_words, view.blocks))}. Nothing was approved (tool_blocked)",
        advice="To approve it all the same, add --override. To lift the block:\n" + "\n".join(lines),
    )


def _see(opened: OpenedStore, view: ToolView) -> str:
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
    if not note.strip():
        raise CallgateError("a tool is blocked for a reason", advice="Say it with --note.")
    with edit_pins(config, store) as opened:
        view = find_tool(opened, server, tool)
        decide(opened, [Choice("block", view.server_id, view.tool, view.approval_hash, note=note)])
        typer.echo(f"Blocked: {escaped(view.tool)} on {escaped(view.server)}.")


def withdraw(
    *,
    server: ServerOption,
    tool: ToolOption,
    note: NoteOption = "",
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Take back the decision on a tool, an approval or a block: it waits for review again, and cannot be called."""
    with edit_pins(config, store) as opened:
        pin = opened.pins.book.pin(server, tool)
        if pin is not None and pin.action != "withdraw" and not _was_observed(opened, server, tool):
            # Decisions outlive what was met of their server.
            decide(opened, [Choice("withdraw", server, tool, pin.approval_hash, note=note)])
            typer.echo(f"Withdrawn: {escaped(tool)} on {escaped(pin.server)}.")
            return
        view = find_tool(opened, server, tool)
        if view.pin is None or view.pin.action == "withdraw":
            raise CallgateError(
                f"there is no decision on {escaped(view.tool)} that could be withdrawn", advice=_see(opened, view)
            )
        decide(opened, [Choice("withdraw", view.server_id, view.tool, view.approval_hash, note=note)])
        typer.echo(f"Withdrawn: {escaped(view.tool)} on {escaped(view.server)} waits for review again.")


def _was_observed(opened: OpenedStore, server_id: str, tool: str) -> bool:
    return any(one.tool == tool for one in opened.wait(opened.pin_store.tools(server_id)))


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
    with edit_pins(config, store) as opened:
        opened.wait(opened.pins.review_set(group, version, by=operator()))
    where = f"in group {escaped(group)}" if group else "of this gateway"
    typer.echo(f"Recorded: the servers {where} were reviewed together.")


def decide(
    opened: OpenedStore,
    choices: list[Choice],
    views: dict[tuple[str, str], ToolView] | None = None,
    together: Iterable[str] = (),
) -> None:
    """Store decisions, all or none; what stands against one is shown before it is refused.

    `together` are the servers of which everything that waits was reviewed.
    """
    try:
        opened.wait(opened.pins.decide(choices, by=operator(), together=together))
    except Refused as refused:
        if refused.reason == Reason.FINDINGS_NOT_OVERRIDDEN:
            _print_hard((views or {}).values())
        raise _with_reason(refused) from None


def _print_hard(views: Iterable[ToolView]) -> None:
    for view in views:
        for finding in view.hard:
            entry = {"description": view.description, "inputSchema": view.input_schema}
            print_lines(console(stderr=True), finding_lines(finding, entry))


def _with_reason(refused: Refused) -> Refused:
    """With the reason in the message, for whoever reads it in a log of a build."""
    if refused.reason.value in refused.message:
        return refused
    message = f"{refused.message.rstrip('.')} ({refused.reason.value})"
    return Refused(refused.reason, message, advice=refused.advice, code=refused.code, data=refused.data)


def approve_file(opened: OpenedStore, path: Path, *, note: str, override: bool, findings: bool) -> list[ToolView]:
    """Approve every entry that is not approved already: each has to be there, with this text, or none is approved.

    Tools with findings only where that is said (`findings`, `override`). All tools that the file names.
    """
    entries = read(path)
    views = _views(opened, path, entries)
    wanted = [(entry, view) for entry, view in zip(entries, views, strict=True) if not _is_approved(view)]
    _none_blocked(opened, path, [view for _, view in wanted])
    if not findings:
        typed = (*(("--override",) if override else ()), *(("--note", note) if note else ()))
        _without_findings(opened, path, [view for _, view in wanted], typed)
    if wanted:
        named = {(view.server_id, view.tool): view for _, view in wanted}
        whole, parted = _servers(opened, views)
        labels = {(entry["server_id"], entry["tool"]): entry.get(_LABEL) for entry in entries}
        choices = [approval(view, note=note, override=override, label=labels[key]) for key, view in named.items()]
        decide(opened, choices, named, [one.seen.server_id for one in whole])
    for _, view in wanted:
        typer.echo(f"Approved: {escaped(view.tool)} on {escaped(view.server)}, {view.approval_hash}.")
    if wanted:
        _tell_together(whole, parted)
    if len(wanted) < len(entries):
        typer.echo(f"Approved before: {len(entries) - len(wanted)}.")
    return views


def _servers(opened: OpenedStore, views: list[ToolView]) -> tuple[list[ServerView], list[ServerView]]:
    """The servers of the file: those of which it has everything that waits, and those of which it leaves something out.

    Who has reviewed a part of a server cannot say what the rest of it does to another.
    """
    named = {(view.server_id, view.tool) for view in views}
    whole: list[ServerView] = []
    parted: list[ServerView] = []
    for server in opened.wait(opened.pins.review()).servers:
        if any(view.server_id == server.seen.server_id for view in views):
            left = any(view.needs_review and (view.server_id, view.tool) not in named for view in server.tools)
            (parted if left else whole).append(server)
    return whole, parted


def _tell_together(whole: list[ServerView], parted: list[ServerView]) -> None:
    if len(whole) + len(parted) < 2:
        return
    if len(whole) > 1:
        typer.echo(f"Reviewed together: {', '.join(escaped(one.seen.name) for one in whole)}.")
    if parted:
        names = ", ".join(escaped(one.seen.name) for one in parted)
        typer.echo(f"Not reviewed together with others, as tools wait there that the file leaves out: {names}.")


def read(path: Path) -> list[dict[str, Any]]:
    """The entries: which tool, which text, and which whole entry where that is given; the rest is for people."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
        found = json.loads(text) if len(text) <= _MOST_BYTES else None
    except OSError as error:
        raise CallgateError(f"{path} cannot be read: {error.strerror}", advice="Check its path and owner.") from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not found or not all(_is_entry(one) for one in found):
        raise CallgateError(
            f"{path} is not a list of tools, each with {', '.join(_KEYS)}",
            advice="`callgate tools list --json` prints one; leave in it what you have reviewed.",
        )
    named = [(one["server_id"], one["tool"]) for one in found]
    if len(set(named)) < len(named):
        raise CallgateError(f"{path} names a tool twice", advice="Leave the entry in that you have reviewed.")
    return [{key: one[key] for key in (*_KEYS, _ENTRY, _LABEL) if key in one} for one in found]


def _is_entry(one: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(one.get(_ENTRY, ""), str):
        return False
    if not is_label(one.get(_LABEL, [])):
        return False
    return all(isinstance(one.get(key), str) and one[key] for key in _KEYS)


def _views(opened: OpenedStore, path: Path, entries: list[dict[str, Any]]) -> list[ToolView]:
    """Each tool as it was met last. Every entry that does not fit is named."""
    views: list[ToolView] = []
    missing: list[str] = []
    changed: list[tuple[dict[str, Any], ToolView]] = []
    named: dict[str, set[str]] = {}
    for entry in entries:
        named.setdefault(entry["server_id"], set()).add(entry["tool"])
    found = {
        (view.server_id, view.tool): view
        for server_id, names in named.items()
        for view in opened.wait(opened.pins.tools(server_id, names))
    }
    for entry in entries:
        view = found.get((entry["server_id"], entry["tool"]))
        if view is None:
            missing.append(f"{escaped(entry['tool'])} on {escaped(entry['server_id'])}")
            continue
        views.append(view)
        if view.approval_hash != entry["approval_hash"] or not _entry_unchanged(entry, view):
            changed.append((entry, view))
    if changed:
        lines = [
            f"  {escaped(view.tool)} on {escaped(view.server)}: {_diff(opened, *pair)}"
            for pair in changed
            for view in pair[1:]
        ]
        raise Refused(
            Reason.TOOL_CHANGED,
            f"not all tools are what {path} says, so nothing was approved (tool_changed)",
            advice="These have another text by now, or another title, annotations or the like:\n" + "\n".join(lines),
        )
    if missing:
        raise Refused(
            Reason.TOOL_UNKNOWN,
            f"not all tools of {path} were met, so nothing was approved (tool_unknown)",
            advice="These were not:\n" + "\n".join(f"  {one}" for one in missing),
        )
    return views


def _entry_unchanged(entry: dict[str, Any], view: ToolView) -> bool:
    """What is approved already may have changed beside its approval; whether that closes it is decided elsewhere."""
    return _is_approved(view) or entry.get(_ENTRY, view.entry_digest) == view.entry_digest


def _diff(opened: OpenedStore, entry: dict[str, Any], view: ToolView) -> str:
    words = ("--server", view.server_id, "--tool", view.tool)
    if view.approval_hash == entry["approval_hash"]:
        # Of what stands beside a text only the newest is kept: there is nothing to compare with.
        return opened.command("tools", "show", *words)
    return opened.command("tools", "diff", *words, "--from", entry["approval_hash"], "--to", view.approval_hash)


def _is_approved(view: ToolView) -> bool:
    return view.state == "approved"


def _none_blocked(opened: OpenedStore, path: Path, views: list[ToolView]) -> None:
    """A file may be older than a block: what somebody has blocked is let in only by somebody who says so."""
    found: list[tuple[ToolView, Pin]] = []
    for view in views:
        own = [view.pin] if view.state == "blocked" and view.pin is not None else []
        found += [(view, pin) for pin in (*own, *view.blocks)]
    if found:
        told = [f"  {escaped(view.tool)} on {escaped(view.server)}: {_blocked_line(view, pin)}" for view, pin in found]
        commands = dict.fromkeys(f"  {to_withdraw(opened, pin)}" for _, pin in found)
        raise Refused(
            Reason.TOOL_BLOCKED,
            f"{path} lists tools that somebody has blocked, so nothing was approved (tool_blocked)",
            advice="\n".join([*told, "Take them out of the file, or withdraw the block first:", *commands]),
        )


def _without_findings(opened: OpenedStore, path: Path, views: list[ToolView], typed: tuple[str, ...]) -> None:
    """A file says what was listed, not what was read: findings that are not hard are accepted by whoever says so."""
    found = [
        f"  {escaped(view.tool)} on {escaped(view.server)}: {escaped(finding.rule)}: {escaped(finding.what)}"
        for view in views
        for finding in view.findings
        if finding.tier == "soft"
    ]
    if found:
        more = [f"  and {len(found) - _FINDINGS} more"] if len(found) > _FINDINGS else []
        again = opened.command("tools", "approve", "--from", str(path), "--with-findings", *typed)
        raise Refused(
            Reason.FINDINGS_NOT_OVERRIDDEN,
            f"tools of {path} have findings, so nothing was approved (findings_not_overridden)",
            advice="\n".join([*found[:_FINDINGS], *more, f"Once you have read them: {again}"]),
        )


def _blocked_line(view: ToolView, pin: Pin) -> str:
    return decision_text(pin) if pin.server_id == view.server_id else blocked_words(pin)


def effects_of(label: str) -> list[str]:
    """The effects that a label names, from the gravest on; none where there is no label."""
    found = decode(label)
    return [] if found is None else list(found.effects)


def does_line(label: str) -> str:
    """One sentence for the person who has approved a tool."""
    found = decode(label)
    return "It has no label: what it does counts as unknown." if found is None else f"Label: {found.line}."


def is_label(given: Any) -> bool:
    """Whether this is a list of effects that we know; an empty one names none."""
    return isinstance(given, list) and len(given) <= len(EFFECTS) and all(one in EFFECTS for one in given)


def relabel(proposed: str, effects: Sequence[str]) -> str:
    """A label with these effects; as proposed where they are the same or none is named."""
    if not is_label(list(effects)):
        words = ", ".join(known.EFFECTS)
        raise Refused(Reason.INVALID_PARAMS, f"a label is made of these words: {words}", advice="Name one of them.")
    return known.relabelled(proposed, effects)

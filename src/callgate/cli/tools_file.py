"""`callgate tools approve --from FILE`: a file of reviewed tools, for machines that are set up without a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from callgate.cli.pinned import Opened, shown
from callgate.cli.tool_labels import is_label
from callgate.cli.tools_blocks import blocked_words, to_withdraw
from callgate.cli.tools_deciding import approval, decide
from callgate.cli.tools_show import decided

if TYPE_CHECKING:
    from callgate.pinning.model import Pin
    from callgate.pinning.review.views import ServerView, ToolView

_MOST_BYTES: Final = 64 * 1024 * 1024
_KEYS: Final = ("server_id", "tool", "approval_hash")
# The digest of the whole entry: a file that has none names a text, whatever stands beside it.
_ENTRY: Final = "entry_digest"
_LABEL: Final = "label"
_FINDINGS: Final = 20


def approve_file(opened: Opened, path: Path, *, note: str, override: bool, findings: bool) -> list[ToolView]:
    """Approve every entry that is not approved already: each has to be there, with this text, or none is approved.

    Tools with findings only where that is said (`findings`, `override`). All tools that the file names.
    """
    entries = read(path)
    views = _views(opened, path, entries)
    wanted = [(entry, view) for entry, view in zip(entries, views, strict=True) if not _approved(view)]
    _not_blocked(opened, path, [view for _, view in wanted])
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
        typer.echo(f"Approved: {shown(view.tool)} on {shown(view.server)}, {view.approval_hash}.")
    if wanted:
        _tell_together(whole, parted)
    if len(wanted) < len(entries):
        typer.echo(f"Approved before: {len(entries) - len(wanted)}.")
    return views


def _servers(opened: Opened, views: list[ToolView]) -> tuple[list[ServerView], list[ServerView]]:
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
        typer.echo(f"Reviewed together: {', '.join(shown(one.seen.name) for one in whole)}.")
    if parted:
        names = ", ".join(shown(one.seen.name) for one in parted)
        typer.echo(f"Not reviewed together with others, as tools wait there that the file leaves out: {names}.")


def read(path: Path) -> list[dict[str, Any]]:
    """The entries: which tool, which text, and which whole entry where that is given; the rest is for people."""
    from callgate.errors import CallgateError

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


def _views(opened: Opened, path: Path, entries: list[dict[str, Any]]) -> list[ToolView]:
    """Each tool as it was met last. Every entry that does not fit is named."""
    from callgate.errors import Reason, Refused

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
            missing.append(f"{shown(entry['tool'])} on {shown(entry['server_id'])}")
            continue
        views.append(view)
        if view.approval_hash != entry["approval_hash"] or not _same_entry(entry, view):
            changed.append((entry, view))
    if changed:
        lines = [
            f"  {shown(view.tool)} on {shown(view.server)}: {_diff(opened, *pair)}"
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


def _same_entry(entry: dict[str, Any], view: ToolView) -> bool:
    """What is approved already may have changed beside its approval; whether that closes it is decided elsewhere."""
    return _approved(view) or entry.get(_ENTRY, view.entry_digest) == view.entry_digest


def _diff(opened: Opened, entry: dict[str, Any], view: ToolView) -> str:
    words = ("--server", view.server_id, "--tool", view.tool)
    if view.approval_hash == entry["approval_hash"]:
        # Of what stands beside a text only the newest is kept: there is nothing to compare with.
        return opened.command("tools", "show", *words)
    return opened.command("tools", "diff", *words, "--from", entry["approval_hash"], "--to", view.approval_hash)


def _approved(view: ToolView) -> bool:
    return view.state == "approved"


def _not_blocked(opened: Opened, path: Path, views: list[ToolView]) -> None:
    """A file may be older than a block: what somebody has blocked is let in only by somebody who says so."""
    from callgate.errors import Reason, Refused

    found: list[tuple[ToolView, Pin]] = []
    for view in views:
        own = [view.pin] if view.state == "blocked" and view.pin is not None else []
        found += [(view, pin) for pin in (*own, *view.blocks)]
    if found:
        told = [f"  {shown(view.tool)} on {shown(view.server)}: {_blocked(view, pin)}" for view, pin in found]
        commands = dict.fromkeys(f"  {to_withdraw(opened, pin)}" for _, pin in found)
        raise Refused(
            Reason.TOOL_BLOCKED,
            f"{path} lists tools that somebody has blocked, so nothing was approved (tool_blocked)",
            advice="\n".join([*told, "Take them out of the file, or withdraw the block first:", *commands]),
        )


def _without_findings(opened: Opened, path: Path, views: list[ToolView], typed: tuple[str, ...]) -> None:
    """A file says what was listed, not what was read: findings that are not hard are accepted by whoever says so."""
    from callgate.errors import Reason, Refused

    found = [
        f"  {shown(view.tool)} on {shown(view.server)}: {shown(finding.rule)}: {shown(finding.what)}"
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


def _blocked(view: ToolView, pin: Pin) -> str:
    return decided(pin) if pin.server_id == view.server_id else blocked_words(pin)

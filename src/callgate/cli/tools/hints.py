"""What to type next: to read a tool, to decide on it, to lift a block, and for what still waits."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from callgate.cli.common import fields_of, say
from callgate.cli.printing import escaped, moment
from callgate.cli.services import OpenedStore
from callgate.inspection import ToolFinding
from callgate.pinning.model import Pin
from callgate.pinning.review.views import Review, ToolView, count_items

_SOME: Final = 5


def how_to_decide(opened: OpenedStore, view: ToolView) -> str:
    """What to type to decide on this tool, on exactly this entry."""
    override = ("--override",) if view.hard else ()
    exactly = ("--hash", view.approval_hash, "--entry", view.entry_digest)
    approve = opened.command("tools", "approve", *_tool_options(view), *exactly, *override)
    block = opened.command("tools", "block", *_tool_options(view), "--note", "WHY")
    return f"To approve exactly this:  {approve}\nTo block it:              {block}"


def how_to_read(opened: OpenedStore, view: ToolView) -> str:
    """What to know and to type before one decides: blocks, what an approval overrules, the text, the difference."""
    lines = [f"{blocked_words(pin)}. To approve it overrules that." for pin in view.blocks]
    if view.hard:
        lines.append("To approve it overrules:")
        lines += [_finding_line(finding) for finding in view.hard]
    lines += [f"To read it whole:         {opened.command('tools', 'show', *_tool_options(view))}"]
    if view.difference is not None and view.difference.since is not None and not view.difference.empty:
        lines.append(f"To see what changed:      {opened.command('tools', 'diff', *_tool_options(view))}")
    return "\n".join(lines)


def _finding_line(finding: ToolFinding) -> str:
    where = f", {escaped(finding.where)}" if finding.where else ""
    return f"  HARD  {escaped(finding.rule)}{where}: {escaped(finding.what)}"


def _tool_options(view: ToolView) -> tuple[str, ...]:
    return "--server", view.server_id, "--tool", view.tool


def still_waiting(opened: OpenedStore, approved: Collection[tuple[str, str]] = ()) -> None:
    """What a decision leaves to be done, and which of the tools just approved cannot be called yet."""
    review = opened.wait(opened.pins.review())
    every = [tool for server in review.servers for tool in server.tools]
    held = [tool for tool in every if tool.held and (tool.server_id, tool.tool) in approved]
    for line in refused_lines(held[:_SOME]):
        say(f"Not open yet: {line}.")
    if len(held) > _SOME:
        say(f"Not open yet for the same reason: {len(held) - _SOME} more.")
    if review.waits:
        one = "waits" if review.waits == 1 else "wait"
        say(f"{what_waits(review)} {one} for review still: `{opened.command('review')}`.")


def what_waits(review: Review) -> str:
    sets = sum(not one.reviewed for one in review.sets)
    told = [count_items(review.pending)] if review.pending else []
    return " and ".join([*told, *([f"{sets} set{'' if sets == 1 else 's'} of servers"] if sets else [])])


def refused_lines(held: Iterable[ToolView]) -> list[str]:
    """Why each of these cannot be called."""
    return [f"{escaped(view.tool)} on {escaped(view.server)}: {escaped(view.refusal)}" for view in held]


def blocked_words(pin: Pin) -> str:
    """Who blocked it, as what and why; without a full stop."""
    why = f": {escaped(pin.note)}" if pin.note else ""
    return (
        f"{escaped(pin.approved_by)} blocked it under another identity of this server, {escaped(pin.server_id)}, "
        f"{moment(pin.approved_at)}{why}"
    )


def blocked_row(pin: Pin) -> dict[str, Any]:
    """A block for machines."""
    return fields_of(pin, "server_id approved_by approved_at note")


def to_withdraw(opened: OpenedStore, pin: Pin) -> str:
    """What lifts a block."""
    return opened.command("tools", "withdraw", "--server", pin.server_id, "--tool", pin.tool)

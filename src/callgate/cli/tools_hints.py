"""What to type next: to read a tool, to decide on it, and for what still waits."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from callgate.cli.common import say
from callgate.cli.pinned import Opened, shown
from callgate.cli.tools_blocks import blocked_words

if TYPE_CHECKING:
    from callgate.inspection import ToolFinding
    from callgate.pinning.review.views import Review, ToolView

_SOME: Final = 5


def how_to_decide(opened: Opened, view: ToolView) -> str:
    """What to type to decide on this tool, on exactly this entry."""
    override = ("--override",) if view.hard else ()
    exactly = ("--hash", view.approval_hash, "--entry", view.entry_digest)
    approve = opened.command("tools", "approve", *_named(view), *exactly, *override)
    block = opened.command("tools", "block", *_named(view), "--note", "WHY")
    return f"To approve exactly this:  {approve}\nTo block it:              {block}"


def how_to_read(opened: Opened, view: ToolView) -> str:
    """What to know and to type before one decides: blocks, what an approval overrules, the text, the difference."""
    lines = [f"{blocked_words(pin)}. To approve it overrules that." for pin in view.blocks]
    if view.hard:
        lines.append("To approve it overrules:")
        lines += [_overruled(finding) for finding in view.hard]
    lines += [f"To read it whole:         {opened.command('tools', 'show', *_named(view))}"]
    if view.difference is not None and view.difference.since is not None and not view.difference.empty:
        lines.append(f"To see what changed:      {opened.command('tools', 'diff', *_named(view))}")
    return "\n".join(lines)


def _overruled(finding: ToolFinding) -> str:
    where = f", {shown(finding.where)}" if finding.where else ""
    return f"  HARD  {shown(finding.rule)}{where}: {shown(finding.what)}"


def _named(view: ToolView) -> tuple[str, ...]:
    return "--server", view.server_id, "--tool", view.tool


def still_waiting(opened: Opened, approved: Collection[tuple[str, str]] = ()) -> None:
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
    tools, sets = len(review.pending), sum(not one.reviewed for one in review.sets)
    counted = ((tools, "tool", "tools"), (sets, "set of servers", "sets of servers"))
    return " and ".join(f"{count} {one if count == 1 else many}" for count, one, many in counted if count)


def refused_lines(held: Iterable[ToolView]) -> list[str]:
    """Why each of these cannot be called."""
    return [f"{shown(view.tool)} on {shown(view.server)}: {shown(view.refusal)}" for view in held]

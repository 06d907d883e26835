"""`callgate tools`: the tools that servers list, and which of them somebody has approved."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
import typer

from callgate.cli.common import ConfigOption, JsonOption, StoreOption, console, fields_of, print_json, say
from callgate.cli.printing import escaped, heading, moment, print_lines, print_table, short_hash, text_line
from callgate.cli.services import WHERE_TOOLS_COME_FROM, OpenedStore, find_server, find_tool, open_pins
from callgate.cli.tools.arguments import marked_lines
from callgate.cli.tools.decide import effects_of
from callgate.cli.tools.diff import DIGITS, compare_texts, difference_lines, edit_lines
from callgate.cli.tools.hints import blocked_row, blocked_words, how_to_decide, refused_lines
from callgate.cli.tools.show import count_findings, decision_text, tool_lines
from callgate.errors import Reason, Refused
from callgate.pinning.model import Pin
from callgate.pinning.review import argument_views
from callgate.pinning.review.views import TextDifference, ToolView, count_items

ServerOption = Annotated[str, typer.Option("--server", metavar="SERVER", help="A server's name, or its identity.")]
ToolOption = Annotated[str, typer.Option("--tool", metavar="TOOL", help="The tool's name, exactly.")]

_DECISIONS: Final = {"vary": "argument is data", "bind": "argument is bound"}
_PREFIX: Final = f"Its first {DIGITS} digits or more do."


class StateFilter(StrEnum):
    """Which tools are listed; `pending` are all that wait for a reviewer."""

    PENDING = "pending"
    NEW = "new"
    CHANGED = "changed"
    RETIRED = "retired"
    APPROVED = "approved"
    BLOCKED = "blocked"
    UNFIT = "unfit"
    GONE = "gone"
    ALL = "all"


def list_tools(
    *,
    server: Annotated[str | None, typer.Option("--server", metavar="SERVER", help="Only this server's.")] = None,
    state: Annotated[StateFilter, typer.Option("--state", help="Only those in this state.")] = StateFilter.ALL,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the tools that servers were seen to offer, and how each of them stands.

    What --json prints is also what `callgate tools approve --from FILE` takes.
    """
    with open_pins(config, store) as opened:
        views = [view for view in _views(opened, server) if _fits(view, state)]
        if as_json:
            print_json([row(view) for view in views])
            return
        if views:
            _print(views)
            _print_reasons(views)
            _print_marks(opened, {view.server_id for view in views})
        _what_next(opened, views, state)


def _views(opened: OpenedStore, server: str | None) -> list[ToolView]:
    """The tools of a review, or of one server; that may also be one that is there no more."""
    review = opened.wait(opened.pins.review())
    if server is None:
        return [view for one in review.servers for view in one.tools]
    wanted = find_server(opened, server).server_id
    found = [view for one in review.servers for view in one.tools if one.seen.server_id == wanted]
    if found:
        return found
    names = {one.tool for one in opened.wait(opened.pin_store.tools(wanted))}
    return opened.wait(opened.pins.tools(wanted, names))


def _fits(view: ToolView, state: StateFilter) -> bool:
    if state == StateFilter.PENDING:
        return view.needs_review
    return state == StateFilter.ALL or view.state == state.value


def row(view: ToolView) -> dict[str, Any]:
    """A tool for machines: enough to approve it, and how it stands."""
    return {
        **fields_of(view, "server server_id"),
        "also_named": list(view.also),
        **fields_of(view, "tool kind approval_hash state summary does"),
        "label": effects_of(view.label),
        **fields_of(view, "size tokens"),
        "findings": msgspec.to_builtins(view.findings),
        "hints": list(view.hints),
        **fields_of(view, "problem refusal held"),
        "blocked_as": [blocked_row(pin) for pin in view.blocks],
        **fields_of(view, "first_seen last_seen"),
        "decision": None if view.pin is None else record(view.pin),
    }


def record(pin: Pin) -> dict[str, Any]:
    """A decision as it is on record; only the tool's own entry is left out."""
    return {
        **fields_of(pin, "seq scheme action server_id"),
        "tool_name": pin.tool,
        **fields_of(pin, "approval_hash approved_at approved_by server note"),
        "overrides": list(pin.overrides),
        "beside": dict(pin.beside),
        "together": list(pin.together),
        "label": effects_of(pin.label),
        **({} if pin.argument is None else {"argument": msgspec.to_builtins(pin.argument)}),
    }


def _print(views: list[ToolView]) -> None:
    print_table(
        ("server", "tool", "state", "hash", "tokens", "findings", "met", "does"),
        (
            (
                ", ".join(map(escaped, (view.server, *view.also))),
                escaped(view.tool),
                "approved, held" if view.held else view.state,
                _part(view.approval_hash),
                str(view.tokens),
                count_findings(view) or "-",
                moment(view.last_seen),
                escaped(view.does),
            )
            for view in views
        ),
    )


def _print_marks(opened: OpenedStore, servers: Collection[str]) -> None:
    """Which arguments of their commands may vary, because somebody said so."""
    every = [one for one in opened.wait(opened.pin_store.servers()) if one.server_id in servers]
    lines = [line for one in every for line in marked_lines(one.name, argument_views(one, opened.pins.book))]
    if lines:
        typer.echo("")
    print_lines(console(), lines)


def _part(approval_hash: str) -> str:
    """The beginning of a hash, marked as no more than that."""
    digits = short_hash(approval_hash)
    return f"{digits}…" if approval_hash.removeprefix("sha256:") != digits and approval_hash else digits


def _print_reasons(views: list[ToolView]) -> None:
    """Why some of them cannot be called although nobody is asked about them now, and what stands against others."""
    lines = refused_lines(view for view in views if view.refusal and not view.needs_review and view.state != "gone")
    for view in views:
        if view.needs_review:
            lines += [f"{escaped(view.tool)} on {escaped(view.server)}: {blocked_words(pin)}" for pin in view.blocks]
    if lines:
        typer.echo("")
    print_lines(console(), [text_line(line, rest="  ") for line in lines])


def _what_next(opened: OpenedStore, views: list[ToolView], state: StateFilter) -> None:
    waiting = sum(view.needs_review for view in views)
    if not views and state == StateFilter.ALL:
        say(f"No server's tools were met yet. {WHERE_TOOLS_COME_FROM}")
    elif not views:
        say(f"No tool is {state.value}. `{opened.command('tools', 'list')}` lists all of them.")
    if waiting:
        tools = f"{count_items(view for view in views if view.needs_review)} {'waits' if waiting == 1 else 'wait'}"
        them = "it, and asks for a decision" if waiting == 1 else "them, and asks for a decision on each"
        say(f"\n{tools} for review: `{opened.command('review')}` shows {them}.")
    held = sum(view.held for view in views)
    if held:
        tools = "1 approved tool is" if held == 1 else f"{held} approved tools are"
        command = opened.command("review")
        say(f"\n{tools} held until servers were reviewed together: `{command}` shows them, and asks for that.")
    if views:
        command = opened.command("tools", "list", "--json")
        say(f"\nA hash with … is the beginning of one; an approval takes all of it, which `{command}` prints.")


def show(
    *,
    server: ServerOption,
    tool: ToolOption,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one tool whole: what the model gets to read, its schema, what was found in it, what changed."""
    with open_pins(config, store) as opened:
        view = find_tool(opened, server, tool)
        if as_json:
            apart = ("pin", "blocks", "difference")
            whole = {key: value for key, value in msgspec.to_builtins(view).items() if key not in apart}
            changed = None if view.difference is None else _difference_row(view.difference)
            print_json({**whole, **row(view), "difference": changed})
            return
        print_lines(console(), tool_lines(view))
        _print_marks(opened, [view.server_id])
        if view.needs_review:
            say("\n" + how_to_decide(opened, view))


def _difference_row(difference: TextDifference) -> dict[str, Any]:
    since = difference.since
    found: dict[str, Any] = {
        name: msgspec.to_builtins(getattr(difference, name))
        for name in ("description", "schema", "beside", "other_identity")
    }
    return {**found, "since": None if since is None else record(since)}


def _comparison_row(view: ToolView, difference: TextDifference | None) -> dict[str, Any]:
    """A comparison for machines; None where there is only one text."""
    found = None if difference is None else _difference_row(difference)
    return {"server": view.server, "server_id": view.server_id, "tool": view.tool, "difference": found}


def diff(
    *,
    server: ServerOption,
    tool: ToolOption,
    before: Annotated[
        str | None, typer.Option("--from", metavar="HASH", help=f"From the text of this hash. {_PREFIX}")
    ] = None,
    after: Annotated[
        str | None, typer.Option("--to", metavar="HASH", help=f"To the text of this hash. {_PREFIX}")
    ] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what changed in a tool since it was approved, word by word, or between any two texts that were met."""
    with open_pins(config, store) as opened:
        view = find_tool(opened, server, tool)
        if before is None and after is None and view.difference is not None and view.difference.since is not None:
            if as_json:
                print_json(_comparison_row(view, view.difference))
                return
            print_lines(
                console(), [text_line(f"{escaped(view.tool)} on {escaped(view.server)}: {view.state}{_last(view)}")]
            )
            print_lines(console(), difference_lines(view.difference))
            return
        found = compare_texts(opened, view, before, after)
        if as_json:
            print_json(_comparison_row(view, None if found is None else found[2]))
            return
        if found is None:
            say(
                f"Nobody has decided on {escaped(view.tool)} yet and one text of it was met, so there is nothing to "
                f"compare. To read it: `{opened.command('tools', 'show', '--server', server, '--tool', tool)}`."
            )
            return
        old, new, difference = found
        print_lines(console(), [text_line(f"from {old}"), text_line(f"to   {new}")])
        print_lines(console(), edit_lines(difference))


def _last(view: ToolView) -> str:
    """Why a tool waits whose text is the one that was approved."""
    return f"; {decision_text(view.pin)}" if view.pin is not None and view.pin.action != "approve" else ""


def history(
    *,
    server: Annotated[str | None, typer.Option("--server", metavar="SERVER", help="Only this server's.")] = None,
    tool: Annotated[str | None, typer.Option("--tool", metavar="TOOL", help="Only this tool's.")] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List every decision on tools, the oldest first: which text, when, by whom."""
    with open_pins(config, store) as opened:
        book = opened.pins.book
        seen = None if server is None else find_server(opened, server).server_id
        every = [one for pin in book.pins() for one in book.history(pin.server_id, pin.tool)]
        every += [] if tool else [*book.sets(), *book.arguments()]
        pins = sorted(
            (one for one in every if seen in (None, one.server_id) and tool in (None, one.tool)),
            key=lambda one: one.seq,
        )
        if as_json:
            print_json([record(pin) for pin in pins])
        elif pins:
            _print_history(pins)
        else:
            say(f"Nobody has decided on a tool yet. `{opened.command('review')}` asks for what waits.")
        _not_broken(opened)


def _not_broken(opened: OpenedStore) -> None:
    if opened.pins.book.broken:
        raise Refused(
            Reason.PIN_TAMPERED,
            f"the decisions are not as they were written: {opened.pins.book.broken} (pin_tampered)",
            advice=f"`{opened.command('tools', 'verify')}` says more.",
        )


def _print_history(pins: list[Pin]) -> None:
    print_table(
        ("no", "when", "decision", "server", "tool", "hash", "by"),
        (
            (
                str(pin.seq),
                moment(pin.approved_at),
                _DECISIONS.get(pin.action, "set reviewed" if not pin.tool else pin.action),
                escaped(pin.server),
                escaped(pin.tool if pin.argument is None else f"`{pin.argument.shown}`") or "-",
                _part(pin.approval_hash),
                pin.approved_by,
            )
            for pin in pins
        ),
    )
    # Below the table, where there is room for them: a reason that is cut may say the opposite.
    notes = [text_line(escaped(pin.note), lead=f"{pin.seq:>4}  ", rest="      ") for pin in pins if pin.note]
    if notes:
        print_lines(console(), [*heading("Notes"), *notes])

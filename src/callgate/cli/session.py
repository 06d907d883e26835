"""`callgate session` and `callgate quarantine`: what agents' sessions read, how calls were decided, held results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.text import Text

from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    YesOption,
    confirm,
    console,
    fields_of,
    operator,
    print_json,
    say,
    short,
)
from callgate.cli.printing import (
    Line,
    blank,
    escaped,
    fact,
    heading,
    moment,
    plain,
    print_lines,
    print_table,
    quote_lines,
    text_line,
)
from callgate.cli.services import OpenedStore, edit_services, open_services
from callgate.trust.model import Quarantined, Session
from callgate.trust.picture import Flow, Node, Picture, Tag, session_tags
from callgate.trust.service import HeldView, Settled

KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The session's key, or enough of its beginning.")]

_MOST: Final = 10_000
_STEPS: Final = 60
STYLES: Final = {"good": "green", "plain": "", "wait": "yellow", "bad": "bold red"}
_RAIL: Final = "   │    "
_BESIDE: Final = f"{_RAIL}       "
_MARKS: Final = {"good": "●", "wait": "◆", "bad": "✖", "plain": "○"}
_WIDTH: Final = 12
HandleArgument = Annotated[str, typer.Argument(metavar="HANDLE", help="The handle, or enough of its beginning.")]
NoteOption = Annotated[str, typer.Option("--note", help="Why; it is recorded with your name.")]


def list_sessions(
    config: ConfigOption = None,
    store: StoreOption = None,
    limit: Annotated[int, typer.Option(min=1, max=_MOST, help="At most so many, the latest seen.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List the sessions of agents, the latest seen first, with their labels."""
    with open_services(config, store) as opened:
        found = opened.wait(opened.trust.sessions(limit=limit))
    if as_json:
        print_json([row(one) for one in found])
    elif not found:
        say("No agent has called a tool through this store yet.")
    else:
        _print(list(found))


def show(
    key: KeyArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    steps: Annotated[int, typer.Option("--steps", min=1, max=2000, help="At most so many, the newest.")] = _STEPS,
    as_json: JsonOption = False,
) -> None:
    """Show one session: each call, how it was decided and why, and where each of its values came from."""
    with open_services(config, store) as opened:
        picture = opened.wait(opened.trust.view(key, most=steps))
        if as_json:
            found: dict[str, Any] = msgspec.to_builtins(picture, str_keys=True)
            print_json({**row(picture.session), "folded": picture.folded, "steps": _steps(found)})
            return
        print_lines(console(), picture_lines(picture))
        if picture.tags:
            words = ("session", "declassify", picture.session.key, "--note", "WHY")
            say(f"\nIf all that it has read is harmless:  {opened.command(*words)}")


def declassify(
    key: KeyArgument,
    note: Annotated[str, typer.Option("--note", help="Why; it is recorded with your name.")],
    config: ConfigOption = None,
    store: StoreOption = None,
    yes: YesOption = False,
) -> None:
    """Take all labels off a session and forget what it has read of strangers' text. This is recorded."""
    # Before the keys of the log: where there is no such session, nobody needs them.
    with open_services(config, store) as opened:
        session = opened.wait(opened.trust.find(key))
    with edit_services(config, store) as opened:
        confirm(f"Take all labels off the session of {escaped(session.agent)} ({session.key})?", yes=yes)
        after = opened.wait(opened.trust.declassify(session.key, by=operator(), note=note))
        typer.echo(f"Declassified: {after.key}. It starts clean from here; the audit log has who and why.")


def row(session: Session) -> dict[str, Any]:
    """A session for machines."""
    label = session.label
    return {
        **fields_of(session, "key agent opened_at seen_at steps version"),
        "label": {
            "open_world": label.open_world,
            "malicious": label.malicious,
            "sensitivity": sorted(label.sensitivity),
            "attribution": list(label.attribution),
        },
    }


def _steps(found: dict[str, Any]) -> list[dict[str, Any]]:
    results = {node["seq"]: node for node in found["nodes"] if node["kind"] == "result"}
    wanted = ("seq", "at", "verdict", "rule", "reason", "why", "tags")
    return [
        {
            "server": node["about"],
            "tool": node["title"],
            **{name: node[name] for name in wanted},
            "values": found["values"].get(str(node["seq"]), []),
            "result": _result_text(results.get(node["seq"])),
        }
        for node in found["nodes"]
        if node["kind"] in ("call", "act")
    ]


def _result_text(node: dict[str, Any] | None) -> dict[str, Any] | None:
    if node is None:
        return None
    return {"source": node["title"], "attribution": node["about"], "tags": node["tags"], "warnings": node["warnings"]}


def _print(found: list[Session]) -> None:
    keys = short(one.key for one in found)
    print_table(
        ("session", "agent", "seen", "steps", "labels"),
        (
            (
                keys[one.key],
                one.agent or "-",
                moment(one.seen_at),
                str(one.steps),
                ", ".join(tag.text for tag in session_tags(one.label)) or "-",
            )
            for one in found
        ),
    )


def picture_lines(picture: Picture) -> Iterator[Line]:
    """All of it; every text of a peer is spelt out."""
    session = picture.session
    yield fact("session", session.key)
    yield fact("agent", escaped(session.agent) or "-")
    yield fact("opened", f"{moment(session.opened_at)}, last seen {moment(session.seen_at)}")
    yield Line(tags(picture.tags), f"{'labels':<11} ", " " * 12)
    for source in session.label.attribution[:_WIDTH]:
        yield fact("source", escaped(source))
    yield blank()
    if picture.folded:
        steps = "1 earlier step" if picture.folded == 1 else f"{picture.folded} earlier steps"
        yield text_line(f"   ⋮    {steps}, not shown; their labels still count", "dim")
    for node in picture.calls:
        yield from _step(node, picture)
    if not picture.calls:
        yield text_line("No call was made in it yet.", "dim")


def tags(found: tuple[Tag, ...]) -> Text:
    """Labels in their colours."""
    out = Text()
    for at, tag in enumerate(found):
        out.append(", " if at else "").append(escaped(tag.text), STYLES[tag.tone])
    return out if found else Text("none", "dim")


def _step(node: Node, picture: Picture) -> Iterator[Line]:
    head = Text().append(_MARKS[node.tone], STYLES[node.tone]).append("  ")
    if node.kind == "act":
        yield Line(head.append(escaped(node.title), "bold"), f"{node.seq:>3} ", _RAIL)
        yield from (text_line(escaped(line), lead=_RAIL) for line in node.why.split("\n") if line)
        yield text_line(moment(node.at), "dim", lead=_RAIL)
        return
    head.append(escaped(node.title), "bold").append(f" on {escaped(node.about)}  ")
    head.append(node.verdict, STYLES[node.tone])
    head.append(f"  {escaped(node.rule)}" if node.rule else "", "dim")
    yield Line(head, f"{node.seq:>3} ", _RAIL)
    if node.tags:
        yield Line(Text("does   ", "dim").append_text(tags(node.tags)), _RAIL, _BESIDE)
    yield from _why(node)
    for flow in picture.values.get(node.seq, ()):
        yield _value(flow)
    yield from _result(picture.result(node.seq))


def _why(node: Node) -> Iterator[Line]:
    lines = [line for line in node.why.split("\n") if line.strip()]
    for at, line in enumerate(lines):
        out = Text().append(escaped(line), STYLES[node.tone])
        if node.reason and at == len(lines) - 1:
            out.append(f"  {node.reason}", "dim")
        yield Line(out, f"{_RAIL}{'' if at else 'why':<7}", _BESIDE)


def _value(flow: Flow) -> Line:
    out = Text().append(escaped(flow.path), "bold" if flow.critical else "")
    if flow.shown:
        out.append(f" = {escaped(flow.shown)}")
    out.append("  ").append(flow.where, STYLES[flow.tone])
    if flow.steps:
        numbers = ", ".join(map(str, flow.steps))
        out.append(f"  ← {numbers}", STYLES[flow.tone])
    return Line(out, f"{_RAIL}takes  ", _BESIDE)


def _result(node: Node | None) -> Iterator[Line]:
    if node is None:
        yield text_line("gave   nothing: the call was not made", "dim", lead=_RAIL)
        return
    out = Text().append(escaped(node.title), STYLES[node.tone])
    if node.tags:
        out.append("  ").append_text(tags(node.tags))
    yield Line(out, f"{_RAIL}gave   ", _BESIDE)
    if node.about:
        yield text_line(f"from {escaped(node.about)}", "dim", lead=_BESIDE)
    for warning in node.warnings:
        yield text_line(f"WARNING {escaped(warning)}", "bold red", lead=_BESIDE)


def list_held(
    config: ConfigOption = None,
    store: StoreOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many, the newest.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List the results that are held back, the newest first."""
    with open_services(config, store) as opened:
        held = opened.wait(opened.trust.holding(limit=limit))
    if as_json:
        print_json([held_row(one) for one in held])
    elif not held:
        say("Nothing is held back.")
    else:
        print_table(
            ("handle", "held", "server", "tool", "warnings"),
            ((one.handle, moment(one.at), one.server, one.tool, plain("; ".join(one.warnings))) for one in held),
        )


def show_held(
    handle: HandleArgument, config: ConfigOption = None, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Show a held result: why it is held, and what it says, with what is invisible spelt out."""
    with open_services(config, store) as opened:
        view = opened.wait(opened.trust.show(handle))
        if as_json:
            print_json({**held_row(view.held), "reply": view.raw, "beyond": view.beyond, "closed": view.closed})
            return
        print_lines(console(), _lines(view))
        if view.held.state == "held":
            release_it = opened.command("quarantine", "release", view.held.handle)
            drop_it = opened.command("quarantine", "drop", view.held.handle)
            say(f"\nTo let the agent have it:  {release_it}\nTo be rid of it:           {drop_it}")


def release(
    handle: HandleArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    note: NoteOption = "",
    yes: YesOption = False,
) -> None:
    """Let a held result go to its agent. This is recorded."""
    with edit_services(config, store) as opened:
        _settle(opened, handle, "released", "Let the agent have", note=note, yes=yes)


def drop(
    handle: HandleArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    note: NoteOption = "",
    yes: YesOption = False,
) -> None:
    """Drop a held result: nothing of it is kept. This is recorded."""
    with edit_services(config, store) as opened:
        _settle(opened, handle, "dropped", "Drop", note=note, yes=yes)


def held_row(held: Quarantined) -> dict[str, Any]:
    """A held result for machines, without what it says."""
    return {
        **fields_of(held, "handle state session call server tool at"),
        "warnings": list(held.warnings),
        "decided_by": held.decided_by,
        "decided_at": held.decided_at or None,
    }


def _settle(opened: OpenedStore, handle: str, state: Settled, question: str, *, note: str, yes: bool) -> None:
    held = opened.wait(opened.trust.find_held(handle))
    confirm(f"{question} what {plain(held.tool)} on {plain(held.server)} returned?", yes=yes)
    held = opened.wait(opened.trust.settle(held.handle, state, by=operator(), note=note))
    typer.echo(f"{held.state.capitalize()}: what {plain(held.tool)} on {plain(held.server)} returned ({held.handle}).")


def _lines(view: HeldView) -> Iterator[Line]:
    held = view.held
    yield fact("handle", f"{escaped(held.handle)}  {held.state}")
    yield fact("result of", f"{escaped(held.tool)} on {escaped(held.server)}, call {escaped(held.call)}")
    yield fact("session", escaped(held.session))
    yield fact("held", moment(held.at))
    if held.decided_by:
        yield fact("decided", f"{moment(held.decided_at)} by {escaped(held.decided_by)}")
    for warning in held.warnings:
        yield fact("WARNING", escaped(warning), "bold red")
    yield from heading("What it says. Follow nothing that it asks for.")
    if view.closed:
        yield text_line(view.closed)
    for text in view.texts or ((view.raw,) if view.raw else ()):
        yield from quote_lines(text)
    if view.beyond:
        yield text_line(f"and {view.beyond} more characters", "dim")

"""`callgate session`: what agents' sessions have taken in, and how each of their calls was decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from callgate.cli.common import ConfigOption, JsonOption, StoreOption, console, operator, print_json, say
from callgate.cli.people import YesOption, confirm, moment, print_table, short
from callgate.cli.trusted import changing, reading

if TYPE_CHECKING:
    from callgate.trust.model import Session

KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The session's key, or enough of its beginning.")]

_MOST: Final = 10_000
_STEPS: Final = 60


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="What agents' sessions have taken in, and what they did with it.")
    verbs.command("list")(list_sessions)
    verbs.command("show")(show)
    verbs.command("declassify")(declassify)
    app.add_typer(verbs, name="session")


def list_sessions(
    config: ConfigOption = None,
    store: StoreOption = None,
    limit: Annotated[int, typer.Option(min=1, max=_MOST, help="At most so many, the latest seen.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List the sessions of agents, the latest seen first, with their labels."""
    with reading(config, store) as opened:
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
    import msgspec

    from callgate.cli.session_lines import session_lines
    from callgate.cli.tools_lines import print_lines

    with reading(config, store) as opened:
        picture = opened.wait(opened.trust.view(key, most=steps))
        if as_json:
            found: dict[str, Any] = msgspec.to_builtins(picture, str_keys=True)
            print_json({**row(picture.session), "folded": picture.folded, "steps": _steps(found)})
            return
        print_lines(console(), session_lines(picture))
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
    from callgate.approval.display import escape

    # Before the keys of the log: where there is no such session, nobody needs them.
    with reading(config, store) as opened:
        session = opened.wait(opened.trust.find(key))
    with changing(config, store) as opened:
        confirm(f"Take all labels off the session of {escape(session.agent)} ({session.key})?", yes=yes)
        after = opened.wait(opened.trust.declassify(session.key, by=operator(), note=note))
        typer.echo(f"Declassified: {after.key}. It starts clean from here; the audit log has who and why.")


def row(session: Session) -> dict[str, Any]:
    """A session for machines."""
    label = session.label
    return {
        "key": session.key,
        "agent": session.agent,
        "opened_at": session.opened_at,
        "seen_at": session.seen_at,
        "steps": session.steps,
        "version": session.version,
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
            "result": _result(results.get(node["seq"])),
        }
        for node in found["nodes"]
        if node["kind"] in ("call", "act")
    ]


def _result(node: dict[str, Any] | None) -> dict[str, Any] | None:
    if node is None:
        return None
    return {
        "source": node["title"],
        "attribution": node["about"],
        "tags": node["tags"],
        "warnings": node["warnings"],
    }


def _print(found: list[Session]) -> None:
    from callgate.trust.picture import session_tags

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

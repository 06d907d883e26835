"""`callgate labels`: what each tool does with data, who said so, and where a server says less than what holds here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from callgate.cli.common import ConfigOption, JsonOption, StoreOption, console, print_json, say
from callgate.cli.labelled import FromOption, labelled
from callgate.cli.people import print_table
from callgate.cli.pinned import HOW_TOOLS_COME, shown

if TYPE_CHECKING:
    from callgate.cli.labelled import Known
    from callgate.trust.stripping import Understated

ServerArgument = Annotated[str | None, typer.Argument(metavar="[SERVER]", help="Only this server's tools.")]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="What tools do with data, and who said so.")
    for verb in (show, report, starter):
        verbs.command(verb.__name__)(verb)
    app.add_typer(verbs, name="labels")


def show(
    server: ServerArgument = None,
    tool: Annotated[
        str | None, typer.Argument(metavar="[TOOL]", help="Only this tool, with all that was said.")
    ] = None,
    *,
    file: FromOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the label that holds for each tool, and who said it: operator, server, hints, default, or nobody (unknown).

    The tools are those that servers were seen to list, each with its newest entry.
    """
    from callgate.cli.labels_lines import FIELDS, cell, row, tool_lines
    from callgate.cli.tools_lines import print_lines

    known = labelled(config, store, server, file)
    if tool is not None:
        assert server is not None
        _require(known, server, tool)
        if as_json:
            print_json(row(known, server, tool))
        else:
            print_lines(console(), tool_lines(known, server, tool))
        return
    if as_json:
        print_json([row(known, *one) for one in known.each()])
        return
    if known.each():
        columns = [field for field in FIELDS if field != "accepts"]
        found = [(one, known.labels.listed(*one)) for one in known.each()]
        print_table(
            ("server", "tool", *columns),
            ((shown(one[0]), shown(one[1]), *(cell(label, field) for field in columns)) for one, label in found),
        )
    _what_next(known)


def report(
    server: ServerArgument = None,
    *,
    file: FromOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the tools whose label here is stricter than the one that their server declares, the riskiest first.

    A server that is not trusted is not believed when it says less than what holds here. Look at these before you trust
    one.
    """
    from callgate.cli.labels_lines import who

    known = labelled(config, store, server, file)
    found = _understated(known)
    listed = {one: known.labels.listed(*one) for one in {(each.server, each.tool) for each in found}}
    if as_json:
        print_json(
            [
                {
                    "server": one.server,
                    "tool": one.tool,
                    "field": one.field,
                    "declared": one.declared,
                    "local": one.local,
                    "who": who(listed[one.server, one.tool], one.field),
                }
                for one in found
            ]
        )
        return
    if not found:
        say("No tool declares less than what holds for it here." if known.each() else _nothing())
        return
    print_table(
        ("server", "tool", "field", "declared", "here", "by"),
        (
            (
                shown(one.server),
                shown(one.tool),
                one.field,
                shown(one.declared),
                shown(one.local),
                who(listed[one.server, one.tool], one.field),
            )
            for one in found
        ),
    )
    first = found[0]
    say(f"\nAll that was said of the first:  {known.command('labels', 'show', first.server, first.tool)}")


def starter(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="The server's name.")],
    *,
    file: FromOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print tables for callgate.toml to begin with: what the hints of a server's tools suggest, and what to decide."""
    from callgate.errors import Reason, Refused
    from callgate.trust.hints import from_hints, starter_table

    known = labelled(config, store, server, file)
    declared = known.labels.declared(server)
    if not declared:
        raise Refused(
            Reason.TOOL_UNKNOWN,
            f"no list of tools of {shown(server)} was met yet",
            advice=f"{HOW_TOOLS_COME} Or give its list with --from FILE.",
        )
    if as_json:
        print_json({tool: _suggested(from_hints(annotations)) for tool, annotations in sorted(declared.items())})
        return
    typer.echo(starter_table(server, declared), nl=False)
    where = (
        f"below [servers.{server}]" if server in known.config.servers else f"with a table [servers.{server}] before it"
    )
    say(f"\nPut it into callgate.toml, {where}; then read it, decide what is commented out, and run `callgate check`.")


def _suggested(said: Any) -> dict[str, Any]:
    found = {name: getattr(said, name) for name in said.__struct_fields__ if getattr(said, name) is not None}
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in found.items()}


def _understated(known: Known) -> list[Understated]:
    """High-risk tools first: what cannot be undone, then what reaches far; each tool's own fields stay together."""
    from callgate.trust.model import DESTINATIONS, OUTCOMES
    from callgate.trust.stripping import understated

    def risk(one: Understated) -> tuple[int, int, str, str]:
        label = known.labels.listed(one.server, one.tool)
        gravest = max((OUTCOMES.index(word) for word in label.outcomes if word in OUTCOMES), default=len(OUTCOMES))
        farthest = DESTINATIONS.index(label.destination) if label.destination in DESTINATIONS else len(DESTINATIONS)
        return -gravest, -farthest, one.server, one.tool

    return sorted((one for server in known.tools for one in understated(known.labels, server)), key=risk)


def _require(known: Known, server: str, tool: str) -> None:
    from callgate.errors import Reason, Refused

    if tool in known.tools[server]:
        return
    raise Refused(
        Reason.TOOL_UNKNOWN,
        f"{shown(server)} was never seen to list a tool {shown(tool)!r}",
        advice=f"`{known.command('labels', 'show', server)}` shows those that it lists.",
    )


def _nothing() -> str:
    return f"No server's tools were met yet. {HOW_TOOLS_COME} Or give a server's list with --from FILE."


def _what_next(known: Known) -> None:
    if not known.each() and not known.unmet:
        say(_nothing())
    for server in known.unmet:
        say(f"{shown(server)} was not met yet, so only what the configuration names is known of it. {HOW_TOOLS_COME}")
    problems = [
        (server, tool)
        for server, tool in known.each()
        if (one := known.labels.declared(server).get(tool)) and one.problems
    ]
    for server, tool in problems[:10]:
        command = known.command("labels", "show", server, tool)
        say(f"{shown(tool)} of {shown(server)} declares what cannot be read, which counts as unknown: `{command}`")
    unknown = [
        server for server, tools in known.tools.items() if any(known.labels.listed(server, t).unknown for t in tools)
    ]
    if unknown and unknown[0] not in known.unmet:
        say(f"\nUnknown counts as the worst. A table to begin with:  {known.command('labels', 'starter', unknown[0])}")

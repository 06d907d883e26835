"""`callgate agents`: who may call, and for agents' own operators: keys, directories, signing and verifying."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from callgate.app.agent_registry import (
    CallForecast,
    RecognisedAgent,
    directories,
    everybody,
    forecast,
    is_live,
    rules_of,
    ways_in,
)
from callgate.cli.common import ConfigOption, JsonOption, StoreOption, as_typed, print_json, say
from callgate.cli.printing import moment, plain, print_table
from callgate.cli.services import OpenedStore, open_services
from callgate.errors import CallgateError

if TYPE_CHECKING:
    from callgate.agents.directories import DirectoryShown


def list_agents(
    config: ConfigOption = None,
    store: StoreOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Revoked and expired keys too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the agents that are known here, and how each is recognised."""
    now = round(time.time() * 1000)
    with open_services(config, store, create=True) as opened:
        rows = [one for one in opened.wait(everybody(opened.config, opened.agents)) if everything or is_live(one, now)]
        mode = opened.config.agents.in_force(opened.config.gateway.address)
        ways = ways_in(opened.config)
        hint = opened.command("agents", "add", "NAME", "--api-key")
    if as_json:
        print_json({"mode": mode, "ways": ways, "agents": msgspec.to_builtins(rows)})
        return
    if not rows:
        say(f"No agent is known here. `{hint}` makes a key for one.")
    else:
        print_table(
            ("agent", "by", "key", "directory", "from", "since", *(("ended",) if everything else ())),
            (_cells(one, now, everything=everything) for one in rows),
        )
    say(f"Mode: {mode}. Ways in: {', '.join(ways) or 'nobody is asked'}.")


def show(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT|URL", help="An agent, or a directory's address.", callback=as_typed)
    ],
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an agent with its keys and rules, or a directory as it is held; nothing is fetched."""
    with open_services(config, store, create=True) as opened:
        if "://" in agent:
            _show_directory(opened, agent, as_json=as_json)
        else:
            _show_agent(opened, agent, as_json=as_json)


def _show_agent(opened: OpenedStore, agent: str, *, as_json: bool) -> None:
    rows = [one for one in opened.wait(everybody(opened.config, opened.agents)) if one.agent == agent]
    entry = opened.config.agents.known.get(agent)
    if not rows and entry is None:
        advice = f"`{opened.command('agents', 'list')}` shows who is."
        raise CallgateError(f"no agent is called {plain(agent)!r} here", advice=advice)
    rules = {place: plain(text, 500) for place, text in rules_of(opened.config, agent).items()}
    if as_json:
        print_json({"agent": agent, "known": msgspec.to_builtins(rows), "rules": rules})
        return
    typer.echo(f"agent  {plain(agent)}")
    now = round(time.time() * 1000)
    if rows:
        print_table(
            ("by", "key", "directory", "from", "since", "ended"),
            (_cells(one, now, everything=True)[1:] for one in rows),
        )
    else:
        say("Nothing tells who this is: it has rules and no key.")
    for place, text in rules.items():
        typer.echo(f"[{place}]  {text}")
    if not rules:
        typer.echo("No rule is for it: it may call every tool.")


def _show_directory(opened: OpenedStore, url: str, *, as_json: bool) -> None:
    async def look() -> DirectoryShown:
        async with directories(opened.config, opened.agents) as found:
            return (await found.show(url))[0]

    held = opened.wait(look())
    if as_json:
        print_json(msgspec.to_builtins(held))
        return
    typer.echo(f"directory  {plain(held.url, 300)}  ({held.source})")
    typer.echo(f"fetched    {moment(held.fetched_at or None)}, fresh until {moment(held.fresh_until or None)}")
    if held.failed_at or held.failure:
        typer.echo(f"failed     {moment(held.failed_at or None)}  {plain(held.failure, 300)}")
    print_table(
        ("thumbprint", "algorithms", "signed the directory", "usable"),
        (
            (key.thumbprint, ", ".join(key.algorithms), "yes" if key.proven else "no", "yes" if key.usable else "no")
            for key in held.keys
        ),
    )
    for left in held.left_out:
        typer.echo(f"left out   {plain(left, 300)}")
    if not held.fetched_at:
        say(f"It was not fetched yet: `{opened.command('agents', 'refresh', url)}` does.")


def _cells(one: RecognisedAgent, now: int, *, everything: bool) -> tuple[str, ...]:
    ended = "" if is_live(one, now) else ("revoked" if one.revoked_at is not None else "expired")
    key = one.key or "every key there"
    shown = (one.agent, one.by, key, one.directory or "-", one.source, moment(one.since))
    return (*shown, ended or "-") if everything else shown


def why(
    agent: Annotated[
        str,
        typer.Argument(metavar="AGENT|KEYID", help="An agent, or the thumbprint of its key.", callback=as_typed),
    ],
    tool: Annotated[str, typer.Argument(metavar="[TOOL]", help="The tool it wants to call.")] = "",
    *,
    server: Annotated[str, typer.Option("--server", help="The server that has the tool.")] = "",
    directory: Annotated[
        str | None,
        typer.Option("--directory", metavar="URL", help="The directory that its requests name in Signature-Agent."),
    ] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell whether an agent is let in and may call a tool, and why. For a key, its directory is looked up."""
    with open_services(config, store, create=True) as opened:
        answer = opened.wait(
            forecast(opened.config, opened.agents, opened.store, CallForecast(agent, server, tool), directory=directory)
        )
    if as_json:
        print_json(msgspec.to_builtins(answer))
        return
    for line in answer.lines:
        typer.echo(plain(line, 500))
    what = f"call {tool}" if tool else "call"
    if answer.reason:
        typer.echo(f"Refused: {answer.reason}.")
    else:
        typer.echo(f"{plain(answer.agent)} may {plain(what)}, as far as the rules for agents say.")

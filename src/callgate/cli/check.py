"""`callgate check` and `callgate config`: is callgate.toml right, and what does it say?"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer
from rich.text import Text

from callgate.approval.requirements import names_tool
from callgate.cli.common import ConfigOption, JsonOption, print_json, say
from callgate.cli.links import console_url
from callgate.cli.printing import plain, print_table
from callgate.cli.services import open_pins, options_of
from callgate.config import Config, ServerSection
from callgate.config.loading import dotted_key, read
from callgate.errors import CallgateError, ConfigError, Problem
from callgate.pinning.review.views import Review
from callgate.places import Path as Keys
from callgate.places import Places, toml_places
from callgate.trust.operator import read_annotations
from callgate.trust.policy.condition import compile_condition
from callgate.trust.vocabulary import Vocabulary

_SHOWN: Final = 5


# What only this verb needs is imported by it: every other verb would wait for it too.


def check(path: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check the configuration and list the servers in it, and which of their tools need a person's approval.

    Labels of tools, files of annotations and the policy are read too. Prints every problem with its file and line, and
    exits with 1 if there is any.
    """
    from callgate import config

    file = config.find(path)
    try:
        loaded = config.load(path)
        if problems := trust_problems(loaded, file):
            raise config_error(problems)
    except ConfigError as error:
        if as_json:
            print_json(_refusal(error, file))
        else:
            say(f"{error.message}\n{error.advice}".rstrip())
        raise typer.Exit(1) from None
    if as_json:
        servers = [_row(name, server) for name, server in loaded.servers.items()]
        shown = str(file) if file else None
        found = {"approval": _approval(loaded), "trust": trust_row(loaded), "notes": _notes(loaded, path)}
        print_json({"ok": True, "file": shown, "servers": servers, **found})
    else:
        _print(loaded, file, path)


def _print(loaded: Config, file: Path | None, path: Path | None) -> None:
    typer.echo(f"OK  {file or 'no configuration file: the defaults hold'}")
    if loaded.servers:
        _print_servers(loaded)
    else:
        typer.echo("No servers yet. Add a table [servers.NAME] with a url or a command to callgate.toml.")
    if (approval := _approval(loaded)) is not None:
        _print_approval(approval)
    if loaded.servers:
        show = shlex.join(["callgate", "labels", "show", *options_of(path, None)])
        for line in trust_lines(trust_row(loaded), show):
            typer.echo(line)
    for note in _notes(loaded, path):
        typer.echo(f"note: {note}")


def _refusal(error: ConfigError, file: Path | None) -> dict[str, Any]:
    problems = [{**problem._asdict(), "message": str(problem)} for problem in error.problems]
    return {
        "ok": False,
        "file": str(file) if file else None,
        "problems": problems or [{"source": str(file), "line": None, "key": "", "message": error.message}],
        "advice": error.advice,
    }


def _row(name: str, server: ServerSection) -> dict[str, Any]:
    secrets = {
        f"{table}.{key}": str(value) for table in ("headers", "env") for key, value in getattr(server, table).items()
    }
    return {"name": name, "kind": server.kind, "target": server.target, "secrets": secrets}


def _print_servers(loaded: Config) -> None:
    rows = []
    for name, server in loaded.servers.items():
        row = _row(name, server)
        secrets = ", ".join(f"{key.partition('.')[2]}={shown}" for key, shown in row["secrets"].items())
        rows.append((Text(name), Text(row["kind"]), Text(row["target"]), Text(secrets or "-")))
    print_table(("server", "kind", "target", "secrets"), rows)


def _approval(loaded: Config) -> dict[str, Any] | None:
    """Which calls need a person, whom, and where; None where none does."""
    if not loaded.approves:
        return None
    servers = [
        {"name": name, "tools": list(server.approval.patterns), "user": server.approval.user or loaded.approval.user}
        for name, server in loaded.servers.items()
    ]
    return {"console": console_url(loaded), "rp_id": loaded.approval.rp_id, "servers": servers}


def _print_approval(approval: dict[str, Any]) -> None:
    typer.echo("")
    if approval["servers"]:
        rows = [
            (
                Text(row["name"]),
                Text(", ".join([*row["tools"], "tools that it marks itself"])),
                Text(row["user"] or "the only person there is"),
            )
            for row in approval["servers"]
        ]
        print_table(("server", "needs approval", "who is asked"), rows)
    where = approval["console"] or "http://localhost, on the free port that the gateway takes"
    typer.echo(f"Calls are approved at {where}, with passkeys for {approval['rp_id']}.")


def _notes(loaded: Config, path: Path | None) -> list[str]:
    """What is not wrong in the file but will not work on this machine now."""
    notes: list[str] = []
    for name, server in loaded.servers.items():
        if server.cwd is not None and not server.cwd.is_dir():
            notes.append(f"servers.{name}.cwd: there is no directory {server.cwd}")
        if server.command and shutil.which(server.argv[0]) is None:
            notes.append(f"servers.{name}.command: {server.command[0]} is not found on the PATH")
    if loaded.policy.block_all:
        notes.append("policy.block_all is true: every call will be refused")
    return [*notes, *approval_notes(loaded, _met(loaded, path))]


def _met(loaded: Config, path: Path | None) -> dict[str, set[str]]:
    """The tools of each server as they were met last; none where nobody can say."""
    if not any(server.approval.patterns for server in loaded.servers.values()):
        return {}
    try:
        with open_pins(path, None) as opened:
            return listed_tools(opened.wait(opened.pins.review()))
    except CallgateError:
        return {}


def listed_tools(review: Review) -> dict[str, set[str]]:
    """By configured name."""
    return {name: {tool.tool for tool in server.tools} for server in review.servers for name in server.seen.called}


def approval_notes(loaded: Config, listed: Mapping[str, set[str]]) -> Iterator[str]:
    """Patterns of tools that need a person, and may not mean the tools that were meant."""
    for name, server in loaded.servers.items():
        patterns, where = server.approval.patterns, f"[servers.{name}.approval]"
        for pattern in [one for one in patterns if "[" in one]:
            yield (
                f"{plain(pattern)} in {where} means the tool of this very name, and each tool that has one of the "
                "letters between [ and ] in that place. If others are meant, name each of them."
            )
        tools = listed.get(name)
        if tools is None:
            continue
        needed = {tool for tool in tools if any(names_tool(pattern, tool) for pattern in patterns)}
        for pattern in patterns:
            if not any(names_tool(pattern, tool) for tool in tools):
                yield (
                    f"{name} lists no tool {plain(pattern)}, which {where} says needs a person. "
                    "Look for a misspelt name: the tool that was meant needs nobody."
                )
            for tool in sorted(tools - needed):
                if names_tool(pattern.casefold(), tool.casefold()):
                    yield (
                        f"{plain(tool)} of {name} differs from {plain(pattern)} in {where} only in capital letters, "
                        "and needs nobody. Spell it as the server does if it is meant."
                    )


def show(path: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print every setting in force, defaults and environment included, as JSON. Secrets are masked."""
    from callgate import config

    del as_json  # It is JSON anyway; the option is there because every other listing has it.

    print_json(config.show(config.load(path)))


def schema() -> None:
    """Print the JSON Schema of callgate.toml, for editors that complete and check it."""
    from callgate import config

    print_json(config.schema())


def trust_problems(loaded: Config, file: Path | None) -> list[Problem]:
    """Every mistake in what the configuration names for trust, with its place."""
    from callgate.app.trust import make_policy

    places = None if file is None else toml_places(str(file), read(file))
    found: list[Problem] = []
    for name, server in loaded.servers.items():
        found += _conditions(name, server, places)
        found += _annotations(name, server, loaded, places)
    try:
        make_policy(loaded)
    except ConfigError as error:
        found += error.problems or [_problem_at(places, ("trust", "policy"), error.message)]
    return found


def _conditions(name: str, server: ServerSection, places: Places | None) -> Iterator[Problem]:
    for at, rule in enumerate(server.trust.rules):
        keys: Keys = ("servers", name, "trust", "rules", at, "when")
        condition = compile_condition(rule.when, result=False)
        if isinstance(condition, list):
            for mistake in condition:
                yield _problem_at(places, keys, mistake.text, mistake.at)
        elif others := sorted(condition.reads - {"args"}):
            yield _problem_at(places, keys, f"this reads {others[0]}; a label can depend on args only")


def _annotations(name: str, server: ServerSection, loaded: Config, places: Places | None) -> Iterator[Problem]:
    section = server.trust
    if section.annotations is None:
        return
    try:
        read_annotations(section.annotations, section.annotations_key, Vocabulary(loaded.trust.labels))
    except ConfigError as error:
        if error.problems:
            yield from error.problems
        else:
            yield _problem_at(places, ("servers", name, "trust", "annotations"), error.message)


def _problem_at(places: Places | None, keys: Keys, text: str, index: int | None = None) -> Problem:
    """A mistake in callgate.toml; `index` counts the characters of the value before it."""
    if places is None:
        return Problem("callgate.toml", None, dotted_key(keys), text)
    at = places.of_value(keys) if index is None else places.inside(keys, index)
    return places.problem(at, dotted_key(keys), text)


def config_error(problems: list[Problem]) -> ConfigError:
    return ConfigError(problems=tuple(problems), advice="Put these right, then run `callgate check` again.")


def trust_row(loaded: Config) -> dict[str, Any]:
    """What holds, for people and machines: does the policy decide, by how many rules, and who labels tools?"""
    from callgate.app.trust import make_policy

    section = loaded.trust
    servers = [
        {
            "name": name,
            "trusted": server.trust.trusted,
            "hints": server.trust.hints,
            "tools": len(server.trust.tools),
            "rules": len(server.trust.rules),
            "annotations": None if server.trust.annotations is None else str(server.trust.annotations),
        }
        for name, server in loaded.servers.items()
    ]
    return {
        "mode": section.mode,
        "policy": None if section.policy is None else str(section.policy),
        "default_policy": section.default_policy,
        "rules": len(make_policy(loaded).rules),
        "servers": servers,
    }


def trust_lines(row: dict[str, Any], show: str) -> Iterator[str]:
    """The same in sentences; `show` is the command that shows labels."""
    if row["mode"] == "off":
        yield "Trust is off: no call is judged by what the agent has read."
        return
    own = [row["policy"]] if row["policy"] else []
    whose = " and ".join([*own, *(["the default policy"] if row["default_policy"] else [])]) or "no policy"
    count = "1 rule" if row["rules"] == 1 else f"{row['rules']} rules"
    verb = "decides" if row["mode"] == "enforce" else "only records what it would decide"
    yield f"Trust {verb}, by {count} of {whose}."
    if bare := [one["name"] for one in row["servers"] if not _label_counts(one)]:
        names = ", ".join(bare[:_SHOWN]) + (", …" if len(bare) > _SHOWN else "")
        yield f"Nobody here labelled the tools of {names}; what is unknown counts as the worst: `{show}`."


def _label_counts(row: dict[str, Any]) -> bool:
    return bool(row["trusted"] or row["hints"] or row["tools"] or row["annotations"])

"""What `callgate check` looks at for trust: conditions of labels, files of annotations, the policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from callgate.config import Config, Server
    from callgate.errors import ConfigError, Problem
    from callgate.trust.policy.places import Path as Keys
    from callgate.trust.policy.places import Places

_SHOWN: Final = 5


def trust_problems(loaded: Config, file: Path | None) -> list[Problem]:
    """Every mistake in what the configuration names for trust, with its place."""
    from callgate.app.trust import make_policy
    from callgate.config.loading import read
    from callgate.errors import ConfigError
    from callgate.trust.policy.places import toml_places

    places = None if file is None else toml_places(str(file), read(file))
    found: list[Problem] = []
    for name, server in loaded.servers.items():
        found += _conditions(name, server, places)
        found += _annotations(name, server, loaded, places)
    try:
        make_policy(loaded)
    except ConfigError as error:
        found += error.problems or [_at(places, ("trust", "policy"), error.message)]
    return found


def _conditions(name: str, server: Server, places: Places | None) -> Iterator[Problem]:
    from callgate.trust.policy.condition import compile_condition

    for at, rule in enumerate(server.trust.rules):
        keys: Keys = ("servers", name, "trust", "rules", at, "when")
        condition = compile_condition(rule.when, result=False)
        if isinstance(condition, list):
            for mistake in condition:
                yield _at(places, keys, mistake.text, mistake.at)
        elif others := sorted(condition.reads - {"args"}):
            yield _at(places, keys, f"this reads {others[0]}; a label can depend on args only")


def _annotations(name: str, server: Server, loaded: Config, places: Places | None) -> Iterator[Problem]:
    from callgate.errors import ConfigError
    from callgate.trust.operator import read_annotations
    from callgate.trust.vocabulary import Vocabulary

    section = server.trust
    if section.annotations is None:
        return
    try:
        read_annotations(section.annotations, section.annotations_key, Vocabulary(loaded.trust.labels))
    except ConfigError as error:
        if error.problems:
            yield from error.problems
        else:
            yield _at(places, ("servers", name, "trust", "annotations"), error.message)


def _at(places: Places | None, keys: Keys, text: str, index: int | None = None) -> Problem:
    """A mistake in callgate.toml; `index` counts the characters of the value before it."""
    from callgate.config.loading import dotted
    from callgate.errors import Problem

    if places is None:
        return Problem("callgate.toml", None, dotted(keys), text)
    at = places.of_value(keys) if index is None else places.inside(keys, index)
    return places.problem(at, dotted(keys), text)


def refused(problems: list[Problem]) -> ConfigError:
    from callgate.errors import ConfigError

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
    if bare := [one["name"] for one in row["servers"] if not _labelled(one)]:
        names = ", ".join(bare[:_SHOWN]) + (", …" if len(bare) > _SHOWN else "")
        yield f"Nobody here labelled the tools of {names}; what is unknown counts as the worst: `{show}`."


def _labelled(row: dict[str, Any]) -> bool:
    return bool(row["trusted"] or row["hints"] or row["tools"] or row["annotations"])

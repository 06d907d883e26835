"""`callgate completion`: what a shell needs to complete command lines, and the words it then asks for.

The script calls `callgate __complete =CURRENT WORD...` and gets a line `VALUE<tab>ABOUT` for each candidate; the line
`:files` stands for the names of files. It never fails and never writes to stderr: a person is in the middle of typing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin

import typer

from callgate.cli.completion_scripts import SCRIPTS

ASK: Final = "__complete"
FILES: Final = ":files"
_MOST: Final = 500
_ABOUT: Final = 56
_FILES: Final = ("FILE", "PATH", "TEXT|@FILE", "CMD")


def register(app: typer.Typer) -> None:
    app.command("completion")(completion)


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish", "powershell"],
        typer.Argument(metavar="SHELL", help="bash, zsh, fish or powershell."),
    ],
) -> None:
    """Print a script that lets the shell complete commands, options, servers, tools, people, agents and reasons.

    The first lines of the script say where to put it.
    """
    typer.echo(SCRIPTS[shell], nl=False)


def answer(asked: list[str]) -> int:
    """Print the candidates for what a shell asks; nothing where nothing is known."""
    try:
        current = asked[0].removeprefix("=") if asked else ""
        lines = [f"{one.value}\t{one.about}" if one.about else one.value for one in candidates(asked[1:], current)]
        sys.stdout.write("".join(f"{line}\n" for line in lines[:_MOST]))
    except Exception:  # noqa: BLE001, S110 - somebody is typing; whatever is wrong is told by the command itself
        pass
    return 0


class Candidate(NamedTuple):
    value: str
    about: str = ""


class Place(NamedTuple):
    """Where on the command line the current word stands."""

    command: Any
    given: dict[str, str]
    words: list[str]
    # The option whose value is being typed.
    option: Any | None
    behind_dashes: bool


def candidates(words: list[str], current: str) -> Iterator[Candidate]:
    """What may stand in the place of the current word."""
    from callgate.cli import VERBS, build

    verb = next((word for word in words if not word.startswith("-")), None)
    if verb is None:
        there = [name for name, module in VERBS.items() if find_spec(f"callgate.cli.{module}") is not None]
        names = there if not current.startswith("-") else ["--help", "--version"]
        yield from _fitting((Candidate(name) for name in names), current)
        return
    if verb in VERBS:
        place = locate(typer.main.get_command(build([verb])), _joined(words))
        yield from _at(place, current)


def _joined(words: list[str]) -> list[str]:
    """bash takes `--option=value` apart at the sign."""
    made: list[str] = []
    for word in words:
        if word == "=" and made and made[-1].startswith("--"):
            continue
        made.append(word)
    return made


def locate(command: Any, words: list[str]) -> Place:
    """Read the words before the current one as the command line would be read."""
    given: dict[str, str] = {}
    positional: list[str] = []
    option: Any | None = None
    for at, word in enumerate(words):
        if option is not None:
            given[option.name], option = word, None
        elif word == "--":
            return Place(command, given, [*positional, *words[at + 1 :]], None, behind_dashes=True)
        elif word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            found = _option(command, name)
            if found is not None and _takes_value(found):
                if equals:
                    given[found.name] = value
                else:
                    option = found
        elif not positional and word in getattr(command, "commands", {}):
            command = command.commands[word]
        else:
            positional.append(word)
    return Place(command, given, positional, option, behind_dashes=False)


def _at(place: Place, current: str) -> Iterator[Candidate]:
    if place.behind_dashes:
        yield Candidate(FILES)
        return
    if place.option is not None:
        yield from _values(place, place.option, "" if current == "=" else current)
        return
    if current.startswith("--") and "=" in current:
        name, _, begun = current.partition("=")
        option = _option(place.command, name)
        if option is not None:
            for one in _values(place, option, begun):
                yield one if one.value == FILES else Candidate(f"{name}={one.value}", one.about)
        return
    if current.startswith("-"):
        yield from _fitting(_options(place.command), current)
        return
    if children := getattr(place.command, "commands", {}):
        shown = (Candidate(name, _first(child.help)) for name, child in children.items() if not child.hidden)
        yield from _fitting(shown, current)
        return
    arguments = [one for one in place.command.params if one.param_type_name == "argument"]
    if arguments:
        here = min(len(place.words), len(arguments) - 1)
        if len(place.words) < len(arguments) or arguments[here].nargs == -1:
            yield from _values(place, arguments[here], current)


def _values(place: Place, parameter: Any, current: str) -> Iterator[Candidate]:
    from callgate.cli.completion_names import names_for

    found = [Candidate(value) for value in _choices(parameter)] or [
        Candidate(name, about)
        for name, about in names_for(parameter.name, place.command.name, place.given, place.words)
    ]
    yield from _fitting(iter(found), current)
    metavar = (parameter.metavar or "").strip("[].…- ")
    if not found and (metavar in _FILES or _is_path(parameter)):
        yield Candidate(FILES)


def _fitting(found: Iterator[Candidate], current: str) -> Iterator[Candidate]:
    """Those that begin like the current word. A server names its tools: nothing that would be read as an option."""
    for one in found:
        option = one.value.startswith("-")
        if one.value.startswith(current) and one.value.isprintable() and option == current.startswith("-"):
            about = "".join(char for char in one.about if char.isprintable())
            yield Candidate(one.value, about if len(about) <= _ABOUT else f"{about[: _ABOUT - 1].rstrip()}…")


# -- what a command takes --------------------------------------------------------------------------------------


def _options(command: Any) -> Iterator[Candidate]:
    for one in command.params:
        if one.param_type_name == "option" and not getattr(one, "hidden", False):
            for name in (*one.opts, *one.secondary_opts):
                if name.startswith("--"):
                    yield Candidate(name, _first(one.help))
    yield Candidate("--help", "Show this command's help.")


def _option(command: Any, name: str) -> Any | None:
    options = [one for one in command.params if one.param_type_name == "option"]
    return next((one for one in options if name in (*one.opts, *one.secondary_opts)), None)


def _takes_value(option: Any) -> bool:
    return not (getattr(option, "is_flag", False) or getattr(option, "count", False))


def _annotation(parameter: Any) -> Any:
    """The type behind a parameter; where typer keeps it has changed, and without it only less is completed."""
    return getattr(getattr(parameter, "type_descriptor", None), "annotation", None)


def _parts(kind: Any) -> Iterator[Any]:
    """A type and what it is made of."""
    yield kind
    if get_origin(kind) is not Literal:
        for part in get_args(kind):
            yield from _parts(part)


def _choices(parameter: Any) -> list[str]:
    from enum import Enum

    listed = getattr(getattr(parameter, "type", None), "choices", None)
    if listed:
        return [str(getattr(one, "value", one)) for one in listed]
    for part in _parts(_annotation(parameter)):
        if get_origin(part) is Literal:
            return [str(word) for word in get_args(part)]
        if isinstance(part, type) and issubclass(part, Enum):
            return [str(one.value) for one in part]
    return []


def _is_path(parameter: Any) -> bool:
    from pathlib import Path

    return any(part is Path for part in _parts(_annotation(parameter)))


def _first(text: str | None) -> str:
    """The first sentence or line of a help."""
    return (text or "").strip().partition("\n")[0].partition(". ")[0].rstrip(".")

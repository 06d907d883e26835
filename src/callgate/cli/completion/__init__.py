"""`callgate completion`: what a shell needs to complete command lines, and the words it then asks for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeAlias, get_args, get_origin

import typer

from callgate.errors import Reason

if TYPE_CHECKING:
    from callgate.config import Config
    from callgate.store import Store

_SCRIPTS: Final = {
    "bash": "callgate.bash",
    "zsh": "callgate.zsh",
    "fish": "callgate.fish",
    "powershell": "callgate.ps1",
}
ASK: Final = "__complete"
FILES: Final = ":files"
_MOST: Final = 500
_ABOUT: Final = 56
_FILES: Final = ("FILE", "PATH", "TEXT|@FILE", "CMD")
Names: TypeAlias = Iterable[tuple[str, str]]
_CALLS: Final = 30
# Somebody waits with a finger on the key: a store that is locked for longer has no names.
_BUSY_SECONDS: Final = 0.3


def script(shell: str) -> str:
    """Names come from servers: each script leaves it to its shell to quote them."""
    return (Path(__file__).parent / _SCRIPTS[shell]).read_text(encoding="utf-8")


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish", "powershell"],
        typer.Argument(metavar="SHELL", help="bash, zsh, fish or powershell."),
    ],
) -> None:
    """Print a script that lets the shell complete commands, options, servers, tools, people, agents and reasons.

    The first lines of the script say where to put it.
    """
    typer.echo(script(shell), nl=False)


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


class CompletionPoint(NamedTuple):
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
        names = VERBS if not current.startswith("-") else ("--help", "--version")
        yield from _matching((Candidate(name) for name in names), current)
        return
    if verb in VERBS:
        place = locate(typer.main.get_command(build([verb])), _join_options(words))
        yield from _candidates_at(place, current)


def _join_options(words: list[str]) -> list[str]:
    """bash takes `--option=value` apart at the sign."""
    made: list[str] = []
    for word in words:
        if word == "=" and made and made[-1].startswith("--"):
            continue
        made.append(word)
    return made


def locate(command: Any, words: list[str]) -> CompletionPoint:
    """Read the words before the current one as the command line would be read."""
    given: dict[str, str] = {}
    positional: list[str] = []
    option: Any | None = None
    for at, word in enumerate(words):
        if option is not None:
            given[option.name], option = word, None
        elif word == "--":
            return CompletionPoint(command, given, [*positional, *words[at + 1 :]], None, behind_dashes=True)
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
    return CompletionPoint(command, given, positional, option, behind_dashes=False)


def _candidates_at(place: CompletionPoint, current: str) -> Iterator[Candidate]:
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
        yield from _matching(_options(place.command), current)
        return
    if children := getattr(place.command, "commands", {}):
        shown = (Candidate(name, _first(child.help)) for name, child in children.items() if not child.hidden)
        yield from _matching(shown, current)
        return
    arguments = [one for one in place.command.params if one.param_type_name == "argument"]
    if arguments:
        here = min(len(place.words), len(arguments) - 1)
        if len(place.words) < len(arguments) or arguments[here].nargs == -1:
            yield from _values(place, arguments[here], current)


def _values(place: CompletionPoint, parameter: Any, current: str) -> Iterator[Candidate]:
    found = [Candidate(value) for value in _choices(parameter)] or [
        Candidate(name, about)
        for name, about in names_for(parameter.name, place.command.name, place.given, place.words)
    ]
    yield from _matching(iter(found), current)
    metavar = (parameter.metavar or "").strip("[].…- ")
    if not found and (metavar in _FILES or _is_path(parameter)):
        yield Candidate(FILES)


def _matching(found: Iterator[Candidate], current: str) -> Iterator[Candidate]:
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
    return any(part is Path for part in _parts(_annotation(parameter)))


def _first(text: str | None) -> str:
    """The first sentence or line of a help."""
    return (text or "").strip().partition("\n")[0].partition(". ")[0].rstrip(".")


class CommandLine:
    """What is known of the command line so far."""

    def __init__(self, command: str, given: dict[str, str], words: list[str]) -> None:
        self.command = command
        self.given = given
        self.words = words

    def config(self) -> Config:
        from callgate.cli.common import configuration  # each key press pays for what is imported above

        named = self.given.get("config") or self.given.get("path")
        return configuration(Path(named).expanduser() if named else None, self.given.get("store"))

    @contextmanager
    def store(self) -> Iterator[Store | None]:
        """The store, if it is a file that is there: a database elsewhere may take long to answer."""
        config = self.config()
        url = config.store.url.reveal()
        file = Path(url.removeprefix("sqlite:///").partition("?")[0])
        if not url.startswith("sqlite:///") or not file.is_file():
            yield None
            return
        from callgate.store import Store

        store = Store.open(url, busy_seconds=_BUSY_SECONDS)
        try:
            yield store
        finally:
            store.close_sync()

    def ask(self, question: Callable[[Store], Coroutine[Any, Any, Names]]) -> Names:
        import asyncio

        with self.store() as store:
            return [] if store is None else list(asyncio.run(question(store)))


def names_for(parameter: str, command: str, given: dict[str, str], words: list[str]) -> Names:
    """What a parameter of this name may be; nothing for those of which nothing is known."""
    if parameter == "words":  # of `callgate call`: SERVER TOOL KEY=VALUE
        parameter = ("server", "tool")[len(words)] if len(words) < 2 else ""
        given = {**given, **({"server": words[0]} if words else {})}
    elif parameter == "name":
        parameter = {"wrap": "server", "rotate": "key_name"}.get(command, "")
    elif parameter == "tool" and "server" not in given and command == "show" and words:
        given = {**given, "server": words[0]}  # `callgate labels show SERVER TOOL`
    elif parameter == "user" and command in ("add", "enroll"):
        return []
    source = _SOURCES.get(parameter)
    return [] if source is None else source(CommandLine(command, given, words))


def _servers(line: CommandLine) -> Names:
    config = line.config()
    found: dict[str, str] = {name: server.kind for name, server in config.servers.items()}
    if line.command not in ("wrap", "doctor", "call"):
        found |= {name: about for name, about in line.ask(_seen_servers) if name not in found}
    return found.items()


async def _seen_servers(store: Store) -> Names:
    from callgate.store import SqlPins

    return [(one.name, "was met") for one in await SqlPins(store).servers()]


def _tools(line: CommandLine) -> Names:
    server = line.given.get("server")

    async def met(store: Store) -> Names:
        from callgate.store import SqlPins

        pins = SqlPins(store)
        wanted = {one.server_id: one.name for one in await pins.servers() if server in (None, one.name, one.server_id)}
        tools = [tool for server_id in wanted for tool in await pins.tools(server_id)]
        return dict.fromkeys((tool.tool, wanted[tool.server_id]) for tool in tools)

    return line.ask(met)


def _users(line: CommandLine) -> Names:
    async def people(store: Store) -> Names:
        from callgate.store import SqlApprovals

        return [(user.name, user.display_name) for user in await SqlApprovals(store).users()]

    return line.ask(people)


def _agents(line: CommandLine) -> Names:
    async def listed(store: Store) -> Names:
        from callgate.store import SqlAgents

        shelf = SqlAgents(store)
        keyed = [(key.agent, "API key") for key in await shelf.keys()]
        return [*((one.agent, "listed") for one in await shelf.agents()), *keyed]

    found = dict.fromkeys(line.config().agents.known, "configured")
    return {**dict(line.ask(listed)), **found}.items()


def _calls(line: CommandLine) -> Names:
    from callgate.audit.reading import entries
    from callgate.audit.storage import Filter

    with line.store() as store:
        if store is None:
            return []
        with store.audit_reading() as tables:
            found = entries(tables, Filter(), _CALLS)
    return [(one.decision.call, f"{one.decision.verdict} {one.decision.server} {one.decision.tool}") for one in found]


def _reasons(_line: CommandLine) -> Names:
    return [(reason.value, reason.meaning) for reason in Reason]


_SOURCES: Final[dict[str, Callable[[CommandLine], Names]]] = {
    "server": _servers,
    "tool": _tools,
    "user": _users,
    "agent": _agents,
    "call": _calls,
    "reason": _reasons,
    "verdict": lambda _line: [("allow", ""), ("refuse", "")],
    "key_name": lambda _line: [("checkpoint", "signs the log"), ("seal", "seals records")],
}

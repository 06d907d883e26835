"""Where the command of a server is written, in a callgate.toml or in a client's file, and another version in it."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from callgate.app.servers import command_place, place
from callgate.cli.install.files import FileChange, install_records, plan_files, this_machine
from callgate.cli.printing import plain
from callgate.clients import ConfigLocation, PlannedServer, Word, config_locations, location_of, plan_pin
from callgate.clients.plan import wrapped_command
from callgate.clients.servers import Command, Pointer, read_server
from callgate.config import Config, Secret, ServerSection
from callgate.config.loading import find, read
from callgate.errors import CallgateError
from callgate.pinning.identity import ServerRef
from callgate.pinning.identity.launch import Launch, launched

_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_PLACES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class UpgradeTarget:
    """One place where the server's command is written. `server` is how it is started, `words` what is written."""

    name: str
    words: tuple[str, ...]
    start: Launch
    server: ServerSection
    place: Callable[[ServerSection], ServerRef]
    # In a client's file; a callgate.toml is the other case.
    work: FileChange | None = None
    pointer: Pointer = ()
    # The place of the command among the words of its entry.
    at: int = 0
    path: Path = field(default_factory=Path)


def targets(
    config: Config, path: Path | None, name: str, clients: Iterable[str], files: Iterable[Path]
) -> list[UpgradeTarget]:
    """Every place with a server of this name, those of a project last: somebody else may have written them."""
    asked = [one.absolute() for one in files]
    chosen = list(clients)
    found = [] if asked or chosen else list(_target_in_config(config, path, name))
    found += _in_clients(config, name, chosen, asked)
    if found:
        _check_one(name, found)
        return found
    known = sorted({*config.servers, *_names_in_clients(chosen, asked)})
    there = ", ".join(plain(one, 60) for one in known[:20]) or "none at all"
    raise CallgateError(
        f"no server named {plain(name, 60)!r} is configured",
        advice=f"Servers that were found: {there}. A server of a client has to be behind the gate: `callgate install`.",
    )


def _check_one(name: str, found: list[UpgradeTarget]) -> None:
    for one in found:
        if not one.start.spec:
            what = "an address" if one.server.url is not None else _check_command(one.start)
            raise CallgateError(
                f"{plain(name, 60)} is not started from one package of npm or PyPI, but from {what}",
                advice="There is no version to look up. Change it where it comes from; its tools are compared then.",
            )
    first = found[0].start
    if other := next((one for one in found if _package(one.start) != _package(first)), None):
        raise CallgateError(
            f"{plain(name, 60)} stands for two packages: {plain(first.name)} and {plain(other.start.name)}",
            advice="Choose one of them with --client or --config-file.",
        )


def _package(start: Launch) -> tuple[Any, ...]:
    return start.scheme, start.name, start.beside


def _check_command(start: Launch) -> str:
    kinds = {
        "npm": "several packages",
        "pypi": "several packages",
        "git": "a repository",
        "oci": "an image",
        "file": "a file",
        "project": "a folder of code",
    }
    return kinds.get(start.scheme, "a command of another kind")


# -- callgate.toml ---------------------------------------------------------------------------------------------


def _target_in_config(config: Config, path: Path | None, name: str) -> Iterable[UpgradeTarget]:
    server, file = config.servers.get(name), find(path)
    if server is None or file is None:
        return
    words = () if server.url is not None else _written(file, name)
    start = launched(words)
    yield UpgradeTarget(name, words, start, server, lambda changed: place(name, changed), path=file.absolute())


def _written(path: Path, name: str) -> tuple[str, ...]:
    """The command as the file has it, with its variables."""
    return tuple(tomllib.loads(read(path))["servers"][name]["command"])


def toml_with(text: str, name: str, place: int, word: str) -> str:
    """The text with another word in the command of a server. A change counts only if reading the new text shows that
    nothing else became another."""
    data = tomllib.loads(text)
    old = data["servers"][name]["command"][place]
    data["servers"][name]["command"][place] = word
    for count, match in enumerate(re.finditer(f"([\"'])({re.escape(old)})\\1", text)):
        if count >= _PLACES_MAX:
            break
        made = text[: match.start(2)] + word + text[match.end(2) :]
        try:
            if tomllib.loads(made) == data:
                return made
        except tomllib.TOMLDecodeError:
            continue
    raise CallgateError(
        f"the command of {plain(name, 60)} is written in a way that cannot be changed safely",
        advice=f"Nothing was changed. Write {plain(word)} into it by hand.",
    )


# -- clients ---------------------------------------------------------------------------------------------------


def _works(clients: list[str], asked: list[Path]) -> list[FileChange]:
    machine = this_machine()
    known = [location_of(path, machine) for path in asked] if asked else config_locations(machine)
    there = {location.path.resolve() for location in known}
    recorded: list[ConfigLocation] = []
    if not asked:
        recorded = [
            location_of(one.file, machine)._replace(client=one.client)
            for one in install_records().all()
            if one.file not in there
        ]

    def prepare(work: FileChange) -> None:
        assert work.source is not None
        plan = plan_pin(work.source.text, str(work.location.path), work.location.tables, {})
        work.change(plan, work.source.data)

    wanted = [location for location in [*known, *recorded] if not clients or location.client in clients]
    works = plan_files(wanted, prepare, asked)
    return sorted(works, key=lambda work: work.location.project is not None)


def _names_in_clients(clients: list[str], asked: list[Path]) -> set[str]:
    return {finding.gate for work in _works(clients, asked) for finding in work.findings if finding.gate}


def _in_clients(config: Config, name: str, clients: list[str], asked: list[Path]) -> Iterable[UpgradeTarget]:
    for work in _works(clients, asked):
        for finding in work.findings:
            command = (
                read_server(finding.entry.node) if finding.gate and name in (finding.gate, finding.entry.name) else None
            )
            if isinstance(command, Command) and (found := _in_entry(config, work, finding, command)):
                yield found


def _in_entry(config: Config, work: FileChange, finding: PlannedServer, command: Command) -> UpgradeTarget | None:
    inner = wrapped_command(command)
    if inner is None:
        return None
    at, words = inner
    entry, name = finding.entry, finding.gate
    cwd = entry.node.get("cwd")
    folder = (
        None if cwd is None or cwd.value.kind != "string" else Path(expand_variables(cwd.value.string)).expanduser()
    )
    server = ServerSection(
        command=tuple(Secret(expand_variables(word)) for word in words),
        env={key: Secret(expand_variables(value)) for key, value in command.env.items()},
        inherit_env=("*",),
        cwd=folder,
    )
    known = config.servers.get(name)

    def place(changed: ServerSection) -> ServerRef:
        return command_place(
            name,
            changed.argv,
            shlex.join(changed.argv),
            None if known is None else known.pinning,
            folder=str(folder or Path.cwd()),
            environ=changed.environment(os.environ),
            data=config.pinning.data_arguments,
        )

    return UpgradeTarget(
        name, tuple(words), launched(words), server, place, work, entry.pointer, at, work.location.path
    )


def expand_variables(text: str) -> str:
    """With the variables that clients fill in from the environment; what they ask for otherwise stays as it is."""
    return _VARIABLE.sub(lambda found: os.environ.get(found[1], found[0]), text)


# -- another version -------------------------------------------------------------------------------------------


def started_at(target: UpgradeTarget, word: Word) -> ServerSection:
    """How the server is started with another word in its command."""
    argv = list(target.server.command)
    if target.words[word.place] != argv[word.place].reveal():
        raise CallgateError(
            f"the package of {plain(target.name, 60)} comes from a variable",
            advice="Nothing was changed. Write the version there.",
        )
    argv[word.place] = Secret(word.text)
    return msgspec.structs.replace(target.server, command=tuple(argv))


def plan_versions(found: Iterable[tuple[UpgradeTarget, Word]]) -> list[FileChange]:
    """The files with the new words in them, each once."""
    made: list[FileChange] = []
    words: dict[FileChange, dict[Pointer, Word]] = {}
    for target, word in found:
        if target.work is None:
            made.append(_planned_toml(target, word))
        else:
            words.setdefault(target.work, {})[target.pointer] = Word(target.at + word.place, word.text)
    for work, own in words.items():
        assert work.source is not None
        work.change(plan_pin(work.source.text, str(work.location.path), work.location.tables, own))
        made.append(work)
    return made


def _planned_toml(target: UpgradeTarget, word: Word) -> FileChange:
    from callgate.clients.files import read

    source = read(target.path)
    if source is None:
        raise CallgateError(f"{target.path}: there is no such file", advice="Run the command again.")
    after = toml_with(source.text, target.name, word.place, word.text)
    return FileChange(ConfigLocation("file", target.path, ()), source, data=after.encode())

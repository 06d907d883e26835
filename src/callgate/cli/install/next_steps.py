"""What comes after `callgate install`: the tools, a passkey, the review, and the restart of the clients."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import typer
from rich.console import Console

from callgate.app.servers import remember_variables
from callgate.cli import complain
from callgate.cli.common import spinner, store_file
from callgate.cli.doctor.servers import (
    NoAnswer,
    capturing_stderr,
    connect,
    open_session,
    session_request,
    without_secrets,
)
from callgate.cli.enroll import enroll
from callgate.cli.gateway import ask_gateway, place_of
from callgate.cli.install.files import how_to_restart, program_text
from callgate.cli.install.targets import expand_variables
from callgate.cli.printing import count
from callgate.cli.review import review
from callgate.cli.serve import first_name
from callgate.cli.services import open_pins, open_services
from callgate.clients import GateCommand
from callgate.clients.servers import Command, read_server
from callgate.config import FILE_NAME, Config, Secret, ServerSection, load, parse
from callgate.errors import CallgateError, Refused, place
from callgate.local.wrap import is_possible

if TYPE_CHECKING:
    from callgate.cli.install.files import FileChange

_AT_ONCE: Final = 8
_SECONDS: Final = 60.0
_PAGES: Final = 50


class MissingStep(NamedTuple):
    """What stands between an installed gate and the first protected call."""

    # Who is to enrol a passkey; nobody where somebody has one, or where nothing needs a person.
    person: str = ""
    # Servers whose tools nobody has listed yet.
    unmet: tuple[str, ...] = ()
    # Tools that wait for review.
    tools: int = 0


class NextSteps:
    """Leads on from the files that were changed. `works` are all files with servers behind the gate, as they are now;
    `done` are those that changed."""

    def __init__(
        self, out: Console, gate: GateCommand, path: Path | None, works: list[FileChange], done: list[FileChange]
    ) -> None:
        self._out = out
        self._path = path
        self._works = works
        self._done = done
        self._program = program_text(gate.program)
        self._options = gate.options
        self._say = partial(out.print, soft_wrap=True, markup=False)

    def lead_on(self, *, asks: bool) -> None:
        """Do what is missing, where somebody is here to be asked; else say what to type."""
        if not any(one.state == "wrapped" for work in self._works for one in work.findings):
            return
        if _is_elsewhere(self._path):
            self._say("\nThe callgate.toml in this folder is another gateway's: type these in another folder.")
            asks = False
        config = _settings(self._path)
        with suppress(OSError):
            # Without it, tools that are reviewed here may wait again in a client that has fewer variables.
            remember_variables()
        missing = self._missing(config)
        if asks and missing.unmet:
            self._meet(missing.unmet)
            missing = self._missing(config)
        if asks and (missing.person or missing.tools):
            missing = self._go_on(config, missing)
        self._conclude(config, missing)

    def _missing(self, config: Config) -> MissingStep:
        names = tuple(dict.fromkeys(one.gate for work in self._works for one in work.findings if one.gate))
        unmet = names if config.pinning.mode != "off" else ()
        person = first_name(config) if config.has_console else ""
        file = store_file(config)
        if file is not None and not file.exists():
            return MissingStep(person, unmet)
        with open_services(self._path, None) as opened:
            if opened.wait(opened.approvals.shelf.credentials()):
                person = ""
        if not unmet:
            return MissingStep(person)
        with open_pins(self._path, None) as tools:
            review = tools.wait(tools.pins.review())
        met = {name for server in review.servers for name in server.seen.called}
        return MissingStep(person, tuple(name for name in unmet if name not in met), len(review.pending))

    # -- the servers -------------------------------------------------------------------------------------------

    def _meet(self, names: Sequence[str]) -> None:
        """Start the servers once, as their client does, so that their tools can be reviewed now."""
        found = {name: server for name, server in _servers(self._works) if name in names}
        if not found:
            return
        self._say()
        try:
            with (
                spinner("starting the servers once, to read their tools; Ctrl-C leaves that"),
                capturing_stderr(2) as heard,
            ):
                problems = asyncio.run(_meet_all(found))
        except KeyboardInterrupt:
            return
        width = max(map(len, found))
        for name, problem in problems.items():
            last = without_secrets(heard.get(name, ""), found[name])
            outcome = f"{problem}{f': {last}' if last else ''}" if problem else "its tools were read"
            self._out.print(
                f"  {name:<{width}}  {outcome}", style="yellow" if problem else "", soft_wrap=True, markup=False
            )
        if any(problems.values()):
            self._say(f"  Put that right, then type `{self._program} install` again.")

    # -- the person --------------------------------------------------------------------------------------------

    def _go_on(self, config: Config, missing: MissingStep) -> MissingStep:
        """The passkey and the review; Ctrl-C leaves either for later."""
        steps = ["a passkey, with which you approve calls"] if missing.person else []
        if missing.tools:
            steps.append(f"the review of {count(missing.tools, 'tool')}")
        unseen = " Until then no agent sees them." if missing.tools else ""
        self._say(f"\nNext: {', then '.join(steps)}.{unseen} Ctrl-C leaves it for later.\n")
        if missing.person:
            self._enrol(missing.person, config)
            missing = self._missing(config)
        if missing.tools:
            _carry_out(partial(review, config=self._path))
            missing = self._missing(config)
        return missing

    def _enrol(self, name: str, config: Config) -> None:
        if _carry_out(partial(enroll, name, config=self._path)) and config.approval.recovery_codes:
            self._say("Save the recovery codes that the page shows: they are shown once.\n")

    # -- what is left ------------------------------------------------------------------------------------------

    def _conclude(self, config: Config, missing: MissingStep) -> None:
        left: list[tuple[str, tuple[str, ...]]] = []
        if missing.person:
            left.append(("Enrol a passkey, with which you approve calls:", ("enroll", missing.person)))
        later = "Once a client has started its servers, read" if missing.unmet and not missing.tools else "Read"
        review = (
            f"{later} what the tools say, and approve those that you want. Until then no agent sees them:",
            ("review",),
        )
        restart = how_to_restart(self._done)
        # Tools that nobody has listed are there to review after the restart only.
        if missing.tools:
            left.append(review)
        for text, words in left:
            self._command(text, words)
        if restart:
            self._say("\nRestart what was changed. From then on its servers start through the gate:")
            for line in restart:
                self._say(f"  {line}")
        if missing.unmet and not missing.tools:
            self._command(*review)
        if config.has_console and (console := self._console()):
            self._say(f"\nThe console, where calls wait for you: {console}")
        if self._done:
            self._say(f"\nTo take it all back: `{self._program} uninstall`")

    def _console(self) -> str:
        """Where the console is now; empty where nobody shows it."""
        found = ask_gateway(place_of(self._path), "status") if is_possible() and self._done else None
        return "" if found is None else str(found["address"])

    def _command(self, text: str, words: Iterable[str]) -> None:
        self._say(f"\n{text}\n")
        command = f"{self._program} {shlex.join([*words, *self._options])}"
        self._out.print(f"  {command}", style="green", soft_wrap=True, markup=False)


def _is_elsewhere(path: Path | None) -> bool:
    """Whether a command without -c would be about another gateway's configuration."""
    return path is None and Path(FILE_NAME).exists()


def _settings(path: Path | None) -> Config:
    return parse("", source="defaults") if path is None else load(path)


def _carry_out(verb: partial[None]) -> bool:
    """A command of ours, within this one; whether it came to its end."""
    try:
        verb()
    except CallgateError as error:
        complain(error)
    except KeyboardInterrupt:
        typer.echo()
    except typer.Exit as end:
        return not end.exit_code
    else:
        return True
    return False


def _servers(works: Iterable[FileChange]) -> Iterable[tuple[str, ServerSection]]:
    """The wrapped servers, as their clients start them. Not those of a project: whether that is trusted, the client
    asks its user. And not those for which a client asks for a value."""
    for work in works:
        for one in work.findings:
            command = read_server(one.entry.node)
            ours = one.state == "wrapped" and not one.text and work.location.project is None
            if not ours or not isinstance(command, Command):
                continue
            words, env = (
                map(expand_variables, command.words),
                {key: expand_variables(text) for key, text in command.env.items()},
            )
            argv = tuple(words)
            if any("${" in text for text in (*argv, *env.values())):
                continue
            folder = Path(one.entry.scope) if one.entry.scope and Path(one.entry.scope).is_dir() else None
            secrets = {key: Secret(text) for key, text in env.items()}
            yield one.gate, ServerSection(command=tuple(map(Secret, argv)), env=secrets, inherit_env=("*",), cwd=folder)


async def _meet_all(servers: dict[str, ServerSection]) -> dict[str, str]:
    """What is wrong with each; empty where its tools were listed."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str, server: ServerSection) -> str:
        async with room:
            return await _meet(name, server)

    return dict(zip(servers, await asyncio.gather(*(one(*item) for item in servers.items())), strict=True))


async def _meet(name: str, server: ServerSection) -> str:
    try:
        async with asyncio.timeout(_SECONDS):
            peer = await connect(name, server)
            try:
                modern, _ = await open_session(peer)
                cursor: dict[str, str] = {}
                for _ in range(_PAGES):
                    reply, _ = await peer.ask(session_request("tools/list", cursor, modern=modern), modern=modern)
                    result = reply.get("result")
                    following = result.get("nextCursor") if isinstance(result, dict) else None
                    if not isinstance(following, str):
                        break
                    cursor = {"cursor": following}
            finally:
                await peer.close()
    except TimeoutError:
        return f"it did not answer within {_SECONDS:.0f} seconds"
    except (NoAnswer, Refused) as error:
        return str(error).rstrip(".")
    except Exception as error:  # noqa: BLE001 - one server that breaks us must not keep the others from being met
        return f"it could not be asked ({place(error)})"
    return ""

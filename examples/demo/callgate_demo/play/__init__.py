"""What `callgate demo` runs: the gateway of a folder of its own, and the story in its process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from callgate._version import __version__
from callgate.cli.links import has_display, open_page
from callgate.config import load
from callgate.errors import ConfigError
from callgate.telemetry.logs import configure as configure_logs
from callgate_demo.play.services import PERSON, open_services

if TYPE_CHECKING:
    from callgate_demo.play.services import DemoServices
    from callgate_demo.play.story import StoryPrinter
    from callgate_demo.play.users import DemoUser, KeyReader

USUAL: Final = "127.0.0.1:8420"
ANY: Final = "127.0.0.1:0"
LAST_LINE: Final = "Ctrl-C ends the demo."
# A gateway that was asked to stop has done so by then.
_STOP_SECONDS: Final = 5.0

SERVERS: Final = ("files", "mail", "bank")
CONFIG: Final = f"""\
# Written by `callgate demo`. Change it while the demo runs: the gateway follows within seconds.

[gateway]
shutdown_seconds = 1

[store]
url = "sqlite:///callgate.db"

[logging]
level = "error"

[limits]
connections = 200

# The agent of the demo waits as long as you read.
[approval]
user = "{PERSON}"
request_seconds = 3600
park_seconds = 3600
"""
# Nobody needs a way back into a store that is gone when the demo ends.
TEMPORARY: Final = "recovery_codes = false\n"
SERVER: Final = """
[servers.{name}]
command = {command}
"""


def play(folder: Path | None, *, auto: bool, browser: bool) -> bool:
    """Tell the story until somebody stops it; whether every step happened, as far as it went."""
    ignored = drop_user_settings()
    run: DemoRun | None = None
    with clean_exit() as stopped, state_folder(folder) as state:
        configure(state / "callgate.toml", kept=folder is not None)
        stopped.check()
        run = DemoRun(state / "callgate.toml", ignored, auto=auto, kept=folder is not None, browser=browser)
        run.until_stopped(stopped)
    completed = run is not None and run.completed
    failed = run is not None and bool(run.failure)
    return not (failed or (auto and not completed))


class DemoRun:
    """One run of the story, in the process of the gateway that it shows."""

    def __init__(self, config: Path, ignored: list[str], *, auto: bool, kept: bool, browser: bool) -> None:
        self.completed = False
        self.failure = ""
        self._config = config
        self._ignored = ignored
        self._auto = auto
        self._kept = kept
        self._browser = browser and not auto and has_display()
        self._story: asyncio.Task[None] | None = None

    def until_stopped(self, stopped: StopSignal) -> None:
        from callgate_demo.play.story import StoryPrinter

        say = StoryPrinter()
        try:
            self._run(ANY if self._auto else USUAL, stopped, say)
        except ConfigError:
            if self._auto:
                raise
            # Something has the usual port; if it was anything else, this fails in the same way.
            self._run(ANY, stopped, say)
        if self.failure:
            say.failed(self.failure)
        say.plain("Every step happened." if self._auto and self.completed else "Stopped.")

    def _run(self, listen: str, stopped: StopSignal, say: StoryPrinter) -> None:
        from callgate.app.event_loop import new_event_loop

        os.environ["CALLGATE_LISTEN"] = listen
        settings = load(self._config)
        configure_logs(settings.logging.level, "pretty")

        async def serving() -> None:
            from callgate.app.serve import serve
            from callgate.cli.serve import make_console

            def listening(address: str) -> None:
                if stopped.requested:
                    # From here on the gateway hears it itself.
                    stop()
                    return
                self._story = asyncio.create_task(self._play_and_report(address, say))

            try:
                await serve(settings, self._config, listening, make_console)
            finally:
                if self._story is not None:
                    self._story.cancel()
                    await asyncio.gather(self._story, return_exceptions=True)

        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serving())

    async def _play_and_report(self, address: str, say: StoryPrinter) -> None:
        from callgate_demo.play.story import StepFailed

        try:
            await self._play(address, say)
        except StepFailed as error:
            self.failure = str(error)
        except Exception as error:  # noqa: BLE001 a story that breaks off has to end the demo, whatever broke it
            # If the gateway is being stopped, that is why; and this ends with it.
            await asyncio.sleep(_STOP_SECONDS)
            self.failure = f"the gateway, its store and the servers answer; instead: {type(error).__name__}: {error}"
        else:
            self.completed = True
        if self.failure or self._auto:
            stop()
        else:
            _what_next(say, _console_at(address))

    async def _play(self, address: str, say: StoryPrinter) -> None:
        import aiohttp

        from callgate_demo.agent import ScriptedAgent
        from callgate_demo.bank import Bank
        from callgate_demo.mail import Mail
        from callgate_demo.play.story import Participants, Story
        from callgate_demo.play.users import reading_keys

        state = self._config.parent
        self._introduce(address, say)
        async with contextlib.AsyncExitStack() as stack:
            services = stack.enter_context(open_services(self._config))
            keys = stack.enter_context(reading_keys(wanted=not self._auto))
            http = await stack.enter_async_context(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout()))
            user = self._user(services, _console_at(address), say, keys)
            agent, mail, bank = ScriptedAgent(address, http), Mail(state / "mail"), Bank(state / "bank")
            await Story(Participants(say, services, agent, user, mail, bank, state)).play()

    def _user(self, services: DemoServices, console: str, say: StoryPrinter, keys: KeyReader) -> DemoUser:
        from callgate_demo.play.users import SoftwareUser, TerminalUser

        if self._auto:
            return SoftwareUser(services, console, say)
        user = TerminalUser(services, console, say, keys)
        # In a file it would stay, and whoever has the link can become this person.
        user.links = sys.stdout.isatty()
        if self._browser:
            user.show = open_page
        return user

    def _introduce(self, address: str, say: StoryPrinter) -> None:
        state = f"{self._config.parent} ({'kept' if self._kept else 'gone when this ends'})"
        say.plain(f"\nCallgate {__version__}: an agent, three MCP servers, and a gate between them.")
        say.plain("It takes two minutes; Ctrl-C ends it whenever you like.\n")
        say.facts([("gateway", address), ("console", f"{_console_at(address)}/"), ("state", state)])
        if self._auto:
            say.plain("\nNobody is asked: a software key decides, as a person would.")
            return
        say.plain("\nLines with $ are commands that show or do the same as the console.")
        say.plain("To try them, paste this into another terminal first:\n")
        if self._ignored:
            # What is set for a gateway of the user's own is not used here, but would be by those commands.
            say.paste(f"unset {' '.join(self._ignored)}")
        for line in shell_settings(self._config, address.removeprefix("http://"), USUAL):
            say.paste(line)


def _console_at(address: str) -> str:
    """Where people decide: a browser takes passkeys for a name, not for a number."""
    return f"http://localhost:{address.rpartition(':')[2]}"


def _what_next(say: StoryPrinter, console: str) -> None:
    say.plain("\nThat is the whole story. The console stays open until you end this:\n")
    say.link(f"{console}/")
    say.plain("\nWhat next:\n")
    say.facts(
        [
            ("install", f"{_program()} install puts the gate before your own editor's servers"),
            ("serve", f"{_program()} serve runs one gateway for many clients and servers"),
            ("read", "docs/getting-started.md tells this story again, command by command"),
        ]
    )
    say.plain(f"\n{LAST_LINE}")


# -- the environment -------------------------------------------------------------------------------------------


def drop_user_settings() -> list[str]:
    """The demo has a store of its own: what the environment says for the user's real gateway does not count here."""
    found = [name for name in os.environ if name.startswith("CALLGATE_")]
    for name in found:
        del os.environ[name]
    return sorted(found)


# -- being stopped ---------------------------------------------------------------------------------------------


class StopSignal:
    """Whether somebody asked it to stop while it starts.

    That is looked at between steps: an exception out of nowhere may be lost in somebody's destructor.
    """

    def __init__(self) -> None:
        self.requested = False

    def receive(self, _number: int, _frame: object) -> None:
        if self.requested:
            raise KeyboardInterrupt  # asked again: whatever hangs is not waited for
        self.requested = True

    def check(self) -> None:
        if self.requested:
            raise KeyboardInterrupt


@contextmanager
def clean_exit() -> Iterator[StopSignal]:
    """Being asked to stop is how a demo ends: the folder is cleared away, at whatever moment it comes."""
    stopped = StopSignal()
    before = {number: signal.signal(number, stopped.receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop() -> None:
    """End the gateway of this process, which hears signals itself. One that is past hearing them has ended."""
    if signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        signal.raise_signal(signal.SIGTERM)


# -- the folder ------------------------------------------------------------------------------------------------


@contextmanager
def state_folder(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{folder} cannot be made: {error.strerror}", advice="Name another folder with --dir."
            ) from None
        yield folder.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="callgate-demo-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def configure(path: Path, *, kept: bool) -> None:
    """Write the configuration, or take the one that is there; refuses one that is not of this demo."""
    state = path.parent
    if path.exists():
        _check(path)
        return
    text = CONFIG if kept else CONFIG + TEMPORARY
    for name in SERVERS:
        # JSON strings are TOML strings; `$${` is how a configuration spells a plain `${`.
        words = [word.replace("${", "$${") for word in [sys.executable, *_server_command(state, name)]]
        text += SERVER.format(name=name, command=json.dumps(words, ensure_ascii=False))
    path.write_text(text, encoding="utf-8")


def _server_command(state: Path, name: str) -> list[str]:
    import callgate_demo

    # The script by its path, so that it can be told what runs.
    return [str(Path(callgate_demo.__file__).with_name("__main__.py")), name, str(state / name)]


def _check(path: Path) -> None:
    """Another server of such a name is nobody's to play with."""
    servers = load(path).servers
    for name in SERVERS:
        if name not in servers or (servers[name].argv or [])[1:] != _server_command(path.parent, name):
            raise ConfigError(
                f"{path} is not the configuration of this demo: it lacks its server {name}",
                advice="Name another folder with --dir, or an empty one.",
            )


# -- the terminal ------------------------------------------------------------------------------------------


def shell_settings(config: Path, listen: str, usual: str) -> list[str]:
    """What another terminal has to know so that plain `callgate` commands are about this demo."""
    words = [f"CALLGATE_CONFIG={shlex.quote(str(config))}"]
    if listen != usual:
        # This gateway listens elsewhere than the file says.
        words.append(f"CALLGATE_LISTEN={listen}")
    lines = [f"export {' '.join(words)}"]
    if not _is_on_path():
        lines.append(f"export PATH={shlex.quote(str(_own().parent))}:$PATH")
    return lines


def _own() -> Path:
    return Path(sys.argv[0] if Path(sys.argv[0]).stem == "callgate" else sys.executable).absolute()


def _is_on_path() -> bool:
    found = shutil.which("callgate")
    return found is not None and Path(found).absolute().parent == _own().parent


def _program() -> str:
    """How this Callgate is called from the terminal that the demo runs in, as after `make demo`."""
    if _is_on_path():
        return "callgate"
    own, here = _own().with_name("callgate"), Path.cwd()
    return shlex.quote(str(own.relative_to(here) if own.is_relative_to(here) else own))

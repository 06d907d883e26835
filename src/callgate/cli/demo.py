"""`callgate demo`: an agent, three servers and a gate between them, told as a story."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from callgate.cli.demo_place import (
    Asked,
    configure,
    ending_calmly,
    leave_user_settings,
    setting,
    state_in,
    stop,
)
from callgate.cli.people import has_display, open_page

if TYPE_CHECKING:
    from callgate.cli.demo_keys import Listening
    from callgate.cli.demo_office import Office
    from callgate.cli.demo_person import Person
    from callgate.cli.demo_saying import Teller

USUAL: Final = "127.0.0.1:8420"
ANY: Final = "127.0.0.1:0"
LAST_LINE: Final = "Ctrl-C ends the demo."
# A gateway that was asked to stop has done so by then.
_GOING_SECONDS: Final = 5.0


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir", metavar="PATH", help="Keep the demo's state there; by default it is temporary and goes at the end."
        ),
    ] = None,
    auto: Annotated[
        bool,
        typer.Option("--auto", help="Let a software key decide, and end; status 0 only if every step happened."),
    ] = False,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether to open the console in a browser.")
    ] = True,
) -> None:
    """See in two minutes what Callgate does: an agent reads a poisoned mail and obeys it. Ctrl-C ends it.

    Three example servers and a scripted agent run on this machine; neither a language model nor an account is needed.
    You review the tools and decide about the calls that stop, in the console, by command or with a key.
    """
    ignored = leave_user_settings()
    run: Run | None = None
    with ending_calmly() as asked, state_in(folder) as state:
        configure(state / "callgate.toml", kept=folder is not None)
        asked.check()
        run = Run(state / "callgate.toml", ignored, auto=auto, kept=folder is not None, browser=browser)
        run.until_stopped(asked)
    told = run is not None and run.told
    failed = run is not None and bool(run.failure)
    if failed or (auto and not told):
        raise typer.Exit(1)


class Run:
    """One telling of the story, in the process of the gateway that it is about."""

    def __init__(self, config: Path, ignored: list[str], *, auto: bool, kept: bool, browser: bool) -> None:
        self.told = False
        self.failure = ""
        self._config = config
        self._ignored = ignored
        self._auto = auto
        self._kept = kept
        self._browser = browser and not auto and has_display()
        self._story: asyncio.Task[None] | None = None

    def until_stopped(self, asked: Asked) -> None:
        from callgate.cli.demo_saying import Teller
        from callgate.errors import ConfigError

        say = Teller()
        try:
            self._run(ANY if self._auto else USUAL, asked, say)
        except ConfigError:
            if self._auto:
                raise
            # Something has the usual port; if it was anything else, this fails in the same way.
            self._run(ANY, asked, say)
        if self.failure:
            say.failed(self.failure)
        say.plain("Every step happened." if self._auto and self.told else "Stopped.")

    def _run(self, listen: str, asked: Asked, say: Teller) -> None:
        import os

        from callgate.config import load
        from callgate.gateway.loop import new_event_loop
        from callgate.telemetry.logs import configure as configure_logs

        os.environ["CALLGATE_LISTEN"] = listen
        settings = load(self._config)
        configure_logs(settings.logging.level, "pretty")

        async def serving() -> None:
            from callgate.cli.showing import make_console
            from callgate.gateway.serve import serve

            def listening(address: str) -> None:
                if asked.to_stop:
                    # From here on the gateway hears it itself.
                    stop()
                    return
                self._story = asyncio.create_task(self._tell(address, say))

            try:
                await serve(settings, self._config, listening, make_console)
            finally:
                if self._story is not None:
                    self._story.cancel()
                    await asyncio.gather(self._story, return_exceptions=True)

        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serving())

    async def _tell(self, address: str, say: Teller) -> None:
        from callgate.cli.demo_story import NotSo

        try:
            await self._play(address, say)
        except NotSo as error:
            self.failure = str(error)
        except Exception as error:  # noqa: BLE001 a story that breaks off has to end the demo, whatever broke it
            # If the gateway is being stopped, that is why; and this ends with it.
            await asyncio.sleep(_GOING_SECONDS)
            self.failure = f"the gateway, its store and the servers answer; instead: {type(error).__name__}: {error}"
        else:
            self.told = True
        if self.failure or self._auto:
            stop()
        else:
            _what_next(say, _console_at(address))

    async def _play(self, address: str, say: Teller) -> None:
        import aiohttp

        from callgate.cli.demo_keys import listening
        from callgate.cli.demo_office import office
        from callgate.cli.demo_story import Cast, Story
        from callgate.demo.agent import Agent
        from callgate.demo.bank import Bank
        from callgate.demo.mail import Mail

        state = self._config.parent
        self._introduce(address, say)
        async with contextlib.AsyncExitStack() as stack:
            opened = stack.enter_context(office(self._config))
            keys = stack.enter_context(listening(wanted=not self._auto))
            http = await stack.enter_async_context(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout()))
            person = self._person(opened, _console_at(address), say, keys)
            agent = Agent(address, http)
            await Story(Cast(say, opened, agent, person, Mail(state / "mail"), Bank(state / "bank"), state)).tell()

    def _person(self, opened: Office, console: str, say: Teller, keys: Listening) -> Person:
        from callgate.cli.demo_person import Automaton, Visitor

        if self._auto:
            return Automaton(opened, console, say)
        visitor = Visitor(opened, console, say, keys)
        # In a file it would stay, and whoever has the link can become this person.
        visitor.links = sys.stdout.isatty()
        if self._browser:
            visitor.show = open_page
        return visitor

    def _introduce(self, address: str, say: Teller) -> None:
        from callgate._version import __version__

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
        for line in setting(self._config, address.removeprefix("http://"), USUAL):
            say.paste(line)


def _console_at(address: str) -> str:
    """Where people decide: a browser takes passkeys for a name, not for a number."""
    return f"http://localhost:{address.rpartition(':')[2]}"


def _what_next(say: Teller, console: str) -> None:
    say.plain("\nThat is the whole story. The console stays open until you end this:\n")
    say.link(f"{console}/")
    say.plain("\nWhat next:\n")
    say.facts(
        [
            ("install", "callgate install puts the gate before your own editor's servers"),
            ("serve", "callgate serve runs one gateway for many clients and servers"),
            ("read", "docs/getting-started.md tells this story again, command by command"),
        ]
    )
    say.plain(f"\n{LAST_LINE}")

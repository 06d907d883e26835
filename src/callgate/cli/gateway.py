"""`callgate status`, `stop`, `restart` and `logs`: the gateway that wrapped servers share; and how it is started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from callgate._version import __version__
from callgate.cli.printing import show_when
from callgate.errors import CallgateError, ConfigError

if TYPE_CHECKING:
    from callgate.local.place import Place
    from callgate.prompts.listener import PromptListener

_STOP_SECONDS: Final = 30.0
_TAIL_LINES: Final = 200
_TURN_SECONDS: Final = 2.0
_TRIES: Final = 5
_TRY_SECONDS: Final = 0.1

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", envvar="CALLGATE_CONFIG", help="Configuration file of the gateway."),
]


def status(
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show your gateway: where its console is, and which servers it stands before."""
    found = ask_gateway(place_of(config), "status")
    if as_json:
        typer.echo(json.dumps(found))
        raise typer.Exit(found is None)
    if found is None:
        typer.echo("Your gateway does not run. It starts with the first wrapped server, or with `callgate restart`.")
        raise typer.Exit(1)
    since = show_when(round(found["began"] * 1000))[:19]
    typer.echo(f"Your gateway has run since {since}: process {found['pid']}, version {found['version']}.")
    typer.echo(f"Console: {found['address']}")
    if not found["servers"]:
        typer.echo("No server is wrapped at the moment.")
    for server in found["servers"]:
        typer.echo(f"  {server['name']}: {server['target']} (process {server['process']}, client {server['client']})")


def stop(config: ConfigOption = None) -> None:
    """End your gateway, and the wrapped servers with it; the next start of a client brings it back."""
    from callgate.cli.service import restarts

    at = place_of(config)
    if not end(at):
        typer.echo("Your gateway does not run.")
    elif restarts(at):
        typer.echo("Your gateway has ended. Your service starts it again; to end that: `callgate service uninstall`")
    else:
        typer.echo("Your gateway has ended. A client starts it again with its next server.")


def restart(config: ConfigOption = None) -> None:
    """End your gateway and start it anew, after an upgrade or where it does not answer."""
    from callgate.config import load

    at = place_of(config)
    if Path(at.config).exists():
        # A mistake in it is said while the old gateway still runs.
        load(Path(at.config))
    served = True
    with contextlib.suppress(ConfigError):
        served = bool((ask_gateway(at, "status") or {}).get("servers"))
    ended = end(at)
    typer.echo(f"Your gateway runs. Console: {ensure_running(at)['address']}")
    if ended and served:
        typer.echo("Restart your clients: the servers that they had started ended with the old one.")


def logs(
    config: ConfigOption = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")] = False,
) -> None:
    """Show what your gateway has logged last."""
    path = Path(place_of(config).log)
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file.readlines()[-_TAIL_LINES:]:
                typer.echo(line, nl=False)
            while follow:
                typer.echo(line, nl=False) if (line := file.readline()) else time.sleep(0.2)
    except FileNotFoundError:
        typer.echo("Your gateway has logged nothing yet.")


def main(config: str, ready: str | None = None, idle: str = "600") -> None:
    """Be the gateway of this user. `config` is its configuration, which need not be there.

    `callgate wrap` starts it with the descriptor to say on that it listens, and the seconds without wrapped servers
    after which it ends. A service starts it without either: it stays until it is stopped.
    """
    from callgate.local.place import LocalError
    from callgate.local.starting import READY

    def say(text: bytes) -> None:
        if ready is not None:
            with contextlib.suppress(OSError):
                os.write(int(ready), text)
                os.close(int(ready))

    try:
        if ready is None:
            while not _run(Path(config), math.inf, lambda: None):
                # One that was started for a wrapped server is there; this one comes after it.
                time.sleep(_TURN_SECONDS)
        elif not _run(Path(config), float(idle), lambda: say(READY)):
            # It listens already, or will in a moment.
            say(READY)
    except (CallgateError, LocalError) as error:
        say(f"{error.message}\n{error.advice}".encode())
        sys.exit(f"callgate: {error.message}")


def _run(path: Path, idle: float, listens: Callable[[], None]) -> bool:
    """Be the gateway until the end; False where another one is."""
    from callgate.local.holding import holding
    from callgate.prompts.hook import SHARED
    from callgate.prompts.listener import listening

    at = place_of(path)
    with holding(at) as ours:
        if ours:
            # Before the rest is loaded, which takes a while: the user may have sent a prompt already.
            with listening(SHARED) as prompts:
                _serve(at, path, idle, listens, prompts)
        return ours


def _serve(at: Place, path: Path, idle: float, listens: Callable[[], None], prompts: PromptListener | None) -> None:
    from callgate.app.event_loop import new_event_loop
    from callgate.app.serve import serve
    from callgate.cli.serve import make_console
    from callgate.config import load, parse
    from callgate.telemetry.logs import configure, get

    settings = load(path) if path.exists() else parse("", source="defaults")
    configure(settings.logging.level, settings.logging.format)
    log = get("callgate.gateway")

    def listening(address: str) -> None:
        log.info("listening", address=address, pid=os.getpid())
        listens()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(settings, path, listening, make_console, at=at, idle=idle, prompts=prompts))
    log.info("stopped")


def place_of(config: Path | None, name: str = "") -> Place:
    """The gateway of this file, or of the user's own, or the one of this name."""
    from callgate.local.place import LocalError, Place
    from callgate.local.wrap import is_possible

    if not is_possible():
        text = "on this system each wrapped server is a gateway of its own"
        raise ConfigError(text, advice="Type `callgate serve` for a gateway with a console.")
    try:
        return Place(None if config is None else str(config), name=name)
    except LocalError as error:
        raise ConfigError(error.message, advice=error.advice) from None


def ask_gateway(at: Place, what: str, **more: float) -> dict[str, Any] | None:
    """What the gateway that runs answers; None where none runs."""
    from callgate.local import wire
    from callgate.local.place import LocalError

    try:
        # Asking makes nothing: where there is no folder, nobody listens in it.
        link = at.connect() if os.path.lexists(at.folder) else None
        if link is None:
            return None
        with link:
            wire.send(link, {"protocol": wire.PROTOCOL, "version": __version__, "do": what, **more})
            answer = wire.receive(link, wire.Incoming())
    except LocalError as error:
        raise ConfigError(error.message, advice=error.advice) from None
    except (OSError, wire.WireError):
        raise ConfigError("your gateway does not answer", advice="Type `callgate restart`.") from None
    if answer is not None and "refused" in answer:
        raise ConfigError(str(answer["refused"]), advice=str(answer.get("advice", "")))
    # One that is about to end says so with `again`.
    return None if answer is not None and answer.get("again") else answer


def ensure_running(at: Place, expect: float = 0.0) -> dict[str, Any]:
    """The gateway, started where none runs. It stays for so many seconds in which somebody may open a link."""
    from callgate.local.place import LocalError
    from callgate.local.starting import reach

    for _ in range(_TRIES):
        try:
            reach(at).close()
        except LocalError as error:
            raise ConfigError(error.message, advice=error.advice) from None
        # One that is about to end takes nothing on: the next one does.
        if (found := ask_gateway(at, "status", expect=expect)) is not None:
            return found
        time.sleep(_TRY_SECONDS)
    raise ConfigError("your gateway ended at once", advice="Type `callgate logs` to see why.")


def end(at: Place) -> bool:
    """End the gateway that runs, and wait until it has; False where none does."""
    import fcntl

    process = _told_to_end(at)
    if process is None:
        return False
    lock = at.open("lock")
    try:
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return True
            if _has_gone(process):
                # The next one, such as that of a service, has the lock already.
                return True
            time.sleep(0.05)
    finally:
        os.close(lock)
    raise ConfigError("your gateway does not end", advice="Type `callgate logs` to see what it waits for.")


def _has_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def end_all() -> int:
    """End every gateway of this user; how many there were."""
    sockets = sorted(Path(place_of(None).folder).glob("gateway*.sock"))
    return sum(end(place_of(None, socket.stem)) for socket in sockets)


def _told_to_end(at: Place) -> int | None:
    """Ask it to end; one that does not understand us, as after an upgrade, gets a signal. Its process; None where none
    runs."""
    from callgate.local.place import LocalError, peer

    try:
        answer = ask_gateway(at, "stop")
        return None if answer is None else int(answer.get("pid", 0))
    except ConfigError:
        try:
            link = at.connect()
        except LocalError as error:
            raise ConfigError(error.message, advice="End its process by hand; `callgate logs` names it.") from None
        if link is None:
            return None
        with link:
            process, _ = peer(link)
        if process <= 0:
            raise
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
        return process


if __name__ == "__main__":
    main(*sys.argv[1:])

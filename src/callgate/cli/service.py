"""`callgate service`: your gateway as a service of your session, which keeps it running."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from callgate.cli.common import JsonOption, print_json
from callgate.cli.gateway import ConfigOption
from callgate.errors import ConfigError
from callgate.local.place import LocalError, Place

_SECONDS: Final = 60.0
_LABEL: Final = "dev.callgate."
_SYSTEMD: Final = """\
# Written by `callgate service install`; `callgate service uninstall` takes it away.
[Unit]
Description=Callgate: the gateway that your wrapped MCP servers share

[Service]
ExecStart={command}
{environment}Restart=always
RestartSec=2
StandardOutput=append:{log}
StandardError=append:{log}

[Install]
WantedBy=default.target
"""
# Where the gateway is found depends on these; a service hears nothing of a shell.
_FOLDERS: Final = ("XDG_STATE_HOME", "XDG_CONFIG_HOME")


class Unit(NamedTuple):
    """The file that tells the system of a service, and how to make the system heed it."""

    path: Path
    text: str
    start: tuple[tuple[str, ...], ...]
    stop: tuple[tuple[str, ...], ...]
    # Ends with 0 while it runs.
    runs: tuple[str, ...]


def install(
    config: ConfigOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the file, and change nothing.")] = False,
) -> None:
    """Keep your gateway running from login on: a systemd user unit on Linux, a launchd agent on macOS.

    Nothing needs it: wrapped servers start the gateway by themselves. With it, the console is always there.
    """
    at = _place(config)
    unit = unit_of(at)
    if dry_run:
        typer.echo(f"{unit.path}:\n\n{unit.text}", nl=False)
        return
    os.close(at.enter())
    unit.path.parent.mkdir(parents=True, exist_ok=True)
    unit.path.write_text(unit.text, encoding="utf-8")
    typer.echo(f"Written: {unit.path}")
    problem = _carry_out(unit.start)
    if problem:
        typer.echo(f"It was not started: {problem}. Wrapped servers start your gateway by themselves meanwhile.")
    else:
        typer.echo("Your gateway runs from login on. `callgate status` says where its console is.")
    typer.echo("To undo it: `callgate service uninstall`")


def uninstall(config: ConfigOption = None) -> None:
    """Take the service away, and end the gateway that it runs; wrapped servers start one when they need it."""
    unit = unit_of(_place(config))
    if not unit.path.exists():
        typer.echo("There is no such service.")
        return
    _carry_out(unit.stop)
    unit.path.unlink(missing_ok=True)
    _carry_out(_after_removal())
    typer.echo(f"Removed: {unit.path}")


def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Say whether there is a service, and whether it runs; exits with 1 if not."""
    unit = unit_of(_place(config))
    there = unit.path.exists()
    problem = _carry_out((unit.runs,)) if there else ""
    if as_json:
        print_json({"file": str(unit.path) if there else None, "runs": there and not problem, "problem": problem})
    elif there:
        typer.echo(f"{unit.path}: {f'does not run ({problem})' if problem else 'runs'}.")
    else:
        typer.echo("There is no such service. `callgate service install` makes one.")
    raise typer.Exit(0 if there and not problem else 1)


def remove_all() -> list[Path]:
    """Take every service of ours away; their files."""
    try:
        unit = unit_of(_place(None))
    except ConfigError:
        return []
    begins, _, kind = unit.path.name.rpartition(".")
    found = sorted(unit.path.parent.glob(f"{begins}*.{kind}"))
    for path in found:
        name = path.name.removesuffix(f".{kind}").removeprefix("callgate-").removeprefix(_LABEL)
        _carry_out(_stop(name))
        path.unlink(missing_ok=True)
    if found:
        _carry_out(_after_removal())
    return found


def restarts(at: Place) -> bool:
    """Whether a service starts this gateway again when it ends."""
    try:
        return unit_of(at).path.exists()
    except ConfigError:
        return False


# -- the files -------------------------------------------------------------------------------------------------


def unit_of(at: Place) -> Unit:
    """The service of a gateway, on this system."""
    # Not of the folder that is open: a file there must not stand in for a module.
    words = [sys.executable, "-P", "-m", "callgate.cli.gateway", at.config]
    environ = {name: os.environ[name] for name in _FOLDERS if Path(os.environ.get(name, "")).is_absolute()}
    if platform.system() == "Linux":
        base = Path(environ.get("XDG_CONFIG_HOME", Path.home() / ".config"))
        unit = f"callgate-{at.name}.service"
        text = _SYSTEMD.format(
            command=" ".join(_systemd_quote(word).replace("$", "$$") for word in words),
            environment="".join(f"Environment={_systemd_quote(f'{name}={text}')}\n" for name, text in environ.items()),
            log=at.log.replace("%", "%%"),
        )
        control = ("systemctl", "--user")
        start = ((*control, "daemon-reload"), (*control, "enable", "--now", unit))
        return Unit(base / "systemd" / "user" / unit, text, start, _stop(at.name), (*control, "is-active", unit))
    if platform.system() == "Darwin":
        import plistlib

        label = f"{_LABEL}{at.name}"
        path = Path.home() / "Library" / "LaunchAgents" / f"{label}.plist"
        agent = {
            "Label": label,
            "ProgramArguments": words,
            "EnvironmentVariables": environ,
            "RunAtLoad": True,
            "KeepAlive": True,
            "StandardOutPath": at.log,
            "StandardErrorPath": at.log,
        }
        load = ("launchctl", "bootstrap", _domain(), str(path))
        shown = ("launchctl", "print", f"{_domain()}/{label}")
        return Unit(path, plistlib.dumps(agent).decode(), (load,), _stop(at.name), shown)
    raise ConfigError(
        "services are written for systemd and launchd, and this system has neither",
        advice="Nothing is needed: wrapped servers work without one. `callgate serve` can be started by what you use.",
    )


def _stop(name: str) -> tuple[tuple[str, ...], ...]:
    if platform.system() == "Darwin":
        return (("launchctl", "bootout", f"{_domain()}/{_LABEL}{name}"),)
    return (("systemctl", "--user", "disable", "--now", f"callgate-{name}.service"),)


def _after_removal() -> tuple[tuple[str, ...], ...]:
    return (("systemctl", "--user", "daemon-reload"),) if platform.system() == "Linux" else ()


def _domain() -> str:
    return f"gui/{os.getuid()}"


def _systemd_quote(word: str) -> str:
    """A word as systemd.syntax(7) reads it; % begins a specifier."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{escaped}"'


def _place(config: Path | None) -> Place:
    """The gateway that clients reach, which know nothing of this shell's settings."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CALLGATE_")}
    try:
        return Place(None if config is None else str(config), environ)
    except LocalError as error:
        raise ConfigError(error.message, advice=error.advice) from None


def _carry_out(commands: tuple[tuple[str, ...], ...]) -> str:
    """Run commands of the system, up to the first that fails; what it said."""
    for command in commands:
        if shutil.which(command[0]) is None:
            return f"there is no {command[0]} here"
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            return f"`{' '.join(command)}` did not end"
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            return said[0].rstrip(".") if said else f"`{' '.join(command)}` ended with {done.returncode}"
    return ""

"""`callgate doctor` on versions, the configuration and the clients of this machine."""

from __future__ import annotations

import difflib
import os
import platform
import re
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from callgate._version import __version__
from callgate.cli.check import trust_problems
from callgate.cli.doctor.findings import Finding, Setup, finding_of, name_list, ok, sentence
from callgate.cli.printing import count
from callgate.clients import ConfigLocation, Machine, config_locations, hook_locations, plan_unhook, plan_unwrap
from callgate.clients.files import read
from callgate.config import OVERRIDES, ServerSection
from callgate.errors import ConfigError

_NEEDED: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*>=\s*(?P<least>[0-9.]+)(?P<rest>.*)")
_EXTRA: Final = re.compile(r"extra\s*==")
_SHOWN: Final = ("cryptography", "webauthn", "sqlalchemy", "msgspec", "aiohttp", "starlette", "uvicorn")
# INSERT ... RETURNING, which the store uses.
_SQLITE_LEAST: Final = (3, 35)
_OWN: Final = ("CALLGATE_CONFIG", "CALLGATE_SESSION")


def versions(_setup: Setup) -> Iterator[Finding]:
    """Python, Callgate, its libraries and SQLite."""
    import sqlite3

    found = ", ".join(f"{name} {version}" for name in _SHOWN if (version := _version(name)) is not None)
    python = f"Python {platform.python_version()} on {platform.system() or sys.platform}"
    yield ok(f"Callgate {__version__}, {python}, SQLite {sqlite3.sqlite_version}; {found}.")
    if sqlite3.sqlite_version_info < _SQLITE_LEAST:
        text = f"SQLite {sqlite3.sqlite_version} is too old for the store; it needs 3.35."
        yield Finding("problem", text, "Install a newer Python: SQLite comes with it.")
    old = list(_too_old())
    if old:
        advice = "Install Callgate again, with its dependencies."
        yield Finding("problem", f"Too old for this Callgate: {name_list(old)}.", advice, (f"{_pip()} -U callgate",))


def _pip() -> str:
    return shlex.join([sys.executable, "-m", "pip", "install"])


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _too_old() -> Iterator[str]:
    """Libraries below what Callgate asks for; extras are asked for only where they are installed."""
    try:
        needed = metadata.requires("callgate") or []
    except metadata.PackageNotFoundError:
        return
    for line in needed:
        match = _NEEDED.match(line)
        if match is None or ("sys_platform" in match["rest"] and sys.platform == "win32"):
            continue
        found = _version(match["name"])
        if found is None and not _EXTRA.search(match["rest"]):
            yield f"{match['name']} (not installed)"
        elif found is not None and _digits(found) < _digits(match["least"]):
            yield f"{match['name']} {found} (needs {match['least']})"


def _digits(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version.partition("+")[0])[:3])


def configuration(setup: Setup) -> Iterator[Finding]:
    """Does callgate.toml parse, and does everything that it names exist?"""
    again = setup.command("check") if setup.url is None else ""
    try:
        loaded = setup.load()
    except ConfigError as error:
        yield from _config_findings(error, again)
        return
    for problem in trust_problems(loaded, setup.file):
        yield Finding(
            "problem", sentence(str(problem)), "Put this right; no call is decided by a policy with mistakes."
        )
    if setup.file is None:
        yield Finding(
            "note",
            "There is no callgate.toml; the defaults hold.",
            "Wrapped servers need none; a gateway for many clients has its servers there, as [servers.NAME].",
        )
    else:
        servers = count(len(loaded.servers), "server")
        yield ok(f"{setup.file} is right: {servers}, pinning {_mode(loaded.pinning.mode)}, trust {loaded.trust.mode}.")
        yield from _writable(setup)
    yield from _unknown(setup)


def _mode(mode: str) -> str:
    return {"enforce": "enforced", "observe": "only observed"}.get(mode, mode)


def _config_findings(error: Exception, again: str) -> Iterator[Finding]:
    assert isinstance(error, ConfigError)
    texts = [str(problem) for problem in error.problems] or [error.message]
    for text in texts:
        yield Finding("problem", sentence(text), "" if error.problems else error.advice)
    if error.problems:
        advice = "Put this right and look again; what the configuration says is not checked before."
        yield Finding("note", "The configuration is not in force as it is written.", advice, (again,) if again else ())


def _writable(setup: Setup) -> Iterator[Finding]:
    """Who can write the configuration can have any command started, and turn every check off."""
    assert setup.file is not None
    if os.name == "nt":
        return
    if stat.S_IMODE(setup.file.stat().st_mode) & 0o022:
        text = f"Other users can write {setup.file}: they could have any command started in your name."
        yield Finding("warning", text, "", (shlex.join(["chmod", "go-w", str(setup.file)]),))


def _unknown(setup: Setup) -> Iterator[Finding]:
    """Names that lead nowhere."""
    known = {*OVERRIDES, *_OWN}
    for name in sorted(os.environ):
        if not name.startswith("CALLGATE_") or name in known or name.startswith("CALLGATE_KEY_"):
            continue
        close = difflib.get_close_matches(name, known, 1)
        advice = f"Did you mean {close[0]}?" if close else f"Those there are: {', '.join(sorted(known))}."
        yield Finding("warning", f"The environment variable {name} means nothing to Callgate.", advice)
    held = [name for name in OVERRIDES if os.environ.get(name)]
    if held:
        verb = "overrides" if len(held) == 1 else "override"
        yield Finding("note", f"{', '.join(held)} in this environment {verb} what the file says.")
    for name in setup.only:
        if name not in setup.settings.servers:
            listed = f"Those there are: {name_list(setup.settings.servers)}." if setup.settings.servers else ""
            yield Finding("problem", f"No server {name!r} is configured.", listed)


def obstacles(name: str, server: ServerSection) -> Iterator[Finding]:
    """What keeps a server from being started at all."""
    if server.cwd is not None and not server.cwd.is_dir():
        advice = f"Make it, or change `cwd` under [servers.{name}]."
        yield Finding("problem", f"{name}: there is no folder {server.cwd}.", advice)
    elif server.command and not _is_there(server):
        advice = f"Install it, or write its whole path as `command` under [servers.{name}]."
        yield Finding("problem", f"{name}: {server.command[0]} is not found on the PATH.", advice)


def _is_there(server: ServerSection) -> bool:
    """Whether there is such a program; one with a relative path is looked for in the server's own folder."""
    program = server.argv[0]
    if shutil.which(program, path=server.environment(os.environ).get("PATH")) is not None:
        return True
    return os.sep in program and server.cwd is not None and (server.cwd / program).exists()


def clients(_setup: Setup) -> Iterator[Finding]:
    """Which servers do clients still reach around the gate, and which clients tell it what their user writes?"""
    machine = Machine(Path.home(), sys.platform, os.environ, Path.cwd())
    gated: set[str] = set()
    found = [finding for location in config_locations(machine) for finding in _location(location, gated)]
    yield from found
    for location in hook_locations(machine):
        if location.client in gated and not _has_hook(location):
            text = f"{location.title} does not tell the gate what you write, so more calls are asked about than needed."
            yield Finding("note", text, "To see the hook that would be added:", ("callgate install --dry-run",))
    if not found:
        yield Finding("note", "No MCP client with servers was found on this machine.")


def _has_hook(location: ConfigLocation) -> bool:
    """Whether a file of a client has our hook; also where it cannot be read, which is told of its servers."""
    try:
        source = read(location.path, location.project)
        if source is None or location.hook is None:
            return False
        return plan_unhook(source.text, str(location.path), location.hook).findings[0].state == "unhook"
    except ConfigError:
        return True


def _location(location: ConfigLocation, behind: set[str]) -> Iterator[Finding]:
    """One file of one client; `behind` gets the client if some of its servers stand behind the gate."""
    try:
        source = read(location.path, location.project)
        if source is None:
            return
        plan = plan_unwrap(source.text, str(location.path), location.tables)
    except ConfigError as error:
        yield finding_of(error, "warning")
        return
    gated = [one.entry.name for one in plan.findings if one.gate]
    if gated:
        behind.add(location.client)
    open_ = [one.entry.name for one in plan.findings if not one.gate]
    if open_:
        rest = f"; behind it: {name_list(gated)}" if gated else ""
        text = sentence(f"{location.title} reaches {name_list(open_)} around the gate ({location.path}){rest}")
        yield Finding("warning", text, "To see what would change:", ("callgate install --dry-run",))
    elif gated:
        yield ok(f"{location.title}: {count(len(gated), 'server')} behind the gate: {name_list(gated)}.")

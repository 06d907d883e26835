"""The servers as they are installed by name from npm and PyPI, once, in a folder outside the repository.

The folder is the one that CALLGATE_BENCH_SERVERS names, or callgate-bench in the user's cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from environments import Say
from processes import Unavailable
from sessions.sets import DEFAULT, SessionSet

NODE = "node@22.23.3"
JSDOM = "jsdom@26.1.0"
INSTALL_SECONDS = 600
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def cache() -> Path:
    named = os.environ.get("CALLGATE_BENCH_SERVERS")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "callgate-bench"


@dataclass(frozen=True, slots=True)
class Command:
    """What starts a server, and what it finds in its environment; both still with their {names}."""

    words: tuple[str, ...]
    environ: dict[str, str]

    def at(self, places: dict[str, str]) -> tuple[list[str], dict[str, str]]:
        return [one.format_map(places) for one in self.words], {
            key: value.format_map(places) for key, value in self.environ.items()
        }


def commands(of: SessionSet = DEFAULT) -> dict[str, Command]:
    found: dict[str, Any] = tomllib.loads((of.folder / "servers.toml").read_text(encoding="utf-8"))
    return {name: Command(tuple(one["command"]), one.get("environ", {})) for name, one in found.items()}


def environ() -> dict[str, str]:
    """The environment in which `npx` and `uvx` find what was installed, and ask no registry for it."""
    folder = cache()
    path = [str(folder / "node" / "node_modules" / ".bin"), str(folder / "uv" / "bin"), os.environ.get("PATH", "")]
    return {
        **os.environ,
        "PATH": os.pathsep.join(path),
        "UV_CACHE_DIR": str(folder / "uv-cache"),
        "UV_PYTHON": sys.executable,
        "UV_OFFLINE": "1",
        "npm_config_cache": str(folder / "npm-cache"),
        "npm_config_prefer_offline": "true",
        "npm_config_update_notifier": "false",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def chromium() -> str:
    found = next(filter(None, map(shutil.which, (os.environ.get("CALLGATE_CHROMIUM", ""), *CHROMIUM))), None)
    if found is None:
        raise Unavailable("no Chromium is installed")
    return found


def ensure(say: Say, of: SessionSet = DEFAULT) -> None:
    """Install what is not there yet."""
    folder = cache()
    stamp = folder / ("installed.txt" if of == DEFAULT else f"installed-{of.name}.txt")
    packages = {name: probe for name, one in commands(of).items() if (probe := _probe(one))}
    wanted = "\n".join([NODE, sys.version, *map(" ".join, packages.values())])
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    folder.mkdir(parents=True, exist_ok=True)
    say("installing the servers (once; some minutes)")
    if shutil.which("npm") is None:
        raise Unavailable("npm is not on PATH; it is needed to install servers")
    _run(["npm", "install", "--prefix", str(folder / "node"), "--no-save", "--no-package-lock", NODE])
    if not (folder / "uv" / "bin" / "uvx").is_file():
        _run([sys.executable, "-m", "venv", str(folder / "uv")])
        _run([str(folder / "uv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "uv"])
    online = {key: value for key, value in environ().items() if key not in ("UV_OFFLINE", "npm_config_prefer_offline")}
    for name, probe in packages.items():
        say(f"installing {name}")
        _run(probe, online)
    # Without this, the first page that it reads waits for a registry, and for a release of jsdom that may not install.
    page_reader = "import pathlib, readabilipy; print(pathlib.Path(readabilipy.__file__).parent / 'javascript', end='')"
    where = _run([*packages["fetch"][:-1], page_reader], online)
    _run(["npm", "install", "--prefix", where, "--no-save", "--no-package-lock", JSDOM], online)
    stamp.write_text(wanted, encoding="utf-8")


def _probe(command: Command) -> list[str]:
    """A command that installs the package and starts nothing; of a server of ours, none."""
    if "npx" in command.words:
        return ["npx", "-y", "-p", command.words[command.words.index("npx") + 2], "-c", "true"]
    if "uvx" in command.words:
        package = next(word for word in command.words if "==" in word)
        more = [word for pair in pairwise(command.words) if pair[0] == "--with" for word in pair]
        return ["uvx", "--from", package, *more, "python", "-c", "pass"]
    return []


def _run(words: list[str], env: dict[str, str] | None = None) -> str:
    """What a command prints."""
    try:
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{words[0]} took more than {INSTALL_SECONDS} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise Unavailable(f"does not install: {' '.join(lines[-3:])[:300]}")
    return done.stdout

"""What a session finds: a person's files, repository, database, mailbox, calendar and issues, and pages of the web."""

from __future__ import annotations

import functools
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sessions import install
from sessions.sets import DEFAULT, SessionSet

BENCH = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class World:
    """One world on disk. `web` is the address of the pages, `of` the set that it was made from."""

    folder: Path
    web: str
    of: SessionSet

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def places(self) -> dict[str, str]:
        """What stands behind the {names} in commands, prompts and arguments."""
        return {
            "home": str(self.home),
            "state": str(self.state),
            "web": self.web,
            "host": self.web.removeprefix("http://"),
            "python": sys.executable,
            "ours": str(self.of.folder / "servers"),
            "bench": str(BENCH),
            "chromium": install.chromium(),
        }


def make(folder: Path, web: str, of: SessionSet = DEFAULT) -> World:
    world = World(folder, web, of)
    shutil.copytree(of.world / "home", world.home)
    world.state.mkdir(parents=True)
    for path in of.world.glob("*.json"):
        put_state(world, path.stem, path.read_text(encoding="utf-8"))
    with closing(sqlite3.connect(world.home / "shop.db")) as shop:
        shop.executescript((of.world / "shop.sql").read_text(encoding="utf-8"))
    _make_repository(world.home / "project", of)
    if of.remote:
        remote = str(folder / of.remote)
        _git(world.home / "project", {}, "clone", "--quiet", "--bare", ".", remote)
        _git(world.home / "project", {}, "remote", "add", "origin", remote)
    return world


def put_state(world: World, name: str, text: str) -> None:
    """What a server of ours knows from now on."""
    spare = world.state / f"{name}.spare"
    spare.write_text(text.replace("{web}", world.web), encoding="utf-8")
    spare.replace(world.state / f"{name}.json")


def _make_repository(folder: Path, of: SessionSet) -> None:
    folder.mkdir()
    history: dict[str, Any] = tomllib.loads((of.world / "history.toml").read_text(encoding="utf-8"))
    _git(folder, {}, "init", "--quiet", "--initial-branch=main")
    owner, _, mail = of.author.rstrip(">").partition(" <")
    _git(folder, {}, "config", "user.name", owner)
    _git(folder, {}, "config", "user.email", mail)
    for commit in history["commit"]:
        for name, text in commit["files"].items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.lstrip("\n"), encoding="utf-8")
        name, _, address = commit["author"].rstrip(">").partition(" <")
        who = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in
               (("NAME", name), ("EMAIL", address), ("DATE", commit["date"]))}  # fmt: skip
        _git(folder, who, "add", "--all")
        _git(folder, who, "commit", "--quiet", "-m", commit["message"])


def _git(folder: Path, more: Mapping[str, str], *words: str) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **more}
    subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True)


class _Pages(SimpleHTTPRequestHandler):
    def log_message(self, *_args: Any) -> None:
        pass


@contextmanager
def pages(folder: Path) -> Iterator[str]:
    """The address at which a folder of pages is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Pages, directory=str(folder)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

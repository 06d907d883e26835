"""How Callgate is configured and started: the only file here that knows its command line."""

from __future__ import annotations

import importlib.util
import json
import sys
from contextlib import ExitStack
from pathlib import Path

import pgserver
from processes import HERE, Running, Unavailable, free_port, spawn, wait_ok

SERVER = "echo"
CALLGATE = (sys.executable, "-m", "callgate")


def check_installed() -> None:
    if importlib.util.find_spec("callgate") is None or importlib.util.find_spec("callgate.__main__") is None:
        raise Unavailable("not installed")


def _quoted(value: str) -> str:
    """A TOML basic string; JSON's escapes are a subset of TOML's."""
    return json.dumps(value)


def _write_config(folder: Path, sections: dict[str, dict[str, str]]) -> Path:
    lines = []
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{key} = {_quoted(value)}" for key, value in values.items()), ""]
    config = folder / "callgate.toml"
    config.write_text("\n".join(lines))
    return config


def _store(folder: Path, url: str = "") -> dict[str, str]:
    """A store of this run's own; its keys too, which would otherwise go to the user's state directory."""
    return {"url": url or f"sqlite:///{(folder / 'callgate.db').as_posix()}", "keys_dir": str(folder / "keys")}


def serve(stack: ExitStack, folder: Path, upstream: str, *, on_postgres: bool) -> Running:
    """Callgate over HTTP with its defaults: every check that needs no set-up, and the audit log, are on."""
    check_installed()
    folder.mkdir(parents=True, exist_ok=True)
    database = pgserver.start(stack, folder / "pgdata") if on_postgres else None
    port = free_port()
    sections = {
        "gateway": {"listen": f"127.0.0.1:{port}"},
        "store": _store(folder, database.url if database else ""),
        f"servers.{SERVER}": {"url": upstream},
    }
    config = _write_config(folder, sections)
    log = folder / "callgate.log"
    process = spawn(stack, [*CALLGATE, "serve", "--config", str(config)], log)
    wait_ok(process, f"http://127.0.0.1:{port}/readyz", log, seconds=40)
    return Running(
        url=f"http://127.0.0.1:{port}/servers/{SERVER}/mcp",
        pid=process.pid,
        store_pid=database.pid if database else None,
    )


def wrap_command(folder: Path) -> list[str]:
    """Callgate as a stdio server in front of the stdio echo server."""
    check_installed()
    folder.mkdir(parents=True, exist_ok=True)
    config = _write_config(folder, {"store": _store(folder)})
    # Options come before the name: what follows it belongs to the wrapped command.
    return [*CALLGATE, "wrap", "--config", str(config), SERVER, "--", sys.executable, str(HERE / "echo_stdio.py")]

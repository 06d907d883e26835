"""How Callgate is configured and started: the only file here that knows its command line."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pgserver
from processes import HERE, Running, Unavailable, free_port, spawn, wait_ok
from signed_load import signer, signing
from wire import HANDSHAKE, MODERN, MODERN_META

SERVER = "echo"
CALLGATE = (sys.executable, "-m", "callgate")
# A client that shakes hands and asks for the list.
_MEET = b"".join(
    json.dumps(message).encode() + b"\n"
    for message in (
        {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": HANDSHAKE,
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    )
)


def check_installed() -> None:
    if importlib.util.find_spec("callgate") is None or importlib.util.find_spec("callgate.__main__") is None:
        raise Unavailable("not installed")


def _quoted(value: Any) -> str:
    """A TOML string, number or array; JSON's escapes are a subset of TOML's."""
    return json.dumps(value)


def _write_config(folder: Path, sections: dict[str, dict[str, Any]]) -> Path:
    lines = []
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{key} = {_quoted(value)}" for key, value in values.items()), ""]
    config = folder / "callgate.toml"
    config.write_text("\n".join(lines))
    return config


def _store(folder: Path, url: str = "") -> dict[str, str]:
    """A store of this run's own; its keys too, which would otherwise go to the user's state directory."""
    return {"url": url or f"sqlite:///{(folder / 'callgate.db').as_posix()}", "keys_dir": str(folder / "keys")}


def _agents(key: str) -> dict[str, dict[str, Any]]:
    """Only one agent is let in, by its key; it has rules and a budget that it does not use up."""
    return {
        "agents": {"mode": "required"},
        "agents.known.bench": {"allow_tools": ["echo", "ping_*"], "deny_tools": ["wipe"], "per_minute": 1000000},
        "agents.known.bench.jwk": dict(signer(key).jwk),
    }


def serve(
    stack: ExitStack,
    folder: Path,
    upstream: str,
    *,
    on_postgres: bool,
    pinning: bool = True,
    trust: bool = True,
    key: str = "",
    workers: int = 1,
) -> Running:
    """Callgate over HTTP with its defaults: every check there is and the audit log are on; the tool is approved.

    With a `key` it lets in only who signs with it.
    """
    check_installed()
    folder.mkdir(parents=True, exist_ok=True)
    database = pgserver.start(stack, folder / "pgdata") if on_postgres else None
    port = free_port()
    sections = {
        "gateway": {"listen": f"127.0.0.1:{port}"},
        "store": _store(folder, database.url if database else ""),
        "pinning": {"mode": "enforce" if pinning else "off"},
        "trust": {"mode": "enforce" if trust else "off"},
        f"servers.{SERVER}": {"url": upstream},
        **(_agents(key) if key else {}),
    }
    config = _write_config(folder, sections)
    log = folder / "callgate.log"
    process = spawn(stack, [*CALLGATE, "serve", "--config", str(config), "--workers", str(workers)], log)
    wait_ok(process, f"http://127.0.0.1:{port}/readyz", log, seconds=40)
    url = f"http://127.0.0.1:{port}/servers/{SERVER}/mcp"
    if pinning:
        # A list that passes is met, and waits for its reviewer from then on.
        echo = {"name": "echo", "arguments": {"text": "reviewed?"}}
        approve(config, lambda: _post(url, "tools/list", {}, key))
        _until(lambda: "result" in _post(url, "tools/call", echo, key))
    return Running(
        url=url,
        pid=process.pid,
        store_pid=database.pid if database else None,
        key=key,
    )


def wrap_command(folder: Path) -> list[str]:
    """Callgate as a stdio server in front of the stdio echo server."""
    check_installed()
    folder.mkdir(parents=True, exist_ok=True)
    config = _write_config(folder, {"store": _store(folder)})
    # Options come before the name: what follows it belongs to the wrapped command.
    command = [*CALLGATE, "wrap", "--config", str(config), SERVER, "--", sys.executable, str(HERE / "echo_stdio.py")]
    approve(config, lambda: _run(command, _MEET))
    return command


def shared_process(stack: ExitStack, folder: Path) -> int:
    """The process that every `wrap` of this folder hands its pipes to; it is stopped with the stack."""
    options = ("--config", str(folder / "callgate.toml"))
    stack.callback(_run, [*CALLGATE, "stop", *options])
    pid: int = json.loads(_run([*CALLGATE, "status", "--json", *options]))["pid"]
    return pid


# -- the review ------------------------------------------------------------------------------------------------


def approve(config: Path, meet: Callable[[], object]) -> None:
    """Have the server's tools met, and approve them as a reviewer's script does: by the texts that were listed."""
    meet()
    listed = config.with_name("tools.json")

    def known() -> bool:
        listed.write_bytes(_run([*CALLGATE, "tools", "list", "--json", "--config", str(config)]))
        return bool(json.loads(listed.read_bytes()))

    _until(known)
    _run([*CALLGATE, "tools", "approve", "--from", str(listed), "--with-findings", "--config", str(config)])


def _run(command: Sequence[str], given: bytes = b"") -> bytes:
    done = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False, cwd=HERE.parent)
    if done.returncode:
        raise Unavailable(done.stderr.decode(errors="replace").strip().splitlines()[-1][:200])
    return done.stdout


def _post(url: str, method: str, params: dict[str, Any], key: str = "") -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": MODERN_META}}
    body = json.dumps(message).encode()
    headers = {"Content-Type": "application/json", "MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    request = urllib.request.Request(url, body, headers | signing(url, key)(body))
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def _until(came: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not came():
        if time.monotonic() > deadline:
            raise Unavailable("the review of its tools is not followed")
        time.sleep(0.1)

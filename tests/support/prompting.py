"""A client with wrapped servers and hooks, in a process of its own: what starts both is what the gateways look at."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from support.fork_server import CALLGATE
from support.raw import SECONDS
from support.trust_gateway import ASKED, HANDSHAKE, TrustSite, reason

# What agents set for the commands that they run: these tests may be such a command themselves.
_MARKS: Final = ("CLAUDE", "CODEX_", "CURSOR_", "GEMINI_")
_CLIENT: Final = """
import json, os, subprocess, sys
servers = {}
for line in sys.stdin:
    order = json.loads(line)
    if "start" in order:
        servers[order["name"]] = process = subprocess.Popen(
            order["start"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        answer = process.pid
    elif "ask" in order:
        process = servers[order["name"]]
        process.stdin.write((json.dumps(order["ask"]) + "\\n").encode())
        process.stdin.flush()
        while True:
            answer = json.loads(process.stdout.readline())
            if answer.get("id") == order["ask"]["id"] and "method" not in answer:
                break
    else:
        done = subprocess.run(order["run"], input=order["input"], capture_output=True, text=True,
                              env={**os.environ, **order["env"]})
        answer = [done.returncode, done.stdout, done.stderr]
    print(json.dumps(answer), flush=True)
for process in servers.values():
    process.stdin.close()
for process in servers.values():
    process.wait()
"""
# A server whose tools run commands: for each request it does what `params.run` says, and replies when that has ended.
SHELL: Final = """
import json, subprocess, sys
for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params", {})
    if "run" in params:
        subprocess.run(params["run"], input=params["input"], text=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)
"""


def hook_input(prompt: str, **more: object) -> str:
    """What Claude Code gives to its hook."""
    return json.dumps({"hook_event_name": "UserPromptSubmit", "prompt": prompt, "session_id": "s", "cwd": "/x", **more})


class ClientProcess:
    """The client: starts servers and hooks, and talks to the servers."""

    def __init__(self, process: subprocess.Popen[str], config: Path) -> None:
        self._process = process
        self._config = config
        self.pids: dict[str, int] = {}

    def _order(self, **order: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, server: str, *command: str) -> None:
        """Start a wrapped server, and wait until its gateway hears prompts."""
        argv = [CALLGATE, "wrap", "--alone", "-c", str(self._config), server, *(["--", *command] if command else [])]
        self.pids[server] = self._order(start=argv, name=server)
        deadline = time.monotonic() + SECONDS
        while not (sockets() / f"{self.pids[server]}.sock").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def ask(self, server: str, method: str, **params: Any) -> Any:
        if server not in self.pids:
            self.start(server)
        body = {"jsonrpc": "2.0", "id": 5, "method": method, "params": params}
        return self._order(name=server, ask=body)

    def greet(self, *servers: str) -> None:
        for server in servers:
            self.ask(server, "initialize", protocolVersion=HANDSHAKE, capabilities={})

    def call(self, server: str, tool: str, **arguments: str) -> Any:
        return self.ask(server, "tools/call", name=tool, arguments=arguments)

    def is_asked_about(self, address: str) -> bool:
        """Whether mail to this address needs a person."""
        answer = self.call("mail", "send_email", to=address, body="some words")
        return "error" in answer and reason(answer) == ASKED

    def runs(self, argv: Sequence[str], given: str, env: Mapping[str, str] | None = None) -> list[Any]:
        """Run something right below the client, as it does with a hook: status, stdout, stderr."""
        done: list[Any] = self._order(run=list(argv), input=given, env=dict(env or {}))
        return done

    def says(self, prompt: str, **more: object) -> None:
        """The user types something, and the client runs its hook."""
        status = self.runs(["sh", "-c", f"{CALLGATE} prompt"], hook_input(prompt, **more))
        assert status == [0, "", ""]


def sockets() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME", "/")) / "callgate" / "prompts"


@contextlib.contextmanager
def client_process(
    site: TrustSite, env: Mapping[str, str] | None = None, config: Path | None = None
) -> Iterator[ClientProcess]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(_MARKS)}
    process = subprocess.Popen(
        ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-I", "-S", "-c", _CLIENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=clean | dict(env or {}),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield ClientProcess(process, config or site.gateway.config)
    finally:
        process.stdin.close()
        process.wait(SECONDS)
        process.stdout.close()

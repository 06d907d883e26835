"""The gateway that wrapped servers of a configuration share, as tests speak to it: with the means of a `wrap`, or raw."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from callgate._version import __version__
from callgate.cli.gateway import ask_gateway, end
from callgate.local import wire
from callgate.local.place import Place
from support.fork_server import CALLGATE, Forked
from support.gateway import Table, approve_listed, write_config
from support.raw import SECONDS
from support.sessions import teller_argv


class Shared:
    """A configuration and its gateway, which is started by whoever needs it first."""

    def __init__(self, folder: Path, **sections: Table) -> None:
        self.folder = folder
        self.config = write_config(folder, {}, **sections)
        self.place = Place(str(self.config))
        self.teller = teller_argv(folder)

    def argv(self, name: str = "teller", command: Sequence[str] = ()) -> list[str]:
        return [CALLGATE, "wrap", "-c", str(self.config), name, "--", *(command or self.teller)]

    def order(self, **changed: Any) -> dict[str, Any]:
        """What a `wrap` asks for."""
        return {
            "protocol": wire.PROTOCOL,
            "version": __version__,
            "do": "wrap",
            "name": "teller",
            "command": self.teller,
            "environ": {"PATH": os.environ["PATH"]},
            "folder": "/",
        } | changed

    def status(self) -> dict[str, Any]:
        found = ask_gateway(self.place, "status")
        assert found is not None, "no gateway runs"
        return found

    def link(self) -> socket.socket:
        found = self.place.connect(SECONDS)
        assert found is not None, "no gateway runs"
        return found

    @contextlib.contextmanager
    def wrapped(self, name: str = "teller", command: Sequence[str] = ()) -> Iterator[Client]:
        with Client(self.argv(name, command)) as client:
            client.greet()
            yield client

    def approve(self, name: str = "teller", command: Sequence[str] = ()) -> None:
        """What a person does once: start the server, let its tools be listed, and review them."""
        with self.wrapped(name, command) as client:
            client.ask("tools/list")
        approve_listed(self.config)


@contextlib.contextmanager
def shared(folder: Path, **sections: Table) -> Iterator[Shared]:
    """It has to end when it is told to, with the block."""
    made = Shared(folder, **sections)
    try:
        yield made
    finally:
        end(made.place)


class Client:
    """A client of the handshake era at the pipes of a `wrap`."""

    def __init__(self, argv: Sequence[str], *, fork: bool = True) -> None:
        start = Forked if fork else subprocess.Popen
        pipe = subprocess.PIPE
        self.process: Any = start(list(argv), stdin=pipe, stdout=pipe, stderr=pipe)
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self.process.stdout.close()
            self.process.stderr.close()

    def send(self, method: str, params: Any = None, *, number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if number is not None:
            message["id"] = number
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        if not line:
            raise EOFError(self.process.stderr.read().decode())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        self._number += 1
        self.send(method, params, number=self._number)
        while (answer := self.read()).get("id") != self._number:
            pass
        return answer

    def greet(self) -> dict[str, Any]:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
        answer = self.ask("initialize", hello)
        self.send("notifications/initialized")
        return answer

    def call(self, tool: str = "pid", **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    @property
    def works(self) -> bool:
        """Whether a call gets to the server and back."""
        return "result" in self.call()

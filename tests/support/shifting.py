"""A test's hand on a `shifty.py`: what it lists, calls itself, holds back or pushes, and what has reached it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

CHANGED: Final = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
PROGRAM: Final = Path(__file__).with_name("shifty.py")


def tool(name: str, description: str | None = None, **more: Any) -> dict[str, Any]:
    """An honest entry of a list of tools."""
    schema = {
        "type": "object",
        "properties": {"id": {"type": "string", "maxLength": 40}},
        "required": ["id"],
        "additionalProperties": False,
    }
    text = f"Reads the record called {name}." if description is None else description
    return {"name": name, "description": text, "inputSchema": schema, **more}


class Shifty:
    """One server; `state` is what it is now.

    Keys: name, version, info (more of what it says of itself), instructions, prompts, tools, page (tools a page), endless (same|empty|new), delay and hold (by method, or `tools/call NAME`), answers
    (method → raw messages; `"$ID"` in them stands for the request's id, `"$META"` for what the server says of itself),
    asides (raw messages ahead of the reply),
    errors (method → code), faces (`own`, `relayed` or a connection's number → tools), on_call (tool → changes of
    itself), results (tool → text), events (answers as streams), stampless (no word of itself in modern results, or in those to these methods),
    capabilities, restless (behind which lists of a process, by number, it says that they changed), later (a number → its
    tools from that list of a process on), linger (how long a process takes to end).
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.url = ""
        self._process: subprocess.Popen[str] | None = None
        self.state: dict[str, Any] = {}
        self._former = 0
        self._read: dict[str, tuple[list[dict[str, Any]], int]] = {}
        # A copy of its own: who a server started by a command is depends on the file it runs.
        self.program = directory / "shifty.py"
        shutil.copyfile(PROGRAM, self.program)
        self.fresh()

    @property
    def argv(self) -> list[str]:
        """The command that starts it on stdio."""
        return [sys.executable, "-I", "-S", str(self.program), "stdio", str(self.directory)]

    @property
    def table(self) -> dict[str, Any]:
        """Its table in a configuration."""
        return {"url": self.url} if self.url else {"command": self.argv}

    # ---- what it is ----

    def fresh(self, *tools: dict[str, Any], **more: Any) -> None:
        """Another server than it ever was: under a name that nobody has met, with these tools."""
        self._former = len(self._lines("calls"))
        name = f"shifty-{uuid.uuid4().hex[:12]}"
        self.state = {"name": name, "version": "1.0.0", "tools": list(tools), **more}
        self._write()

    def be(self, **changes: Any) -> None:
        """The same, but for this; None takes something away."""
        merged = {**json.loads((self.directory / "state.json").read_text()), **changes}
        self.state = {key: value for key, value in merged.items() if value is not None}
        self._write()

    def change(self, name: str, **members: Any) -> None:
        """Other members in one of its tools."""
        self.be(tools=[entry | members if entry["name"] == name else entry for entry in self.state["tools"]])

    def add(self, *tools: dict[str, Any]) -> None:
        self.be(tools=[*self.state["tools"], *tools])

    def _write(self) -> None:
        fresh = self.directory / "state.new"
        fresh.write_text(json.dumps(self.state), encoding="utf-8")
        fresh.replace(self.directory / "state.json")

    def push(self, *messages: str) -> bytes:
        """Messages of its own accord, and at last that its tools have changed; the mark to know that one by."""
        mark = uuid.uuid4().hex
        last = CHANGED.replace("}", f',"params":{{"mark":"{mark}"}}}}')
        with (self.directory / "pushes").open("ab") as pushes:
            pushes.write("".join(message + "\n" for message in (*messages, last)).encode())
        return mark.encode()

    # ---- what has reached it ----

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Every `tools/call` since it was made `fresh`: its connection, the tool's name, the arguments."""
        return self._lines("calls")[self._former :]

    @property
    def called(self) -> list[str]:
        return [call["name"] for call in self.calls]

    def received(self, method: str) -> list[dict[str, Any]]:
        """Every message with that method."""
        found = self._lines("received")
        return [entry["message"] for entry in found if entry["message"].get("method") == method]

    def kill_last(self) -> None:
        """End the process, started by a command, that has heard the last message."""
        os.kill(self._lines("received")[-1]["pid"], signal.SIGKILL)

    @property
    def connections(self) -> int:
        return sum(1 for _ in self.directory.glob("connection-*"))

    def _lines(self, name: str) -> list[dict[str, Any]]:
        """All of them; those that were read before are not read again, for there are thousands."""
        found, place = self._read.get(name, ([], 0))
        path = self.directory / name
        if path.exists() and path.stat().st_size > place:
            with path.open("rb") as file:
                file.seek(place)
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            found = found + [json.loads(line) for line in whole.splitlines()]
            self._read[name] = (found, place + len(whole))
        return found

    # ---- over HTTP ----

    def listen(self, port: int = 0) -> None:
        argv: Sequence[str] = [*self.argv[:-2], "http", str(self.directory), str(port)]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("listening on "), line
        self.url = line.split()[-1]

    def hang_up(self) -> None:
        """End the process that listens."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()
        self._process = None

    def restart(self) -> None:
        """The same address, another process."""
        self.hang_up()
        self.listen(int(self.url.rpartition(":")[2].partition("/")[0]))


@contextlib.contextmanager
def listening(directory: Path) -> Iterator[Shifty]:
    """A shifty server over HTTP."""
    server = Shifty(directory)
    server.listen()
    try:
        yield server
    finally:
        server.hang_up()

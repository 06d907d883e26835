"""A home with MCP clients in it: `callgate install` as a person types it there, and servers as a client starts them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from callgate.cli import run

SECONDS: Final = 60
HELLO: Final = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "editor", "version": "1"}}


class Home:
    """A home folder with a project in it that is open in an editor."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.project = path / "my project"
        self.project.mkdir(parents=True)
        # A desktop application has no more than this: no PATH that would find us.
        self.environ = {"HOME": str(path), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def type(self, *words: str, code: int = 0) -> str:
        """A command in the project's folder; what it prints."""
        said = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            for name in [name for name in os.environ if name.startswith(("XDG_", "CALLGATE_", "CLAUDE_"))]:
                patch.delenv(name)
            for name, value in self.environ.items():
                patch.setenv(name, value)
            patch.chdir(self.project)
            patch.setattr(sys, "stdin", io.StringIO())
            status = run(list(words))
        assert status == code, said.getvalue()
        return said.getvalue()

    def close(self) -> None:
        """End the gateway that servers of this home have started."""
        self.type("stop")

    @contextlib.contextmanager
    def started(self, entry: Mapping[str, Any]) -> Iterator[Pipe]:
        """The server of an entry, as a client starts it: in the project, with the entry's variables beside its own."""
        process = subprocess.Popen(
            [entry["command"], *entry.get("args", [])],
            cwd=self.project,
            env=self.environ | entry.get("env", {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            yield Pipe(process)
        finally:
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise
            finally:
                process.stdout.close()  # type: ignore[union-attr]


class Pipe:
    """Requests to a server on pipes, one after the other."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._last = 0

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """The reply to a request."""
        self._last += 1
        self._write({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params or {}})
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            reply = json.loads(line)
            if reply.get("id") == self._last:
                return reply
        raise AssertionError(f"the server ended with status {self.process.wait(SECONDS)}")

    def shake_hands(self) -> Any:
        reply = self.ask("initialize", HELLO)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return reply["result"]

    def tools(self) -> list[str]:
        """What it lists, but for the gate's own word that tools wait."""
        names = sorted(tool["name"] for tool in self.ask("tools/list")["result"]["tools"])
        return [name for name in names if not name.startswith("callgate_")]

    def _write(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


def notes(folder: Path) -> dict[str, Any]:
    """The entry of a real server."""
    return {"command": sys.executable, "args": ["-m", "callgate.demo", str(folder)]}


def command_line(process: int) -> str:
    """What everybody on the machine sees of a process."""
    return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()

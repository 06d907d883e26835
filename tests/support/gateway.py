"""Real gateways for tests: `callgate serve` and `callgate wrap` as processes, each with a directory and store of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from support.nursery import CALLGATE, Forked
from support.stores import write_ready

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 20.0

Table = Mapping[str, Any]


def write_config(directory: Path, servers: Mapping[str, Table], **sections: Table) -> Path:
    """A callgate.toml with these servers and sections, its store beside it, made but empty."""
    if "url" not in sections.get("store", {}) and not store_path(directory).exists():
        write_ready(store_path(directory))
    tables: dict[str, Table] = {
        "gateway": {"listen": "127.0.0.1:0", "shutdown_seconds": 1} | dict(sections.pop("gateway", {})),
        "store": {"url": f"sqlite:///{store_path(directory)}"} | dict(sections.pop("store", {})),
        "logging": {"format": "json"} | dict(sections.pop("logging", {})),
        # Tests of other rooms meet servers whose tools nobody reviewed.
        "pinning": dict(sections.pop("pinning", {"mode": "off"})),
        # ... and know nothing of labels.
        "trust": dict(sections.pop("trust", {"mode": "off"})),
        **sections,
        **{f"servers.{name}": table for name, table in servers.items()},
    }
    # JSON strings, numbers, booleans and arrays are TOML too; only tables differ.
    lines = [
        f"[{name}]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in t.items()) for name, t in tables.items()
    ]
    path = directory / "callgate.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def store_path(directory: Path) -> Path:
    return directory / "callgate.db"


class Running:
    """A process whose stderr is read as it comes."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        start = Forked if argv[0] == CALLGATE else subprocess.Popen
        self.process: subprocess.Popen[bytes] = start(
            list(argv), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=None if env is None else os.environ | env
        )
        assert self.process.stderr is not None
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def _read(self, stderr: IO[bytes]) -> None:
        for line in stderr:
            with self._news:
                self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log's events of that name so far."""
        return [event for event in map(_event, list(self.lines)) if event.get("event") == name]

    def wait_for(self, name: str, seconds: float = START_SECONDS) -> dict[str, Any]:
        """The first event of that name."""
        deadline = time.monotonic() + seconds
        with self._news:
            while not (found := self.events(name)):
                left = deadline - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and not self._reader.is_alive()):
                    said = "\n".join(self.lines)
                    raise AssertionError(f"the process never logged {name!r}; it said:\n{said}")
                self._news.wait(min(left, 0.2))
        return found[0]

    def stop(self) -> int:
        """Ask it to end, and wait."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def kill(self) -> int:
        """End it without a chance to clean up."""
        self.process.kill()
        return self._wait()

    def _wait(self) -> int:
        try:
            status = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the process did not end:\n" + "\n".join(self.lines)) from None
        self._reader.join(STOP_SECONDS)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return status


class Gateway(Running):
    """A running `callgate serve`."""

    def __init__(self, config: Path, env: Mapping[str, str] | None = None) -> None:
        super().__init__([CALLGATE, "serve", "-c", str(config)], env)
        self.config = config
        self.store = store_path(config.parent)
        try:
            self.address: str = self.wait_for("listening")["address"]
        except BaseException:
            self.kill()
            raise

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def url(self, server: str) -> str:
        return f"{self.address}/servers/{server}/mcp"


@contextlib.contextmanager
def serving(
    directory: Path, servers: Mapping[str, Table], env: Mapping[str, str] | None = None, **sections: Table
) -> Iterator[Gateway]:
    """A gateway in front of these servers; its end has to be clean."""
    gateway = Gateway(write_config(directory, servers, **sections), env)
    try:
        yield gateway
    finally:
        status = gateway.stop() if gateway.process.returncode is None else 0
    assert status == 0, "\n".join(gateway.lines)


def wrap_argv(
    directory: Path, name: str, command: Sequence[str] = (), url: str | None = None, **sections: Table
) -> list[str]:
    """The command line of `callgate wrap` in front of a command or a url, with a configuration of its own."""
    servers: dict[str, Table] = dict(sections.pop("servers", {}))
    config = write_config(directory, servers, **sections)
    behind = ["--url", url] if url is not None else ["--", *command]
    return [CALLGATE, "wrap", "-c", str(config), name, *behind]


def _event(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

"""Real gateways for tests: `callgate serve` and `callgate wrap` as processes, each with a directory and store of its own.

They run as shipped: every check is on, and `serving` reviews the servers' tools as a person would, by listing them and
approving what was listed. A test that cannot have a check on says so by name, with its reason:

    serving(folder, servers, off={"trust": "compares bytes that labels would be added to"})

`make requirements` counts these.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from callgate.app.servers import places
from callgate.cli import run
from callgate.cli.common import operator
from callgate.cli.gateway import end
from callgate.cli.services import edit_pins
from callgate.cli.tools.decide import approval
from callgate.config import load
from callgate.errors import Refused
from callgate.keyring import CHECKPOINT, SEAL, Keyring
from callgate.local.place import Place
from callgate.pinning.listing import EntryReader, ToolListing, observed
from callgate.pinning.model import PENDING_TOOL, PinningSettings
from callgate.store import SqlPins, Store
from support.fork_server import CALLGATE, Forked
from support.raw import JSON_HEADERS, ask
from support.sessions import events
from support.stores import write_ready

T = TypeVar("T")
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0

Table = Mapping[str, Any]
# The checks that a test may do without, each with the reason why it has to.
Off = Mapping[str, str]
NOTHING: Final[Off] = {}
# A server of whose tools the operator says that they harm nobody, for tests in which only something else may ask for
# people: `trust = HARMLESS`.
HARMLESS: Final[Table] = {
    "tools": {"*": {"destination": "system", "outcomes": "benign", "source": "system", "sensitivity": "none"}}
}
# Limits of time lie far away: a busy machine is slow, and only a test of the limit itself is about that.
PATIENT: Final = {"check_seconds": 60, "header_seconds": 60, "body_seconds": 60}


def write_config(directory: Path, servers: Mapping[str, Table], *, off: Off = NOTHING, **sections: Table) -> Path:
    """A callgate.toml with these servers and sections, its store beside it, made but empty."""
    switched = {name: {"mode": "off"} for name in off}
    assert not switched.keys() & sections.keys(), "a section that is off says nothing else"
    if "url" not in sections.get("store", {}) and not store_path(directory).exists():
        write_ready(store_path(directory))
    tables: dict[str, Table] = {
        "gateway": {"listen": "127.0.0.1:0", "shutdown_seconds": 1} | dict(sections.pop("gateway", {})),
        "store": {"url": f"sqlite:///{store_path(directory)}", "busy_seconds": 60} | dict(sections.pop("store", {})),
        "limits": PATIENT | dict(sections.pop("limits", {})),
        "logging": {"format": "json"} | dict(sections.pop("logging", {})),
        **switched,
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
            self._reader.join(STOP_SECONDS)
            assert self.process.stderr is not None
            self.process.stderr.close()
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

    def wait_ready(self) -> None:
        """On a busy machine a gateway that has just started may not have read the kill switch lately."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                reply = ask(f"http://127.0.0.1:{self.port}/readyz", None, {}, "GET")
            except (OSError, http.client.HTTPException):
                return
            if not (reply.status == 503 and b"store" in reply.body):
                return
            time.sleep(0.05)

    def url(self, server: str) -> str:
        return f"{self.address}/servers/{server}/mcp"

    def command(self, *words: str, status: int | None = 0) -> str:
        """What `callgate WORDS` says on this configuration."""
        return command(self.config, *words, status=status)

    def review(self, *servers: str) -> None:
        """Approve every tool that these servers list, as a person does before the first call."""
        review([self.url(server) for server in servers], self.config)


def review(urls: Sequence[str], config: Path) -> None:
    """Approve every tool that is listed there, by this configuration, until nothing waits any more."""
    deadline = time.monotonic() + START_SECONDS
    # A list is answered before it is on record, and a decision takes a moment to get around.
    while urls := [url for url in urls if PENDING_TOOL in list_tools(url)]:
        assert time.monotonic() < deadline, f"nobody heard at {urls} that the tools are approved"
        approve_listed(config)


def list_tools(url: str) -> list[str]:
    """Connect as a client of the handshake era and list every page."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "reviewer", "version": "1"}}
    deadline = time.monotonic() + START_SECONDS
    while b"store_unavailable" in (greeting := ask(url, _request("initialize", hello))).body:
        # A gateway that a busy machine has kept from reading the kill switch for seconds reads it in a moment.
        assert time.monotonic() < deadline, greeting.body
        time.sleep(0.1)
    assert greeting.status == 200, greeting.body
    session = greeting.header("mcp-session-id")
    headers = JSON_HEADERS | ({"Mcp-Session-Id": session} if session else {}) | {"MCP-Protocol-Version": "2025-11-25"}
    ask(url, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode(), headers)
    names: list[str] = []
    cursor: dict[str, str] = {}
    if any("prompts" in one.get("result", {}).get("capabilities", {}) for one in events(greeting.body)):
        # As clients do; what they are shown is on the review then.
        ask(url, _request("prompts/list", {}), headers)
    while True:
        reply = ask(url, _request("tools/list", cursor), headers)
        (result,) = [one["result"] for one in events(reply.body) if "result" in one]
        names += [one["name"] for one in result["tools"]]
        if "nextCursor" not in result:
            break
        cursor = {"cursor": result["nextCursor"]}
    if session:
        ask(url, None, headers, "DELETE")
    return names


def approve_listed(config: Path) -> None:
    """Approve what was listed on this configuration, one by one and all servers together, once it is on record.

    That is what `callgate review` stores when a person has said yes to everything.
    """

    def decide() -> None:
        deadline = time.monotonic() + START_SECONDS
        with edit_pins(config, None) as opened:
            pins, wait = opened.pins, opened.wait
            found = wait(pins.review())
            while not any(one.tools for one in found.servers):
                assert time.monotonic() < deadline, "no list of tools was ever on record"
                time.sleep(0.02)
                found = wait(pins.review())
            tools = [tool for one in found.servers for tool in one.tools if tool.state not in ("gone", "approved")]
            if tools:
                choices = [approval(tool, note="", override=False) for tool in tools]
                servers = [one.seen.server_id for one in found.servers]
                wait(pins.decide(choices, by=operator(), together=servers))
                found = wait(pins.review())
            while True:
                try:
                    for one in found.sets:
                        wait(pins.review_set(one.group, one.version, by=operator()))
                    break
                except Refused:
                    # A server has just gone: look at those that are left, as a person would.
                    assert time.monotonic() < deadline, "the servers never rest"
                    found = wait(pins.review())

    in_thread(decide)


def review_ahead(config: Path, listed: Mapping[str, Sequence[Table]], *, reported: str = "") -> None:
    """Approve these tools of these servers before anybody lists them here, for gateways that not everybody may ask.

    It leaves what another gateway on the same store would have left; `reported` is what the servers call themselves.
    """
    settings = load(config)
    known = places(settings)
    Keyring(settings.store.keys_path).make(CHECKPOINT, SEAL, "pinning")

    async def meet() -> None:
        store = await asyncio.to_thread(Store.open, settings.store.url.reveal())
        try:
            for name, entries in listed.items():
                place = known[name]
                identity = place.identify(reported)
                reader = EntryReader(identity.server_id, PinningSettings())
                listing = ToolListing(reader.read(json.dumps(one).encode()) for one in entries)
                now = round(time.time() * 1000)
                seen = observed(identity, listing, now, name=name, group=place.group, target=place.target)
                await SqlPins(store).saw(seen.server, seen.tools, whole=True)
        finally:
            await store.close()

    in_thread(lambda: asyncio.run(meet()))
    approve_listed(config)


def _request(method: str, params: Mapping[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def command(config: Path, *words: str, status: int | None = 0) -> str:
    """The command line in this process: the same code as the script, without the second that a process takes.

    Its exit code has to be `status`, or may be any where that is None.
    """
    out, err = io.StringIO(), io.StringIO()

    def work() -> int:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            return run([*words, "-c", str(config)])

    got = in_thread(work)
    assert status in (None, got), f"callgate {' '.join(words)}: {got}\n{out.getvalue()}\n{err.getvalue()}"
    return out.getvalue() + (err.getvalue() if status else "")


def in_thread(work: Callable[[], T]) -> T:
    """Off the event loop that the test may run in."""
    box: list[T] = []
    failure: list[BaseException] = []

    def do() -> None:
        try:
            box.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=do)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return box[0]


@contextlib.contextmanager
def serving(
    directory: Path,
    servers: Mapping[str, Table],
    env: Mapping[str, str] | None = None,
    *,
    off: Off = NOTHING,
    reviewed: bool = True,
    **sections: Table,
) -> Iterator[Gateway]:
    """A gateway in front of these servers, their tools reviewed unless the test does that; its end has to be clean."""
    gateway = Gateway(write_config(directory, servers, off=off, **sections), env)
    try:
        gateway.wait_ready()
        if reviewed and "pinning" not in off:
            gateway.review(*servers)
        yield gateway
    finally:
        status = gateway.stop() if gateway.process.returncode is None else 0
    assert status == 0, "\n".join(gateway.lines)


def wrap_argv(
    directory: Path,
    name: str,
    command: Sequence[str] = (),
    url: str | None = None,
    *,
    off: Off = NOTHING,
    **sections: Table,
) -> list[str]:
    """The command line of `callgate wrap` in front of a command or a url, with a configuration of its own.

    Nothing is reviewed yet: a test that calls tools lists them first, then `approve_listed` on the configuration.
    """
    servers: dict[str, Table] = dict(sections.pop("servers", {}))
    config = write_config(directory, servers, off=off, **sections)
    behind = ["--url", url] if url is not None else ["--", *command]
    alone = [] if _sharing else ["--alone"]
    for configs in _sharing[-1:]:
        configs.add(config)
    return [CALLGATE, "wrap", *alone, "-c", str(config), name, *behind]


# The configurations whose wrapped servers share a gateway, for each block that wants it so.
_sharing: list[set[Path]] = []


@contextlib.contextmanager
def sharing(*, shared: bool = True) -> Iterator[None]:
    """Wrapped servers share one gateway, as they do by default, in this block. Elsewhere each is a gateway of its own:
    it starts faster from a process that has loaded everything, and its end is the end of its test."""
    if not shared:
        yield
        return
    _sharing.append(set())
    try:
        yield
    finally:
        for config in _sharing.pop():
            end(Place(str(config)))


def _event(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

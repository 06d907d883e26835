"""Clients without an SDK, over HTTP and over the pipes of `callgate wrap`, in both eras: one face for all."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from callgate.pinning.model import PENDING_TOOL
from callgate.transport.http.exchange import encode_value
from support.fork_server import Forked
from support.raw import SECONDS, ask, streaming
from support.sessions import META, VERSION, Guest, message
from support.table import Test, rows

T = TypeVar("T")
ERAS: Final = ("legacy", "modern")
# On a busy machine a wrap that begins may have read its kill switch too long ago; it reads it again within this time.
BEGINNING_SECONDS: Final = 5.0


class Way(NamedTuple):
    """How a client gets to a server: by `callgate serve` or `callgate wrap`, in which era, to an address or a command."""

    front: str
    era: str
    server: str

    @property
    def text(self) -> str:
        return "-".join(self)


WAYS: Final = [Way(front, era, server) for front in ("serve", "wrap") for era in ERAS for server in ("web", "pipe")]
# Each front, era and kind of server at least once.
FEW: Final = [Way("serve", "modern", "web"), Way("serve", "legacy", "pipe"), Way("wrap", "legacy", "web")]
FEW_SERVED: Final = FEW[:2]


def over_ways(ways: Sequence[Way]) -> Callable[[Test], Test]:
    """A table with a row for each of these ways."""
    return rows("way", ways, ids=[way.text for way in ways])


# Each front with each era and each kind of server, and each era with each kind of server.
PAIRED: Final = [
    Way("serve", "legacy", "web"),
    Way("serve", "modern", "pipe"),
    Way("wrap", "legacy", "pipe"),
    Way("wrap", "modern", "web"),
]
all_ways: Final = over_ways(PAIRED)
few_ways: Final = over_ways(FEW)
served_ways: Final = over_ways(WAYS[:4])


def until(true: Callable[[], T], what: str, seconds: float = SECONDS) -> T:
    """Wait for something that another process brings about."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)
    return found


def reason_of(answer: Mapping[str, Any]) -> str:
    """Why it was refused; empty for a result."""
    error = answer.get("error")
    return "" if error is None else str(error.get("data", {}).get("reason", error))


def text_of(answer: Mapping[str, Any]) -> str:
    return str(answer["result"]["content"][0]["text"])


class RawClient:
    """A client without an SDK; `sent_here` is all that it was ever sent."""

    sent_here: bytes = b""

    def attempt(self, method: str) -> None:
        """Ask, and wait for whatever comes of it."""
        raise NotImplementedError

    @contextlib.contextmanager
    def listening(self) -> Iterator[list[dict[str, Any]]]:
        """What comes of the server's own accord."""
        raise NotImplementedError

    def answer(self, method: str, params: Mapping[str, Any] | None = None, rpc_id: int | str = 1) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        """Leave."""

    def greeting(self) -> dict[str, Any]:
        """What the server says of itself when this client connects, as its era has it."""
        raise NotImplementedError

    def prompts(self) -> list[str]:
        """The prompts that a person can choose from."""
        return sorted(entry["name"] for entry in self.answer("prompts/list")["result"]["prompts"])

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.answer("tools/call", {"name": tool, "arguments": {"id": "1", **arguments}})

    def reason(self, tool: str, **arguments: Any) -> str:
        """Why a call is refused; empty where it passes."""
        return reason_of(self.call(tool, **arguments))

    def listed(self) -> dict[str, dict[str, Any]]:
        """Every page of the list: the gateway's own tool too."""
        found: dict[str, dict[str, Any]] = {}
        params: dict[str, Any] = {}
        while True:
            answer = self.answer("tools/list", params)
            assert "result" in answer, answer
            found |= {entry["name"]: entry for entry in answer["result"]["tools"]}
            cursor = answer["result"].get("nextCursor")
            if not cursor:
                return found
            params = {"cursor": cursor}

    def names(self) -> list[str]:
        """What the model is shown of the server's tools."""
        return sorted(name for name in self.listed() if name != PENDING_TOOL)

    def until_open(self, *tools: str) -> None:
        """Wait until calls pass: a decision of another process takes a moment to get around."""
        for tool in tools:
            deadline = time.monotonic() + SECONDS
            while (answer := self.call(tool)).get("error") is not None:
                assert time.monotonic() < deadline, f"{tool} was never open: {answer}"
                time.sleep(0.02)

    def until_closed(self, tool: str, reason: str) -> None:
        """Wait until a call is refused for this reason."""
        until(lambda: self.reason(tool) == reason, f"{tool} is refused with {reason}")

    def pending(self) -> str:
        """What the gateway's own tool says; empty where it is not offered."""
        if PENDING_TOOL not in self.listed():
            return ""
        return text_of(self.answer("tools/call", {"name": PENDING_TOOL, "arguments": {}}))


class RawHttpClient(RawClient):
    """Over HTTP."""

    def __init__(self, url: str, era: str) -> None:
        self.guest = Guest.arrive(url, era)
        if era == "legacy":
            self.guest.request("notifications/initialized", rpc_id=None)

    def answer(self, method: str, params: Mapping[str, Any] | None = None, rpc_id: int | str = 1) -> Any:
        given = params or {}
        headers = self.guest.headers(method, given)
        if "Mcp-Name" in headers:
            headers["Mcp-Name"] = encode_value(str(given["name"]))
        reply = ask(self.guest.url, self.guest.body(method, given, rpc_id), headers)
        self.sent_here += reply.body
        return _last(reply.body)

    def greeting(self) -> dict[str, Any]:
        answer = self.answer("server/discover") if self.guest.modern else self.guest.hello
        found: dict[str, Any] = answer["result"]
        return found

    def attempt(self, method: str) -> None:
        self.sent_here += self.guest.request(method).body

    @contextlib.contextmanager
    def listening(self) -> Iterator[list[dict[str, Any]]]:
        """What comes on the stream that waits for news."""
        heard: list[dict[str, Any]] = []
        ready = threading.Event()
        if self.guest.modern:
            params = {"notifications": {"toolsListChanged": True, "promptsListChanged": True}}
            body: bytes | None = self.guest.body("subscriptions/listen", params, "listening")
            headers, verb = self.guest.headers("subscriptions/listen", params), "POST"
        else:
            body, headers, verb = None, self.guest.headers("", {}), "GET"
        stack = contextlib.ExitStack()

        def follow() -> None:
            with contextlib.suppress(Exception), streaming(self.guest.url, body, headers, verb) as response:
                stack.callback(response.close)
                ready.set()
                while line := response.readline():
                    self.sent_here += line
                    if line.startswith(b"data:"):
                        read = json.loads(line[5:])
                        heard.extend(read if isinstance(read, list) else [read])

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        ready.wait(SECONDS)
        yield heard

    def close(self) -> None:
        if self.guest.session is not None:
            ask(self.guest.url, None, self.guest.headers("", {}), "DELETE")


class RawPipeClient(RawClient):
    """Over the pipes of `callgate wrap`."""

    def __init__(
        self,
        argv: list[str],
        era: str,
        errors: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.era = era
        self.heard: list[dict[str, Any]] = []
        self._hello: Any = None
        self._number = 0
        self._ended = False
        self._errors = errors.open("ab")
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
        self.process = Forked(argv, env=None if env is None else {**os.environ, **env}, cwd=cwd, **pipes)
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def _greet(self) -> None:
        if self.era == "legacy":
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw"}}
            self._hello = self.answer("initialize", hello)
            assert "result" in self._hello
            self.send(message("notifications/initialized", {}))
        else:
            # What a subscription is answered is no reply: ahead of it, wrap has to have begun.
            self.answer("ping")
            params = {"notifications": {"toolsListChanged": True, "promptsListChanged": True}}
            begun = len(self.heard)
            self.send(message("subscriptions/listen", self._whole(params), "listening"))
            until(lambda: len(self.heard) > begun, "the subscription is acknowledged")

    def greeting(self) -> dict[str, Any]:
        answer = self._hello if self.era == "legacy" else self.answer("server/discover")
        found: dict[str, Any] = answer["result"]
        return found

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.sent_here += line
                read = json.loads(line)
                self.heard.extend(read if isinstance(read, list) else [read])
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def _whole(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if self.era == "legacy":
            return dict(params)
        envelope = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}
        return {**params, "_meta": {**params.get("_meta", {}), **envelope}}

    def answer(self, method: str, params: Mapping[str, Any] | None = None, rpc_id: int | str = 1) -> Any:
        deadline = time.monotonic() + BEGINNING_SECONDS
        while True:
            self._number += 1
            own = f"{rpc_id}-{self._number}"
            self.send(message(method, self._whole(params or {}), own))
            answer = self._reply_to(own, method)
            if reason_of(answer) != "store_unavailable" or time.monotonic() > deadline:
                return answer
            time.sleep(0.1)

    def _reply_to(self, own: str, method: str) -> Any:
        deadline = time.monotonic() + SECONDS
        with self._news:
            while True:
                found = [one for one in self.heard if one.get("id") == own]
                if found:
                    return found[-1]
                left = 0.0 if self._ended else deadline - time.monotonic()
                assert left > 0, f"{method} was never answered; heard {self.heard[-3:]}"
                self._news.wait(left)

    def attempt(self, method: str) -> None:
        own = f"attempt-{self._number}"
        self.send(message(method, self._whole({}), own))
        # Over HTTP a second request may be answered before the first.
        self._reply_to(own, method)
        self.answer("ping")

    @contextlib.contextmanager
    def listening(self) -> Iterator[list[dict[str, Any]]]:
        yield self.heard

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(SECONDS)
        self.process.stdout.close()
        self._errors.close()


def _last(body: bytes) -> Any:
    """The reply in an answer, whether a stream, an array or a single one."""
    text = body.decode()
    lines = [line[5:] for line in text.splitlines() if line.startswith("data:")]
    return json.loads(lines[-1] if lines else text)

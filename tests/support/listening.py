"""Whoever is told of something: a console's event stream, a webhook's receiver, `callgate watch` in a pipe."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import queue
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from support.fork_server import CALLGATE

SECONDS: Final = 20.0


@dataclass
class EventStream:
    """An open stream of server-sent events."""

    answer: aiohttp.ClientResponse
    comments: list[str] = field(default_factory=list)

    async def next(self) -> dict[str, Any]:
        """The data of the next event; EOFError where the stream ends before."""
        name = ""
        async with asyncio.timeout(SECONDS):
            while line := await self.answer.content.readline():
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    name = text.removeprefix("event: ")
                elif text.startswith("data: "):
                    assert name == "change"
                    found: dict[str, Any] = json.loads(text.removeprefix("data: "))
                    return found
                elif text.startswith(":"):
                    self.comments.append(text)
        raise EOFError

    async def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while not wanted(news := await self.next()):
            pass
        return news


@contextlib.asynccontextmanager
async def listening_to(
    origin: str, cookie: Mapping[str, str], http: aiohttp.ClientSession | None = None
) -> AsyncIterator[EventStream]:
    """The stream of the person with this cookie."""
    own = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) if http is None else None
    try:
        asking = (http or own).get(  # type: ignore[union-attr]
            f"{origin}/events", cookies=cookie, headers={"accept": "text/event-stream"}
        )
        async with asking as answer:
            assert answer.status == 200, await answer.text()
            assert answer.content_type == "text/event-stream"
            yield EventStream(answer)
    finally:
        if own is not None:
            await own.close()


@dataclass(frozen=True)
class Received:
    """A message as it came."""

    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class Receiver(http.server.ThreadingHTTPServer):
    """Takes what a gateway posts; answers with these statuses in turn, then with the last of them for good."""

    daemon_threads = True

    def __init__(self, *statuses: int, headers: Mapping[str, str] | None = None) -> None:
        self.statuses = list(statuses or (204,))
        self.headers = dict(headers or {})
        self.got: queue.Queue[Received] = queue.Queue()
        super().__init__(("127.0.0.1", 0), _Taker)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/alerts"

    def next(self) -> Received:
        return self.got.get(timeout=SECONDS)

    def rest(self) -> list[Received]:
        """What has come and was not taken yet."""
        return [self.got.get_nowait() for _ in range(self.got.qsize())]

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Taker(http.server.BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.put(Received({name.lower(): value for name, value in self.headers.items()}, body))
        status = self.server.statuses[0] if len(self.server.statuses) == 1 else self.server.statuses.pop(0)
        self.send_response(status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_args: object) -> None:
        pass


@contextlib.contextmanager
def receiving(*statuses: int, headers: Mapping[str, str] | None = None) -> Iterator[Receiver]:
    receiver = Receiver(*statuses, headers=headers)
    try:
        yield receiver
    finally:
        receiver.close()


class Watcher:
    """`callgate watch` in a pipe."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [CALLGATE, "watch", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.said: queue.Queue[str] = queue.Queue()
        self.out: queue.Queue[str] = queue.Queue()
        self._readers = [
            threading.Thread(target=self._read, args=(stream, put), daemon=True)
            for stream, put in ((self.process.stdout, self.out), (self.process.stderr, self.said))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: Any, put: queue.Queue[str]) -> None:
        for line in stream:
            put.put(line.decode().rstrip("\n"))

    def line(self) -> str:
        return self.out.get(timeout=SECONDS)

    def json(self, event: str) -> dict[str, Any]:
        """The next of that kind."""
        while (found := json.loads(self.line()))["event"] != event:
            pass
        return dict(found)

    def end(self, signal: int) -> int:
        self.process.send_signal(signal)
        return self.process.wait(SECONDS)


@contextlib.contextmanager
def watching(*words: str) -> Iterator[Watcher]:
    watcher = Watcher(*words)
    try:
        yield watcher
    finally:
        if watcher.process.poll() is None:
            watcher.process.kill()
        watcher.process.wait(SECONDS)
        for reader in watcher._readers:
            reader.join(SECONDS)
        for stream in (watcher.process.stdout, watcher.process.stderr):
            if stream is not None:
                stream.close()

"""Both ends of the wire without any library in between: an HTTP server that keeps and says exact bytes, and a client."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from support.fork_server import CALLGATE, Forked

SECONDS: Final = 60.0
JSON_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    line: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def header(self, name: str) -> list[bytes]:
        return [value for key, value in self.headers if key.lower() == name.lower().encode()]


CLOSE: Final = b"Connection: close\r\n"

Script = Callable[[Received, socket.socket], None]


def json_answer(body: bytes, *headers: bytes) -> Script:
    """Answer every request with this body."""
    head = b"".join(header + b"\r\n" for header in (b"Content-Type: application/json", b"Connection: close", *headers))

    def script(_request: Received, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    return script


def stream_answer(*chunks: bytes, before: Callable[[int], None] = lambda _number: None) -> Script:
    """Answer every request with a stream of these chunks; `before` is called with the number of each."""

    def script(_request: Received, connection: socket.socket) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + CLOSE + b"Transfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head)
        for number, chunk in enumerate(chunks):
            before(number)
            connection.sendall(b"%x\r\n" % len(chunk) + chunk + b"\r\n")
        connection.sendall(b"0\r\n\r\n")

    return script


@dataclass
class RawServer:
    """One request a connection; what came is in `requests`, what goes is what `script` says."""

    script: Script = field(default_factory=lambda: json_answer(b"{}"))
    requests: list[Received] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(SECONDS)
            request = _receive(connection)
            if request is not None:
                self.requests.append(request)
                self.script(request, connection)


def _receive(connection: socket.socket) -> Received | None:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    line, *fields = head.split(b"\r\n")
    headers = tuple((name, value.strip()) for name, _, value in (item.partition(b":") for item in fields))
    length = next((int(value) for name, value in headers if name.lower() == b"content-length"), 0)
    while len(body) < length:
        chunk = connection.recv(1 << 20)
        if not chunk:
            return None
        body += chunk
    return Received(line, headers, body)


@contextlib.contextmanager
def raw_server() -> Iterator[RawServer]:
    server = RawServer()
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        server.port = listener.getsockname()[1]
        thread = threading.Thread(target=server._accept, args=(listener,), daemon=True)
        thread.start()
        yield server
        # Closing a listener does not wake who waits in accept; shutting it down does.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(SECONDS)


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def header(self, name: str) -> str | None:
        return self.headers.get(name)


def ask(
    url: str, body: bytes | None, headers: Mapping[str, str] | None = None, method: str = "POST", *, peer: str = ""
) -> Reply:
    """One HTTP request, its body sent as it is, and the whole of its answer; from an address of this machine."""
    with streaming(url, body, headers, method, peer=peer) as response:
        return Reply(response.status, response.headers, response.read())


@contextlib.contextmanager
def streaming(
    url: str, body: bytes | None, headers: Mapping[str, str] | None = None, method: str = "POST", *, peer: str = ""
) -> Iterator[http.client.HTTPResponse]:
    """One HTTP request, and its answer to read from as it comes (`read1`)."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=SECONDS, source_address=(peer, 0) if peer else None)
    try:
        connection.request(method, f"/{path}", body, dict(JSON_HEADERS if headers is None else headers))
        with connection.getresponse() as response:
            yield response
    finally:
        connection.close()


def raw_stdio_argv(directory: Path, answers: Sequence[bytes] = ()) -> list[str]:
    """The command of a raw stdio server that gives these answers; what it received is in DIRECTORY/received."""
    directory.mkdir(exist_ok=True)
    (directory / "answers").write_bytes(b"".join(answer + b"\n" for answer in answers))
    script = Path(__file__).with_name("raw_stdio.py")
    return [sys.executable, "-I", "-S", str(script), str(directory)]


@contextlib.contextmanager
def piped(argv: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process with pipes for stdin and stdout; it is ended with the block."""
    start = Forked if argv[0] == CALLGATE else subprocess.Popen
    process: subprocess.Popen[bytes] = start(list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            process.stdout.close()

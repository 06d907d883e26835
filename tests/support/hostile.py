"""Raw peers that do what no honest one does: servers that answer anything, clients that send anything, byte by byte."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

HOST: Final = "127.0.0.1"
PATIENCE: Final = 30.0
JSON: Final = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
# What the gateway writes into a call of where its session has read: a member of `_meta`, or all of it.
_LABELS: Final = re.compile(
    rb',"_meta":\{"annotations":\{[^{}]*\}\}|"_meta":\{"annotations":\{[^{}]*\}\},|,"annotations":\{[^{}]*\}'
)


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Wait for something to become true, and say what never did."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.01)
    return found


# ---- a server ----


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    head: bytes
    body: bytes

    @property
    def method(self) -> str:
        return self.head.split(b" ", 1)[0].decode()

    @property
    def fields(self) -> list[tuple[str, str]]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines if line)]

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.fields)

    @property
    def unlabelled(self) -> bytes:
        """The body but for the labels that the gateway added."""
        return _LABELS.sub(b"", self.body)

    @property
    def message(self) -> Any:
        return json.loads(self.body) if self.body else None

    @property
    def id(self) -> Any:
        return self.message.get("id") if isinstance(self.message, dict) else None

    @property
    def tool(self) -> str:
        """What the call names; empty for anything else."""
        message = self.message
        params = message.get("params") if isinstance(message, dict) else None
        return str(params.get("name", "")) if isinstance(params, dict) else ""


class Peer:
    """One connection to a hostile server."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.gone = threading.Event()
        self._buffer = b""

    def read(self) -> Request | None:
        """The next request, None at the end."""
        while b"\r\n\r\n" not in self._buffer:
            if not self._more():
                return None
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        length = int(Request(head, b"").headers.get("content-length", "0"))
        while len(self._buffer) < length:
            if not self._more():
                return None
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return Request(head, body)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def wait_gone(self, seconds: float = PATIENCE) -> bool:
        """Wait until the other side closes."""
        self.socket.settimeout(seconds)
        try:
            while self._more():
                pass
        except TimeoutError:
            return False
        return True

    def _more(self) -> bool:
        try:
            data = self.socket.recv(65536)
        except TimeoutError:
            raise
        except OSError:
            data = b""
        self._buffer += data
        if not data:
            self.gone.set()
        return bool(data)


Behaviour = Callable[[Peer, Request], None]


class HostileServer:
    """Listens on a port of its own; how a request is answered depends on the tool it calls, or is "GET" where it is one.

    It lists `good`, the tools that it has a behaviour for, and `tools`: what is called has to be reviewed first. When
    the gateway looks at that list by itself, this is in `looks`, not among the `requests` that clients sent.
    """

    def __init__(self, behaviours: Mapping[str, Behaviour] | None = None, tools: Iterable[str] = ()) -> None:
        self.behaviours: dict[str, Behaviour] = dict(behaviours or {})
        self.listed: list[str] = sorted({"good", *tools, *self.behaviours} - {"", "GET"})
        self.requests: list[Request] = []
        self.looks: list[Request] = []
        self.peers: list[Peer] = []
        self._open()

    def _open(self, port: int = 0) -> None:
        self._listener = socket.create_server((HOST, port), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/mcp"

    @property
    def tools(self) -> list[str]:
        """The tools that were called, in order."""
        return [request.tool for request in self.calls]

    @property
    def calls(self) -> list[Request]:
        """The requests that call a tool, in order."""
        return [request for request in self.requests if request.tool]

    def open_peers(self) -> list[Peer]:
        return [peer for peer in self.peers if not peer.gone.is_set()]

    def down(self) -> None:
        """Stop listening and hang up."""
        # A thread inside accept() keeps the socket open in the kernel unless it is shut down first.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self.peers:
            peer.close()

    def up(self) -> None:
        """Listen again on the same port."""
        self._open(self.port)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            peer = Peer(connection)
            self.peers.append(peer)
            threading.Thread(target=self._talk, args=(peer,), daemon=True).start()

    def _talk(self, peer: Peer) -> None:
        with contextlib.suppress(OSError):
            while (request := peer.read()) is not None:
                own = "" not in self.behaviours and str(request.id).startswith("callgate-")
                (self.looks if own else self.requests).append(request)
                if request.method == "POST" and self._introduces(peer, request):
                    continue
                kind = "GET" if request.method == "GET" and "GET" in self.behaviours else request.tool
                self.behaviours.get(kind, honest)(peer, request)
        peer.gone.set()
        peer.socket.close()

    def _introduces(self, peer: Peer, request: Request) -> bool:
        """Say who it is and what it offers, unless a test has another answer to all that is no call."""
        method = request.message.get("method") if isinstance(request.message, dict) else None
        if "" in self.behaviours or method not in ("initialize", "tools/list"):
            return False
        if method == "initialize":
            result: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            result["serverInfo"] = {"name": "hostile", "version": "1"}
        else:
            # It says that they only read, so that after their results nobody is asked about the next call.
            entry = {"description": "A tool.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
            result = {"tools": [{"name": one, **entry} for one in self.listed]}
        peer.send(answer(json.dumps({"jsonrpc": "2.0", "id": request.id, "result": result}).encode()))
        return True


@contextlib.contextmanager
def hostile_server(
    behaviours: Mapping[str, Behaviour] | None = None, tools: Iterable[str] = ()
) -> Iterator[HostileServer]:
    server = HostileServer(behaviours, tools)
    try:
        yield server
    finally:
        server.down()


def reply(rpc_id: Any, text: str = "done") -> bytes:
    """The JSON of a good result."""
    result = {"content": [{"type": "text", "text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "result": result}).encode()


def answer(body: bytes, *, status: str = "200 OK", kind: str = "application/json", extra: Iterable[str] = ()) -> bytes:
    """A whole HTTP answer."""
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}", *extra]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def honest(peer: Peer, request: Request) -> None:
    """What a good server does: a result for a request, one for each in a batch, 202 for the rest."""
    message = request.message
    if isinstance(message, list):
        peer.send(answer(b"[" + b",".join(reply(one["id"]) for one in message if "id" in one) + b"]"))
    elif request.id is None:
        peer.send(answer(b"", status="202 Accepted"))
    else:
        peer.send(answer(reply(request.id, request.tool)))


# ---- a client ----


@dataclass(frozen=True)
class Reply:
    """An answer as the client got it."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    @property
    def fields(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers}

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        found = self.json["error"]
        assert isinstance(found, dict)
        return found

    @property
    def reason(self) -> str:
        return str(self.error["data"]["reason"])

    @property
    def events(self) -> list[Any]:
        """The messages of an event stream."""
        lines = self.body.decode().splitlines()
        return [json.loads(line.partition(":")[2]) for line in lines if line.startswith("data:")]


def call_message(tool: str, arguments: Any = None, rpc_id: Any = 1) -> bytes:
    params = {"name": tool, "arguments": {} if arguments is None else arguments}
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "method": "tools/call", "params": params}).encode()


def post(
    port: int,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    path: str = "/mcp",
    method: str = "POST",
    timeout: float = PATIENCE,
) -> Reply:
    """One request on a connection of its own, its answer read to the end."""
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout)
    try:
        connection.request(method, path, body or None, {**JSON, **(headers or {})})
        got = connection.getresponse()
        return Reply(got.status, got.getheaders(), got.read())
    finally:
        connection.close()


def call(port: int, tool: str, arguments: Any = None, rpc_id: Any = 1, **options: Any) -> Reply:
    """One `tools/call`."""
    return post(port, call_message(tool, arguments, rpc_id), **options)


def assert_works(port: int, path: str = "/mcp") -> None:
    """An honest call gets its own answer."""
    got = call(port, "good", rpc_id="honest", path=path)
    assert got.status == 200, got
    assert got.json["id"] == "honest"
    assert got.json["result"]["content"][0]["text"] == "good"


def head(length: int | None, *extra: str, path: str = "/mcp", method: str = "POST") -> bytes:
    """The head of a request, as written by hand."""
    lines = [f"{method} {path} HTTP/1.1", f"host: {HOST}", "content-type: application/json", *extra]
    if length is not None:
        lines.append(f"content-length: {length}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def whole(body: bytes, *extra: str) -> bytes:
    """A whole request, the last on its connection."""
    return head(len(body), "connection: close", *extra) + body


def connect(port: int, timeout: float = PATIENCE) -> socket.socket:
    return socket.create_connection((HOST, port), timeout)


def read_all(connection: socket.socket) -> bytes:
    """Everything until the other side closes."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(65536):
            parts.append(data)
    return b"".join(parts)


def read_until(connection: socket.socket, mark: bytes) -> bytes:
    """Everything until these bytes have come; what has come so far if the other side closes first."""
    got = b""
    while mark not in got and (data := connection.recv(65536)):
        got += data
    return got


def send_raw(port: int, data: bytes) -> bytes:
    """Send bytes, and read until the gateway closes: say `connection: close` in what is sent."""
    with connect(port) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        return read_all(connection)


def status_of(raw: bytes) -> int:
    """The status of an answer read raw; 0 where there is none."""
    return int(raw.split(b" ", 2)[1]) if raw.startswith(b"HTTP/1.1 ") else 0


# What a server on stdio begins with to be reviewed: it answers whoever asks who it is and what it offers.
INTRODUCING: Final = """
import json, sys
def introduced(message, *names):
    method = message.get("method")
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1", "pid": 0}}
    elif method == "tools/list":
        entry = {"description": "A tool.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
        tools = [{"name": name, **entry} for name in names]
        result = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    else:
        return False
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    return True
"""

# One that is as plain as can be: it lists `good` and what else it is given, answers every request with a result and ends
# with its input.
STDIO_SERVER: Final = (
    INTRODUCING
    + """
for line in sys.stdin:
    message = json.loads(line)
    for one in message if isinstance(message, list) else [message]:
        if "id" in one and "method" in one and not introduced(one, "good", *sys.argv[1:]):
            name = (one.get("params") or {}).get("name", "")
            result = {"content": [{"type": "text", "text": name}]}
            print(json.dumps({"jsonrpc": "2.0", "id": one["id"], "result": result}), flush=True)
"""
)

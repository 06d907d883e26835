"""An MCP server that is never what it was: `python shifty.py stdio|http DIRECTORY [PORT]`.

Both eras, over stdio and over Streamable HTTP. What it says of itself and of its tools stands in DIRECTORY/state.json,
which is read anew for every message: a test changes the server while it runs (`support.shifting.Shifty` says how).
Lines of DIRECTORY/pushes are sent of its own accord, to everybody who listens. DIRECTORY/received has every message
with the number of the connection it came on, DIRECTORY/calls every `tools/call`.
Few imports: a test starts many of these.
"""

import json
import os
import select
import sys
import threading
import time
from pathlib import Path
from typing import Any

MODERN = "2026-07-28"
VERSION_META = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
TICK = 0.02


class Shop:
    """What it says to each message."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] = (0, 0)
        self._state: dict[str, Any] = {}
        self._lists = 0

    @property
    def state(self) -> dict[str, Any]:
        path = self.directory / "state.json"
        with self._lock:
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._stamp:
                self._state, self._stamp = json.loads(path.read_bytes()), stamp
            return self._state

    def note(self, name: str, entry: dict[str, Any]) -> None:
        with self._lock, (self.directory / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def arrive(self) -> int:
        """The number of a new connection, over all processes: 1, 2, ..."""
        number = 1
        while True:
            try:
                os.close(os.open(self.directory / f"connection-{number}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                number += 1
            else:
                return number

    # ---- answers ----

    def answer(self, message: dict[str, Any], connection: int) -> list[bytes]:
        """The messages that go back: usually one reply; nothing for a notification."""
        method, rpc_id = message.get("method"), message.get("id")
        params = message.get("params") or {}
        if method == "tools/call":
            call = {"connection": connection, "name": params.get("name"), "arguments": params.get("arguments")}
            self.note("calls", call)
        if "id" not in message or method is None:
            return []
        for what in self._slow(message):
            self._wait(what)
        raw = self.state.get("answers", {}).get(method)
        if raw is not None:
            return [self._filled(text, rpc_id) for text in raw]
        before = [self._filled(text, rpc_id) for text in self.state.get("asides", {}).get(method, [])]
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": rpc_id}
        code = self.state.get("errors", {}).get(method)
        result = code if code is not None else self._result(method, params, message, connection)
        if isinstance(result, int):
            reply["error"] = {"code": result, "message": "no"}
        else:
            reply["result"] = result
        return [*before, json.dumps(reply, separators=(",", ":")).encode(), *self._restless(method)]

    def _restless(self, method: str) -> list[bytes]:
        """Behind these lists of this process: word that the tools have changed."""
        return [CHANGED] if method == "tools/list" and self._lists in self.state.get("restless", []) else []

    def _filled(self, text: str, rpc_id: Any) -> bytes:
        meta = json.dumps({SERVER_INFO: self._info})
        return text.replace('"$ID"', json.dumps(rpc_id)).replace('"$META"', meta).encode()

    @property
    def _info(self) -> dict[str, Any]:
        return {"name": self.state["name"], "version": self.state["version"], **self.state.get("info", {})}

    def slow(self, message: dict[str, Any]) -> bool:
        known = (*self.state.get("hold", []), *self.state.get("delay", {}))
        return any(what in known for what in self._slow(message))

    @staticmethod
    def _slow(message: dict[str, Any]) -> list[str]:
        """What a message may be held back by: its method, and the tool that it calls."""
        method = str(message.get("method"))
        return [method, f"{method} {message['params'].get('name')}"] if method == "tools/call" else [method]

    def _wait(self, method: str) -> None:
        time.sleep(self.state.get("delay", {}).get(method, 0))
        while method in self.state.get("hold", []):
            time.sleep(TICK)

    def _result(
        self, method: str, params: dict[str, Any], message: dict[str, Any], connection: int
    ) -> dict[str, Any] | int:
        state = self.state
        modern = VERSION_META in params.get("_meta", {})
        # 2026-07-28: what a server says of itself stands in the `_meta` of its results.
        silent = state.get("stampless") is True or method in (state.get("stampless") or ())
        stamp = {} if silent else {"_meta": {SERVER_INFO: self._info}}
        cached = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **stamp} if modern else {}
        offers = {"tools": {"listChanged": True}, **({"prompts": {}} if "prompts" in state else {})}
        about = {"capabilities": state.get("capabilities", offers), "serverInfo": self._info}
        if "instructions" in state:
            about["instructions"] = state["instructions"]
        if method == "initialize":
            return {"protocolVersion": params["protocolVersion"], **about}
        if method == "server/discover":
            return {"supportedVersions": [MODERN, "2025-11-25"], **about, **cached}
        if method == "tools/list":
            self._lists += 1
            return self._page(params.get("cursor"), self._face(message, connection)) | cached
        if method == "tools/call":
            return self._call(params) | ({"resultType": "complete"} if modern else {})
        if method == "prompts/list" and "prompts" in state:
            return {"prompts": state["prompts"], **cached}
        if method == "prompts/get" and "prompts" in state:
            said = {"role": "user", "content": {"type": "text", "text": f"prompt {params.get('name')}"}}
            return {"messages": [said], **({"resultType": "complete"} if modern else {})}
        return {} if method == "ping" else -32601

    def _face(self, message: dict[str, Any], connection: int) -> list[dict[str, Any]]:
        """Its tools, as it shows them to who asks: the gateway itself, its clients, or one connection."""
        faces = self.state.get("faces", {})
        who = "own" if str(message.get("id")).startswith("callgate-") else "relayed"
        later = [tools for number, tools in self.state.get("later", {}).items() if int(number) <= self._lists]
        tools: list[dict[str, Any]] = (
            faces.get(str(connection)) or faces.get(who) or (later[-1] if later else self.state["tools"])
        )
        text = json.dumps(tools)
        return json.loads(text.replace("$NOW", str(time.time_ns()))) if "$NOW" in text else tools

    def _page(self, cursor: str | None, tools: list[dict[str, Any]]) -> dict[str, Any]:
        at = int(cursor or 0)
        endless = self.state.get("endless")
        if endless == "same":
            return {"tools": tools, "nextCursor": "1"}
        if endless == "empty":
            return {"tools": tools if at == 0 else [], "nextCursor": str(at + 1)}
        if endless == "new":
            extra = {"name": f"more_{at}", "description": "More.", "inputSchema": {"type": "object"}}
            return {"tools": tools if at == 0 else [extra], "nextCursor": str(at + 1)}
        size = self.state.get("page", 0)
        if not size:
            return {"tools": tools}
        more = {"nextCursor": str(at + size)} if at + size < len(tools) else {}
        return {"tools": tools[at : at + size], **more}

    def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        name = str(params.get("name"))
        change = self.state.get("on_call", {}).get(name)
        if change is not None:
            self._become(change)
        text = self.state.get("results", {}).get(name, f"ran {name}")
        return {"content": [{"type": "text", "text": text}], "isError": False}

    def _become(self, change: dict[str, Any]) -> None:
        """Change itself, as a call made it do, and say so before the call is answered."""
        state = {**self.state, **change, "on_call": {}}
        fresh = self.directory / f"state.{os.getpid()}"
        fresh.write_text(json.dumps(state), encoding="utf-8")
        fresh.replace(self.directory / "state.json")
        with (self.directory / "pushes").open("ab") as pushes:
            pushes.write(CHANGED + b"\n")
        time.sleep(5 * TICK)

    def pushes(self, begin: int) -> tuple[list[bytes], int]:
        """What was pushed after that place, and the place behind it."""
        path = self.directory / "pushes"
        if not path.exists() or path.stat().st_size <= begin:
            return [], begin
        data = path.read_bytes()
        whole = data[begin : data.rfind(b"\n") + 1]
        return whole.splitlines(), begin + len(whole)

    def pushed_so_far(self) -> int:
        path = self.directory / "pushes"
        return path.stat().st_size if path.exists() else 0


def serve_stdio(shop: Shop) -> None:
    connection = shop.arrive()
    lock = threading.Lock()
    listeners: list[Any] = []

    def write(lines: list[bytes]) -> None:
        with lock:
            sys.stdout.buffer.write(b"".join(line + b"\n" for line in lines))
            sys.stdout.buffer.flush()

    def push(place: int) -> None:
        while True:
            lines, place = shop.pushes(place)
            if lines:
                write(lines)
                write([tagged(line, rpc_id) for line in lines for rpc_id in listeners])
            time.sleep(TICK)

    def reply(message: dict[str, Any]) -> None:
        write(shop.answer(message, connection))

    threading.Thread(target=push, args=(shop.pushed_so_far(),), daemon=True).start()
    for line in sys.stdin.buffer:
        message = json.loads(line)
        for one in message if isinstance(message, list) else [message]:
            shop.note("received", {"connection": connection, "message": one, "pid": os.getpid()})
            if one.get("method") == "subscriptions/listen":
                listeners.append(one["id"])
                write([acknowledged(one)])
            elif shop.slow(one):
                threading.Thread(target=reply, args=(one,), daemon=True).start()
            else:
                reply(one)
    time.sleep(shop.state.get("linger", 0))


def acknowledged(message: dict[str, Any]) -> bytes:
    """2026-07-28, subscriptions: the first message of a subscription names what it is for."""
    wanted = message.get("params", {}).get("notifications", {})
    params = {"_meta": {SUBSCRIPTION: message["id"]}, "notifications": wanted}
    notice = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
    return json.dumps(notice).encode()


def tagged(line: bytes, rpc_id: Any) -> bytes:
    """A pushed message as one subscription gets it."""
    try:
        message = json.loads(line)
    except ValueError:
        return line
    if not isinstance(message, dict) or "method" not in message:
        return line
    params = message.get("params") or {}
    return json.dumps({**message, "params": {**params, "_meta": {SUBSCRIPTION: rpc_id}}}).encode()


def serve_http(shop: Shop, port: int) -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    sessions: dict[str, int] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            several = message if isinstance(message, list) else [message]
            fresh = several[0].get("method") == "initialize"
            session = f"shifty-{time.monotonic_ns()}" if fresh else self.headers.get("mcp-session-id", "")
            if fresh:
                sessions[session] = shop.arrive()
            connection = sessions.get(session, 0)
            for one in several:
                shop.note("received", {"connection": connection, "message": one})
            if several[0].get("method") == "subscriptions/listen":
                self._listen([acknowledged(several[0])], several[0]["id"])
                return
            replies = [reply for one in several for reply in shop.answer(one, connection)]
            self._send(replies, session if fresh else "")

        def _send(self, replies: list[bytes], session: str) -> None:
            stream = len(replies) > 1 or (replies and shop.state.get("events"))
            events = [one.replace(b"\n", b"\ndata: ") for one in replies]
            body = b"".join(b"data: " + one + b"\n\n" for one in events) if stream else b"".join(replies)
            self.send_response(200 if replies else 202)
            self.send_header("content-type", "text/event-stream" if stream else "application/json")
            self.send_header("content-length", str(len(body)))
            if session:
                self.send_header("mcp-session-id", session)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._listen([], None)

        def _listen(self, first: list[bytes], rpc_id: Any) -> None:
            place = shop.pushed_so_far()
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            shop.note("received", {"connection": 0, "message": {"method": "(listening)"}})
            lines = first
            try:
                while True:
                    for line in lines:
                        said = line if rpc_id is None or line in first else tagged(line, rpc_id)
                        self.wfile.write(b"data: " + said + b"\n\n")
                        self.wfile.flush()
                    if select.select([self.connection], [], [], TICK)[0]:
                        # Who has left is told nothing more, and takes no more of the machine.
                        return
                    lines, place = shop.pushes(place)
            except OSError:
                return

        def do_DELETE(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A gateway that hangs up is no news."""

    server = Server(("127.0.0.1", port), Handler)
    print(f"listening on http://127.0.0.1:{server.server_port}/mcp", flush=True)
    server.serve_forever()


def main() -> None:
    transport, directory, *port = sys.argv[1:]
    shop = Shop(Path(directory))
    if transport == "stdio":
        serve_stdio(shop)
    else:
        serve_http(shop, int(port[0]) if port else 0)


if __name__ == "__main__":
    main()

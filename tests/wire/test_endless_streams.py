"""Streams that never end by themselves end when the gateway is asked to stop; kept connections may end at any time."""

import socket

from support.everything import everything_argv
from support.gateway import Gateway, serving, write_config
from support.raw import Received, ask, raw_server, streaming
from support.sessions import META, VERSION, message, modern_headers
from support.table import rows


def test_a_subscription_ends_at_once_when_the_gateway_is_asked_to_stop(tmp_path):
    servers = {"all": {"command": everything_argv("stdio", tmp_path)}}
    # Longer than the test may take: only a stream that is ended, not waited for, lets it pass.
    gateway = Gateway(write_config(tmp_path, servers, gateway={"shutdown_seconds": 600}))
    gateway.wait_ready()
    meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}}
    headers = {key: value for key, value in modern_headers("", "subscriptions/listen").items() if key != "Mcp-Name"}
    asked = message("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": meta}, "s")
    with streaming(gateway.url("all"), asked, headers) as answer:
        assert answer.status == 200
        assert answer.read1()
        gateway.process.terminate()
        while answer.read1():
            pass
    assert gateway.stop() == 0


@rows(("method", "times"), [("DELETE", 2), ("POST", 1)])
def test_a_kept_connection_that_dies_is_tried_again_only_where_twice_does_no_harm(tmp_path, method, times):
    """The server answers the first request, keeps the connection, and closes it on the second without a word."""
    seen: list[Received] = []

    def script(request: Received, connection: socket.socket) -> None:
        seen.append(request)
        body = b'{"jsonrpc":"2.0","id":1,"result":{}}'
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        # One request a connection: the next one arrives here and finds nobody.
        connection.recv(65536)
        seen.append(request)

    with raw_server() as server, serving(tmp_path, {"peer": {"url": server.url}}, reviewed=False) as gateway:
        server.script = script
        first = ask(gateway.url("peer"), b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        assert first.status == 200
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}' if method == "POST" else None
        second = ask(gateway.url("peer"), body, {"Mcp-Session-Id": "s"} | _content(method), method)
        assert second.status == (200 if times == 2 else 502)
        assert len(server.requests) == times


def _content(method: str) -> dict[str, str]:
    return {"Content-Type": "application/json"} if method == "POST" else {}

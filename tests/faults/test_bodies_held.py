"""Many large bodies at once: the gateway holds no more than it may, refuses the rest, and takes the next."""

import contextlib
import socket

from support.gateway import serving
from support.hostile import assert_works, hostile_server, post

HEAD = b"POST /servers/one/mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n{"


def begun(port: int, size: int) -> socket.socket:
    """A request whose body is announced and never finished."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(HEAD % size)
    return connection


def test_the_sum_of_bodies_is_bounded(tmp_path):
    limits = {"held_bytes": "4 MiB", "message_bytes": "2 MiB", "body_seconds": 60}
    with hostile_server() as upstream, serving(tmp_path, {"one": {"url": upstream.url}}, limits=limits) as gateway:
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(begun(gateway.port, 1_300_000))
            large = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"x" * 1_300_000 + b'"}}'
            got = post(gateway.port, large)
            assert (got.status, got.reason) == (503, "overloaded")
            assert_works(gateway.port)
        assert_works(gateway.port)

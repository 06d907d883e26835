"""Bodies over the cap, bodies and heads that never end, connections that say nothing."""

import contextlib
import time

import pytest

from support.gateway import serving
from support.hostile import (
    assert_works,
    call_message,
    connect,
    head,
    hostile_server,
    post,
    read_all,
    send_raw,
    status_of,
)

LIMIT = 65536
CHUNKED = "transfer-encoding: chunked"


@pytest.fixture(scope="module")
def upstream():
    with hostile_server() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, upstream):
    with serving(
        tmp_path_factory.mktemp("gateway"), {"one": {"url": upstream.url}}, limits={"message_bytes": LIMIT}
    ) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(tmp_path_factory, upstream):
    """It gives a sender less than a second."""
    limits = {"body_seconds": 0.6, "header_seconds": 0.6, "connections": 1000}
    with serving(tmp_path_factory.mktemp("hasty"), {"one": {"url": upstream.url}}, limits=limits) as running:
        yield running


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def test_a_body_announced_too_large_is_refused_before_it_comes(gateway, upstream):
    with connect(gateway.port) as connection:
        connection.sendall(head(10**12))
        assert status_of(connection.recv(65536)) == 413
    assert_works(gateway.port)


def test_a_body_over_the_cap_is_refused(gateway, upstream):
    got = post(gateway.port, call_message("big", {"text": "x" * LIMIT}))
    assert (got.status, got.reason) == (413, "message_too_large")
    assert "big" not in upstream.tools
    assert_works(gateway.port)


def test_a_chunked_body_over_the_cap_is_refused(gateway, upstream):
    body = call_message("big", {"text": "x" * LIMIT})
    with connect(gateway.port) as connection:
        connection.sendall(head(None, CHUNKED) + chunk(body) + b"0\r\n\r\n")
        assert status_of(connection.recv(65536)) == 413
    assert "big" not in upstream.tools
    assert_works(gateway.port)


def test_the_largest_body_that_fits_passes(gateway, upstream):
    body = call_message("good", {"text": ""}, rpc_id=1)
    body = call_message("good", {"text": "x" * (LIMIT - len(body))}, rpc_id=1)
    assert len(body) == LIMIT
    assert post(gateway.port, body).status == 200


def drip(connection, data):
    """One byte after the other for as long as the gateway takes them; what it answered."""
    deadline = time.monotonic() + 20
    connection.settimeout(0.05)
    with contextlib.suppress(ConnectionError):
        while time.monotonic() < deadline:
            connection.sendall(data)
            with contextlib.suppress(TimeoutError):
                if got := connection.recv(65536):
                    return got
                return b""
    return b""


def drip_until_closed(connection, data):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            connection.settimeout(0.05)
            connection.sendall(data)
            if not connection.recv(65536):
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


def test_a_slow_body_gets_408(hasty, upstream):
    with connect(hasty.port) as connection:
        connection.sendall(head(1000))
        assert status_of(drip(connection, b" ")) == 408
    assert_works(hasty.port)


def test_a_slow_body_cannot_hold_its_connection_after_the_408(hasty):
    with connect(hasty.port) as connection:
        connection.sendall(head(1000))
        assert status_of(drip(connection, b" ")) == 408
        assert drip_until_closed(connection, b" ")


def test_a_refused_request_cannot_hold_its_connection_with_its_body(hasty):
    """Refused by its head alone, it must not go on sending for ever."""
    with connect(hasty.port) as connection:
        connection.sendall(head(10_000_000, path="/servers/nobody/mcp"))
        assert status_of(connection.recv(65536)) == 404
        assert drip_until_closed(connection, b"x")


def test_empty_lines_after_an_answer_cannot_hold_the_connection(hasty):
    body = call_message("good")
    with connect(hasty.port) as connection:
        connection.sendall(head(len(body)) + body)
        assert status_of(connection.recv(65536)) == 200
        assert drip_until_closed(connection, b"\r\n")


def test_a_slow_head_gets_408_and_is_closed(hasty):
    with connect(hasty.port) as connection:
        connection.sendall(b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ")
        assert status_of(drip(connection, b"a")) == 408
        assert drip_until_closed(connection, b"a")
    assert_works(hasty.port)


def test_a_connection_that_says_nothing_is_closed(hasty):
    with connect(hasty.port) as connection:
        assert status_of(read_all(connection)) == 408


def test_a_head_without_end_is_refused(gateway):
    with connect(gateway.port) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n")
            connection.sendall(b"x: " + b"a" * 400_000)
        assert status_of(read_all(connection)) in (413, 0)
    assert_works(gateway.port)


def test_too_many_headers_are_refused(gateway):
    lines = [f"x-{number}: 1" for number in range(300)]
    assert status_of(send_raw(gateway.port, head(2, "connection: close", *lines) + b"{}")) == 413
    assert_works(gateway.port)


def test_trailers_without_end_are_refused(gateway, upstream):
    body = call_message("trailed")
    with connect(gateway.port) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(head(None, CHUNKED) + chunk(body) + b"0\r\nx: ")
            for _ in range(200):
                connection.sendall(b"a" * 65536)
        read_all(connection)
    assert "trailed" not in upstream.tools
    assert_works(gateway.port)


def test_slowloris_leaves_honest_calls_alone(hasty):
    """Two hundred connections that never finish a head; honest calls work meanwhile, and all of them are closed."""
    slow = [connect(hasty.port) for _ in range(200)]
    for number, connection in enumerate(slow):
        connection.sendall(b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " if number % 2 else head(500) + b"{")
    for _ in range(5):
        assert_works(hasty.port)
    for connection in slow:
        assert status_of(connection.recv(65536)) == 408
        connection.close()
    assert_works(hasty.port)

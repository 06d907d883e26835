"""Stopping: what is under way is finished or told so, nothing new begins, no process stays behind."""

import json
import os
import signal
import socket
import sys
import threading
from contextlib import contextmanager

import psutil

from support.gateway import Gateway, write_config
from support.hostile import (
    STDIO_SERVER,
    assert_works,
    call,
    connect,
    head,
    honest,
    hostile_server,
    post,
    read_all,
    read_until,
    until,
)
from support.records import calls_of
from support.table import rows

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "good"}


def modern_call(tool):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": tool, "arguments": {}, "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


class Waiting:
    """Answers when told."""

    def __init__(self):
        self.go_on = threading.Event()

    def __call__(self, peer, request):
        self.go_on.wait(60)
        honest(peer, request)


@contextmanager
def started(directory, servers, **sections):
    """A gateway that the test itself ends; killed if it does not."""
    gateway = Gateway(write_config(directory, servers, **sections))
    try:
        gateway.review(*servers)
        yield gateway
    finally:
        gateway.kill()


def in_background(port, tool, count=1):
    got = []
    callers = [threading.Thread(target=lambda: got.append(call(port, tool)), daemon=True) for _ in range(count)]
    for caller in callers:
        caller.start()
    return got, callers


def refused(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@rows("signals", [[signal.SIGTERM], [signal.SIGTERM, signal.SIGTERM], [signal.SIGINT]])
def test_calls_under_way_are_answered(tmp_path, signals):
    waiting = Waiting()
    with (
        hostile_server({"slow": waiting}) as upstream,
        started(tmp_path, {"one": {"url": upstream.url}}, gateway={"shutdown_seconds": 60}) as gateway,
    ):
        got, callers = in_background(gateway.port, "slow", 3)
        until(lambda: upstream.tools.count("slow") == 3, "three calls are under way")
        for number in signals:
            os.kill(gateway.pid, number)
        until(lambda: refused(gateway.port), "new connections are refused")
        assert gateway.process.poll() is None
        waiting.go_on.set()
        for caller in callers:
            caller.join(60)
        assert [one.status for one in got] == [200, 200, 200]
        assert gateway.process.wait(60) == 0
        assert [one["outcome"]["outcome"] for one in calls_of(gateway, "slow")] == ["result"] * 3


def test_streams_that_would_never_end_are_ended(tmp_path):
    def endless(peer, request):
        peer.send(STREAM)
        peer.wait_gone()

    with (
        hostile_server({"GET": endless}) as upstream,
        started(tmp_path, {"one": {"url": upstream.url}}, gateway={"shutdown_seconds": 60}) as gateway,
        connect(gateway.port) as connection,
    ):
        connection.sendall(head(None, "accept: text/event-stream", method="GET"))
        assert b"text/event-stream" in read_until(connection, b"\r\n\r\n")
        os.kill(gateway.pid, signal.SIGTERM)
        assert read_all(connection).endswith(b"0\r\n\r\n")
        assert gateway.process.wait(60) == 0


def test_a_call_that_takes_too_long_is_cut_and_told_so(tmp_path):
    with (
        hostile_server({"stuck": lambda peer, _: peer.wait_gone()}) as upstream,
        started(tmp_path, {"one": {"url": upstream.url}}, gateway={"shutdown_seconds": 1}) as gateway,
    ):
        got, callers = in_background(gateway.port, "stuck")
        until(lambda: "stuck" in upstream.tools, "the call is under way")
        os.kill(gateway.pid, signal.SIGTERM)
        assert gateway.process.wait(60) == 0
        callers[0].join(60)
        assert (got[0].status, got[0].reason) == (503, "shutting_down")
        assert [one["outcome"]["outcome"] for one in calls_of(gateway, "stuck")] == ["cancelled"]
        assert not [line for line in gateway.lines if "Traceback" in line]


@rows("end", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_stays_behind(tmp_path, end):
    server = {"command": [sys.executable, "-c", STDIO_SERVER]}
    with started(tmp_path, {"one": server}) as gateway:
        assert post(gateway.port, modern_call("good"), MODERN).status == 200
        children = psutil.Process(gateway.pid).children(recursive=True)
        assert children
        os.kill(gateway.pid, end)
        gateway.process.wait(60)
        until(lambda: not any(one.is_running() and one.status() != "zombie" for one in children), "its processes end")


def test_it_starts_again_where_it_stopped(tmp_path):
    with hostile_server() as upstream:
        for _ in range(2):
            with started(tmp_path, {"one": {"url": upstream.url}}) as gateway:
                assert_works(gateway.port)
                assert gateway.stop() == 0
        assert len(calls_of(gateway, "good")) == 2

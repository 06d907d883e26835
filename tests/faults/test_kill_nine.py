"""kill -9 at random moments under load: what the server did is on record, and nothing needs repair."""

import http.client
import itertools
import json
import random
import signal
import socket
import threading
import time
from contextlib import suppress
from subprocess import DEVNULL

import pytest

from support.fork_server import CALLGATE, Forked
from support.gateway import Gateway, write_config
from support.hostile import assert_works, call, honest, hostile_server, post, until
from support.records import ask

LANES = 2
HELLO = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
    }
).encode()
CLIENTS = 4
STARTED_WITHIN = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Lane:
    """One gateway after the other on one port; each is killed at a moment that chance gives."""

    def __init__(self, directory, name, store, upstream, executed):
        self.port = free_port()
        self.directory = directory / name
        self.directory.mkdir()
        self.log = self.directory / "log"
        self.config = write_config(
            self.directory,
            {"one": {"url": upstream.url}},
            gateway={"listen": f"127.0.0.1:{self.port}"},
            store={"url": f"sqlite:///{store}"},
            audit={"arguments": "whole"},
        )
        self.kills = self.served = 0
        self.executed = executed
        self.failure = None

    def run(self, chance, kills):
        try:
            while self.kills < kills:
                self._live_and_die(chance)
        except BaseException as error:
            self.failure = error

    def _live_and_die(self, chance):
        with self.log.open("ab") as log:
            gateway = Forked([CALLGATE, "serve", "-c", str(self.config)], stdin=DEVNULL, stdout=log, stderr=log)
        if chance.random() < 0.85:
            until(lambda: listens(self.port) or gateway.poll() is not None, "the gateway listens", STARTED_WITHIN)
            assert gateway.returncode is None, self.log.read_text()[-2000:]
            self.served += 1
            # With calls under way: so many more have reached the server, by whichever gateway.
            wanted = len(self.executed) + chance.randrange(6)
            until(lambda: len(self.executed) >= wanted, "calls reach the server", STARTED_WITHIN)
        else:
            # In the middle of starting, too.
            time.sleep(chance.uniform(0, 0.3))
        gateway.kill()
        assert gateway.wait(STARTED_WITHIN) == -signal.SIGKILL
        self.kills += 1


def keep_calling(ports, numbers, stop, answered):
    for port in itertools.cycle(ports):
        if stop.is_set():
            return
        marker = next(numbers)
        # A gateway that was killed closes the connection or refuses it: that is what this is about.
        with suppress(OSError, http.client.HTTPException):
            # A gateway that has just started learns what the server calls itself, as from every client that connects.
            post(port, HELLO)
            if call(port, "work", {"marker": marker}, rpc_id=marker).status == 200:
                answered.append(marker)
                continue
        time.sleep(0.01)


def kill_many_times(tmp_path, kills):
    executed, answered = [], []

    def work(peer, request):
        executed.append(request.message["params"]["arguments"]["marker"])
        honest(peer, request)

    store = tmp_path / "callgate.db"
    stop, numbers = threading.Event(), itertools.count()
    with hostile_server({"work": work}) as upstream:
        lanes = [Lane(tmp_path, f"lane{n}", store, upstream, executed) for n in range(LANES)]
        review(lanes[0])
        ports = [lane.port for lane in lanes]
        killers = [
            threading.Thread(target=lane.run, args=(random.Random(n), kills // LANES), daemon=True)
            for n, lane in enumerate(lanes)
        ]
        callers = [
            threading.Thread(target=keep_calling, args=(ports, numbers, stop, answered), daemon=True)
            for _ in range(CLIENTS)
        ]
        for thread in (*killers, *callers):
            thread.start()
        for thread in killers:
            thread.join()
        stop.set()
        for thread in callers:
            thread.join()
        for lane in lanes:
            assert lane.failure is None, lane.failure
        assert sum(lane.kills for lane in lanes) == kills
        assert executed
        assert_the_log_tells_everything(lanes[0], executed)
    return lanes, executed, answered


def review(lane):
    gateway = Gateway(lane.config)
    try:
        gateway.review("one")
    finally:
        assert gateway.stop() == 0


def test_what_the_server_did_is_on_record_whenever_the_gateway_is_killed(tmp_path):
    kill_many_times(tmp_path, 6)


@pytest.mark.verify
@pytest.mark.timeout(300)
@pytest.mark.xdist_group("kill_nine")
def test_two_hundred_times(tmp_path):
    lanes, executed, answered = kill_many_times(tmp_path, 200)
    assert sum(lane.served for lane in lanes) > 100
    assert len(executed) > 200
    assert len(answered) < len(executed), "no call was under way when the gateway was killed"


def assert_the_log_tells_everything(lane, executed):
    """An ordinary start on the same store works at once; every executed call has its decision; the log verifies."""
    gateway = Gateway(lane.config)
    try:
        # A machine that is busy keeps it from reading its kill switch for a while.
        until(lambda: post(gateway.port, HELLO).status == call(gateway.port, "good").status == 200, "it works")
        assert_works(gateway.port)
        records = [json.loads(line)["record"] for line in ask(gateway, "audit", "export").splitlines()]
        allowed = [
            record["arguments"]["value"]["marker"]
            for record in records
            if record.get("verdict") == "allow" and record["tool"] == "work"
        ]
        assert set(executed) <= set(allowed)
        assert len(allowed) == len(set(allowed))
        ask(gateway, "audit", "verify")
    finally:
        assert gateway.stop() == 0
    ask(gateway, "audit", "verify")
    ask(gateway, "store", "check")

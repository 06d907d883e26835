"""More of everything than there is room for: connections, open attempts, calls under way."""

import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from support.fork_server import CALLGATE
from support.gateway import Running, serving, write_config
from support.hostile import Reply, assert_works, call, connect, head, honest, hostile_server, read_all, status_of, until

# Several source addresses, or the ports of one would run out; a hard close, or they would stay taken for a minute.
FLOOD = """
import socket, struct, sys
port, attempts, batch = int(sys.argv[1]), int(sys.argv[2]), 400
done = 0
while done < attempts:
    held = []
    for number in range(batch):
        one = socket.socket()
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            one.bind((f"127.0.{done // batch % 8}.{2 + number % 200}", 0))
            one.connect_ex(("127.0.0.1", port))
        except OSError:
            pass
        held.append(one)
    for one in held:
        one.close()
    done += batch
print(done)
"""


def memory(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


def tried(port):
    """One honest call, or what became of it."""
    try:
        return call(port, "good", rpc_id="honest")
    except OSError:
        return Reply(0)


@pytest.mark.verify
@pytest.mark.xdist_group("flood")
def test_a_hundred_thousand_open_attempts(tmp_path):
    limits = {"connections": 500, "header_seconds": 2}
    with (
        hostile_server() as upstream,
        serving(tmp_path, {"one": {"url": upstream.url}}, limits=limits) as gateway,
    ):
        for _ in range(50):
            assert_works(gateway.port)
        before = peak = memory(gateway.pid)
        answered = 0
        flood = subprocess.Popen([sys.executable, "-c", FLOOD, str(gateway.port), "100000"], stdout=subprocess.PIPE)
        while flood.poll() is None:
            answered += tried(gateway.port).status == 200
            peak = max(peak, memory(gateway.pid))
        assert int(flood.communicate()[0]) >= 100_000
        assert answered, "no honest call was answered during the flood"
        until(lambda: tried(gateway.port).status == 200, "an honest call is answered after it")
        assert_works(gateway.port)
        peak = max(peak, memory(gateway.pid))
        assert peak - before < 64 * 1024, f"memory went from {before} to {peak} KiB"


def test_connections_over_the_cap_are_turned_away_with_503(tmp_path):
    with (
        hostile_server() as upstream,
        serving(tmp_path, {"one": {"url": upstream.url}}, limits={"connections": 50}) as gateway,
    ):
        held = [connect(gateway.port) for _ in range(80)]
        turned = [read_all(connection) for connection in held[60:]]
        assert {status_of(raw) for raw in turned} == {503}
        assert b"overloaded" in turned[0]
        assert tried(gateway.port).status == 503
        with connect(gateway.port) as sending:
            # Closed too soon, it would be reset while it still sends, and the reason be lost.
            for part in (head(200), b" " * 100, b" " * 100):
                sending.sendall(part)
                assert sending.recv(1, socket.MSG_PEEK)
            assert status_of(read_all(sending)) == 503
        for connection in held:
            connection.close()
        until(lambda: tried(gateway.port).status == 200, "room again")
        assert_works(gateway.port)


def test_few_descriptors_lower_the_cap_instead_of_starving_the_store(tmp_path):
    """With 256 descriptors, ten thousand connections cannot be held: the gateway takes as many as leave room to work."""
    with hostile_server() as upstream:
        config = write_config(tmp_path, {"one": {"url": upstream.url}})
        gateway = Running(["sh", "-c", 'ulimit -n 256; exec "$0" serve -c "$1"', CALLGATE, str(config)])
        try:
            port = int(gateway.wait_for("listening")["address"].rpartition(":")[2])
            held = [connect(port) for _ in range(300)]
            assert status_of(read_all(held[-1])) == 503
            for connection in held[:10]:
                connection.close()
            until(lambda: tried(port).status == 200, "an honest call among the idle connections")
            for connection in held:
                connection.close()
        finally:
            assert gateway.stop() == 0


def test_calls_over_the_cap_are_refused_and_there_is_room_again_afterwards(tmp_path):
    go_on = threading.Event()

    def waits(peer, request):
        go_on.wait(30)
        honest(peer, request)

    with (
        hostile_server({"waits": waits}) as upstream,
        serving(tmp_path, {"one": {"url": upstream.url}}, limits={"in_flight": 5}) as gateway,
    ):
        got = []
        callers = [
            threading.Thread(target=lambda: got.append(call(gateway.port, "waits").status), daemon=True)
            for _ in range(5)
        ]
        for caller in callers:
            caller.start()
        until(lambda: upstream.tools.count("waits") == 5, "five calls are under way")
        refused = call(gateway.port, "good")
        assert (refused.status, refused.reason) == (503, "overloaded")
        assert refused.fields["retry-after"] == "1"
        go_on.set()
        for caller in callers:
            caller.join(30)
        assert got == [200] * 5
        assert_works(gateway.port)
        assert "good" in upstream.tools[-1]

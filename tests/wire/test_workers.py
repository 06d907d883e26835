"""`callgate serve --workers 2`: several processes at one address that are one gateway to everybody outside."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil  # type: ignore[import-untyped]
import pytest

from support.gateway import Gateway, serving, write_config
from support.raw import ask
from support.sessions import Session, call, events, gone, initialize, modern, teller_argv, until

WORKERS = {"CALLGATE_WORKERS": "2"}


def processes(gateway: Gateway) -> list[int]:
    """The workers, whatever servers they have started."""
    return [child.pid for child in psutil.Process(gateway.pid).children()]


def served(gateway: Gateway) -> dict[str, float]:
    """How many requests each worker has answered."""
    text = ask(f"{gateway.address}/metrics", None, {}, "GET").body.decode()
    found: dict[str, float] = {}
    for worker, count in re.findall(r'^callgate_http_requests_total\{worker="(\d)",[^}]*\} (\S+)$', text, re.MULTILINE):
        found[worker] = found.get(worker, 0) + float(count)
    return found


@pytest.fixture(scope="module")
def gateway(tmp_path_factory) -> Iterator[Gateway]:
    servers = {"teller": {"command": teller_argv(tmp_path_factory.mktemp("teller"))}}
    with serving(tmp_path_factory.mktemp("gateway"), servers, WORKERS) as running:
        yield running


def test_every_connection_finds_its_session(gateway):
    sessions = [Session.start(gateway.url("teller")) for _ in range(4)]
    until(lambda: len(served(gateway)) == 2)
    before = served(gateway)
    for round_ in range(6):
        for session in sessions:
            session.call("remember", rpc_id=round_, text=f"{round_}")
    for session in sessions:
        # Each request came on a connection of its own.
        assert session.call("pid") == {"content": [], "pid": session.pid, "memory": [str(one) for one in range(6)]}
    # A worker that is too busy to say what it has counted is left out.
    until(lambda: [worker for worker, count in served(gateway).items() if count > before[worker]] == ["0", "1"])
    for session in sessions:
        assert session.delete().status == 204
        assert session.post(call("pid")).status == 404


def test_callers_without_a_session_share_one_process(gateway):
    answers = [events(modern(gateway.url("teller"), "pid").body)[-1]["result"]["pid"] for _ in range(12)]
    assert len(set(answers)) == 1


def _requests(session: Session, *bodies: bytes) -> list[bytes]:
    """Requests on one connection, as bytes."""
    head = f"POST /servers/teller/mcp HTTP/1.1\r\nHost: {session.url.split('/')[2]}\r\n"
    fields = "".join(f"{name}: {value}\r\n" for name, value in session.headers.items())
    return [f"{head}{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body for body in bodies]


def _answer(connection: socket.socket) -> bytes:
    reader = connection.makefile("rb")
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = reader.readline()
        assert line, "the connection was closed"
        head += line
    length = int(re.search(rb"content-length: (\d+)", head.lower())[1])
    return reader.read(length)


def test_a_request_in_pieces_and_a_large_one_reach_the_session_whole(gateway):
    sessions = [Session.start(gateway.url("teller")) for _ in range(6)]
    for session in sessions:
        small, large = _requests(session, call("pid"), call("remember", text="x" * 150_000))
        with socket.create_connection(("127.0.0.1", gateway.port)) as connection:
            # The head comes in pieces, so it is passed on with what was read before the last of them.
            half = small.index(b"Mcp-Session-Id") + 5
            connection.sendall(small[:half])
            gateway.wait_ready()
            connection.sendall(small[half:])
            assert events(_answer(connection))[-1]["result"]["pid"] == session.pid
            # The connection stays where the session is.
            connection.sendall(large)
            assert b"result" in _answer(connection)
        assert len(session.call("pid")["memory"][0]) == 150_000
        session.delete()


def test_one_connection_serves_two_sessions(gateway):
    sessions = [Session.start(gateway.url("teller")) for _ in range(6)]
    with socket.create_connection(("127.0.0.1", gateway.port)) as connection:
        for session in [*sessions, *sessions]:
            connection.sendall(_requests(session, call("pid"))[0])
            assert events(_answer(connection))[-1]["result"]["pid"] == session.pid
    for session in sessions:
        session.delete()


def test_an_unknown_session_is_unknown_everywhere(gateway):
    session = Session(gateway.url("teller"), "of-nobody", 0)
    for _ in range(6):
        reply = session.post(call("pid"))
        assert (reply.status, json.loads(reply.body)["error"]["data"]["reason"]) == (404, "session_unknown")


def test_a_worker_that_is_killed_is_replaced(tmp_path):
    with serving(tmp_path, {"teller": {"command": teller_argv(tmp_path)}}, WORKERS) as gateway:
        sessions = [Session.start(gateway.url("teller")) for _ in range(8)]
        old = processes(gateway)
        # The one that has a session's server for a child.
        lost = next(one for one in old if sessions[0].pid in [child.pid for child in psutil.Process(one).children()])
        kept = [one for one in sessions if psutil.Process(one.pid).ppid() != lost]
        psutil.Process(lost).kill()
        until(lambda: len(processes(gateway)) == 2 and lost not in processes(gateway))
        assert gateway.wait_for("worker ended")["status"] == -signal.SIGKILL
        # New sessions can be opened, those of the other worker go on, and the lost ones are said to be unknown.
        until(lambda: initialize(gateway.url("teller")).status == 200)
        assert all(session.call("pid")["pid"] == session.pid for session in kept)
        until(lambda: sessions[0].post(call("pid")).status == 404)
        assert "holds" in gateway.command("audit", "verify")


def test_workers_are_renewed_while_calls_go_on(tmp_path):
    with serving(tmp_path, {"teller": {"command": teller_argv(tmp_path)}}, WORKERS) as gateway:
        old = set(processes(gateway))

        def one(number: int) -> int:
            return modern(gateway.url("teller"), "pid", rpc_id=number).status

        with ThreadPoolExecutor(4) as pool:
            answers = pool.map(one, range(60))
            gateway.process.send_signal(signal.SIGUSR2)
            until(lambda: len(gateway.events("worker renewed")) == 2)
            assert set(answers) == {200}
        until(lambda: all(gone(pid) for pid in old))


def test_all_end_with_the_first_process(tmp_path):
    with serving(tmp_path, {"teller": {"command": teller_argv(tmp_path)}}, WORKERS) as running:
        workers = processes(running)
        running.kill()
        until(lambda: all(gone(pid) for pid in workers))


def test_a_folder_called_callgate_is_not_taken_for_the_program(tmp_path, monkeypatch):
    (tmp_path / "callgate").mkdir()
    (tmp_path / "callgate" / "__init__.py").write_text("raise SystemExit('the wrong callgate')")
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path, {"teller": {"command": teller_argv(tmp_path)}}, WORKERS, reviewed=False) as running:
        assert len(processes(running)) == 2


def test_an_address_in_use_is_not_shared(gateway, tmp_path):
    config = write_config(tmp_path, {"teller": {"command": ["true"]}}, gateway={"listen": f"127.0.0.1:{gateway.port}"})
    with pytest.raises(AssertionError, match="cannot listen on"):
        Gateway(config, WORKERS)

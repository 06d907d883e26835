"""One gateway for all wrapped servers of a person: one process, one console, and servers that know nothing of it."""

import contextlib
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from callgate.cli import run
from callgate.cli.gateway import ask_gateway, end
from callgate.local import wire
from support.gateway import approve_listed
from support.raw import SECONDS
from support.sessions import gone, teller_argv, until
from support.shared import Client, shared
from support.table import rows

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors cannot be handed over there")


@pytest.fixture(scope="module")
def person(tmp_path_factory):
    with shared(tmp_path_factory.mktemp("person")) as made:
        made.approve()
        yield made


def test_all_wrapped_servers_have_one_gateway_and_one_console(person):
    with person.wrapped() as one, person.wrapped("other") as other:
        status = person.status()
        assert one.works
        assert "result" in other.ask("tools/list")
        assert [server["name"] for server in status["servers"]] == ["teller", "other"]
        assert {server["process"] for server in status["servers"]} == {one.process.pid, other.process.pid}
        with urllib.request.urlopen(f"{status['address']}/healthz", timeout=SECONDS) as page:
            assert page.status == 200
    assert person.status()["pid"] == status["pid"], "it outlives its clients"


def test_the_servers_are_children_of_their_own_wraps(person):
    """With the environment, the folder and the process group that they would have without it."""
    with person.wrapped() as client:
        server = psutil.Process(client.call()["result"]["pid"])
        assert server.ppid() == client.process.pid
        assert os.getpgid(server.pid) == os.getpgid(client.process.pid)
        assert server.cwd() == psutil.Process(client.process.pid).cwd()


def test_two_servers_of_one_name_do_not_mix(person, tmp_path):
    """As two editors have them that call two servers the same."""
    with person.wrapped() as one, person.wrapped("teller", teller_argv(tmp_path)) as other:
        assert one.works
        assert not other.works, "the same program, with other arguments"
        approve_listed(person.config)
        until(lambda: other.works)
        assert one.call()["result"] != other.call()["result"]
        # A list that changes is another's affair.
        other.call("emit", after=['{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'])
        assert one.works
    assert not list(tmp_path.glob("held-*"))


def test_a_changed_configuration_is_followed_by_servers_that_run(tmp_path):
    with shared(tmp_path) as person:
        person.approve()
        with person.wrapped() as client:
            assert client.works
            text = person.config.read_text()
            person.config.write_text(text + "\n[policy]\nblock_all = true\n")
            until(lambda: "error" in client.call())
            person.config.write_text(text)
            until(lambda: client.works)


def test_a_configuration_that_changes_while_a_server_starts_is_followed_by_it(tmp_path):
    with shared(tmp_path, pinning={"mode": "off"}) as person, contextlib.ExitStack() as stack:
        with person.wrapped() as client:
            assert client.works
        link, incoming = stack.enter_context(person.link()), wire.Incoming()
        wire.send(link, person.order())
        assert "start" in wire.receive(link, incoming)
        text = person.config.read_text()
        assert 'mode = "off"' in text
        person.config.write_text(text.replace('mode = "off"', 'mode = "enforce"'))
        # Whoever comes next is answered after the new one was taken.
        with person.wrapped() as client:
            assert not client.works
        pipe = subprocess.PIPE
        server = stack.enter_context(subprocess.Popen(person.teller, stdin=pipe, stdout=pipe))
        stack.callback(server.kill)
        ours, theirs = socket.socketpair()
        stack.enter_context(ours).settimeout(SECONDS)
        ends = [theirs.fileno(), theirs.fileno(), server.stdin.fileno(), server.stdout.fileno()]
        wire.send(link, {"started": server.pid}, ends)
        theirs.close()
        server.stdin.close()
        server.stdout.close()
        with ours.makefile("rw") as lines:
            call = {"name": "pid", "arguments": {}}
            lines.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}) + "\n")
            lines.flush()
            assert json.loads(lines.readline())["error"]["data"]["reason"] == "tool_not_approved"
        ours.shutdown(socket.SHUT_RDWR)
        link.close()


def test_it_ends_by_itself_without_servers(tmp_path):
    with shared(tmp_path) as person:
        listens, tell = os.pipe()
        argv = [sys.executable, "-m", "callgate.cli.gateway", str(person.config), str(tell), "3"]
        with subprocess.Popen(argv, pass_fds=[tell]) as gateway:
            os.close(tell)
            assert os.read(listens, 100) == b"ready"
            os.close(listens)
            with person.wrapped() as client:
                time.sleep(3.5)
                assert "result" in client.ask("tools/list"), "not while a server is wrapped"
                assert person.status()["pid"] == gateway.pid
            assert gateway.wait(SECONDS) == 0
        assert ask_gateway(person.place, "status") is None
        with person.wrapped() as client:
            assert "result" in client.ask("tools/list"), "the next one starts it again"


def test_a_port_that_is_taken_is_no_trouble(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with shared(tmp_path, gateway={"listen": f"127.0.0.1:{port}"}) as person, person.wrapped():
            address = person.status()["address"]
            assert address != f"http://localhost:{port}"
            with urllib.request.urlopen(f"{address}/healthz", timeout=SECONDS) as page:
                assert page.status == 200


def test_configured_servers_are_not_served_by_http_unasked(tmp_path):
    with shared(tmp_path) as person:
        person.config.write_text(
            person.config.read_text() + f"\n[servers.teller]\ncommand = {teller_argv(tmp_path)!r}\n".replace("'", '"')
        )
        with person.wrapped():
            request = urllib.request.Request(f"{person.status()['address']}/servers/teller/mcp", b"{}")
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=SECONDS)
            refused.value.close()
            assert refused.value.code in (404, 415)


@rows("kind", ["socket", "terminal"])
@rows("alone", ["", "--alone"])
def test_a_client_may_read_and_write_at_one_end(person, kind, alone):
    """As socat hands it on, or a person at a terminal: every line has to arrive."""
    argv = person.argv("echo", ["cat"])
    argv[2:2] = [alone] if alone else []
    if kind == "socket":
        ours, theirs = (end.detach() for end in socket.socketpair())
    else:
        import tty

        ours, theirs = os.openpty()
        tty.setraw(theirs)
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        for number in range(20):
            line = json.dumps({"jsonrpc": "2.0", "method": f"notifications/{number}"}).encode() + b"\n"
            os.write(ours, line)
            assert select.select([ours], [], [], SECONDS)[0]
            assert os.read(ours, 4096) == line
        process.kill()
    os.close(ours)


# ---- ends, each of them without warning ----


def test_a_gateway_that_is_killed_takes_its_servers_along_and_the_next_start_brings_it_back(person):
    with Client(person.argv()) as client:
        client.greet()
        server = client.call()["result"]["pid"]
        before = person.status()["pid"]
        os.kill(before, signal.SIGKILL)
        assert client.process.wait(SECONDS) == 69
        assert b"gateway has ended" in client.process.stderr.read()
        assert gone(server)
    with person.wrapped() as client:
        assert client.works
        assert person.status()["pid"] != before


def test_a_wrap_that_is_killed_leaves_no_server_and_no_place(person):
    with Client(person.argv()) as client:
        client.greet()
        server = client.call()["result"]["pid"]
        client.process.kill()
        until(lambda: gone(server))
    until(lambda: not person.status()["servers"])


def test_a_client_that_is_killed_leaves_no_server_that_ignores_its_input(person, tmp_path):
    deaf = [sys.executable, "-I", "-S", "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]
    source = (
        "import subprocess, sys, time\n"
        f"wrap = subprocess.Popen({person.argv('deaf', deaf)!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "print(wrap.pid, wrap.stdout.readline().decode(), flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) as client:
        wrap, server = map(int, client.stdout.readline().split() + client.stdout.readline().split())
        client.kill()
    until(lambda: gone(server) and gone(wrap))


def test_a_client_that_is_killed_while_its_server_starts_leaves_nothing(tmp_path):
    """With the whole gateway to be started first, and a server that heeds no end of its input."""
    with shared(tmp_path) as person:
        marked = [sys.executable, "-c", "import time; time.sleep(600)", str(tmp_path)]
        source = (
            "import os, subprocess, sys\n"
            "subprocess.Popen(sys.argv[2:], stdin=-1, stdout=-1)\n"
            "while sys.argv[1] and not os.path.exists(sys.argv[1]): pass\n"
            "os.kill(os.getpid(), 9)\n"
        )
        begun = Path(person.place.folder) / f"{person.place.name}.starting"
        # In the middle of it, and before the wrap has got anywhere.
        for awaited in (str(begun), ""):
            words = [awaited, *person.argv("lonely", marked)]
            subprocess.run([sys.executable, "-c", source, *words], check=False)
            until(lambda: not of(tmp_path))


def of(folder):
    return [one for one in psutil.process_iter(["cmdline"]) if str(folder) in (one.info["cmdline"] or [])]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@rows("before", ["trap '' CHLD", "exec 2>&-", "exec 0<&-", "mkdir gone; cd gone; rmdir ../gone", "trap '' HUP INT"])
def test_whatever_a_client_leaves_it_with_a_wrap_starts_its_server_or_says_why(tmp_path, before):
    with shared(tmp_path) as person:
        server = ["sh", "-c", "grep SigIgn /proc/$$/status > signals; ls -l /proc/$$/fd/2 > errors; exit 5"]
        line = f"{before}; " + shlex.join(person.argv("odd", server))
        done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, input="", text=True, check=False)
        if "gone" in before:
            assert "Start it in a folder that is there." in done.stderr
            return
        assert done.returncode == 5, done.stderr
        assert (tmp_path / "errors").read_text().strip()
        ignored = int((tmp_path / "signals").read_text().split()[1], 16)
        assert ignored & 0b111 == (0b011 if "HUP" in before else 0)
        assert "Traceback" not in done.stderr


def test_status_tells_of_servers_with_endless_command_lines(person):
    long = ["sh", "-c", "cat > /dev/null", *("x" * 120_000 for _ in range(10))]
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(Client(person.argv("long", long), fork=False))
        until(lambda: len(person.status()["servers"]) == 4)


@rows("name", ["TERM", "INT"])
def test_a_server_that_ignores_a_signal_is_ended_in_bounded_time(person, name):
    deaf = ["sh", "-c", f"trap '' {name}; echo $$; while :; do sleep 1; done"]
    with Client(person.argv("deaf", deaf)) as client:
        server = int(client.process.stdout.readline())
        client.process.send_signal(getattr(signal, f"SIG{name}"))
        until(lambda: gone(server))
        assert client.process.wait(SECONDS) == -signal.SIGKILL


# ---- the command line ----


def test_status_stop_restart_and_logs(tmp_path, capsys):
    with shared(tmp_path) as person:
        config = ["-c", str(person.config)]

        def said(*words):
            code = run([*words, *config])
            return code, capsys.readouterr().out

        assert said("status")[0] == 1
        assert said("stop") == (0, "Your gateway does not run.\n")
        code, text = said("restart")
        assert code == 0
        address = person.status()["address"]
        assert address in text
        with person.wrapped():
            code, text = said("status")
            assert code == 0
            assert address in text
            assert "teller:" in text
            assert "Restart your clients" in said("restart")[1]
        assert "listening" in said("logs")[1]
        first = person.status()["pid"]
        code, text = said("restart")
        assert code == 0
        assert "Restart your clients" not in text
        assert (now := person.status()["pid"]) != first
        before = person.config.read_text()
        person.config.write_text("[gateway")
        assert said("restart")[0] == 1
        person.config.write_text(before)
        assert person.status()["pid"] == now
        assert said("stop")[0] == 0
        assert ask_gateway(person.place, "status") is None


def test_several_clients_that_start_at_once_get_one_gateway(tmp_path):
    with shared(tmp_path) as person, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(person.argv(f"s{number}"))) for number in range(12)]
        for client in clients:
            client.greet()
        assert len(person.status()["servers"]) == len(clients)
        mine = [one for one in psutil.process_iter(["cmdline"]) if str(person.config) in (one.info["cmdline"] or [])]
        gateways = [one for one in mine if "callgate.cli.gateway" in one.info["cmdline"]]
        assert len(gateways) == 1


@pytest.mark.verify
def test_many_clients_that_start_many_servers_at_once_are_all_answered(tmp_path):
    """Tiny servers, and no gateway before: one is started, and nobody is turned away."""
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"capabilities": {}}})
    tiny = ["sh", "-c", f"read line; echo '{hello}'; cat > /dev/null"]
    with shared(tmp_path) as person, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(person.argv(f"s{number % 10}", tiny))) for number in range(50)]
        for client in clients:
            client.send("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}, number=1)
        assert all("result" in client.read() for client in clients)
        assert len(person.status()["servers"]) == len(clients)


def test_one_that_cannot_start_says_why(tmp_path):
    with shared(tmp_path) as person:
        person.config.write_text("[gateway]\nlisten = 7\n")
        with Client(person.argv()) as client:
            assert client.process.wait(SECONDS) == 1
            said = client.process.stderr.read().decode()
        assert "gateway.listen" in said
        assert "Traceback" not in said
        assert end(person.place) is False


def test_tools_reviewed_while_the_server_runs_can_be_called_at_once(tmp_path):
    with shared(tmp_path) as person, person.wrapped() as client:
        client.ask("tools/list")
        assert not client.works
        approve_listed(person.config)
        until(lambda: client.works)


OLDER = """
import json, os, sys, fcntl
from callgate.local import wire
from callgate.local.holding import holding
from callgate.local.place import Place, address
import socket
at = Place(sys.argv[1])
with holding(at):
    handle, link = at.enter(), socket.socket(socket.AF_UNIX)
    link.bind(address(at.folder, at.address, handle))
    link.listen()
    print("ready", flush=True)
    while True:
        one, _ = link.accept()
        wire.send(one, {"refused": "they do not understand each other", "advice": "Type `callgate restart`."})
        one.close()
"""


def test_a_gateway_of_another_version_is_named_and_restarted(tmp_path, capsys):
    """One that understands nothing of what it is asked, not even to end."""
    with shared(tmp_path) as person:
        with subprocess.Popen(
            [sys.executable, "-c", OLDER, str(person.config)], stdout=subprocess.PIPE, text=True
        ) as older:
            assert older.stdout.readline() == "ready\n"
            with Client(person.argv()) as client:
                assert client.process.wait(SECONDS) == 1
                assert b"Type `callgate restart`." in client.process.stderr.read()
            assert run(["restart", "-c", str(person.config)]) == 0
            assert older.wait(SECONDS) == -signal.SIGTERM
        assert person.status()["address"] in capsys.readouterr().out
        with person.wrapped() as client:
            assert "result" in client.ask("tools/list")


def test_every_request_is_answered_where_the_store_is_gone(tmp_path):
    with shared(tmp_path) as person:
        with person.wrapped() as client:
            client.ask("tools/list")
        for path in tmp_path.glob("callgate.db*"):
            path.unlink()
        with person.wrapped() as client:
            for answer in (client.call(), client.ask("tools/list")):
                assert answer["error"]["data"]["reason"] in ("store_unavailable", "audit_unavailable")

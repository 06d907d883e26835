"""A program of the same user speaks to the gateway as no `wrap` does: forged orders, odd descriptors, many connections."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from callgate.local import wire
from support.raw import SECONDS
from support.sessions import gone, teller_argv, until
from support.shared import shared
from support.table import rows

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no such gateway there")


_OF_THE_STORE = 12


@pytest.fixture(scope="module")
def person(tmp_path_factory):
    with shared(tmp_path_factory.mktemp("forged")) as made:
        made.approve()
        yield made


@pytest.fixture
def unharmed(person):
    """The gateway is the same one afterwards, holds no more descriptors than before, and works."""
    gateway = psutil.Process(person.status()["pid"])
    with person.wrapped() as client:
        assert client.works
    before = gateway.num_fds()
    yield
    assert person.status()["pid"] == gateway.pid
    # The store may have opened itself once more.
    until(lambda: gateway.num_fds() <= before + _OF_THE_STORE)
    with person.wrapped() as client:
        assert client.works


def answered(link):
    """What the gateway says before it closes; None where it says nothing."""
    link.settimeout(SECONDS)
    with link:
        answer = wire.receive(link, wire.Incoming())
        assert wire.receive(link, wire.Incoming()) is None, "it is closed then"
    return answer


RAW = {
    "nothing": b"",
    "half a length": b"\x00\x00",
    "a length without end": b"\xff\xff\xff\xff{}",
    "half a message": b"\x00\x00\x10\x00{",
    "no JSON": b"\x00\x00\x00\x04nope",
    "no object": b"\x00\x00\x00\x02[]",
    "depth": (60_000).to_bytes(4) + b"[" * 60_000,
    "not UTF-8": b"\x00\x00\x00\x02\xff\xfe",
}


@rows("name", list(RAW))
def test_what_is_no_message_is_turned_away(person, unharmed, name):
    link = person.link()
    link.sendall(RAW[name])
    link.shutdown(socket.SHUT_WR)
    answer = answered(link)
    assert answer is None or "refused" in answer


ORDERS = {
    "another protocol": ({"protocol": 2}, "do not understand"),
    "no protocol": ({"protocol": None}, "do not understand"),
    "an unknown wish": ({"do": "everything"}, "does not know"),
    "a name that is none": ({"name": "../../etc"}, "is not a server name"),
    "a name of another type": ({"name": 7}, "could not read"),
    "a command of another type": ({"command": "cat"}, "could not read"),
    "an environment of another type": ({"environ": [1]}, "could not read"),
    "nothing to wrap": ({"command": []}, "nothing to wrap"),
    "a command and an address": ({"url": "http://127.0.0.1:9/mcp"}, "a command and --url"),
    "an address that is none": ({"command": [], "url": "file:///etc/passwd"}, "is not an http"),
    "a variable that is not there": ({"command": [], "url_env": "NONESUCH"}, "is not set"),
}


@rows("name", list(ORDERS))
def test_an_order_that_cannot_be_is_refused_with_a_reason(person, unharmed, name):
    changed, reason = ORDERS[name]
    link = person.link()
    wire.send(link, person.order(**changed))
    answer = answered(link)
    assert reason in answer["refused"]
    assert answer["advice"]


def begun(person, **changed):
    link = person.link()
    wire.send(link, person.order(**changed))
    assert "start" in wire.receive(link, wire.Incoming())
    return link


def test_who_orders_and_hands_nothing_over_gets_no_further(person, unharmed):
    with begun(person) as link:
        wire.send(link, {"started": 1})
        assert "0 descriptors" in answered(link)["refused"]


@rows("name", ["too few", "too many", "a folder", "a file for the server", "wrong way round", "a device"])
def test_descriptors_that_are_no_pipes_are_refused(person, unharmed, tmp_path, name):
    with contextlib.ExitStack() as stack:

        def pipe():
            ends = os.pipe()
            for end in ends:
                stack.callback(os.close, end)
            return ends

        def opened(path, flags=os.O_RDWR):
            found = os.open(path, flags)
            stack.callback(os.close, found)
            return found

        (tmp_path / "file").write_text("kept")
        ins, outs = pipe(), pipe()
        fit = [ins[0], outs[1], pipe()[1], pipe()[0]]
        given = {
            "too few": fit[:3],
            "too many": [*fit, ins[0], ins[0]],
            "a folder": [*fit[:3], opened(tmp_path, os.O_RDONLY)],
            "a file for the server": [*fit[:2], opened(tmp_path / "file"), fit[3]],
            "wrong way round": [fit[1], fit[0], fit[2], fit[3]],
            "a device": [*fit[:2], opened("/dev/zero"), opened("/dev/zero")],
        }[name]
        link = begun(person)
        # It may be refused before the last byte has left.
        with contextlib.suppress(BrokenPipeError):
            wire.send(link, {"started": os.getpid()}, given)
        answer = answered(link)
        assert "descriptor" in answer["refused"] or "could not read" in answer["refused"]
        assert (tmp_path / "file").read_text() == "kept"


def test_a_file_that_nobody_reads_to_its_end_leaves_nothing_behind(person, unharmed, tmp_path):
    """A thread reads it, as the loop cannot wait for files: it has to end with the server, and with it its descriptor."""
    gateway = psutil.Process(person.status()["pid"])
    (tmp_path / "long").write_bytes(b"x" * 20_000_000)
    before = gateway.num_threads()
    for _ in range(4):
        with (tmp_path / "long").open("rb") as source:
            argv = person.argv("reader", ["sh", "-c", "exit 3"])
            assert subprocess.run(argv, stdin=source, stdout=subprocess.DEVNULL, check=False).returncode == 3
    until(lambda: gateway.num_threads() <= before)


def test_descriptors_that_nobody_asked_for_are_closed(person, unharmed):
    ends = os.pipe()
    try:
        link = person.link()
        wire.send(link, person.order(do="status"), list(ends))
        assert answered(link)["pid"]
    finally:
        for end in ends:
            os.close(end)


def test_a_process_that_is_not_its_own_is_not_ended(person, unharmed):
    """A forged `wrap` names a process of somebody else as its server, and goes away."""
    with person.wrapped() as client:
        other = client.call()["result"]["pid"]
        with begun(person) as link, contextlib.ExitStack() as stack:
            ends = [*os.pipe(), *os.pipe()]
            for end in ends:
                stack.callback(os.close, end)
            wire.send(link, {"started": other}, [ends[0], ends[1], ends[3], ends[2]])
            until(lambda: len(person.status()["servers"]) == 2)
            link.close()
            until(lambda: len(person.status()["servers"]) == 1)
        assert not gone(other)
        assert client.works


def test_a_name_of_another_server_gives_none_of_its_approvals(person, unharmed, tmp_path):
    """Another program under the name whose tools were approved."""
    stranger = tmp_path / "teller.py"
    stranger.write_text(Path(teller_argv(tmp_path)[3]).read_text() + "\n# another program\n")
    with person.wrapped("teller", [sys.executable, str(stranger), str(tmp_path)]) as other:
        assert other.call()["error"]["data"]["reason"] == "tool_not_approved"
        assert not [path for path in tmp_path.glob("received-*") if b'"tools/call"' in path.read_bytes()]


def test_many_connections_that_say_nothing_keep_nobody_out(person, unharmed):
    with contextlib.ExitStack() as stack:
        for _ in range(700):
            stack.enter_context(person.link())
        with person.wrapped() as client:
            assert client.works


@pytest.mark.verify
def test_many_orders_that_are_never_carried_out_keep_nobody_out(person, unharmed):
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(begun(person))
        with person.wrapped() as client:
            assert client.works

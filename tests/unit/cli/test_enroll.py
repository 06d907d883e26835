import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager

import pytest

from callgate.cli import run
from callgate.cli.common import operator
from callgate.cli.gateway import end, place_of
from callgate.errors import Reason, Refused
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.enrolling import enrol
from support.fork_server import CALLGATE
from support.gateway import serving
from support.registry import requirement
from support.table import rows
from support.terminal import Terminal


@pytest.fixture
def listening(here):
    """A port on which somebody listens, and one on which nobody does."""
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as other:
        free = other.getsockname()[1]
        other.close()
        yield taken.getsockname()[1], free


@requirement("VA-027")
def test_the_ticket_enrols_a_passkey_of_that_person_only(people):
    ticket = people.json("enroll", "alice")["ticket"]
    people("enroll", "bob")
    enrolled, _ = people.asks(lambda approvals: enrol(approvals, ticket))
    assert enrolled.user.name == "alice"
    assert [row["user"] for row in people.json("credentials", "list")] == ["alice"]
    with pytest.raises(Refused) as refused:
        people.asks(lambda approvals: enrol(approvals, ticket))
    assert refused.value.reason is Reason.ENROLMENT_NOT_AUTHORISED


def test_links_are_listed_and_cancelled(people):
    assert "No link can be used." in people("enroll", "--list").err
    tickets = {name: people.json("enroll", name)["ticket"] for name in ("alice", "bob")}
    listed = people.json("enroll", "--list")
    assert [(row["user"], row["purpose"], row["by"]) for row in listed] == [
        ("alice", "enrol", operator()),
        ("bob", "enrol", operator()),
    ]
    assert [row["user"] for row in people.json("enroll", "bob", "--list")] == ["bob"]
    shown = people("enroll", "--list").out
    assert listed[0]["id"][:8] in shown
    assert not any(ticket in shown for ticket in tickets.values())
    assert people("enroll", "--cancel", listed[0]["id"][:8]).out == "The link of alice is cancelled.\n"
    with pytest.raises(Refused) as refused:
        people.asks(lambda approvals: enrol(approvals, tickets["alice"]))
    assert refused.value.reason is Reason.ENROLMENT_NOT_AUTHORISED
    people.asks(lambda approvals: enrol(approvals, tickets["bob"]))
    assert people.json("enroll", "--list") == []


def test_it_prints_a_link_and_the_bare_ticket(people):
    said = people("enroll", "alice").out
    link = next(line.strip() for line in said.splitlines() if "/enrol#" in line)
    ticket = link.partition("#")[2]
    assert link == f"http://localhost:8420/enrol#{ticket}"
    assert said.splitlines().count(f"  {ticket}") == 1
    assert 'params._meta["dev.callgate/enrolment-ticket"]' in said
    enrolled, _ = people.asks(lambda approvals: enrol(approvals, ticket))
    assert enrolled.user.name == "alice"


def test_somebody_new_is_added_and_both_are_on_record_without_the_ticket(people, here):
    made = people.json("enroll", "alice", "--display-name", "Alice A.")
    assert (made["new"], made["display_name"]) == (True, "Alice A.")
    assert people.records() == [
        ("user.add", operator(), {"user": "alice", "role": "operator"}),
        ("ticket.issue", operator(), {"user": "alice", "purpose": "enrol"}),
    ]
    for path in here.rglob("*"):
        if path.is_file():
            assert made["ticket"].encode() not in path.read_bytes()


def test_somebody_new_is_told_apart_from_somebody_known(people):
    assert people("enroll", "alice").out.startswith("alice is new here and was added.\nalice opens this link")
    assert people("enroll", "alice").out.startswith("alice opens this link")
    assert people("enroll", "Alice").out.startswith("Alice is new here and was added. alice is somebody else.\n")


def test_somebody_known_keeps_their_name(people):
    people("users", "add", "alice", "--display-name", "Alice A.")
    said = people("enroll", "alice", "--display-name", "Mallory")
    assert "the name shown stays 'Alice A.'" in said.err
    assert people.json("users", "list")[0]["display_name"] == "Alice A."


def test_how_long_the_link_is_good_for(people, here):
    before = time.time() * 1000
    ends = people.json("enroll", "alice", "--minutes", "5")["expires_at"]
    assert before + 299_000 <= ends <= time.time() * 1000 + 300_000
    (here / "callgate.toml").write_text("[approval]\nticket_seconds = 120\n")
    ends = people.json("enroll", "alice")["expires_at"]
    assert before + 119_000 <= ends <= time.time() * 1000 + 120_000
    people("enroll", "alice", "--minutes", "0", code=2)


def test_a_link_to_a_console_of_another_address(people, here):
    (here / "callgate.toml").write_text(
        '[approval]\nenabled = true\nurl = "https://gate.example"\nrp_id = "gate.example"\n'
    )
    made = people.json("enroll", "alice")
    assert made["link"] == f"https://gate.example/enrol#{made['ticket']}"


def test_it_says_how_to_start_the_gateway_if_none_answers(people, here, listening):
    taken, free = listening
    config = here / "my gate.toml"
    config.write_text(f'[gateway]\nlisten = "127.0.0.1:{free}"\n[approval]\nenabled = true\n')
    said = people("enroll", "alice", "-c", str(config)).err
    assert f"Nothing answers at http://localhost:{free} yet" in said
    assert f"callgate serve -c '{config}'`" in said
    config.write_text(f'[gateway]\nlisten = "127.0.0.1:{taken}"\n[approval]\nenabled = true\n')
    assert people("enroll", "alice", "-c", str(config)).err == ""


def test_it_says_that_the_console_is_off(people, here):
    (here / "callgate.toml").write_text('[pinning]\nmode = "off"\n[trust]\nmode = "off"\n')
    assert "Write `enabled = true` under [approval]" in people("enroll", "alice", code=1).err
    assert people.json("users", "list") == []


def test_a_console_that_is_there_to_review_tools_is_not_called_off(people, here, listening):
    taken, _ = listening
    (here / "callgate.toml").write_text(f'[gateway]\nlisten = "127.0.0.1:{taken}"\n')
    assert people("enroll", "alice").err == ""


def test_a_gateway_on_any_free_port_has_no_link_yet(people, here):
    (here / "callgate.toml").write_text('[gateway]\nlisten = "127.0.0.1:0"\n[approval]\nenabled = true\n')
    assert people.json("enroll", "alice")["link"] is None
    said = people("enroll", "alice")
    assert "http://localhost:PORT/enrol#" in said.out
    assert "in the place of PORT" in said.err


def test_with_several_people_somebody_has_to_be_named(people, here):
    assert "people are here" not in people("enroll", "alice").err
    assert "2 people are here now" in people("enroll", "bob").err
    (here / "callgate.toml").write_text('[approval]\nuser = "bob"\n')
    assert "people are here" not in people("enroll", "bob").err


@rows("name", ["", "../x", "a" * 65, "ali\x1b[31mce", "a b"])
def test_a_name_that_is_none_is_refused(people, name):
    said = people("enroll", name, code=1)
    assert "1 to 64 letters" in said.err
    assert "\x1b[31m" not in said.err
    assert people("users", "list").out == ""


# -- the gateway that shows the page ---------------------------------------------------------------------------


@pytest.fixture
def shared(here):
    """A user whose gateway, if any is started, ends with the test."""
    yield here
    for config in (None, here / "callgate.toml"):
        end(place_of(config))


def enrolled(capsys):
    run(["credentials", "list", "--json"])
    return [row["user"] for row in json.loads(capsys.readouterr().out)]


def link_of(text):
    return next(line.strip() for line in text.splitlines() if "/enrol#" in line).partition("/enrol#")


def test_the_link_opens_at_the_gateway_that_is_started_for_it(shared, capsys):
    (shared / "callgate.toml").write_text('[gateway]\nlisten = "127.0.0.1:0"\n')
    assert run(["enroll", "alice"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    origin, _, ticket = link_of(said.out)
    make_passkey(origin, ticket)
    assert enrolled(capsys) == ["alice"]
    assert run(["status", "-c", "callgate.toml"]) == 0
    assert f"Console: {origin}\n" in capsys.readouterr().out
    assert run(["enroll", "bob", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["link"].startswith(f"{origin}/enrol#")


def test_a_gateway_that_serves_shows_the_page_itself(shared, capsys):
    server = {"command": [sys.executable, "-c", "0"]}
    with serving(shared, {"files": server}, reviewed=False) as gateway:
        port = gateway.address.rpartition(":")[2]
        text = (shared / "callgate.toml").read_text()
        (shared / "callgate.toml").write_text(text.replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        assert run(["enroll", "alice"]) == 0
        origin, _, ticket = link_of(capsys.readouterr().out)
        assert origin == f"http://localhost:{port}"
        make_passkey(origin, ticket)
    assert run(["status", "-c", "callgate.toml"]) == 1


def test_on_a_terminal_it_waits_for_the_passkey(shared, capsys):
    with Terminal([CALLGATE, "enroll", "alice"]) as screen:
        origin, _, ticket = link_of(screen.expect("Ctrl-C leaves the link valid."))
        make_passkey(origin, ticket)
        screen.expect("alice's passkey 'my key' is enrolled: security key.")
        assert screen.end() == 0
    assert "enrolment-ticket" not in screen.text
    with Terminal([CALLGATE, "enroll", "bob"]) as screen:
        origin, _, ticket = link_of(screen.expect("Ctrl-C leaves the link valid."))
        assert screen.interrupt() == 130
        screen.expect("The link stays valid until")
    make_passkey(origin, ticket)
    assert enrolled(capsys) == ["alice", "bob"]


def test_on_a_desktop_the_page_opens_by_itself(shared):
    """With a browser that keeps what it was to show."""
    shown = shared / "shown"
    (shared / "browser").write_text(f'#!/bin/sh\necho "$1" > {shown}.new && mv {shown}.new {shown}\n')
    (shared / "browser").chmod(0o755)
    desktop = {"DISPLAY": ":1", "BROWSER": str(shared / "browser")}
    with Terminal([CALLGATE, "enroll", "alice"], env=desktop) as screen:
        said = screen.expect("Your browser opens it.")
        while not shown.exists():
            time.sleep(0.02)
        assert shown.read_text() == "".join(link_of(said)) + "\n"
        screen.expect("Ctrl-C leaves the link valid.")
    shown.unlink()
    for words, more in ((["--no-open"], {}), ([], {"SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"})):
        with Terminal([CALLGATE, "enroll", "alice", *words], env=desktop | more, columns=200) as screen:
            said = screen.expect("Ctrl-C leaves the link valid.")
            assert "opens it" not in said
            assert ("ssh -L " in said) == bool(more)
    assert not shown.exists()


# -- a page of its own -----------------------------------------------------------------------------------------


@contextmanager
def page(url, *words):
    """`callgate enroll alice --here` in a process of its own, ended in the end."""
    command = [sys.executable, "-m", "callgate", "enroll", "alice", "--here", *words, "--store", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        patience = threading.Timer(60, process.kill)
        patience.start()
        try:
            yield process
        finally:
            process.kill()
            patience.cancel()


def make_passkey(origin, ticket):
    begun = post(origin, "/enrol/begin", {"ticket": ticket})
    answer = SoftwareAuthenticator(origin).create(begun["options"])
    return post(origin, "/enrol/finish", {"response": answer, "name": "my key"})["codes"]


def test_a_page_of_its_own_where_no_gateway_runs(people):
    """The link, the page behind it, and the end when the passkey is there and its person has gone on."""
    with page(people.url, "--json") as command:
        made = json.loads(b"".join(until(command.stdout, b"}\n")))
        origin = made["link"].partition("/enrol#")[0]
        codes = make_passkey(origin, made["ticket"])
        # The codes are on the page: it stays.
        assert b"is enrolled" in command.stderr.readline()
        assert b"approves every call that Callgate asks alice about." in command.stderr.readline()
        assert b"Ctrl-C stops it" in command.stderr.readline()
        with urllib.request.urlopen(f"{origin}/recover", timeout=30) as other:
            assert other.status == 200
        assert command.poll() is None
        with urllib.request.urlopen(f"{origin}/", timeout=30) as home:
            assert home.status == 200
        command.communicate(timeout=60)
    assert command.returncode == 0
    assert len(codes) == 8
    assert [row["name"] for row in people.json("credentials", "list")] == ["my key"]


def test_the_page_can_be_stopped_once_the_passkey_is_there(people):
    with page(people.url) as command:
        said = b"".join(until(command.stdout, b"\n", 2)).decode()
        link = next(line.strip() for line in said.splitlines() if "/enrol#" in line)
        assert said.startswith("alice is new here and was added.\n")
        assert b"Ctrl-C stops it" in command.stderr.readline()
        origin, _, ticket = link.partition("/enrol#")
        make_passkey(origin, ticket)
        assert b"alice's passkey 'my key' is enrolled: security key." in command.stderr.readline()
        command.send_signal(signal.SIGINT)
        out, _ = command.communicate(timeout=60)
    assert command.returncode == 0
    assert b"enrolment-ticket" not in out


def test_the_page_stopped_before_it_is_done(people):
    with page(people.url) as command:
        assert b"Ctrl-C stops it" in command.stderr.readline()
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=60)
    assert command.returncode == 130
    assert people.json("credentials", "list") == []


def until(lines, last, times=1):
    for line in lines:
        yield line
        times -= line == last
        if not times:
            return


def post(origin, path, body):
    headers = {"Content-Type": "application/json", "Origin": origin}
    request = urllib.request.Request(origin + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_a_page_of_its_own_makes_passkeys_for_this_machine_only(people, here):
    (here / "callgate.toml").write_text('[approval]\nrp_id = "gate.example"\nurl = "https://gate.example"\n')
    assert "gate.example" in people("enroll", "alice", "--here", code=1).err
    assert people.json("users", "list") == []

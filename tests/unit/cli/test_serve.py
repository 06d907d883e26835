import getpass

import pytest

from callgate.cli.serve import first_name, first_ticket, set_up
from callgate.config import Config, load, parse
from support.enrolling import enrol, service
from support.memory import MemoryShelf
from support.table import rows


async def test_the_first_person_gets_a_set_up_ticket():
    approvals = service(MemoryShelf())
    ticket = await first_ticket(approvals, "alice")
    found = await approvals.look_at_ticket(ticket)
    assert (found.user, found.purpose) == ("alice", "setup")
    enrolled, _ = await enrol(approvals, ticket)
    assert enrolled.user.name == "alice"


async def test_the_ticket_is_offered_again_until_there_is_a_passkey():
    approvals = service(MemoryShelf())
    await first_ticket(approvals, "alice")
    again = await first_ticket(approvals, "alice")
    enrolled, _ = await enrol(approvals, again)
    assert await first_ticket(approvals, "alice") is None
    await approvals.revoke(enrolled.credential.id, by="operator")
    assert await first_ticket(approvals, "alice") is None


async def test_where_somebody_else_is_known_nobody_gets_a_ticket():
    approvals = service(MemoryShelf())
    await approvals.add_user("bob", by="operator")
    assert await first_ticket(approvals, "alice") is None
    assert [user.name for user in await approvals.shelf.users()] == ["bob"]


def test_a_gateway_greets_the_first_person(people, here, capsys):
    (here / "callgate.toml").write_text(f'[store]\nurl = "{people.url}"\n[approval]\nenabled = true\nuser = "alice"\n')
    set_up(None, load(), terminal=True)("http://127.0.0.1:8420")
    said = capsys.readouterr().out
    link = next(line.strip() for line in said.splitlines() if "#" in line)
    assert link.startswith("http://localhost:8420/enrol#")
    assert people.records()[-1][2] == {"user": "alice", "purpose": "setup"}
    people.asks(lambda approvals: enrol(approvals, link.partition("#")[2]))
    set_up(None, load(), terminal=True)("http://127.0.0.1:8420")
    assert capsys.readouterr().out == ""


def test_the_greeting_names_the_port_that_was_taken(people, here, capsys):
    text = f'[gateway]\nlisten = "127.0.0.1:0"\n[store]\nurl = "{people.url}"\n[approval]\nenabled = true\n'
    (here / "callgate.toml").write_text(text)
    set_up(None, load(), terminal=True)("http://127.0.0.1:4567")
    assert "  http://localhost:4567/enrol#" in capsys.readouterr().out


def test_where_nothing_needs_a_person_nobody_is_greeted_and_nothing_is_made(here, capsys):
    (here / "callgate.toml").write_text('[pinning]\nmode = "off"\n[trust]\nmode = "off"\n')
    set_up(None, load(), terminal=True)("http://127.0.0.1:8420")
    assert capsys.readouterr().out == ""
    assert [path.name for path in here.iterdir()] == ["callgate.toml"]


def test_without_approval_there_is_a_console_all_the_same_for_tools_to_be_reviewed_on(people, here, capsys):
    (here / "callgate.toml").write_text(f'[store]\nurl = "{people.url}"\n[trust]\nmode = "off"\n')
    set_up(None, load(), terminal=True)("http://127.0.0.1:8420")
    said = capsys.readouterr().out
    assert "`callgate review`" in said
    assert "  http://localhost:8420/enrol#" in said
    assert "approve calls" not in said


def test_what_is_not_a_terminal_gets_no_link(people, here, capsys):
    (here / "callgate.toml").write_text(f'[store]\nurl = "{people.url}"\n[approval]\nenabled = true\nuser = "ann"\n')
    set_up(None, load())("http://127.0.0.1:8420")
    said = capsys.readouterr().out
    assert "enrol#" not in said
    assert "`callgate enroll ann`" in said


@rows(
    ("login", "name"),
    [("alice", "alice"), ("DOMAIN\\alice", "DOMAIN-alice"), ("_svc", "svc"), ("", "operator"), ("a" * 80, "a" * 64)],
)
def test_who_is_set_up_first(monkeypatch, login, name):
    monkeypatch.setattr(getpass, "getuser", lambda: login)
    assert first_name(Config()) == name
    assert first_name(parse('[approval]\nuser = "bob"\n')) == "bob"


def test_without_a_login_somebody_is_set_up_all_the_same(monkeypatch):
    def nobody():
        raise KeyError("uid 1234")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert first_name(Config()) == "operator"


@pytest.fixture
def greeting(people, here, capsys):
    """What is printed at the start of a gateway with this configuration."""

    def greet(text, terminal=False):
        (here / "callgate.toml").write_text(f'[store]\nurl = "{people.url}"\n{text}')
        capsys.readouterr()
        set_up(None, load(), terminal=terminal)("http://127.0.0.1:8420")
        return capsys.readouterr().out

    return greet


ASKED = '[approval]\nenabled = true\nuser = "{}"\n'


@pytest.mark.parametrize("terminal", [True, False])
def test_who_is_asked_and_has_no_passkey_is_told_at_the_start(people, greeting, terminal):
    made, _ = people.enrolled("bob")
    people("users", "add", "alice")
    said = greeting(ASKED.format("alice"), terminal)
    assert said == (
        "alice is asked to approve calls and has no passkey. "
        "Type `callgate enroll alice` and open the link that it prints.\n"
    )
    people.enrolled("alice")
    assert greeting(ASKED.format("alice"), terminal) == ""
    people("credentials", "revoke", made.credential.id, "--yes")
    assert "bob is asked to approve calls and has no passkey" in greeting(ASKED.format("bob"), terminal)


@rows("terminal", [True, False])
def test_a_person_who_is_not_known_is_told_at_the_start(people, greeting, terminal):
    people.enrolled("alice")
    said = greeting(ASKED.format("Alice"), terminal)
    assert "Alice is asked to approve calls and is not known here (people here: alice)" in said
    assert "`callgate enroll Alice`" in said
    assert [row["name"] for row in people.json("users", "list")] == ["alice"]


def test_whom_a_server_asks_is_looked_at_too(people, greeting):
    people.enrolled("alice")
    server = '[servers.{}]\nurl = "https://tools.example/mcp"\napproval = {{ user = "{}" }}\n'
    text = ASKED.format("alice") + server.format("one", "bob") + server.format("two", "alice")
    assert greeting(text).startswith("bob is asked to approve calls and is not known here")
    people.enrolled("bob")
    assert greeting(text) == ""


def test_the_only_person_needs_a_passkey_and_several_need_to_be_told_apart(people, greeting):
    people("users", "add", "alice")
    assert "alice is asked to approve calls and has no passkey" in greeting("[approval]\nenabled = true\n")
    people.enrolled("alice")
    assert greeting("[approval]\nenabled = true\n") == ""
    people.enrolled("bob")
    said = greeting("[approval]\nenabled = true\n")
    assert "write who is asked as `user` under [approval] in callgate.toml, one of alice, bob." in said


def test_a_person_whom_the_only_server_names_is_set_up_first():
    text = '[servers.a]\nurl = "https://tools.example/mcp"\napproval = { user = "carol" }\n'
    assert first_name(parse(text)) == "carol"

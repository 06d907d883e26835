import getpass

import pytest

from callgate.approval.memory import MemoryShelf
from callgate.cli.people import first_link, first_name, moment, pick, plain, set_up, short
from callgate.config import Config, load, parse
from callgate.errors import CallgateError
from support.enrolling import enrol, service


async def test_the_first_person_gets_a_set_up_link():
    approvals = service(MemoryShelf())
    link = await first_link(approvals, "http://localhost:8420", "alice")
    address, _, ticket = link.partition("#")
    assert address == "http://localhost:8420/enrol"
    found = await approvals.look_at_ticket(ticket)
    assert (found.user, found.purpose) == ("alice", "setup")
    enrolled, _ = await enrol(approvals, ticket)
    assert enrolled.user.name == "alice"


async def test_the_link_is_offered_again_until_there_is_a_passkey():
    approvals = service(MemoryShelf())
    await first_link(approvals, "http://localhost:8420", "alice")
    again = await first_link(approvals, "http://localhost:8420", "alice")
    enrolled, _ = await enrol(approvals, again.partition("#")[2])
    assert await first_link(approvals, "http://localhost:8420", "alice") is None
    await approvals.revoke(enrolled.credential.id, by="operator")
    assert await first_link(approvals, "http://localhost:8420", "alice") is None


async def test_where_somebody_else_is_known_nobody_gets_a_link():
    approvals = service(MemoryShelf())
    await approvals.add_user("bob", by="operator")
    assert await first_link(approvals, "http://localhost:8420", "alice") is None
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


def test_without_approval_nobody_is_greeted_and_nothing_is_made(here, capsys):
    set_up(None, load(), terminal=True)("http://127.0.0.1:8420")
    assert capsys.readouterr().out == ""
    assert list(here.iterdir()) == []


def test_what_is_not_a_terminal_gets_no_link(people, here, capsys):
    (here / "callgate.toml").write_text(f'[store]\nurl = "{people.url}"\n[approval]\nenabled = true\nuser = "ann"\n')
    set_up(None, load())("http://127.0.0.1:8420")
    said = capsys.readouterr().out
    assert "enrol#" not in said
    assert "`callgate enroll ann`" in said


@pytest.mark.parametrize(
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


def test_short_ids_are_as_long_as_they_have_to_be():
    one, two, other = "A" * 14 + "1", "A" * 14 + "2", "-B" * 10
    shown = short([one, two, other])
    assert shown == {one: one, two: two, other: other[1:11]}
    for full, beginning in shown.items():
        assert pick([one, two, other], beginning, "thing", "") == full
    assert short(["AAAA", "AAAAB"]) == {"AAAA": "AAAA", "AAAAB": "AAAAB"}


def test_a_whole_id_wins_over_one_that_it_begins():
    assert pick(["AAAA", "AAAAB"], "AAAA", "thing", "") == "AAAA"
    with pytest.raises(CallgateError, match="there is no thing ''"):
        pick(["AAAA"], "", "thing", "advice")
    with pytest.raises(CallgateError, match="more than one thing: AAAAB, AAAAC"):
        pick(["AAAAB", "AAAAC"], "AAA", "thing", "advice")


def test_texts_of_others_stay_on_their_line():
    assert plain("a\nb\x1b[31m\u202e") == "a\ufffdb\ufffd[31m\ufffd"
    assert plain("x" * 200) == "x" * 120 + "…"
    assert moment(None) == "-"

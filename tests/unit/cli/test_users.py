import io
import sys

import pytest

from callgate.cli.common import operator
from callgate.errors import Reason, Refused
from support.enrolling import GATED, approve


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def typing(monkeypatch):
    """Somebody at the terminal."""
    return lambda text: monkeypatch.setattr(sys, "stdin", Terminal(text))


def test_a_store_that_is_not_there_is_not_made(nobody, here):
    if nobody.url.startswith("sqlite"):
        assert "there is no store" in nobody("users", "list", code=1).err
        assert not (here / "state" / "store.db").exists()
    else:
        assert "callgate store upgrade" in nobody("users", "list", code=1).err


def test_a_list_for_people_and_for_machines(people):
    people("users", "add", "bob", "--display-name", "Bob [red]B.\x1b[31m")
    enrolled, _ = people.enrolled()
    lines = people("users", "list").out.splitlines()
    assert lines[0].split() == [
        *("user", "name", "role", "groups", "passkeys", "recovery", "codes", "waiting", "created", "last", "approved"),
    ]
    assert lines[1].split()[:6] == ["alice", "alice", "approver", "-", "1", "8"]
    assert lines[2].split()[:2] == ["bob", "Bob"]
    assert "[red]B." in lines[2]
    assert "\x1b[31m" not in lines[2]
    alice, bob = people.json("users", "list")
    assert (alice["name"], alice["passkeys"], alice["recovery_codes"]) == ("alice", 1, 8)
    assert alice["created_at"] == enrolled.user.created_at
    assert (bob["name"], bob["passkeys"], bob["recovery_codes"]) == ("bob", 0, 0)


def test_when_somebody_approved_last_is_shown(people):
    _, key = people.enrolled()
    assert people.json("users", "list")[0]["last_used_at"] is None

    async def use(approvals):
        verified = await approve(approvals, key, {"name": "x"})
        await approvals.shelf.use(verified.use)
        return verified.use.at

    used = people.asks(use)
    assert people.json("users", "list")[0]["last_used_at"] == used


def test_waiting_calls_are_counted_until_they_end(people):
    people.enrolled()

    async def ask(approvals):
        await approvals.ask(GATED, {"name": "x"}, b'{"name":"x"}', "alice", caller="c", agent={})

    people.asks(ask)
    people.asks(ask, clock=lambda: 1.0)
    assert people.json("users", "list")[0]["waiting"] == 1


def test_a_name_is_taken_once(people):
    said = people("users", "add", "alice").out
    assert "`callgate enroll alice`" in said
    assert "already" in people("users", "add", "alice", code=1).err
    assert people.records() == [("user.add", operator(), {"user": "alice", "role": "operator"})]


def test_removing_takes_everything_and_is_on_record(people):
    _, key = people.enrolled()
    said = people("users", "remove", "alice", "--yes").out
    assert said.startswith("alice is removed")
    assert people.json("users", "list") == []
    assert people.json("credentials", "list", "--all") == []
    assert people.records()[-1] == ("user.remove", operator(), {"user": "alice", "passkeys": 1})
    with pytest.raises(Refused) as refused:
        people.asks(lambda approvals: approve(approvals, key, {"name": "x"}))
    assert refused.value.reason is Reason.NO_ELIGIBLE_CREDENTIAL


def test_removing_is_asked_about(people, typing):
    people.enrolled()
    said = people("users", "remove", "alice", code=1)
    assert "nobody is here to be asked" in said.err
    assert "--yes" in said.err
    typing("n\n")
    assert "Remove alice with 1 passkey, for good?" in people("users", "remove", "alice", code=1).out
    assert len(people.json("users", "list")) == 1
    typing("y\n")
    people("users", "remove", "alice")
    assert people.json("users", "list") == []


def test_nobody_of_that_name(people):
    people("users", "add", "alice")
    assert "there is no user 'bob'" in people("users", "remove", "bob", "--yes", code=1).err
    assert len(people.records()) == 1


def test_the_first_person_runs_the_place_and_later_ones_approve(people):
    assert "alice is added as operator" in people("users", "add", "alice").out
    assert "bob is added as approver" in people("users", "add", "bob").out
    assert "carol is added as viewer" in people("users", "add", "carol", "--role", "viewer").out
    assert {row["name"]: row["role"] for row in people.json("users", "list")} == {
        "alice": "operator",
        "bob": "approver",
        "carol": "viewer",
    }


def test_a_role_is_changed_and_on_record(people):
    people("users", "add", "alice")
    people("users", "add", "bob")
    assert "bob is operator from now on" in people("users", "role", "bob", "operator").out
    detail = {"user": "bob", "role": "operator", "before": "approver"}
    assert people.records()[-1] == ("user.role", operator(), detail)
    assert "there is no user 'carol'" in people("users", "role", "carol", "viewer", code=1).err
    people("users", "role", "bob", "king", code=2)


def test_somebody_stays_who_may_change_things(people):
    people("users", "add", "alice")
    people("users", "add", "bob")
    before = people.records()
    for words in (("role", "alice", "approver"), ("remove", "alice", "--yes")):
        said = people("users", *words, code=1).err
        assert "Nobody would be left who may change anything" in said
        assert "callgate users role NAME operator" in said
    assert people.records() == before
    people("users", "role", "bob", "operator")
    people("users", "remove", "alice", "--yes")
    # Where nobody is left, whoever comes next runs the place again.
    people("users", "remove", "bob", "--yes")
    assert "carol is added as operator" in people("users", "add", "carol").out


def test_groups_are_made_listed_and_left(people):
    assert "There is no group yet" in people("groups", "list").err
    people("users", "add", "alice")
    people("users", "add", "bob")
    assert people("groups", "add", "ops", "alice", "bob").out == (
        "alice is in ops from now on.\nbob is in ops from now on.\n"
    )
    assert people("groups", "add", "ops", "bob").out == "bob is in ops already.\n"
    assert people.json("groups", "list") == {"ops": ["alice", "bob"]}
    assert people("groups", "list").out.split() == ["group", "people", "ops", "alice,", "bob"]
    assert people("groups", "remove", "ops", "bob").out == "bob is no longer in ops.\n"
    assert people("groups", "remove", "ops", "bob").out == "bob is not in ops.\n"
    assert "no user" in people("groups", "add", "ops", "nobody", code=1).err
    assert "a group's name" in people("groups", "add", "Ops Team", "alice", code=1).err

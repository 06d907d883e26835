"""A verified caller counts wherever it was the machine's address before: sessions of trust, approvals, records, facts."""

import os

import msgspec

from callgate.gate import Caller, Context
from callgate.pinning.toolsets import caller as line_of
from callgate.pipeline.context import agent_of, caller_of, whom
from callgate.trust.session_cache import ClientOrigin, SessionNaming, started_by
from callgate.trust.stage import agent_facts
from support.table import rows

ALICE = Caller("alice", "web-bot-auth", "key-a", "https://a.example", digest_verified=True, principal="carol")
BOB = Caller("bob", "api-key", "key-b")


def context(caller=None, **parts):
    given = {"server": "one", "transport": "http", "session": None, "protocol": None, "peer": "10.0.0.1", **parts}
    return Context(**given, caller=caller)


def key(*args, meta=None, by_agent=True, **parts):
    return SessionNaming(by_agent=by_agent, origin=ClientOrigin()).name(context(*args, **parts), meta or {}).key


def test_a_session_of_trust_is_the_agents_wherever_it_calls_from():
    assert key(ALICE) == key(ALICE, peer="10.0.0.2") == key(ALICE, session="s1") == key(ALICE, server="two")
    assert key(ALICE) != key(BOB)
    assert key(ALICE) != key()
    assert key() != key(peer="10.0.0.2")


def test_clients_that_cannot_be_told_apart_share_nothing():
    """As those of another container, whose processes are not seen from here: what they have read is not known either."""

    def name(parent, session):
        given = context(transport="stdio", session=session)
        return SessionNaming(by_agent=True, origin=started_by(parent, {})).name(given, {})

    assert name(0, "one").key != name(0, "two").key
    assert name(0, "one").unmet
    assert name(os.getppid(), "one") == name(os.getppid(), "two")
    assert not name(os.getppid(), "one").unmet


def test_an_id_that_another_agent_gives_names_another_session():
    meta = {"dev.callgate/session": "s"}
    assert key(ALICE, meta=meta) != key(BOB, meta=meta)
    assert key(ALICE, meta=meta) == key(ALICE, meta=meta, peer="10.0.0.2")


def test_names_that_are_worked_out_once_are_not_mixed_up():
    naming = SessionNaming(by_agent=True, origin=ClientOrigin())
    names = [naming.name(context(caller), {}).key for caller in (None, ALICE, BOB, ALICE, None)]
    assert names[0] == names[4]
    assert names[1] == names[3]
    assert len(set(names)) == 3


def test_an_agent_is_one_whatever_it_proves_itself_by_and_never_a_machine():
    assert whom(context(ALICE)) == whom(context(Caller("alice", "api-key")))
    assert key(ALICE) == key(Caller("alice", "api-key"))
    assert whom(context(Caller("10.0.0.1", "oauth"))) != whom(context())
    assert key(Caller("10.0.0.1", "oauth")) != key()


def test_an_approval_is_for_the_agent_in_its_session():
    assert caller_of(context(ALICE, session="s")) != caller_of(context(BOB, session="s"))
    assert caller_of(context(ALICE, session="s")) != caller_of(context(session="s"))
    assert caller_of(context(ALICE)) == caller_of(context(ALICE, peer="10.0.0.2"))
    # Who has read the id of a session and calls from elsewhere is somebody else.
    assert caller_of(context(session="s")) != caller_of(context(session="s", peer="10.0.0.2"))
    assert caller_of(context(session="s")) != caller_of(context())
    assert caller_of(context()) == caller_of(context())


def test_people_and_records_are_told_what_was_verified():
    told = agent_of(context(ALICE))
    assert told == {
        "agent": "alice",
        "proved by": "web-bot-auth",
        "key": "key-a",
        "directory": "https://a.example",
        "on behalf of": "carol",
        "body signed": "yes",
        "transport": "http",
        "peer": "10.0.0.1",
        "usable by": "this agent, wherever it makes the same call",
    }
    assert agent_of(context(msgspec.structs.replace(ALICE, digest_verified=False)))["body signed"] == "no"
    assert "body signed" not in agent_of(context(BOB))
    assert "agent" not in agent_of(context())


@rows(
    ("given", "facts"),
    [
        (context(), {"id": "10.0.0.1", "source": "none", "transport": "http"}),
        (context(transport="stdio"), {"id": "stdio", "source": "local", "transport": "stdio"}),
        (context(BOB), {"id": "bob", "source": "api-key", "transport": "http", "key": "key-b"}),
        (
            context(ALICE),
            {
                "id": "alice",
                "source": "web-bot-auth",
                "transport": "http",
                "key": "key-a",
                "directory": "https://a.example",
                "principal": "carol",
            },
        ),
    ],
)
def test_policy_sees_who_calls_and_how_that_was_proved(given, facts):
    name, client = SessionNaming(by_agent=True, origin=ClientOrigin()).met(given, {})
    assert {key: value for key, value in agent_facts(given, name, client).items() if value} == facts


def test_a_list_of_tools_is_remembered_for_each_agent_not_for_each_signature():
    first = {
        b"host": b"x",
        b"signature": b"1",
        b"signature-input": b"1",
        b"content-digest": b"1",
        b"kyapay-token": b"1",
    }
    second = dict.fromkeys(first, b"2")
    assert line_of(first, credentials=False, agent="alice") == line_of(second, credentials=False, agent="alice")
    assert line_of(first, credentials=False, agent="alice") != line_of(first, credentials=False, agent="bob")
    assert line_of(first, credentials=False) == line_of({b"host": b"x"}, credentials=False) == ""

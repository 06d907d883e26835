"""`approval/challenge/create` of a server with verified approval: who may sign, for what, and how much at once."""

import asyncio
from datetime import datetime

import pytest
from mcp.server import MCPServer

from callgate import VerifiedApproval
from callgate.approval import ApprovalBounds, ApprovalSettings
from callgate.protocol import CHALLENGE_CREATE
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.approval_peer import ERAS, Failed, HttpPeer, refusal, signed, text_of
from support.approval_server import Clock, listening, running
from support.memory import MemoryShelf
from support.registry import requirement
from support.table import rows

NOTHING = (-32001, "no_eligible_credential")
NOT_GATED = (-32001, "tool_not_approved_required")


@pytest.fixture(scope="module")
def library():
    with running() as server:
        yield server


def listed(challenge):
    return [tuple(one["transports"]) for one in challenge["requestOptions"]["allowCredentials"]]


def create(peer, tool, **members):
    return peer.ask(CHALLENGE_CREATE, {"toolName": tool} | members)


@rows("era", ERAS)
@requirement("VA-052", "VA-152")
def test_a_tool_that_is_not_gated_or_not_there(library, era):
    peer = library.join(f"plain-{era}", era).peer
    assert refusal(create(peer, "read_page", arguments={"url": "x"})) == NOT_GATED
    assert refusal(create(peer, "nobody", arguments={})) == NOT_GATED
    assert refusal(create(peer, "", arguments={}))[0] == -32602
    for name in (None, 5, ["wipe"], {"name": "wipe"}):
        assert refusal(create(peer, name))[0] == -32602
    assert refusal(peer.ask(CHALLENGE_CREATE))[0] == -32602


@rows("era", ERAS)
@requirement("VA-053")
def test_arguments_that_break_the_schema_open_nothing(library, era):
    person = library.join(f"schema-{era}", era)
    before = library.shelf.rows("challenge")
    for arguments in ({}, {"resourceId": 5}, {"resourceId": None}, {"resource": "abc"}):
        answer = create(person.peer, "delete_resource", arguments=arguments)
        assert refusal(answer) == (-32602, "arguments_invalid")
    assert library.shelf.rows("challenge") == before


@rows("era", ERAS)
@requirement("VA-048", "VA-075")
def test_no_arguments_are_an_empty_object(library, era):
    person = library.join(f"empty-{era}", era)
    for asked, sent in ((None, {}), ({}, None), (None, None)):
        evidence = person.signs(person.challenge("wipe", asked))
        assert text_of(person.call("wipe", sent, evidence)) == "wiped"
    for arguments in (None, [], "x", 5, True):
        assert refusal(create(person.peer, "wipe", arguments=arguments))[0] == -32602
        asked = {"name": "wipe", "arguments": arguments}
        assert person.peer.ask("tools/call", asked)["error"]["code"] == -32602


@requirement("VA-060")
def test_each_person_is_asked_for_their_own_passkeys(library):
    ids = []
    for name in ("carol", "dave"):
        person = library.join(name)
        person.peer.enrol(library.ticket(name))
        ids.append({one["id"] for one in person.challenge("wipe")["requestOptions"]["allowCredentials"]})
    assert [len(one) for one in ids] == [2, 2]
    assert not ids[0] & ids[1]


class TestClasses:
    """SEP-2672 §4.7."""

    @pytest.fixture(scope="class")
    @classmethod
    def peer(cls, library):
        peer = library.peer("classes")
        for transports in [("internal",), ("usb",), ("nfc",), ("ble",), ("hybrid",), ("hybrid", "internal"), ()]:
            peer.enrol(library.ticket("classes"), SoftwareAuthenticator(transports=transports))
        return peer

    @requirement("VA-007", "VA-095", "VA-096", "VA-097", "VA-098")
    def test_cross_platform_which_is_the_default(self, peer):
        expected = [("usb",), ("nfc",), ("ble",), ("hybrid",), ("hybrid", "internal")]
        assert sorted(listed(peer.challenge("wipe"))) == sorted(expected)

    @requirement("VA-099")
    def test_platform_takes_any(self, peer):
        found = listed(peer.challenge("keep", {"value": 1}))
        assert len(found) == 7
        assert {("internal",), ()} <= set(found)


@rows("era", ERAS)
@requirement("VA-153", "VA-007")
def test_nobody_who_could_sign(library, era):
    peer = library.peer(f"internal-{era}", era)
    assert refusal(create(peer, "wipe")) == NOTHING
    peer.enrol(library.ticket(f"internal-{era}"), SoftwareAuthenticator(transports=("internal",)))
    assert refusal(create(peer, "wipe")) == NOTHING
    assert "result" in create(peer, "keep", arguments={"value": 1})


@requirement("VA-175")
def test_a_tool_may_want_passkeys_that_count():
    approval = VerifiedApproval(store=MemoryShelf(), user="alice")
    mcp = MCPServer("counting", extensions=[approval], log_level="ERROR")

    @approval.tool(mcp, require_counter=True)
    def pay() -> str:
        return "paid"

    with listening(approval.http_app(mcp)) as url:
        peer = HttpPeer(url)

        def enrol(**options):
            allowed = asyncio.run(approval.approvals.ticket("alice", by="operator"))
            return peer.enrol(allowed, SoftwareAuthenticator(**options))

        enrol(counting=False)
        assert refusal(create(peer, "pay")) == NOTHING
        key = enrol(counting=True)
        challenge = peer.challenge("pay")
        assert len(challenge["requestOptions"]["allowCredentials"]) == 1
        assert text_of(peer.call("pay", None, signed(challenge, key))) == "paid"


@requirement("VA-178")
def test_only_so_many_questions_are_open_at_once():
    clock = Clock()
    with running(clock=clock, settings=ApprovalSettings(bounds=ApprovalBounds(per_user=3, in_all=5))) as server:
        alice, bob = server.join("alice"), server.join("bob")
        first = [alice.challenge("wipe") for _ in range(3)]
        answer = create(alice.peer, "wipe")
        assert refusal(answer) == (-31429, "approval_limit")
        # One is used: there is room again.
        assert text_of(alice.call("wipe", None, alice.signs(first[0]))) == "wiped"
        alice.challenge("wipe")
        assert refusal(create(alice.peer, "wipe"))[1] == "approval_limit"
        # All together, over people.
        bob.challenge("wipe")
        bob.challenge("wipe")
        assert refusal(create(bob.peer, "wipe"))[1] == "approval_limit"
        # They run out: there is room again.
        clock.now += 60_000
        bob.challenge("wipe")


@requirement("VA-058", "VA-059")
@rows(("settings", "expected"), [(None, 60_000), (ApprovalSettings(challenge_ms=5_000), 5_000)])
def test_how_long_a_challenge_lives(settings, expected):
    clock = Clock()
    with running(clock=clock, settings=settings) as server:
        challenge = server.join().challenge("wipe")
        ends = datetime.fromisoformat(challenge["expiresAt"])
        assert round(ends.timestamp() * 1000) - clock.now == expected
        assert challenge["requestOptions"]["timeout"] == expected


def test_several_people_and_nobody_named_means_nobody_is_asked(caplog):
    with running(user=None) as server:
        peer = server.peer()
        peer.enrol(server.ticket("alice"))
        assert "challengeId" in peer.challenge("wipe")
        peer.enrol(server.ticket("bob"))
        assert refusal(create(peer, "wipe")) == NOTHING
    assert "say who approves" in caplog.text


def test_a_describe_function_that_breaks_refuses_and_tells_only_the_log(caplog):
    approval = VerifiedApproval(store=MemoryShelf(), user="alice")
    mcp = MCPServer("broken", extensions=[approval], log_level="ERROR")

    @approval.tool(mcp, describe=lambda call: call["secret 4711"])
    def pay() -> str:
        return "paid"

    with listening(approval.http_app(mcp)) as url:
        peer = HttpPeer(url)
        peer.enrol(asyncio.run(approval.approvals.ticket("alice", by="operator")))
        with pytest.raises(Failed) as caught:
            peer.challenge("pay")
        assert refusal(caught.value.answer)[1] == "check_failed"
        assert "4711" not in str(caught.value)
    assert "the describe function of pay failed" in caplog.text
    assert "4711" not in caplog.text

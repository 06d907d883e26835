"""Open challenges until the server drowns in them: it keeps so many and no more, says so, and goes on serving."""

import asyncio
from collections import Counter

from callgate.approval import ApprovalBounds, ApprovalSettings, Gated
from callgate.errors import Refused
from callgate.protocol import CHALLENGE_CREATE
from callgate.store.statements import SWEEP
from support.approval_peer import refusal, text_of
from support.approval_server import Clock, running
from support.registry import requirement

MOST = 10_000


@requirement("VA-178")
def test_the_flood_is_refused_and_the_rest_goes_on():
    clock = Clock()
    with running(clock=clock, settings=ApprovalSettings(bounds=ApprovalBounds(per_user=20_000, in_all=MOST))) as server:
        flooder, other = server.join("flooder"), server.join("other")
        mine = other.challenge("wipe")
        ends = asyncio.run(flood(server, "flooder", 20_000))
        assert ends == {"issued": MOST - 1, "approval_limit": 20_000 - (MOST - 1)}
        assert len(server.shelf.rows("challenge")) == MOST
        for person in (flooder, other):
            answer = person.peer.ask(CHALLENGE_CREATE, {"toolName": "wipe"})
            assert refusal(answer) == (-31429, "approval_limit")
            assert "try again" in answer["error"]["data"]["advice"]
        # What was open before still works, and so does what needs no approval.
        assert text_of(other.call("wipe", None, other.signs(mine))) == "wiped"
        assert text_of(other.call("break_glass", {"pane": "n"})) == "broke n"
        # With time it goes away by itself, out of memory too.
        clock.now += 60_000
        assert text_of(other.approves("wipe")) == "wiped"
        clock.now += 601_000
        # Each new one makes room for some.
        for _ in range(MOST // SWEEP + 1):
            other.challenge("wipe")
        assert [row for row in server.shelf.rows("challenge") if "flooder" in row] == []


async def flood(server, user, count):
    """As many as a client could ask for; without the wire in between, which would only be slower."""
    gated, ends = Gated("files", "https://files.example", "wipe"), Counter()
    for _ in range(count):
        try:
            await server.approval.approvals.challenge(gated, {}, b"{}", user)
        except Refused as refused:
            ends[refused.reason.value] += 1
        else:
            ends["issued"] += 1
    return ends


@requirement("VA-178")
def test_one_person_cannot_be_asked_without_end():
    """By default; the pressure of the hundredth prompt is how people come to say yes."""
    with running() as server:
        flooder, other = server.join("flooder"), server.join("other")
        answers = [flooder.peer.ask(CHALLENGE_CREATE, {"toolName": "wipe"}) for _ in range(30)]
        assert ["result" in answer for answer in answers] == [True] * 20 + [False] * 10
        assert {refusal(answer) for answer in answers[20:]} == {(-31429, "approval_limit")}
        assert "challengeId" in other.challenge("wipe")

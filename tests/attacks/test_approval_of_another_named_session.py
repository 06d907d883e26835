"""One agent names two sessions: a yes or a no to a call of the one must not count for the same call of the other."""

import pytest

from support.persons import MARK, approval_site
from support.sessions import Guest
from support.states import reason
from support.stores import ready

NAME = "dev.callgate/session"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def site(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("named")
    approval = {"park_seconds": 0}
    with (
        ready(request.param, folder) as url,
        approval_site(folder, store={"url": url}, approval=approval) as running,
    ):
        yield running


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_neither_an_approval_nor_a_refusal_crosses(site, era):
    client = Guest.arrive(site.gateway.url("web"), era)

    def call(session, identity):
        meta = {} if session is None else {"_meta": {NAME: session}}
        return client.answer("tools/call", {"name": "wipe", "arguments": {"id": f"{era}-{identity}"}} | meta)

    def shown(answer):
        return answer["error"]["data"]["approval"]["request"]

    asked = {session: call(session, "yes") for session in ("a", "b", None)}
    assert len({shown(answer) for answer in asked.values()}) == 3
    await site.person.approve(await site.person.approvals.request(shown(asked["a"])))
    assert reason(call("b", "yes")) == reason(call(None, "yes")) == "missing_evidence"
    assert "content" in call("a", "yes")["result"]

    asked = {session: call(session, "no") for session in ("a", "b")}
    await site.person.refuse(request=await site.person.approvals.request(shown(asked["a"])))
    await site.person.approve(await site.person.approvals.request(shown(asked["b"])))
    assert "content" in call("b", "no")["result"]
    assert reason(call("a", "no")) == "approval_refused"


async def test_the_page_says_whose_it_is(site):
    client = Guest(site.gateway.url("web"), {})
    client.answer("tools/call", {"name": "wipe", "arguments": {"id": "shown"}, "_meta": {NAME: "nightly job"}})
    waiting = await site.person.waiting_for("shown")
    assert waiting.agent["session"] == "nightly job"
    assert waiting.agent["usable by"].endswith("that makes the same call and names the same session")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_evidence_for_one_session_is_none_in_another(site, era):
    """By the ceremony of SEP-2672: the challenge was asked for in one session, the call comes in another."""
    client = Guest.arrive(site.gateway.url("web"), era, extensions={MARK: {}})
    arguments = {"id": f"{era}-evidence"}

    def evidence(session):
        named = {} if session is None else {"_meta": {NAME: session}}
        params = {"toolName": "wipe", "arguments": arguments} | named
        return site.person.evidence(client.answer("approval/challenge/create", params)["result"])

    def call(session, proof):
        meta = {MARK: proof} | ({} if session is None else {NAME: session})
        return client.answer("tools/call", {"name": "wipe", "arguments": arguments, "_meta": meta})

    proof = evidence("a")
    assert reason(call("b", proof)) == reason(call(None, proof)) == "challenge_unknown"
    assert "content" in call("a", proof)["result"]
    assert reason(call("a", proof)) == "challenge_consumed"
    # Whoever names none when asking has what it signed for every session of its own.
    assert "content" in call("b", evidence(None))["result"]

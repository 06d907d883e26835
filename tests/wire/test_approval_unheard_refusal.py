"""A person says no after the client stopped waiting: the same call hears of it once, and may ask again after that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from support.persons import ApprovalSite, approval_site
from support.sessions import Guest
from support.states import OPENS_URLS, modern_guest, reason, retry, state_for
from support.table import rows

both_servers = rows("server", ["web", "pipe"])
both_eras = rows("era", ["legacy", "modern"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApprovalSite]:
    with approval_site(tmp_path_factory.mktemp("brief"), approval={"park_seconds": 0}) as running:
        yield running


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApprovalSite]:
    with approval_site(tmp_path_factory.mktemp("patient")) as running:
        yield running


def refusal(answer: dict) -> tuple[str, str]:
    assert reason(answer) == "approval_refused", answer
    approval = answer["error"]["data"]["approval"]
    assert approval["note"] in answer["error"]["message"]
    return approval["request"], approval["note"]


@both_eras
@both_servers
async def test_the_repeated_call_hears_the_note_and_the_third_asks_anew(site, server, era):
    client = Guest.arrive(site.gateway.url(server), era)
    arguments = {"id": f"{server}-{era}"}
    told = client.call("wipe", **arguments)["error"]["data"]["approval"]
    request = await site.person.refuse("not on a Friday")
    assert told["request"] == request.id
    # Neither another call nor another caller hears of it.
    assert reason(client.call("wipe", id="another")) == "missing_evidence"
    stranger = Guest.arrive(site.gateway.url(server), "legacy")
    assert reason(stranger.call("wipe", **arguments)) == "missing_evidence"
    assert refusal(client.call("wipe", **arguments)) == (request.id, "not on a Friday")
    asked = client.call("wipe", **arguments)
    assert reason(asked) == "missing_evidence"
    assert asked["error"]["data"]["approval"]["request"] != request.id
    assert site.vault(server).calls == []
    for waiting in await site.person.open_requests():
        await site.person.approvals.refuse(waiting.id, by="test")


@both_eras
@both_servers
async def test_who_waited_has_heard_it(patient, server, era):
    client = Guest.arrive(patient.gateway.url(server), era)
    first = asyncio.create_task(asyncio.to_thread(client.call, "wipe", id="x"))
    request = await patient.person.refuse("no")
    assert refusal(await first) == (request.id, "no")
    second = asyncio.create_task(asyncio.to_thread(client.call, "wipe", id="x"))
    again = await patient.person.refuse("still no")
    assert again.id != request.id
    assert refusal(await second) == (again.id, "still no")


@both_servers
async def test_who_comes_back_with_the_state_has_heard_it(site, server):
    client = modern_guest(site, server)
    state = state_for(client, id="stateful")
    request = await site.person.refuse("no")
    assert refusal(retry(client, state, id="stateful")) == (request.id, "no")
    assert state_for(client, id="stateful") != state
    await site.person.refuse("no")
    # Without the state it is heard as well.
    assert refusal(client.call("wipe", id="stateful"))[1] == "no"


@both_servers
async def test_who_declined_in_the_client_has_heard_it(site, server):
    client = Guest(site.gateway.url(server), OPENS_URLS)
    state = state_for(client, id="declined")
    params = {"name": "wipe", "arguments": {"id": "declined"}, "requestState": state}
    params["inputResponses"] = {"callgate-approval": {"action": "decline"}}
    assert refusal(client.answer("tools/call", params))[1] == "declined in the client"
    assert client.call("wipe", id="declined")["result"]["resultType"] == "input_required"
    # A no of the page is another one, and is heard once: whoever makes this call next is asked anew.
    request = await site.person.refuse("no")
    assert refusal(client.call("wipe", id="declined")) == (request.id, "no")

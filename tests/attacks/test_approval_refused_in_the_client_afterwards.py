"""The page said yes, then the person says no in their client: the call must not run, now or when it is sent again."""

import json

import pytest

from support.persons import approval_site
from support.raw import ask, streaming
from support.sessions import Guest, until
from support.states import OPENS_URLS, modern_guest, reason, state_for
from support.stores import ready
from support.table import rows


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def site(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("afterwards")
    with ready(request.param, folder) as url, approval_site(folder, store={"url": url}) as running:
        yield running


@rows("action", ["decline", "cancel"])
async def test_with_the_request_state(site, action):
    client, arguments = modern_guest(site), {"id": f"modern-{action}"}
    state = state_for(client, **arguments)
    await site.person.approve(await site.person.waiting_for(arguments["id"]))
    params = {"name": "wipe", "arguments": arguments, "requestState": state}
    no = {"inputResponses": {"callgate-approval": {"action": action}}}
    assert reason(client.answer("tools/call", params | no)) == "approval_refused"
    # It was no question of that one try: the approval is gone, and the person is asked anew.
    assert reason(client.answer("tools/call", params)) == "approval_refused"
    assert client.call("wipe", **arguments)["result"]["resultType"] == "input_required"
    assert site.vault("web").calls == []


async def test_with_the_answer_to_a_question_of_the_gateway(site):
    """The client hung up, the page said yes, and the client's dialog is still open."""
    client = Guest.arrive(site.gateway.url("web"), "legacy", **OPENS_URLS)
    params = {"name": "wipe", "arguments": {"id": "left"}}
    headers = client.headers("tools/call", params)
    with streaming(client.url, client.body("tools/call", params), headers) as stream:
        question = next(json.loads(line[6:]) for line in stream if line.startswith(b"data: "))
    request = await site.person.waiting_for("left")
    until(lambda: any(one["call"] for one in site.decisions if "left" in json.dumps(one)))
    await site.person.approve(request)
    no = json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}).encode()
    assert ask(client.url, no, client.headers("", {})).status == 202
    answer = Guest(client.url, {}, client.session).answer("tools/call", params)
    assert reason(answer) == "approval_refused"
    assert site.vault("web").calls == []

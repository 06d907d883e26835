"""The state of an approved call is sent with another call: other arguments, another tool, server or caller."""

import pytest

from support.persons import approval_site
from support.sessions import Guest
from support.states import OPENS_URLS, modern_guest, reason, retry, state_for
from support.table import rows


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with approval_site(tmp_path_factory.mktemp("swapped"), approval={"park_seconds": 0}) as running:
        yield running


def refused(answer):
    assert (answer["error"]["code"], reason(answer)) == (-32602, "request_state_invalid")


@rows("server", ["web", "pipe"])
async def test_between_calls(site, server):
    client = modern_guest(site, server)
    reached = len(site.vault(server).calls)
    state = state_for(client, id="small", n=1)
    await site.person.approve()
    refused(retry(client, state, id="large", n=1))
    refused(retry(client, state, id="small", n=1.5))
    refused(retry(client, state, id="small"))
    refused(retry(client, state, id="small", n=1, more=True))
    refused(retry(client, state, "wipe_all", id="small", n=1))
    assert len(site.vault(server).calls) == reached
    # None of that used it up.
    assert "content" in retry(client, state, id="small", n=1)["result"]


async def test_between_servers(site):
    state = state_for(modern_guest(site, "web"), id="1")
    request = await site.person.approve()
    refused(retry(modern_guest(site, "pipe"), state, id="1"))
    assert (await site.person.approvals.request(request.id)).state == "approved"


@rows("server", ["web", "pipe"])
async def test_between_callers(site, server):
    """A session has not the approvals of its machine, nor of another session."""
    state = state_for(modern_guest(site, server), id="theirs")
    await site.person.approve()
    session = Guest.arrive(site.gateway.url(server), "legacy", **OPENS_URLS)
    params = {"name": "wipe", "arguments": {"id": "theirs"}, "requestState": state}
    refused(session.answer("tools/call", params))


async def test_a_state_for_a_call_that_nobody_approved(site):
    """With the state of an approved call, one that was refused: each state names its own request."""
    client = modern_guest(site)
    approved, open_one = state_for(client, id="a"), state_for(client, id="b")
    await site.person.approve(await site.person.waiting_for("a"))
    refused(retry(client, approved, id="b"))
    assert retry(client, open_one, id="b")["result"]["resultType"] == "input_required"

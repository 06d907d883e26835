"""A state is kept until its request's time is over, approved or not, and then sent."""

import asyncio

import pytest

from support.persons import approval_site
from support.states import modern_guest, reason, retry, state_for
from support.table import rows


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    sections = {"approval": {"request_seconds": 5, "park_seconds": 0}}
    with approval_site(tmp_path_factory.mktemp("expired"), **sections) as running:
        yield running


@rows("server", ["web", "pipe"])
async def test_too_late(site, server):
    client = modern_guest(site, server)
    approved, never = state_for(client, id=f"yes {server}"), state_for(client, id=f"no {server}")
    request = await site.person.approve(await site.person.waiting_for(f"yes {server}"))
    while not site.person.approvals.expired(request):
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.1)
    for state, identity in ((approved, f"yes {server}"), (never, f"no {server}")):
        answer = retry(client, state, id=identity)
        assert (answer["error"]["code"], reason(answer)) == (-32602, "request_state_invalid")
    # Neither does the approval without the state.
    assert client.call("wipe", id=f"yes {server}")["result"]["resultType"] == "input_required"
    assert site.vault(server).calls == []

"""A state is kept until its request's time is over, approved or not, and then sent."""

import asyncio
import contextlib

import pytest

from callgate.errors import Refused
from support.persons import approval_site
from support.states import modern_guest, reason, retry, state_for
from support.trust_gateway import fresh


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    sections = {"approval": {"request_seconds": 5, "park_seconds": 0}}
    with approval_site(tmp_path_factory.mktemp("expired"), **sections) as running:
        yield running


async def approved_in_time(site, client, server):
    """The state of a call that was approved, and its request; a busy machine may need another try."""
    while True:
        identity = fresh(f"yes-{server}")
        state = state_for(client, id=identity)
        with contextlib.suppress(Refused, ValueError):
            return identity, state, await site.person.approve(await site.person.waiting_for(identity))


async def test_too_late(site):
    kept = []
    for server in ("web", "pipe"):
        client = modern_guest(site, server)
        approved, state, request = await approved_in_time(site, client, server)
        never = fresh(f"no-{server}")
        kept.append((server, client, approved, state, request, never, state_for(client, id=never)))
    while not all(site.person.approvals.expired(one[4]) for one in kept):
        await asyncio.sleep(0.05)
    for server, client, approved, state, _, never, unused in kept:
        for given, identity in ((state, approved), (unused, never)):
            # The clock of the gateway may be a moment behind that of the test.
            while "error" not in (answer := retry(client, given, id=identity)):
                assert answer["result"]["resultType"] == "input_required", answer
                await asyncio.sleep(0.05)
            assert (answer["error"]["code"], reason(answer)) == (-32602, "request_state_invalid")
        # Neither does the approval without the state.
        assert client.call("wipe", id=approved)["result"]["resultType"] == "input_required"
        assert site.vault(server).calls == []

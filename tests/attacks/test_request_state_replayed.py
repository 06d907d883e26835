"""A state that has let its call through is sent again, one after the other and all at once."""

import asyncio

import pytest

from support.persons import approval_site
from support.states import modern_guest, reason, retry, state_for
from support.table import rows

servers = rows("server", ["web", "pipe"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with approval_site(tmp_path_factory.mktemp("replayed")) as running:
        yield running


@servers
async def test_after_it_was_used(site, server):
    client = modern_guest(site, server)
    reached = len(site.vault(server).calls)
    state = state_for(client, id="once")
    await site.person.approve()
    assert "result" in retry(client, state, id="once")
    for _ in range(3):
        answer = retry(client, state, id="once")
        assert (answer["error"]["code"], reason(answer)) == (-32602, "request_state_invalid")
    assert len(site.vault(server).calls) == reached + 1


@servers
async def test_twenty_at_once(site, server):
    client = modern_guest(site, server)
    reached = len(site.vault(server).calls)
    state = state_for(client, id="many")
    await site.person.approve()
    answers = await asyncio.gather(*(asyncio.to_thread(retry, client, state, id="many") for _ in range(20)))
    assert sum("result" in answer for answer in answers) == 1
    others = {reason(answer) for answer in answers if "error" in answer}
    assert others <= {"request_state_invalid", "approval_expired"}
    assert len(site.vault(server).calls) == reached + 1


@servers
async def test_after_it_was_refused(site, server):
    client = modern_guest(site, server)
    reached = len(site.vault(server).calls)
    state = state_for(client, id="no")
    await site.person.refuse("no")
    for _ in range(2):
        assert reason(retry(client, state, id="no")) == "approval_refused"
    assert len(site.vault(server).calls) == reached

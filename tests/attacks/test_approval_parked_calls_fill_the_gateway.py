"""An agent leaves many calls waiting for a person, so that nobody else's requests are taken."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.persons import approval_site
from support.raw import SECONDS, ask, streaming
from support.sessions import Guest, until
from support.states import reason
from support.table import rows

IN_FLIGHT = 8
PLACES = 20


@pytest.fixture
def site(tmp_path):
    with approval_site(tmp_path, limits={"in_flight": IN_FLIGHT}) as running:
        yield running


def waiting(client, rpc_id, **arguments):
    """A call that waits, as its open stream."""
    params = {"name": "wipe", "arguments": arguments}
    return streaming(client.url, client.body("tools/call", params, rpc_id), client.headers("tools/call", params))


@pytest.mark.verify
@rows(
    ("server", "era", "same_id"),
    [("web", "legacy", True), ("web", "modern", False), ("pipe", "legacy", False), ("pipe", "modern", True)],
)
async def test_copies_of_one_call(site, server, era, same_id):
    agent, other = Guest.arrive(site.gateway.url(server), era), Guest.arrive(site.gateway.url(server), "legacy")
    before, same = len(site.decisions), f"same {server} {era}"
    with contextlib.ExitStack() as stack:
        for number in range(PLACES):
            response = stack.enter_context(waiting(agent, 1 if same_id else number, id=same))
            assert response.read1() == b": waiting for a person\n\n"
        assert (await site.person.waiting_for(same)).tool == "wipe"
        for _ in range(IN_FLIGHT):
            assert "result" in other.call("look")
        # One more of the same caller is told of the page instead; another caller may still wait.
        assert reason(agent.call("wipe", 99, id=same)) == "missing_evidence"
        assert (
            stack.enter_context(waiting(other, 1, id=f"mine {server} {era}")).read1() == b": waiting for a person\n\n"
        )
    assert site.vault(server).calls[-1]["params"]["name"] == "look"
    # Who left gave its place back.
    with contextlib.ExitStack() as stack:
        until(lambda: len(site.decisions) - before >= PLACES + IN_FLIGHT + 2)
        assert stack.enter_context(waiting(agent, 1, id=same)).read1() == b": waiting for a person\n\n"
    until(lambda: len(site.decisions) - before > PLACES + IN_FLIGHT + 2)


async def test_requests_under_way_are_still_counted(site):
    """When a wait is over, the call takes its place again, and gives it back when it ends."""
    client = Guest.arrive(site.gateway.url("web"), "legacy")
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        calls = [pool.submit(client.call, "wipe", number, id=str(number)) for number in range(IN_FLIGHT)]
        deadline = time.monotonic() + SECONDS
        while len(found := await site.person.open_requests()) < IN_FLIGHT:
            assert time.monotonic() < deadline
        for request in found:
            await site.person.approve(request)
        assert all("result" in one.result(SECONDS) for one in calls)
    assert "result" in client.call("look")
    until(lambda: b"\ncallgate_in_flight 0.0\n" in ask(f"{site.gateway.address}/metrics", None, {}, "GET").body)

"""Somebody elsewhere has read the id of a session, and sends the call that a person has just approved for it."""

import pytest

from support.persons import approval_site
from support.raw import ask
from support.sessions import Guest, call, events
from support.table import rows

ELSEWHERE = "127.0.0.9"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with approval_site(tmp_path_factory.mktemp("stolen"), approval={"park_seconds": 0}) as running:
        yield running


def outcome(guest, target, peer=""):
    """The result of a call, or why it was refused."""
    headers = guest.headers("tools/call", {"name": "wipe"})
    answer = events(ask(guest.url, call("wipe", 1, id=target), headers, peer=peer).body)[-1]
    return answer["error"]["data"]["reason"] if "error" in answer else "done"


@rows("server", ["web", "pipe"])
async def test_the_approval_is_for_who_asked(site, server):
    victim = Guest.arrive(site.gateway.url(server), "legacy")
    target = f"mine on {server}"
    assert outcome(victim, target) == "missing_evidence"
    await site.person.approve()
    assert outcome(victim, target, peer=ELSEWHERE) == "missing_evidence"
    # What the thief asked for is a request of its own, which nobody has approved.
    await site.person.refuse()
    assert outcome(victim, target) == "done"
    assert outcome(victim, target) == "missing_evidence"

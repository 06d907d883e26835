"""Somebody signs a challenge, and another person is named for the server before the call comes with it."""

import pytest

from support.gateway import write_config
from support.persons import MARK, approval_site, person_at
from support.sessions import Guest, until
from support.states import reason

MINE = {"tools": ["wipe"], "user": "ann"}
WANTED = {"toolName": "wipe", "arguments": {"id": "x"}}
CALL = {"name": "wipe", "arguments": {"id": "x"}}


@pytest.fixture
def site(tmp_path):
    with approval_site(tmp_path, servers_approval=MINE) as running:
        yield running


def name(site, user):
    """Let another person be named for the server."""
    before = len(site.gateway.events("configuration reloaded"))
    write_config(site.directory, {"web": {"url": site.vault("web").url, "approval": MINE | {"user": user}}})
    until(lambda: len(site.gateway.events("configuration reloaded")) > before)


async def test_their_evidence_is_no_use(site):
    client = Guest(site.gateway.url("web"), {"extensions": {MARK: {}}})
    async with person_at(site.directory, "ben") as ben:
        for named in ("nobody", "ben"):
            evidence = site.person.evidence(client.answer("approval/challenge/create", WANTED)["result"])
            name(site, named)
            refused = client.answer("tools/call", CALL | {"_meta": {MARK: evidence}})
            assert reason(refused) == "challenge_unknown", named
            assert site.vault("web").calls == []
            if named == "nobody":
                name(site, "ann")
        bens = ben.evidence(client.answer("approval/challenge/create", WANTED)["result"])
        assert "content" in client.answer("tools/call", CALL | {"_meta": {MARK: bens}})["result"]

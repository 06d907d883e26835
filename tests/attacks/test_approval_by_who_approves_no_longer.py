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


@pytest.mark.parametrize("named", ["ben", "nobody"])
async def test_their_evidence_is_no_use(site, named):
    client = Guest(site.gateway.url("web"), {"extensions": {MARK: {}}})
    evidence = site.person.evidence(client.answer("approval/challenge/create", WANTED)["result"])
    async with person_at(site.directory, "ben") as ben:
        write_config(site.directory, {"web": {"url": site.vault("web").url, "approval": MINE | {"user": named}}})
        until(lambda: site.gateway.events("configuration reloaded"))
        refused = client.answer("tools/call", CALL | {"_meta": {MARK: evidence}})
        assert reason(refused) == "challenge_unknown"
        assert site.vault("web").calls == []
        if named == "ben":
            bens = ben.evidence(client.answer("approval/challenge/create", WANTED)["result"])
            assert "content" in client.answer("tools/call", CALL | {"_meta": {MARK: bens}})["result"]

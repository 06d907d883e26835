"""A tool that needs a person and asks its caller something: one approval is for the whole call (2026-07-28)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import mcp_types as types
import pytest
from mcp import Client

from support.clients import PATIENCE
from support.persons import MARK, WAYS, ApprovalSite, approval_site
from support.registry import requirement
from support.sessions import Guest, events
from support.states import OPENS_URLS, reason, tampered
from support.table import rows


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApprovalSite]:
    with approval_site(tmp_path_factory.mktemp("rounds")) as running:
        yield running


def quizzes(site: ApprovalSite, way: str) -> list[dict]:
    return [call["params"] for call in site.vault(way).calls if call["params"]["name"] == "quiz"]


@requirement("VA-164")
@rows("way", WAYS)
async def test_the_servers_own_question_follows_the_approval(site, way):
    asked = []

    async def elicit(_context, params):
        asked.append(params.mode)
        content = None if params.mode == "url" else {}
        return types.ElicitResult(action="accept", content=content)

    before = len(quizzes(site, way))
    client = Client(site.transport(way), mode="2026-07-28", read_timeout_seconds=PATIENCE, elicitation_callback=elicit)
    async with client:
        task = asyncio.create_task(client.call_tool("quiz", {"id": way}))
        await site.person.approve()
        result = await task
    assert json.loads(result.content[0].text)["ran"] == "quiz"
    assert asked == ["url", "form"]
    first, second = quizzes(site, way)[before:]
    assert "requestState" not in first
    assert "inputResponses" not in first
    assert second["requestState"] == "the vault's own"
    assert set(second["inputResponses"]) == {"sure"}


@rows("server", ["web", "pipe"])
def test_a_round_lets_its_own_call_through_and_once(site, server):
    client = Guest(site.gateway.url(server), {"extensions": {MARK: {}}})
    params = {"name": "quiz", "arguments": {"id": "x"}}
    issued = client.answer("approval/challenge/create", {"toolName": "quiz", "arguments": {"id": "x"}})["result"]
    before = len(quizzes(site, server))
    evidence = site.person.evidence(issued)
    asked = client.answer("tools/call", params | {"_meta": {MARK: evidence}})["result"]
    assert asked["resultType"] == "input_required"
    assert asked["requestState"] != "the vault's own"

    def go_on(**changes):
        whole = params | {"requestState": asked["requestState"], "inputResponses": {"sure": {"action": "accept"}}}
        return events(client.request("tools/call", whole | changes).body)[-1]

    # Its evidence is used up, so what the state is worth shows.
    for wrong in (
        {"arguments": {"id": "y"}},
        {"name": "wipe"},
        {"requestState": tampered(asked["requestState"])},
        {"requestState": "the vault's own"},
    ):
        assert reason(go_on(**wrong)) == "request_state_invalid"
    assert len(quizzes(site, server)) == before + 1
    # A client that sends its evidence again with each round is not told that it is used up.
    assert "content" in go_on(_meta={MARK: evidence})["result"]
    assert MARK not in quizzes(site, server)[-1]["_meta"]
    assert reason(go_on()) == "request_state_invalid"
    assert len(quizzes(site, server)) == before + 2


async def test_a_state_of_the_servers_own_passes_where_nobody_is_needed(site):
    client = Guest(site.gateway.url("web"), OPENS_URLS)
    params = {"name": "look", "arguments": {}, "requestState": "theirs", "inputResponses": {"a": {"action": "accept"}}}
    assert "result" in client.answer("tools/call", params)
    seen = site.vault("web").calls[-1]["params"]
    assert (seen["requestState"], seen["inputResponses"]) == ("theirs", params["inputResponses"])

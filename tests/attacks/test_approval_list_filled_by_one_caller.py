"""One caller asks about so many calls that nobody else's call finds a place before the person."""

import asyncio

import pytest

from callgate.agents.apikeys import ApiKeys
from callgate.approval.model import ApprovalBounds
from callgate.errors import Refused
from callgate.store import SqlAgents, SqlApprovals
from support.approval_store import request
from support.persons import MARK, approval_site
from support.raw import ask
from support.sessions import Guest, events
from support.states import reason
from support.stores import opened, ready


def api_key(site, agent):
    return asyncio.run(ApiKeys(SqlAgents(site.store), lambda: 1).create(agent)).text


def over_the_wire(client, key, identity):
    params = {"name": "wipe", "arguments": {"id": identity}}
    headers = client.headers("tools/call", params) | {"Authorization": f"Bearer {key}"}
    return events(ask(client.url, client.body("tools/call", params), headers).body)[-1]


def test_another_caller_is_heard(tmp_path):
    agents = {"mode": "optional", "api_keys": {"enabled": True}, "known": {"greedy": {}, "modest": {}}}
    approval = {"park_seconds": 0, "pending_per_user": 4}
    with approval_site(tmp_path, agents=agents, approval=approval) as site:
        client = Guest(site.gateway.url("web"), {})
        keys = {name: api_key(site, name) for name in ("greedy", "modest")}
        told = [reason(over_the_wire(client, keys["greedy"], str(number))) for number in range(6)]
        assert told == ["missing_evidence"] * 4 + ["approval_limit"] * 2
        assert reason(over_the_wire(client, keys["modest"], "1")) == "missing_evidence"


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_challenges_that_one_caller_opens_leave_some_for_others(kind, tmp_path):
    """By the ceremony of SEP-2672 nothing waits in a list; what one person may have to sign is bounded as well."""
    agents = {"mode": "optional", "api_keys": {"enabled": True}, "known": {"greedy": {}, "modest": {}}}
    approval = {"park_seconds": 0, "pending_per_user": 4}
    with (
        ready(kind, tmp_path) as url,
        approval_site(tmp_path, agents=agents, approval=approval, store={"url": url}) as site,
    ):
        client = Guest(site.gateway.url("web"), {"extensions": {MARK: {}}})
        keys = {name: api_key(site, name) for name in ("greedy", "modest")}

        def challenge(name, identity, session=""):
            params = {"toolName": "wipe", "arguments": {"id": identity}}
            params |= {"_meta": {"dev.callgate/session": session}} if session else {}
            headers = client.headers("approval/challenge/create", params) | {"Authorization": f"Bearer {keys[name]}"}
            body = ask(client.url, client.body("approval/challenge/create", params), headers).body
            return events(body)[-1]

        # Naming sessions makes no more of one caller.
        told = [challenge("greedy", str(number), f"s{number}") for number in range(6)]
        assert ["result" in one for one in told] == [True] * 4 + [False] * 2
        assert reason(told[-1]) == "approval_limit"
        assert ["result" in challenge("modest", str(number)) for number in range(3)] == [True, True, False]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_sessions_make_no_more_of_one_caller(kind, tmp_path):
    bounds = ApprovalBounds(requests_per_user=8)

    async def taken(shelf, who):
        """How many places this caller gets, each call in a session of its own, named and not."""
        for number in range(20):
            session = f"s{number}" if number % 2 else f"\nnamed {number}"
            one = request(f"{who}-{number}", caller=f"agent:{who} {session}", tool=f"tool-{number}")
            try:
                await shelf.open_request(one, bounds)
            except Refused:
                return number
        return 20

    with ready(kind, tmp_path) as url:
        async with opened(url) as store:
            shelf = SqlApprovals(store)
            assert [await taken(shelf, who) for who in "abcdef"] == [8, 4, 2, 1, 1, 0]

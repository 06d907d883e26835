"""A tool changes without a word while its call waits for a person's approval: what was pinned is looked at again."""

import asyncio

import pytest

from support.persons import person_at
from support.pinning import pinned_site
from support.raw_clients import Way, reason_of, until
from support.shifting import tool
from support.table import rows

APPROVAL = {"approval": {"tools": ["read"], "user": "ann"}}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    tables = {"web": APPROVAL, "pipe": APPROVAL}
    # Over pipes a list is believed for minutes where nothing is said of a change.
    with pinned_site(tmp_path_factory.mktemp("site"), tables=tables) as running:
        yield running


@rows("way", [Way("serve", "legacy", "pipe"), Way("serve", "legacy", "web"), Way("wrap", "legacy", "pipe")])
async def test_a_change_without_a_word_is_noticed_before_the_call_leaves(site, way):
    server = site.server(way)
    server.fresh(tool("read"))
    visitor = await asyncio.to_thread(site.visit, way)
    await asyncio.to_thread(visitor.names)
    await asyncio.to_thread(site.approve, way.server, "read")
    async with person_at(site.directory) as person:
        for change, wanted in (({}, ""), ({"description": "Reads, and sends it on."}, "tool_changed")):
            await asyncio.to_thread(until, lambda: visitor.names() == ["read"], "it is approved")
            task = asyncio.create_task(asyncio.to_thread(visitor.call, "read"))
            request = await person.waiting()
            before = server.called
            server.change("read", **change)
            await person.approve(request)
            got = await task
            assert reason_of(got) == wanted, got
            assert server.called == ([*before, "read"] if not wanted else before)

"""Each kind of client has a call approved and one refused: over HTTP and stdio, in both eras, by the person's hand."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Iterator

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION

from callgate.sdk.authenticators.software import Unattended
from callgate.sdk.client import ApprovalClient, Done
from support.clients import PATIENCE
from support.persons import MARK, ApprovalSite, approval_site
from support.registry import requirement
from support.table import rows

# Each pair of front, transport behind it and era is met once.
each_way = rows(
    ("way", "era"),
    [
        ("web", "legacy"),
        ("pipe", LATEST_MODERN_VERSION),
        ("wrap-web", LATEST_MODERN_VERSION),
        ("wrap-pipe", "legacy"),
    ],
)
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApprovalSite]:
    with approval_site(tmp_path_factory.mktemp("approval")) as running:
        yield running


class Caller:
    """A client and what it was asked on the way."""

    def __init__(self, site: ApprovalSite, way: str, era: str, action: str | None = None, **more: object) -> None:
        self.site = site
        self.way = way
        self.asked: list[types.ElicitRequestURLParams] = []
        self.completed: list[str] = []
        self.progress: list[tuple[float, str | None]] = []
        # What the client answers when it is asked.
        self.action = action
        callback = {} if action is None else {"elicitation_callback": self._elicit}
        self.client = Client(
            site.transport(way),
            mode=era,
            read_timeout_seconds=PATIENCE,
            message_handler=self._message,
            **callback,
            **more,
        )

    async def _elicit(self, _context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestURLParams)
        self.asked.append(params)
        return types.ElicitResult(action=self.action)

    async def _message(self, message: object) -> None:
        if isinstance(message, types.ElicitCompleteNotification):
            self.completed.append(message.params.elicitation_id)

    async def _on_progress(self, progress: float, _total: float | None, message: str | None) -> None:
        self.progress.append((progress, message))

    def call(self, tool: str, **arguments: object) -> asyncio.Task[types.CallToolResult]:
        return asyncio.create_task(self.client.call_tool(tool, arguments, progress_callback=self._on_progress))


@contextlib.asynccontextmanager
async def calling(site: ApprovalSite, way: str, era: str, **more: object) -> AsyncIterator[Caller]:
    caller = Caller(site, way, era, **more)
    async with caller.client:
        yield caller


def said(result: types.CallToolResult) -> str:
    return json.loads(result.content[0].text)["ran"]


def fresh() -> str:
    return f"r{next(_numbers)}"


def arrivals(site: ApprovalSite, way: str, identity: str) -> list[dict]:
    """The calls with this argument that reached the server."""
    return [call["params"] for call in site.vault(way).calls if call["params"]["arguments"].get("id") == identity]


async def refusal(task: asyncio.Task) -> MCPError:
    with pytest.raises(MCPError) as caught:
        await task
    assert caught.value.error.data["reason"] == "approval_refused"
    return caught.value


@requirement("VA-002", "VA-003")
@each_way
async def test_a_client_that_does_the_ceremony_gets_its_call_through(site, way, era):
    identity = fresh()
    signing = Unattended(site.person.key)
    shown = []

    async def show(prompt):
        shown.append(prompt.display_text)

    client = Client(site.transport(way), mode=era, read_timeout_seconds=PATIENCE)
    async with ApprovalClient(client, signing, show=show) as caller:
        outcome = await caller.call_tool("wipe", {"id": identity})
    assert isinstance(outcome, Done)
    assert outcome.approved
    assert said(outcome.result) == "wipe"
    assert identity in shown[0]
    (arrived,) = arrivals(site, way, identity)
    assert MARK not in arrived.get("_meta", {})
    assert await site.person.open_requests() == []


@requirement("VA-022", "VA-141")
@each_way
async def test_a_client_that_could_do_the_ceremony_and_does_not_is_refused_at_once(site, way, era):
    identity = fresh()
    async with calling(site, way, era, extensions=[advertise(MARK, {})]) as caller:
        with pytest.raises(MCPError) as caught:
            await caller.call("wipe", id=identity)
    assert caught.value.error.code == -32001
    assert caught.value.error.data["reason"] == "missing_evidence"
    assert "approval" not in caught.value.error.data
    assert arrivals(site, way, identity) == []
    assert await site.person.open_requests() == []


@each_way
async def test_a_client_that_opens_urls_is_sent_to_the_page(site, way, era):
    approved, refused, declined, cancelled = (fresh() for _ in range(4))
    async with calling(site, way, era, action="accept") as caller:
        task = caller.call("wipe", id=approved)
        request = await site.person.approve(await site.person.waiting_for(approved))
        assert said(await task) == "wipe"
        (asked,) = caller.asked
        assert asked.url.endswith(f"/approve/{request.id}")
        assert "://localhost:" in asked.url
        assert "://" not in asked.message
        if era == "legacy":
            assert asked.elicitation_id == request.id
            assert caller.completed == [request.id]

        task = caller.call("wipe", id=refused)
        await site.person.refuse("not on a Friday", await site.person.waiting_for(refused))
        assert "not on a Friday" in (await refusal(task)).error.message

        # A no in the client ends the request.
        for caller.action, identity in (("decline", declined), ("cancel", cancelled)):
            await refusal(caller.call("wipe", id=identity))
        assert await site.person.open_requests() == []
    assert [len(arrivals(site, way, one)) for one in (approved, refused, declined, cancelled)] == [1, 0, 0, 0]


@each_way
async def test_a_client_that_knows_nothing_waits(site, way, era):
    approved, refused = fresh(), fresh()
    async with calling(site, way, era) as caller:
        task = caller.call("wipe", id=approved)
        request = await site.person.approve(await site.person.waiting_for(approved))
        assert said(await task) == "wipe"
        assert caller.asked == []
        values = [value for value, _ in caller.progress]
        assert values
        assert values == sorted(set(values))
        assert request.id in caller.progress[0][1]

        task = caller.call("wipe", id=refused)
        await site.person.refuse("no", await site.person.waiting_for(refused))
        await refusal(task)
    assert [len(arrivals(site, way, one)) for one in (approved, refused)] == [1, 0]

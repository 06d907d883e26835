"""What an agent of one's own takes in without a gateway, and what of it is kept, shared and taken away."""

from __future__ import annotations

import asyncio

import pytest
from mcp import Client, MCPError, StdioServerParameters

from callgate.errors import ConfigError, Reason, Refused, StoreUnavailable
from callgate.sdk import PinnedClient, TrackedClient, TrustTracker, library_identity
from callgate.store import SqlTrust, Store
from support.labelled import INJECTED, PAGE, Desk, every_road
from support.memory import MemoryTrust
from support.registry import requirement
from support.shifting import Shifty, tool
from support.stores import ready
from support.table import rows
from support.trust_library import NO_RULES, policy, reason

# -- everything that comes back ------------------------------------------------------------------------------------


async def test_an_error_is_read_by_the_model_too(near):
    """What the server writes into an error is as much a stranger's as what it writes into a result."""
    tracker = TrustTracker()
    tracker.prompt("Write x to all@board.example.")
    async with near.tracked("files", tracker, trusted=False) as files:
        with pytest.raises(MCPError):
            given = {"annotations": {"openWorldHint": True}}
            await files.call_tool("send_email", {"to": "all@board.example", "body": "x"}, meta=given)
    assert (await tracker.label()).open_world
    (step,) = await tracker.steps()
    assert step.label.open_world


@every_road
async def test_resources_and_prompts_of_a_server_are_its_data_too(travel, road):
    places = travel(road)
    desk = Desk(True, True)
    tracker = TrustTracker(ask=desk.ask)
    async with places.tracked("files", tracker) as files:
        note = await files.read_resource("notes://today")
        assert note.contents[0].text.endswith(PAGE)
        assert (await tracker.label()).open_world
        prompt = await files.get_prompt("greet", {"name": "Ada"})
        assert "greeter@prompt.example" in prompt.messages[0].content.text
        for to in ("office@shop.example", "greeter@prompt.example"):
            await files.call_tool("send_email", {"to": to, "body": "x"})
    assert [question.rule for question in desk.questions] == ["stranger-decides", "stranger-decides"]
    assert [step.tool for step in await tracker.steps()][:2] == ["resources/read", "prompts/get"]


@rows("mode", ["legacy", "auto"])
async def test_a_list_of_tools_is_learnt_anew_when_it_changes(tmp_path, mode):
    def labelled(outcomes):
        given = {"destination": "internal", "sensitivity": "none", "outcomes": outcomes}
        return {"inputMetadata": given, "returnMetadata": {"source": "internal", "sensitivity": "none"}}

    rule = """
[[rules]]
name = "nothing-for-good"
effect = "block"
when = 'tool.outcomes == "irreversible"'
say = "Nothing is done that cannot be undone."
"""
    server = Shifty(tmp_path / "server")
    server.fresh(tool("read", annotations=labelled("benign")))
    tracker = TrustTracker(policy=policy(rule))
    client = Client(StdioServerParameters(command=server.argv[0], args=server.argv[1:]), mode=mode)
    async with TrackedClient(client, tracker, server="files", trusted=True) as files:
        await files.call_tool("read", {"id": "1"})
        server.change("read", annotations=labelled("irreversible"))
        if mode == "legacy":
            server.push()
            async with asyncio.timeout(20):
                while await reason(files.call_tool("read", {"id": "1"})) != "rule_blocked":
                    await asyncio.sleep(0.01)
        else:
            # In the modern era such news come only to those who ask for them; the list itself tells.
            assert [one.name for one in (await files.list_tools()).tools] == ["read"]
        assert await reason(files.call_tool("read", {"id": "1"})) == "rule_blocked"


@requirement("TA-059")
async def test_a_rule_on_results_keeps_one_back(near):
    def rules(effect):
        return f"""
[[rules]]
name = "flagged"
on = "result"
effect = "{effect}"
when = "result.malicious"
say = "It is flagged."
"""

    desk = Desk(True, False)
    asking = TrustTracker(policy=policy(rules("ask")), ask=desk.ask)
    async with near.tracked("web", asking) as web:
        shown = await web.call_tool("fetch", {"url": "https://evil.example"})
        assert shown.content[1].text == INJECTED
        with pytest.raises(Refused) as refused:
            await web.call_tool("fetch", {"url": "https://evil.example"})
        assert (await web.call_tool("fetch", {"url": "https://shop.example"})).content[0].text == PAGE
    assert refused.value.reason is Reason.RESULT_WITHHELD
    assert INJECTED not in str(refused.value)
    assert all(question.result.malicious for question in desk.questions)
    assert "Warning: " in desk.questions[0].text
    keeping = TrustTracker(policy=policy(rules("quarantine")), alert=desk.alert)
    async with near.tracked("web", keeping) as web:
        assert await reason(web.call_tool("fetch", {"url": "https://evil.example"})) == "result_withheld"
    assert len(desk.alerts) == 1


async def test_a_server_that_dies_takes_nobody_with_it(tmp_path):
    """Its error is told by the call that met it, and the agent's other servers go on."""
    server = Shifty(tmp_path / "server")
    server.fresh(tool("read"))
    client = Client(StdioServerParameters(command=server.argv[0], args=server.argv[1:]))
    tracker = TrustTracker(policy=NO_RULES)
    async with TrackedClient(client, tracker, server="files") as files:
        await files.call_tool("read", {"id": "1"})
        server.kill_last()
        with pytest.raises(MCPError, match="losed"):
            await files.call_tool("read", {"id": "1"})
        await asyncio.sleep(0)
    assert (await tracker.label()).open_world


async def test_arguments_that_are_not_json_go_nowhere(near):
    async with near.tracked("files", TrustTracker()) as files:
        for value in (float("nan"), {1, 2}, "\ud800"):
            assert await reason(files.call_tool("plain", {"text": value})) == "arguments_invalid"
    assert near.runs == []


# -- what is kept --------------------------------------------------------------------------------------------------


class Failing(MemoryTrust):
    """A shelf that stops working."""

    broken = False

    async def add(self, new, *, keep, expires_at):
        if self.broken:
            raise StoreUnavailable("the disk is full")
        return await super().add(new, keep=keep, expires_at=expires_at)


async def test_a_result_that_cannot_be_written_down_is_not_handed_on(near):
    shelf = Failing()
    tracker = TrustTracker(shelf=shelf, session="a", key=bytes(32))
    async with near.tracked("web", tracker) as web:
        shelf.broken = True
        assert await reason(web.call_tool("fetch", {"url": "https://shop.example"})) == "result_withheld"
        shelf.broken = False
        await web.call_tool("fetch", {"url": "https://shop.example"})
    assert (await tracker.label()).open_world


async def test_two_trackers_on_one_shelf_share_a_session(near):
    shelf = MemoryTrust()
    with pytest.raises(ConfigError, match="needs a session's name"):
        TrustTracker(shelf=shelf)
    with pytest.raises(ConfigError, match="fewer than 16 bytes"):
        TrustTracker(key=b"short")
    common = {"shelf": shelf, "key": bytes(range(32))}
    desk = Desk(True)
    first, second = TrustTracker(session="task-7", **common), TrustTracker(session="task-7", ask=desk.ask, **common)
    apart = TrustTracker(session="task-8", **common)
    first.prompt("Read https://shop.example/page.")
    async with near.tracked("web", first) as web, near.tracked("mail", second) as mail:
        await mail.call_tool("plain", {"text": "x"})
        await web.call_tool("fetch", {"url": "https://shop.example/page"})
        # an address that only the other one has read
        await mail.call_tool("send_email", {"to": "office@shop.example", "body": "x"})
    assert [question.rule for question in desk.questions] == ["stranger-decides"]
    assert (await second.label()).open_world
    assert not (await apart.label()).open_world
    assert "task" not in "".join(session.key for session in await shelf.sessions())


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    with ready(request.param, tmp_path) as made:
        yield made


@requirement("TA-002")
async def test_a_session_in_a_store_outlives_its_process(near, url):
    desk = Desk(True)
    for turn in ("before", "after"):
        store = Store.open(url)
        try:
            tracker = TrustTracker(shelf=SqlTrust(store), session="task", key=bytes(range(32)), ask=desk.ask)
            if turn == "before":
                async with near.tracked("web", tracker) as web:
                    await web.call_tool("fetch", {"url": "https://shop.example/page"})
                continue
            assert (await tracker.label()).open_world
            async with near.tracked("mail", tracker) as mail:
                for _ in range(2):
                    await mail.call_tool("send_email", {"to": "office@shop.example", "body": "x"})
        finally:
            await store.close()
    assert [question.rule for question in desk.questions] == ["stranger-decides"]
    assert [one["open"] for one in near.ran("send_email")] == [True, True]


@requirement("TA-075")
async def test_only_a_persons_recorded_act_takes_labels_away(near):
    tracker = TrustTracker()
    async with near.tracked("web", tracker) as web, near.tracked("files", tracker) as files:
        await web.call_tool("fetch", {"url": "https://shop.example/page"})
        assert await reason(tracker.declassify(by="ada", note=" ")) == "invalid_params"
        await tracker.declassify(by="ada", note="I wrote that page myself")
        await files.call_tool("plain", {"text": "hello"})
    assert near.ran("plain")[0]["open"] is None
    act = (await tracker.steps())[1]
    assert (act.verdict, act.rule, act.why) == ("declassified", "ada", "I wrote that page myself")


async def test_many_calls_at_once_keep_one_order(near):
    tracker = TrustTracker(policy=NO_RULES)
    async with near.tracked("web", tracker) as web, near.tracked("files", tracker) as files:
        await asyncio.gather(
            *(web.call_tool("fetch", {"url": f"https://h{n}.example/p"}) for n in range(10)),
            *(files.call_tool("read_file", {"path": f"/downloads/{n}"}) for n in range(10)),
        )
    assert [step.seq for step in await tracker.steps()] == list(range(1, 21))
    label = await tracker.label()
    assert {f"https://h{n}.example/p" for n in range(10)} <= set(label.attribution)


# -- around a pinned client ----------------------------------------------------------------------------------------


async def test_a_pinned_client_can_be_tracked_too(near, tmp_path):
    tracker = TrustTracker()
    pinned = PinnedClient(near.client("web"), pins=tmp_path / "pins.db", server=library_identity("web", version="1"))
    async with TrackedClient(pinned, tracker, server="web", trusted=True) as web:
        assert (await web.list_tools()).tools == []
        assert await reason(web.call_tool("fetch", {"url": "https://shop.example"})) == "tool_not_approved"
        assert not (await tracker.label()).open_world
        (waiting,) = [one for one in (await pinned.review()).pending if one.tool == "fetch"]
        await pinned.approve("fetch", waiting.approval_hash, by="ada")
        assert [tool.name for tool in (await web.list_tools()).tools] == ["fetch"]
        await web.call_tool("fetch", {"url": "https://shop.example"})
    assert (await tracker.label()).open_world

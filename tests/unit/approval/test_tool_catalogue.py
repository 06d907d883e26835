"""What is known of a server's tools, for how long, and what is never forgotten."""

import json

import pytest

from callgate.approval import ApprovalPolicy
from callgate.approval.requirements import FRESH_SECONDS, ToolCatalogue, ask_for_tools, declares, read_tools
from callgate.errors import Reason, UpstreamError
from callgate.jsonrpc.reading import result_of
from support.table import rows

META = "io.modelcontextprotocol/verified-approval"
MARK = {"required": "verified"}


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def catalogue(clock):
    return ToolCatalogue(clock)


def listed(*names, mark=()):
    return read_tools({"tools": [{"name": n} | ({"_meta": {META: MARK}} if n in mark else {}) for n in names]})


def test_what_was_heard_is_believed_for_a_while(catalogue, clock):
    catalogue.learn(listed("a"))
    assert catalogue.tool("a").name == "a"
    assert catalogue.tool("b") is None
    clock.now += FRESH_SECONDS + 1
    assert catalogue.tool("a") is None


def test_a_change_that_the_server_tells_of_makes_everything_old(catalogue):
    catalogue.learn_all(listed("a", mark={"a"}))
    catalogue.hear(b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}')
    assert catalogue.tool("a") is not None
    catalogue.hear(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
    assert catalogue.tool("a") is None
    assert catalogue.generation == 1


@rows("spelt", ["notifications\\/tools\\/list_changed", "notifications/tools/list\\u005fchanged"])
def test_a_change_is_heard_however_it_is_spelt(clock, spelt):
    catalogue = ToolCatalogue(clock)
    catalogue.learn_all(listed("a"))
    catalogue.hear(f'{{"jsonrpc":"2.0","method":"{spelt}"}}'.encode())
    assert catalogue.tool("a") is None


def test_what_only_speaks_of_a_change_is_none(catalogue):
    catalogue.learn_all(listed("a"))
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": "notifications/tools/list_changed"}})
    catalogue.hear(text.encode())
    assert catalogue.tool("a") is not None


def test_the_capability_has_to_be_declared_to_everybody(catalogue):
    assert catalogue.capable is None
    catalogue.greeted(capable=True)
    assert catalogue.capable is True
    catalogue.greeted(capable=False)
    catalogue.greeted(capable=True)
    assert catalogue.capable is False


def test_marks_are_remembered_within_bounds_and_beyond_them_nothing_is_free(catalogue, monkeypatch):
    monkeypatch.setattr("callgate.approval.requirements._TOOLS_MAX", 3)
    for name in "abcdef":
        catalogue.learn_all(listed(name, mark={name}))
    catalogue.learn_all(listed("a", "x"))
    assert catalogue.tool("a").policy == ApprovalPolicy()
    assert "more tools than can be remembered" in catalogue.tool("x").problem


@rows("learn", ["learn", "learn_all"])
def test_a_mark_stays_whatever_later_lists_say(clock, learn):
    catalogue = ToolCatalogue(clock)
    catalogue.learn(listed("a", "b", mark={"a"}))
    getattr(catalogue, learn)(listed("a", "b"))
    assert catalogue.tool("a").policy == ApprovalPolicy()
    assert not catalogue.tool("b").marked
    catalogue.learn_all(listed("b"))
    assert catalogue.tool("a") is None
    assert catalogue.remembered("a").marked


def test_a_tool_that_is_gone_is_forgotten(catalogue):
    catalogue.learn(listed("a", "b"))
    catalogue.learn_all(listed("b"))
    assert catalogue.tool("a") is None
    assert catalogue.remembered("a") is None


def test_the_version_changes_with_anything_in_the_entry():
    one = {"name": "a", "inputSchema": {"x": 1, "y": [1.5, None]}, "description": "d"}
    same = {"description": "d", "inputSchema": {"y": [1.5, None], "x": 1}, "name": "a"}
    versions = [read_tools({"tools": [entry]})["a"].version for entry in (one, same, one | {"description": "D"})]
    assert versions[0] == versions[1] != versions[2]
    assert len(versions[0]) == 16
    # What has no canonical form has a version too.
    odd = [read_tools({"tools": [one | {"n": n}]})["a"].version for n in (2**60, 2**60 + 1)]
    assert odd[0] != odd[1]


def test_the_title_is_the_tools_or_its_annotations():
    assert read_tools({"tools": [{"name": "a", "title": "T", "annotations": {"title": "U"}}]})["a"].title == "T"
    assert read_tools({"tools": [{"name": "a", "annotations": {"title": "U"}}]})["a"].title == "U"
    assert read_tools({"tools": [{"name": "a", "title": 7}]})["a"].title is None


@rows("result", [None, [], {}, {"tools": None}, {"tools": [None, 7, {}, {"name": 7}]}])
def test_a_list_that_is_none_has_no_tools(result):
    assert read_tools(result) == {}


@rows("mark", [None, True, "verified", [], {}, {"required": "VERIFIED"}, {"required": None}])
def test_a_mark_that_cannot_be_read_is_a_problem_and_not_none(mark):
    (tool,) = read_tools({"tools": [{"name": "a", "_meta": {META: mark}}]}).values()
    assert tool.marked
    assert tool.policy is None
    assert tool.problem


@rows(
    ("extensions", "expected"),
    [
        ({"verifiedApproval": {}}, True),
        ({META: {"sub": {"field": 1}}}, True),
        ({"verifiedApproval": None}, False),
        ({"verifiedapproval": {}}, False),
        ({}, False),
        (None, False),
    ],
)
def test_who_declares_the_capability(extensions, expected):
    assert declares({"capabilities": {"extensions": extensions}}) is expected


def reply(**body):
    return json.dumps({"jsonrpc": "2.0", "id": 1} | body).encode()


async def test_every_page_is_asked_for():
    asked = []

    async def ask(method, params):
        asked.append((method, params))
        number = int(params.get("cursor", 0))
        more = {"nextCursor": str(number + 1)} if number < 3 else {"nextCursor": None}
        return reply(result={"tools": [{"name": f"t{number}"}], **more})

    assert set(await ask_for_tools(ask)) == {"t0", "t1", "t2", "t3"}
    assert asked == [("tools/list", {"cursor": str(n)} if n else {}) for n in range(4)]


async def test_a_list_without_end_is_refused():
    asked = 0

    async def ask(_method, _params):
        nonlocal asked
        asked += 1
        return reply(result={"tools": [], "nextCursor": "again"})

    with pytest.raises(UpstreamError) as caught:
        await ask_for_tools(ask)
    assert caught.value.reason is Reason.UPSTREAM_TOO_LARGE
    assert asked <= 100


async def test_a_server_without_the_method_has_no_tools():
    async def ask(_method, _params):
        return reply(error={"code": -32601, "message": "?"})

    assert await ask_for_tools(ask) == {}


@rows(
    "answer",
    [b"", b"rubbish", b"[]", b"7", reply(result=None), reply(result=[]), reply(error={"code": -32603}), reply(error=7)],
)
def test_any_other_answer_is_no_answer(answer):
    with pytest.raises(UpstreamError):
        result_of(answer)

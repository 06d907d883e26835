"""Who needs a person, and who verifies it."""

import asyncio
import json

import pytest

from callgate.approval import ApprovalPolicy
from callgate.approval.requirements import FREE, Deployment, ServerApprovalPolicy, ToolCatalogue, read_tools
from callgate.config import ServerApproval
from callgate.errors import Reason, UpstreamError
from support.table import rows

META = "io.modelcontextprotocol/verified-approval"
MARKED = {"name": "pay", "_meta": {META: {"required": "verified", "authenticatorClass": "platform"}}}
TOOLS = [{"name": "look"}, MARKED, {"name": "odd", "_meta": {META: {"required": "twice"}}}, {"name": "wipe_all"}]


async def identity(fresh):
    return fresh


def gating(*, tools=TOOLS, capable=None, **section):
    catalogue = ToolCatalogue()
    catalogue.capable = capable
    if tools is not None:
        catalogue.learn_all(read_tools({"tools": tools}))
    return ServerApprovalPolicy("vault", ServerApproval(**section), catalogue, Deployment("urn:x", identity))


def test_the_servers_marks_count_where_the_gateway_verifies():
    one = gating()
    assert one.known("look") is FREE
    assert one.known("nothing of the sort") is None
    gated = one.known("pay").gated
    assert (gated.server, gated.server_id, gated.tool) == ("vault", "urn:x/vault", "pay")
    assert gated.policy == ApprovalPolicy("platform")
    assert gated.version
    assert "not known here" in one.known("odd").problem


@rows(
    ("verifier", "capable", "relays"),
    [
        ("auto", None, False),
        ("auto", False, False),
        ("auto", True, True),
        ("gateway", True, False),
        ("server", None, True),
        ("server", False, True),
    ],
)
def test_who_verifies(verifier, capable, relays):
    one = gating(verifier=verifier, capable=capable)
    assert one.relays is relays
    assert one.verifies is not relays
    assert one.known("pay").relayed is relays
    assert (one.known("pay").gated is None) is relays
    # Nobody but the server has to read its mark then.
    assert bool(one.known("odd").problem) is not relays


def test_the_operators_tools_are_always_the_gateways():
    one = gating(verifier="server", tools=[*TOOLS], capable=True)
    listed = ServerApprovalPolicy(
        "vault", ServerApproval(tools=("wipe_*", "pay"), verifier="server"), one.catalogue, one._deployment
    )
    assert listed.verifies
    assert listed.relays
    assert listed.known("wipe_all").gated.policy == ApprovalPolicy("platform")
    assert listed.known("pay").gated.policy == ApprovalPolicy("platform")
    assert listed.known("look") is FREE


@rows(
    "said, mark, expected",
    [
        (None, None, "platform"),
        (None, "cross-platform", "cross-platform"),
        (None, "platform", "platform"),
        ("cross-platform", "platform", "cross-platform"),
        ("platform", "cross-platform", "platform"),
        ("cross-platform", None, "cross-platform"),
    ],
)
def test_any_passkey_will_do_unless_the_operator_or_the_servers_mark_wants_more(said, mark, expected):
    entry = {"name": "pay"} | ({"_meta": {META: {"required": "verified", "authenticatorClass": mark}}} if mark else {})
    one = gating(tools=[entry])
    section = ServerApproval(tools=("pay",), authenticator_class=said)
    made = ServerApprovalPolicy("vault", section, one.catalogue, one._deployment)
    assert made.known("pay").gated.policy == ApprovalPolicy(expected)
    assert made.asked_for("pay").policy == ApprovalPolicy(expected)


def test_patterns_are_of_names_as_they_are():
    one = gating(tools=[]).section
    made = ServerApprovalPolicy(
        "v", ServerApproval(tools=("delete_*", "x?")), ToolCatalogue(), Deployment("i", identity)
    )
    assert one.tools == ()
    assert [made.listed(name) for name in ("delete_a", "Delete_a", "x1", "x", "undelete_a")] == [
        True,
        False,
        True,
        False,
        False,
    ]


def test_the_counter_can_be_asked_for():
    assert gating(require_counter=True).known("pay").gated.policy == ApprovalPolicy("platform", require_counter=True)


async def answer(method, params, *, tools=TOOLS, extensions=None):
    greeting = {"capabilities": {"extensions": extensions or {}}}
    result = greeting if method == "server/discover" else {"tools": tools}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()


async def test_what_is_not_known_is_asked_for_once_by_all_who_want_it():
    one = gating(tools=None)
    asked = []

    async def ask(method, params):
        asked.append(method)
        await asyncio.sleep(0)
        return await answer(method, params)

    assert one.known("pay") is None
    found = await asyncio.gather(*(one.ask(name, ask, 5.0, modern=False) for name in ("pay", "look", "pay")))
    assert [ruling.gated is not None for ruling in found] == [True, False, True]
    assert asked == ["tools/list"]


async def test_a_name_that_is_on_no_list_is_asked_for_each_time():
    one = gating(tools=None)
    asked = []

    async def ask(method, params):
        asked.append(method)
        return await answer(method, params)

    for _ in range(2):
        assert await one.ask("none", ask, 5.0, modern=False) is FREE
    assert asked == ["tools/list", "tools/list"]


@rows(("extensions", "relays"), [({"verifiedApproval": {}}, True), ({}, False)])
async def test_only_the_modern_era_is_asked_for_the_capability(extensions, relays):
    one = gating(tools=None)

    async def ask(method, params):
        return await answer(method, params, extensions=extensions)

    assert (await one.ask("pay", ask, 5.0, modern=True)).relayed is relays
    other = gating(tools=None)
    assert (await other.ask("pay", ask, 5.0, modern=False)).gated is not None


async def test_a_server_that_does_not_answer_is_not_called():
    one = gating(tools=None)

    async def ask(_method, _params):
        await asyncio.sleep(60)

    with pytest.raises(UpstreamError) as caught:
        await one.ask("pay", ask, 0.01, modern=False)
    assert caught.value.reason is Reason.UPSTREAM_TIMEOUT
    assert one.known("pay") is None


async def test_a_list_that_is_old_before_it_is_read_lets_nothing_through():
    one = gating(tools=None)

    async def ask(method, params):
        return await answer(method, params)

    learn_all = one.catalogue.learn_all

    def learn_and_hear(tools):
        learn_all(tools)
        one.catalogue.hear(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')

    one.catalogue.learn_all = learn_and_hear
    with pytest.raises(UpstreamError):
        await one.ask("look", ask, 5.0, modern=False)


async def test_a_deployment_has_one_id_for_good():
    kept = []

    async def stored(fresh):
        kept.append(fresh)
        return kept[0]

    first, second = Deployment(None, stored), Deployment(None, stored)
    assert not first.known
    await first.find_out()
    await second.find_out()
    assert first.server_id("a") == second.server_id("a") != first.server_id("b")
    assert Deployment("urn:mine", stored).server_id("a") == "urn:mine/a"

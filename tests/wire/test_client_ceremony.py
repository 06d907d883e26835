"""SEP-2672 §4.9 as a server sees it: what leaves the approval client, in which order, with what in it."""

import asyncio
import json
import logging

from mcp import Client

from callgate.protocol import CHALLENGE_CREATE, META
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from callgate.sdk.client import ApprovalClient, Done, Failed, NotCalled
from support.ceremony import MODES, Person, read_records, talking, talking_stdio
from support.clients import until
from support.registry import requirement
from support.sep_server import Drop, RpcError, SepServer, serving, tool
from support.table import rows

ARGUMENTS = {
    "resourceId": "ä\u2028\x00\U0001f511",
    "more": {"null": None, "list": [None, 1.5, -0.0, 2**53 - 1], "": {}},
}


def check_trace(records, person, arguments=ARGUMENTS):
    """One challenge, then one call with its evidence, for the same arguments."""
    told = [record for record in records if record["method"] in (CHALLENGE_CREATE, "tools/call")]
    assert [record["method"] for record in told] == [CHALLENGE_CREATE, "tools/call"]
    asked, called = (record["params"] for record in told)
    assert asked["toolName"] == called["name"] == "delete_resource"
    assert json.dumps(asked["arguments"]) == json.dumps(called["arguments"]) == json.dumps(arguments)
    evidence = called["_meta"][META]
    assert set(evidence) == {"method", "challengeId", "response"}
    assert evidence["method"] == "webauthn"
    assert json.dumps(evidence["response"]) == json.dumps(person.signed[0])
    assert [kind for kind, _ in person.events] == ["shown", "signed"]
    return evidence["challengeId"]


@requirement("VA-065", "VA-066", "VA-067", "VA-071", "VA-083", "VA-134", "VA-135", "VA-136")
@rows("mode", MODES)
async def test_a_marked_tool_is_called_with_a_signature_over_what_was_shown(mode):
    server = SepServer()
    async with talking(server, mode) as (client, person):
        outcome = await client.call_tool("delete_resource", ARGUMENTS)
    assert isinstance(outcome, Done)
    assert outcome.approved
    assert outcome.result.content[0].text == "delete_resource done"
    assert server.ran == [("delete_resource", ARGUMENTS)]
    challenge_id = check_trace(server.records, person)
    (challenge,) = [one["result"] for one in server.replies if "challengeId" in one.get("result", {})]
    assert challenge["challengeId"] == challenge_id
    (prompt,) = person.shown
    assert prompt.display_text == challenge["displayText"]
    assert prompt.request_options == challenge["requestOptions"]
    assert prompt.tool == "delete_resource"
    # What is sent, whatever the server's text says of it.
    assert prompt.arguments == ARGUMENTS


@requirement("VA-066", "VA-067", "VA-071", "VA-083", "VA-135")
@rows("mode", MODES)
async def test_the_ceremony_over_stdio(mode, tmp_path):
    async with talking_stdio(tmp_path / "records", mode) as (client, person):
        outcome = await client.call_tool("delete_resource", ARGUMENTS)
        plain = await client.call_tool("read_resource", {"resourceId": "x"})
    assert isinstance(outcome, Done)
    assert outcome.approved
    assert isinstance(plain, Done)
    assert not plain.approved
    records = read_records(tmp_path / "records")
    *before, last = records
    assert last["params"]["name"] == "read_resource"
    check_trace([one for one in before if one.get("params", {}).get("name") != "read_resource"], person)


@requirement("VA-009")
@rows("mode", MODES)
async def test_an_unmarked_tool_is_called_straight(mode):
    server = SepServer()
    async with talking(server, mode) as (client, person):
        outcome = await client.call_tool("read_resource", {"resourceId": "x"})
    assert isinstance(outcome, Done)
    assert not outcome.approved
    assert server.methods == ["tools/list", "tools/call"]
    assert META not in server.sent("tools/call")[0].get("_meta", {})
    assert person.events == []


@requirement("VA-011")
async def test_members_of_the_mark_that_nobody_knows_change_nothing():
    server = SepServer()
    mark = {"required": "verified", "authenticatorClass": "cross-platform", "since": {"v": 9}, "x": None}
    server.tools = [tool("delete_resource", mark)]
    async with talking(server) as (client, person):
        outcome = await client.call_tool("delete_resource", ARGUMENTS)
    assert isinstance(outcome, Done)
    check_trace(server.records, person)


@requirement("VA-006")
@rows(
    "mark",
    [
        {"required": "verified2"},
        {"required": None},
        {"required": ["verified"]},
        {"required": True},
        {},
        "verified",
        [],
        1,
        False,
    ],
    ids=repr,
)
async def test_a_mark_that_says_something_unknown_is_not_read_as_no_mark(mark):
    server = SepServer()
    server.tools = [tool("delete_resource", mark)]
    async with talking(server) as (client, person):
        outcome = await client.call_tool("delete_resource", ARGUMENTS)
    assert isinstance(outcome, NotCalled)
    assert outcome.why == "unknown_annotation"
    assert "delete_resource" in outcome.message
    assert server.methods == ["tools/list"]
    assert person.events == []


@requirement("VA-006")
async def test_a_mark_of_null_is_not_read_as_no_mark():
    server = SepServer()
    server.tools = [{"name": "delete_resource", "inputSchema": {"type": "object"}, "_meta": {META: None}}]
    async with talking(server) as (client, _):
        outcome = await client.call_tool("delete_resource", ARGUMENTS)
    assert isinstance(outcome, NotCalled)
    assert server.sent("tools/call") == []


async def test_a_tool_that_is_listed_twice_is_taken_for_the_stricter_one():
    server = SepServer()
    server.tools = [tool("delete_resource", {"required": "verified"}), tool("delete_resource")]
    async with talking(server) as (client, person):
        outcome = await client.call_tool("delete_resource", ARGUMENTS)
    assert isinstance(outcome, Done)
    assert outcome.approved
    assert len(person.signed) == 1


@requirement("VA-018")
@rows("mode", MODES)
@rows("name", ["verifiedApproval", META])
async def test_a_capability_with_more_in_it_is_the_capability(mode, name, caplog):
    server = SepServer(capabilities={name: {"version": 7, "more": {"x": None}}, "com.example/other": {}})
    async with talking(server, mode, strict=True) as (client, _):
        outcome = await client.call_tool("delete_resource", ARGUMENTS)
    assert isinstance(outcome, Done)
    assert outcome.approved
    assert "does not declare" not in caplog.text


@requirement("VA-019")
@rows("mode", MODES)
async def test_a_mark_without_the_capability_is_logged_once_and_the_ceremony_goes_on(mode, caplog):
    server = SepServer(capabilities={"com.example/other": {}})
    async with talking(server, mode) as (client, _):
        for _ in range(2):
            assert isinstance(await client.call_tool("delete_resource", ARGUMENTS), Done)
    (record,) = [one for one in caplog.records if "does not declare the capability" in one.getMessage()]
    assert record.levelno == logging.WARNING
    assert "delete_resource" in record.getMessage()


@requirement("VA-020", "VA-019")
@rows("mode", MODES)
async def test_a_strict_client_does_not_call_a_tool_marked_without_the_capability(mode, caplog):
    server = SepServer(capabilities={})
    async with talking(server, mode, strict=True) as (client, person):
        outcome = await client.call_tool("delete_resource", ARGUMENTS)
    assert isinstance(outcome, NotCalled)
    assert outcome.why == "capability_missing"
    assert server.methods == ["tools/list"]
    assert person.events == []
    assert "delete_resource" in caplog.text


@requirement("VA-134")
@rows("mode", MODES)
async def test_a_mark_on_a_later_page_of_the_listing_counts(mode):
    server = SepServer()
    server.tools = [*(tool(f"other{n}") for n in range(5)), tool("delete_resource", {"required": "verified"})]
    server.page_size = 2
    async with talking(server, mode) as (client, person):
        outcome = await client.call_tool("delete_resource", ARGUMENTS)
    assert isinstance(outcome, Done)
    assert len(person.signed) == 1
    assert [params.get("cursor") for params in server.sent("tools/list")] == [None, "2", "4"]


@requirement("VA-134")
async def test_a_listing_is_kept_until_the_server_says_that_it_changed():
    server = SepServer()
    async with talking(server, "legacy") as (client, person):
        for _ in range(3):
            await client.call_tool("read_resource", {"resourceId": "x"})
        assert len(server.sent("tools/list")) == 1
        server.tools = [tool("read_resource", {"required": "verified"})]
        await until(lambda: server.notify)
        await server.announce("notifications/tools/list_changed")
        await until(lambda: client._server._listing._generation)
        outcome = await client.call_tool("read_resource", {"resourceId": "x"})
    assert isinstance(outcome, Done)
    assert outcome.approved
    assert len(person.signed) == 1
    assert len(server.sent("tools/list")) == 2


async def test_a_modern_server_says_how_long_its_listing_holds():
    server = SepServer()
    server.ttl_ms = 60_000
    async with talking(server) as (client, _):
        for _ in range(3):
            await client.call_tool("read_resource", {"resourceId": "x"})
        assert len(server.sent("tools/list")) == 1


async def test_a_client_that_cannot_hear_of_changes_lists_before_each_call():
    server = SepServer()
    person = Person()
    await server.enrol(person.software)
    async with serving(server) as url, Client(url, mode="legacy") as opened:
        client = ApprovalClient(opened, person, show=person.show)
        await client.call_tool("read_resource", {"resourceId": "x"})
        server.tools = [tool("read_resource", {"required": "verified"})]
        outcome = await client.call_tool("read_resource", {"resourceId": "x"})
        around_session = ApprovalClient(opened.session, person, show=person.show)
        assert isinstance(await around_session.call_tool("read_resource", {"resourceId": "x"}), Done)
    assert isinstance(outcome, Done)
    assert outcome.approved
    assert len(person.signed) == 2


async def test_a_tool_that_was_marked_since_it_was_listed_is_approved_then():
    server = SepServer()
    async with talking(server, "legacy") as (client, person):
        await client.call_tool("read_resource", {"resourceId": "x"})
        server.tools = [tool("read_resource", {"required": "verified"})]
        outcome = await client.call_tool("read_resource", {"resourceId": "x"})
    assert isinstance(outcome, Done)
    assert outcome.approved
    assert len(person.signed) == 1
    # A refused call without evidence, the new listing, then the ceremony.
    assert server.methods[2:] == ["tools/call", "tools/list", CHALLENGE_CREATE, "tools/call"]
    assert len(server.ran) == 2


@requirement("VA-070")
@rows("mode", MODES)
@rows("code", [-32603, -32020, -32000])
async def test_after_a_failure_the_next_try_has_a_challenge_of_its_own(mode, code):
    server = SepServer()
    failures = 2

    async def fail(message):
        nonlocal failures
        failures -= 1
        if failures < 0:
            return await server.call(message)
        raise RpcError(code, "the network failed")

    server.instead["tools/call"] = fail
    async with talking(server, mode) as (client, _):
        outcomes = [await client.call_tool("delete_resource", ARGUMENTS) for _ in range(3)]
    assert [type(one) for one in outcomes] == [Failed, Failed, Done]
    assert outcomes[0].sent
    used = [params["_meta"][META]["challengeId"] for params in server.sent("tools/call")]
    assert len(used) == len(set(used)) == len(server.sent(CHALLENGE_CREATE)) == 3


@requirement("VA-070")
@rows("mode", MODES)
async def test_after_a_broken_connection_the_next_try_has_a_challenge_of_its_own(mode):
    server = SepServer()
    person = Person()
    await server.enrol(person.software)

    async def drop(_message):
        raise Drop

    server.instead["tools/call"] = drop
    async with serving(server) as url:
        async with ApprovalClient(Client(url, mode=mode), person, show=person.show) as client:
            broken = await client.call_tool("delete_resource", ARGUMENTS)
            after = await client.call_tool("delete_resource", ARGUMENTS)
        del server.instead["tools/call"]
        async with ApprovalClient(Client(url, mode=mode), person, show=person.show) as client:
            outcome = await client.call_tool("delete_resource", ARGUMENTS)
    assert isinstance(broken, Failed)
    assert broken.sent
    assert isinstance(after, Failed)
    assert not after.sent
    assert isinstance(outcome, Done)
    used = [params["_meta"][META]["challengeId"] for params in server.sent("tools/call")]
    assert len(used) == len(set(used)) == 2


@requirement("VA-070")
async def test_a_challenge_that_the_server_gives_out_twice_is_not_used_twice():
    server = SepServer()
    issued = []

    async def same(message):
        if not issued:
            issued.append(await server.challenge(message))
        return issued[0]

    server.instead[CHALLENGE_CREATE] = same
    async with talking(server) as (client, person):
        assert isinstance(await client.call_tool("delete_resource", ARGUMENTS), Done)
        outcome = await client.call_tool("delete_resource", ARGUMENTS)
    assert isinstance(outcome, NotCalled)
    assert outcome.why == "challenge_malformed"
    assert len(server.sent("tools/call")) == len(person.signed) == 1


@requirement("VA-069")
@rows("mode", MODES)
async def test_ceremonies_at_the_same_time_do_not_mix(mode):
    server = SepServer()
    server.tools = [tool(name, {"required": "verified"}) for name in ("delete_resource", "place_trade")]
    issued = {}
    release = asyncio.Event()

    async def challenge(message):
        result = await server.challenge(message)
        params = message["params"]
        issued[result["challengeId"]] = (params["toolName"], params["arguments"])
        return result

    async def call(message):
        # No call is answered before all have come, so every ceremony but the last overlaps with later ones.
        if len(server.sent("tools/call")) == 6:
            release.set()
        async with asyncio.timeout(20):
            await release.wait()
        return await server.call(message)

    server.instead |= {CHALLENGE_CREATE: challenge, "tools/call": call}
    calls = [(name, {"resourceId": str(n)}) for n in range(3) for name in ("delete_resource", "place_trade")]
    # The calls are answered in any order, so a passkey that counts would seem to go back.
    person = Person(SoftwareAuthenticator(counting=False))
    async with talking(server, mode, person) as (client, _):
        outcomes = await asyncio.gather(*(client.call_tool(name, arguments) for name, arguments in calls))
    assert all(isinstance(one, Done) and one.approved for one in outcomes)
    sent = server.sent("tools/call")
    assert len(sent) == len(issued) == 6
    for params in sent:
        assert issued[params["_meta"][META]["challengeId"]] == (params["name"], params["arguments"])


@requirement("VA-083")
async def test_arguments_that_change_while_the_person_reads_are_neither_signed_nor_sent():
    server = SepServer()
    arguments = {"resourceId": "harmless", "more": {"list": [1]}}
    person = Person()

    async def show(prompt):
        arguments["resourceId"] = "everything"
        arguments["more"]["list"].append(2)

    await server.enrol(person.software)
    async with serving(server) as url, ApprovalClient(Client(url), person, show=show) as client:
        outcome = await client.call_tool("delete_resource", arguments)
    assert isinstance(outcome, Done)
    (asked,), (called,) = server.sent(CHALLENGE_CREATE), server.sent("tools/call")
    assert asked["arguments"] == called["arguments"] == {"resourceId": "harmless", "more": {"list": [1]}}


@requirement("VA-177")
@rows("mode", MODES)
async def test_defaults_are_filled_in_before_the_challenge_if_that_is_wished(mode):
    server = SepServer()
    async with talking(server, mode, fill_defaults=True) as (client, person):
        outcome = await client.call_tool("delete_resource", {"resourceId": "x"})
    assert isinstance(outcome, Done)
    (asked,), (called,) = server.sent(CHALLENGE_CREATE), server.sent("tools/call")
    assert asked["arguments"] == called["arguments"] == {"resourceId": "x", "force": False}
    assert "force: false" in person.shown[0].display_text


async def test_defaults_are_left_alone_otherwise():
    server = SepServer()
    async with talking(server) as (client, _):
        await client.call_tool("delete_resource", {"resourceId": "x"})
    assert server.sent(CHALLENGE_CREATE)[0]["arguments"] == {"resourceId": "x"}


@requirement("VA-070", "VA-135")
async def test_a_call_that_is_repeated_with_further_input_is_approved_anew():
    server = SepServer()
    asked = {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}},
    }

    async def call(message):
        params = message["params"]
        if "inputResponses" not in params:
            return {"resultType": "input_required", "inputRequests": {"sure": asked}, "requestState": "s1"}
        assert params["requestState"] == "s1"
        return await server.call(message)

    server.instead["tools/call"] = call
    person = Person()
    await server.enrol(person.software)

    async def elicit(context, params):
        from mcp_types import ElicitResult

        return ElicitResult(action="accept", content={})

    async with serving(server) as url:
        client = ApprovalClient(Client(url, elicitation_callback=elicit), person, show=person.show)
        async with client:
            outcome = await client.call_tool("delete_resource", ARGUMENTS)
    assert isinstance(outcome, Done)
    assert server.methods == ["tools/list", CHALLENGE_CREATE, "tools/call", CHALLENGE_CREATE, "tools/call"]
    used = [params["_meta"][META]["challengeId"] for params in server.sent("tools/call")]
    assert len(set(used)) == 2
    assert [kind for kind, _ in person.events] == ["shown", "signed"] * 2

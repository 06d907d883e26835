"""How a call through the approval client can end: one test for each outcome, over the wire."""

import asyncio
import time
from typing import get_args

import msgspec
import pytest
from mcp import Client

from callgate.approval.model import ApprovalSettings
from callgate.errors import APPROVAL, ConfigError, Reason
from callgate.protocol import CHALLENGE_CREATE, META
from callgate.sdk import authenticators
from callgate.sdk.authenticators.software import Unattended
from callgate.sdk.client import (
    ApprovalClient,
    ApprovalReason,
    Cancelled,
    Done,
    Failed,
    NotCalled,
    Outcome,
    RefusedByServer,
    TimedOut,
)
from support.ceremony import Person, talking
from support.registry import requirement
from support.sep_server import RpcError, SepServer, serving, tool
from support.table import rows

ARGUMENTS = {"resourceId": "abc123"}
REASONS = get_args(ApprovalReason)


def refusing(server, method, error):
    async def refuse(_message):
        raise error

    server.instead[method] = refuse


async def called(server, *, tool_name="delete_resource", arguments=ARGUMENTS, person=None, **more):
    async with talking(server, person=person, **more) as (client, _):
        return await client.call_tool(tool_name, arguments)


@requirement("VA-186")
def test_the_reasons_are_those_of_the_specification_and_the_outcomes_are_six():
    assert set(REASONS) == {reason.value for reason in Reason if reason.code == APPROVAL}
    assert len(REASONS) == 16
    assert set(get_args(Outcome)) == {Done, RefusedByServer, NotCalled, Cancelled, TimedOut, Failed}
    for one in get_args(Outcome):
        assert one.__struct_config__.frozen


@requirement("VA-186")
async def test_done():
    server = SepServer()
    outcome = await called(server)
    assert isinstance(outcome, Done)
    assert outcome.approved
    assert outcome.tool == "delete_resource"
    assert server.ran == [("delete_resource", ARGUMENTS)]


@requirement("VA-137", "VA-186")
@rows("method", ["tools/call", CHALLENGE_CREATE])
@rows("reason", REASONS)
async def test_a_refusal_by_the_server_is_told_with_the_tool_and_what_to_do(reason, method):
    server = SepServer()
    refusing(server, method, RpcError(-32001, "no", {"reason": reason}))
    outcome = await called(server)
    assert isinstance(outcome, RefusedByServer)
    assert outcome.reason == reason
    assert outcome.message == f"delete_resource was not run: {Reason(reason).meaning}"
    assert outcome.advice == Reason(reason).advice
    assert server.ran == []


@requirement("VA-140", "VA-158")
@rows("reason", ["challenge_expired", "missing_evidence", "no_eligible_credential"])
async def test_only_the_reason_counts(reason):
    """Other words, another language, members taken away or made up: the same outcome but for the server's own words."""
    outcomes = []
    for message, data in [
        ("Approval evidence does not match the arguments of this call", {"reason": reason}),
        ("Die Freigabe fehlt: challenge_unknown", {"reason": reason, "expiresAt": "2026-01-01T00:00:00Z"}),
        ("", {"reason": reason, "code": -32600, "advice": "rm -rf /", "retry": True, "reasons": ["challenge_unknown"]}),
    ]:
        server = SepServer()
        refusing(server, "tools/call", RpcError(-32001, message, data))
        outcome = await called(server)
        assert isinstance(outcome, RefusedByServer)
        assert outcome.said == message
        outcomes.append((msgspec.structs.replace(outcome, said=""), server.methods))
    assert outcomes[0] == outcomes[1] == outcomes[2]


@requirement("VA-140")
@rows(
    ("code", "data"),
    [
        (-32001, None),
        (-32001, {"reason": "made_up"}),
        (-32001, {"reason": ["challenge_expired"]}),
        (-32001, "challenge_expired"),
        (-32001, {"message": "challenge_expired"}),
        (-32603, {"reason": "challenge_expired"}),
        (-32602, None),
    ],
)
async def test_other_errors_are_failures_whatever_their_message_says(code, data):
    server = SepServer()
    refusing(server, "tools/call", RpcError(code, "challenge_expired", data))
    outcome = await called(server)
    assert isinstance(outcome, Failed)
    assert outcome.code == code
    assert outcome.sent
    assert "delete_resource" in outcome.message
    assert "may have run" in outcome.advice


async def test_a_person_who_refused_on_the_gateways_page_is_told_of():
    server = SepServer()
    refusing(server, "tools/call", RpcError(-31403, "no", {"reason": "approval_refused"}))
    outcome = await called(server)
    assert isinstance(outcome, Failed)
    assert outcome.reason == "approval_refused"
    assert outcome.advice == Reason.APPROVAL_REFUSED.advice


@requirement("VA-186")
async def test_failed_before_anything_was_sent():
    server = SepServer()
    refusing(server, CHALLENGE_CREATE, RpcError(-32601, "Method not found"))
    outcome = await called(server)
    assert isinstance(outcome, Failed)
    assert outcome.code == -32601
    assert not outcome.sent
    assert server.sent("tools/call") == []


async def test_an_unmarked_tools_failure_is_an_outcome_too():
    server = SepServer()
    refusing(server, "tools/call", RpcError(-32602, "no such resource"))
    outcome = await called(server, tool_name="read_resource")
    assert isinstance(outcome, Failed)
    assert outcome.sent


@rows("name", ["delete_resource", "read_resource"])
async def test_a_result_that_is_none_is_a_failure(name):
    server = SepServer()

    async def garbage(_message):
        return {"content": 5}

    server.instead["tools/call"] = garbage
    outcome = await called(server, tool_name=name)
    assert isinstance(outcome, Failed)
    assert outcome.sent


async def test_a_listing_that_fails_is_a_failure():
    server = SepServer()
    refusing(server, "tools/list", RpcError(-32603, "down"))
    outcome = await called(server)
    assert isinstance(outcome, Failed)
    assert not outcome.sent
    assert server.methods == ["tools/list"]


class Refuser(Person):
    """Somebody who reads and says no."""

    async def show(self, prompt):
        await super().show(prompt)
        raise authenticators.Cancelled("they said no")


class Leaver(Person):
    """Somebody whose authenticator is told no."""

    async def get(self, prompt):
        raise authenticators.Cancelled("they said no")


@requirement("VA-186", "VA-136")
@rows("person", [Refuser, Leaver])
async def test_cancelled(person):
    server = SepServer()
    who = person()
    outcome = await called(server, person=who)
    assert isinstance(outcome, Cancelled)
    assert outcome.message == "delete_resource: they said no"
    assert who.signed == []
    assert server.sent("tools/call") == []


class Absent(Person):
    """Somebody who never comes."""

    async def get(self, prompt):
        await asyncio.Event().wait()


class Slow(Absent):
    """Somebody who never finishes reading."""

    async def show(self, prompt):
        await asyncio.Event().wait()


@requirement("VA-186")
@rows("person", [Absent, Slow])
async def test_timed_out_waiting_for_the_person(person):
    server = SepServer(settings=ApprovalSettings(first_use=True, challenge_ms=100))
    outcome = await called(server, person=person())
    assert isinstance(outcome, TimedOut)
    assert outcome.waiting_for == "person"
    assert not outcome.sent
    assert server.sent("tools/call") == []


async def test_the_client_waits_for_the_person_no_longer_than_it_was_told():
    outcome = await called(SepServer(), person=Absent(), timeout=0.1)
    assert isinstance(outcome, TimedOut)
    assert outcome.waiting_for == "person"


async def test_an_authenticator_that_ran_out_of_time_is_the_same():
    class Late(Person):
        async def get(self, prompt):
            raise authenticators.TimedOut("too late")

    outcome = await called(SepServer(), person=Late())
    assert isinstance(outcome, TimedOut)
    assert outcome.waiting_for == "person"


async def never(_message):
    await asyncio.sleep(30)


@requirement("VA-186")
@rows("method", ["tools/list", CHALLENGE_CREATE])
async def test_timed_out_waiting_for_the_server(method):
    server = SepServer()
    server.instead[method] = never
    outcome = await called(server, request_seconds=0.2)
    assert isinstance(outcome, TimedOut)
    assert outcome.waiting_for == "server"
    assert not outcome.sent
    assert server.sent("tools/call") == []


@rows("name", ["delete_resource", "read_resource"])
async def test_timed_out_waiting_for_the_result(name):
    server = SepServer()
    server.instead["tools/call"] = never
    async with talking(server) as (client, _):
        outcome = await client.call_tool(name, ARGUMENTS, call_seconds=0.2)
    assert isinstance(outcome, TimedOut)
    assert outcome.waiting_for == "server"
    assert outcome.sent


@requirement("VA-186")
async def test_not_called_because_there_is_no_passkey_for_it():
    class Other(Person):
        async def get(self, prompt):
            raise authenticators.NoPasskey("none here", advice="plug one in")

    server = SepServer()
    outcome = await called(server, person=Other())
    assert isinstance(outcome, NotCalled)
    assert outcome.why == "no_passkey"
    assert outcome.advice == "plug one in"
    assert server.sent("tools/call") == []


async def test_not_called_because_there_is_no_such_tool():
    server = SepServer()
    outcome = await called(server, tool_name="delete_resourse")
    assert isinstance(outcome, NotCalled)
    assert outcome.why == "unknown_tool"
    assert "'delete_resource'" in outcome.advice
    assert server.sent("tools/call") == []


@rows(
    "value",
    [2**53, float("nan"), float("inf"), "\ud800", object(), {1: 2}, b"bytes"],
    ids=lambda value: type(value).__name__,
)
async def test_not_called_because_the_arguments_have_no_canonical_form(value):
    server = SepServer()
    outcome = await called(server, arguments={"resourceId": "x", "more": value})
    assert isinstance(outcome, NotCalled)
    assert outcome.why == "arguments_invalid"
    assert server.methods == ["tools/list"]


@requirement("VA-136")
async def test_an_authenticator_that_shows_nothing_needs_somebody_who_does():
    person = Person()
    with pytest.raises(ConfigError, match="nobody would see") as caught:
        ApprovalClient(Client("http://127.0.0.1:9/mcp"), person)
    assert "show" in caught.value.advice


async def test_a_software_authenticator_says_that_nobody_is_asked(caplog):
    server = SepServer()
    person = Person()
    await server.enrol(person.software)
    async with (
        serving(server) as url,
        ApprovalClient(Client(url), Unattended(person.software), show=person.show) as client,
    ):
        assert isinstance(await client.call_tool("delete_resource", ARGUMENTS), Done)
    assert "no person is asked" in caplog.text


async def test_a_server_whose_clock_is_wrong_can_still_be_approved():
    server = SepServer()
    for offset in (-86_400, 86_400):
        async with talking(server, clock=lambda offset=offset: time.time() + offset) as (client, person):
            assert isinstance(await client.call_tool("delete_resource", ARGUMENTS), Done)
            assert 0 < person.shown[-1].expires_at - (time.time() + offset) <= 60
        server = SepServer()


async def test_a_connection_that_cannot_be_made_raises():
    with pytest.raises(BaseException):  # noqa: B017 - whatever the SDK raises
        async with ApprovalClient(Client("http://127.0.0.1:9/mcp"), Person(), show=Person().show):
            pytest.fail("there is nothing there")


async def test_input_that_the_client_cannot_give_is_a_failure():
    asked = {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}},
    }
    for wanted in ({"sure": asked}, {}):
        server = SepServer()

        async def call(_message, wanted=wanted):
            return {"resultType": "input_required", "inputRequests": wanted, "requestState": "s"}

        server.instead["tools/call"] = call
        outcome = await called(server)
        assert isinstance(outcome, Failed)
        assert len(server.sent("tools/call")) == 1


async def test_input_that_is_asked_for_without_end_is_a_failure():
    from mcp_types import ElicitResult

    asked = {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}},
    }
    server = SepServer()

    async def call(_message):
        return {"resultType": "input_required", "inputRequests": {"sure": asked}, "requestState": "s"}

    async def elicit(_context, _params):
        return ElicitResult(action="accept", content={})

    server.instead["tools/call"] = call
    person = Person()
    await server.enrol(person.software)
    async with serving(server) as url:
        client = Client(url, elicitation_callback=elicit, input_required_max_rounds=3)
        async with ApprovalClient(client, person, show=person.show) as approvals:
            outcome = await approvals.call_tool("delete_resource", ARGUMENTS)
    assert isinstance(outcome, Failed)
    ids = [params["_meta"][META]["challengeId"] for params in server.sent("tools/call")]
    assert len(ids) == len(set(ids)) == 4


async def test_a_mark_that_is_taken_away_is_noticed_after_the_refusal():
    server = SepServer()
    async with talking(server, "legacy") as (client, _):
        await client.call_tool("read_resource", ARGUMENTS)
        server.tools = [tool("delete_resource")]
        refusing(server, CHALLENGE_CREATE, RpcError(-32001, "no", {"reason": "tool_not_approved_required"}))
        first = await client.call_tool("delete_resource", ARGUMENTS)
        second = await client.call_tool("delete_resource", ARGUMENTS)
    assert isinstance(first, RefusedByServer)
    assert isinstance(second, Done)
    assert not second.approved

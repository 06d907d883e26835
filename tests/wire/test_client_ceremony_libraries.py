"""The client library with the server library: both ends ours, the wire between them real."""

import asyncio

from mcp import Client, StdioServerParameters

from callgate.sdk.authenticators.software import SoftwareAuthenticator
from callgate.sdk.client import ApprovalClient, Done, Enrolled, Failed, RefusedByServer
from support.approval_server import argv, running, ticket
from support.ceremony import MODES, Person
from support.table import rows


async def check(client, person, allowed):
    """Enrol, approve, be refused; strict, so that the capability has to be seen in each era."""
    assert isinstance(await client.enrol("made up"), Failed)
    assert isinstance(await client.enrol(allowed), Enrolled)
    plain = await client.call_tool("break_glass", {"pane": "north"})
    assert isinstance(plain, Done)
    assert not plain.approved
    outcome = await client.call_tool("delete_resource", {"resourceId": "abc123"})
    assert isinstance(outcome, Done)
    assert outcome.approved
    assert outcome.result.content[0].text == "deleted abc123"
    assert [prompt.display_text for prompt in person.shown] == ["Permanently delete resource abc123"]
    invalid = await client.call_tool("delete_resource", {"resourceId": 5})
    assert isinstance(invalid, Failed)
    assert invalid.reason == "arguments_invalid"
    assert not invalid.sent
    person.software.passkeys[0].counter -= 2
    regressed = await client.call_tool("delete_resource", {"resourceId": "abc123"})
    assert isinstance(regressed, RefusedByServer)
    assert regressed.reason == "signature_counter_regression"


@rows("mode", MODES)
async def test_over_http(mode, caplog):
    person = Person()
    with running() as server:
        allowed = await asyncio.to_thread(server.ticket, "alice")
        client = ApprovalClient(Client(server.url, mode=mode), person, show=person.show, strict=True)
        async with client:
            await check(client, person, allowed)
        assert server.executed == [("break_glass", "north"), ("delete_resource", "abc123")]
    assert "does not declare" not in caplog.text


@rows("mode", MODES)
async def test_over_stdio(mode, tmp_path):
    store = f"sqlite:///{tmp_path / 'approvals.db'}"
    program, *arguments = argv("stdio", store, tmp_path / "marks")
    person = Person(SoftwareAuthenticator(algorithm="EdDSA"))
    mcp = Client(StdioServerParameters(command=program, args=arguments), mode=mode)
    async with ApprovalClient(mcp, person, show=person.show, strict=True) as client:
        allowed = await asyncio.to_thread(ticket, store, "alice")
        await check(client, person, allowed)
    assert (tmp_path / "marks").read_text().splitlines() == [
        '["break_glass", "north"]',
        '["delete_resource", "abc123"]',
    ]

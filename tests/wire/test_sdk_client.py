"""The `mcp` SDK's client, in every mode, on every combination of transports: as if the gateway were not there.

The combinations without a gateway come first: what fails there fails in the SDK or the fixture, not in the gateway.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import mcp_types as types
import pytest
import pytest_asyncio
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from support.clients import MODES, Connection, connected, over_stdio, until
from support.everything import everything_argv
from support.gateway import wrap_argv

COMBINATIONS = ("direct-http", "direct-stdio", "http-http", "http-stdio", "stdio-stdio", "stdio-http")
NOTE = "memo://note"
UP, DOWN = "dev.example/up", "dev.example/down"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
WAYS = [pytest.param((way, mode), id=f"{way}-{mode}") for way in COMBINATIONS for mode in MODES]

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.parametrize("connection", WAYS, indirect=True, scope="module"),
]


class Anything(types.Result, extra="allow"):
    """A result whatever its members."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def connection(request, everything, gateway, tmp_path_factory):
    way, mode = request.param
    directory = tmp_path_factory.mktemp("client")
    command = everything_argv("stdio", everything.marks)
    server = {
        "direct-http": lambda: everything.url,
        "direct-stdio": lambda: over_stdio(command, directory / "stderr"),
        "http-http": lambda: gateway.url("web"),
        "http-stdio": lambda: gateway.url("pipe"),
        "stdio-stdio": lambda: over_stdio(wrap_argv(directory, "pipe", command), directory / "stderr"),
        "stdio-http": lambda: over_stdio(wrap_argv(directory, "web", url=everything.url), directory / "stderr"),
    }[way]()
    async with connected(server, mode, everything.marks) as connection:
        yield connection


def text(result: types.CallToolResult) -> str:
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text


async def test_negotiates_the_version_and_what_the_server_can_do(connection: Connection):
    client = connection.client
    assert client.protocol_version == connection.version
    if connection.mode in ("auto", "legacy"):
        assert client.server_info is not None
        assert client.server_info.name == "everything"
        assert client.instructions == "Try everything."
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.completions is not None


async def test_lists_tools_with_their_schemas_and_meta(connection: Connection):
    tools = {tool.name: tool for tool in (await connection.client.list_tools()).tools}
    assert {"echo", "fail", "count", "wait", "ask", "consult", "announce", "touch", "log"} == tools.keys()
    assert tools["echo"].input_schema == {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }
    assert (tools["echo"].output_schema or {})["required"] == ["text", "length"]
    assert (tools["echo"].meta or {})[DOWN] == "echo"


async def test_calls_a_tool_and_gets_structured_content(connection: Connection):
    result = await connection.client.call_tool("echo", {"text": "grüße 👋\u2028\n"})
    assert text(result) == "grüße 👋\u2028\n"
    assert result.structured_content == {"text": "grüße 👋\u2028\n", "length": 9}
    assert not result.is_error


async def test_a_tool_that_fails_says_so_in_its_result(connection: Connection):
    result = await connection.client.call_tool("fail")
    assert result.is_error
    assert text(result) == "this tool always fails"


async def test_an_unknown_tool_is_the_servers_own_error(connection: Connection):
    with pytest.raises(MCPError) as caught:
        await connection.client.call_tool("nonesuch")
    assert (caught.value.code, caught.value.message) == (types.INVALID_PARAMS, "Unknown tool: nonesuch")


async def test_meta_travels_both_ways(connection: Connection):
    sent: Any = {UP: {"deep": [1, 2.5, None, "ü"]}}
    result = await connection.client.call_tool("echo", {"text": ""}, meta=sent)
    assert (result.meta or {})[DOWN] == {"heard": sent[UP]}


async def test_resources_are_listed_and_read(connection: Connection):
    client = connection.client
    assert [resource.uri for resource in (await client.list_resources()).resources] == [NOTE]
    templates = (await client.list_resource_templates()).resource_templates
    assert [template.uri_template for template in templates] == ["memo://{word}"]
    content = (await client.read_resource("memo://käse")).contents[0]
    assert isinstance(content, types.TextResourceContents)
    assert content.text == "the text of memo://käse"


async def test_a_change_of_a_resource_is_announced(connection: Connection):
    client, witness = connection.client, connection.witness
    if connection.modern:
        async with client.listen(resource_subscriptions=[NOTE]) as events:
            await client.call_tool("touch", {"uri": NOTE})
            assert await anext(events) == ResourceUpdated(uri=NOTE)
        return
    with pytest.warns(MCPDeprecationWarning):
        await client.subscribe_resource(NOTE)
    await client.call_tool("touch", {"uri": NOTE})
    await until(lambda: witness.heard(types.ResourceUpdatedNotification))
    assert witness.heard(types.ResourceUpdatedNotification)[-1].params.uri == NOTE
    with pytest.warns(MCPDeprecationWarning):
        await client.unsubscribe_resource(NOTE)


async def test_a_change_of_the_tools_is_announced(connection: Connection):
    client, witness = connection.client, connection.witness
    if connection.modern:
        async with client.listen(tools_list_changed=True) as events:
            assert events.honored.tools_list_changed
            for _ in range(2):
                await client.call_tool("announce")
                assert await anext(events) == ToolsListChanged()
        return
    before = len(witness.heard(types.ToolListChangedNotification))
    await client.call_tool("announce")
    await until(lambda: len(witness.heard(types.ToolListChangedNotification)) == before + 1)


async def test_prompts_are_listed_and_filled_in(connection: Connection):
    assert [prompt.name for prompt in (await connection.client.list_prompts()).prompts] == ["greet"]
    result = await connection.client.get_prompt("greet", {"whom": "Åsa"})
    assert result.description == "greet"
    content = result.messages[0].content
    assert isinstance(content, types.TextContent)
    assert content.text == "Greet Åsa."


async def test_arguments_are_completed(connection: Connection):
    reference = types.PromptReference(type="ref/prompt", name="greet")
    result = await connection.client.complete(reference, {"name": "whom", "value": "pa"})
    assert result.completion.values == ["pair", "pare"]


async def test_progress_arrives_in_order_before_the_result(connection: Connection):
    seen: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    result = await connection.client.call_tool("count", {"steps": 4}, progress_callback=progress)
    assert text(result) == "counted to 4"
    await until(lambda: len(seen) == 4)
    assert seen == [(step, 4, f"step {step}") for step in (1, 2, 3, 4)]


async def test_a_cancelled_call_is_cancelled_at_the_server(connection: Connection):
    key = secrets.token_hex(8)
    call = asyncio.create_task(connection.client.call_tool("wait", {"key": key}))
    await until((connection.marks / f"started-{key}").exists)
    assert not (connection.marks / f"cancelled-{key}").exists()
    call.cancel()
    await until((connection.marks / f"cancelled-{key}").exists)
    with pytest.raises(asyncio.CancelledError):
        await call
    assert text(await connection.client.call_tool("echo", {"text": "still here"})) == "still here"


async def test_the_server_asks_the_person(connection: Connection):
    """Handshake era: `elicitation/create` from the server. Modern era: `input_required`, and the call again."""
    assert text(await connection.client.call_tool("ask")) == "accept: Åsa"
    assert connection.witness.questions[-1] == "Your name?"


async def test_the_server_asks_the_clients_model(connection: Connection):
    assert text(await connection.client.call_tool("consult")) == "small: 4"
    assert connection.witness.questions[-1] == "10"


async def test_request_state_comes_and_goes_unchanged(connection: Connection):
    session = connection.client.session
    if not connection.modern:
        # That era has no state to carry: the server asks while the call is under way, and the call ends once.
        assert isinstance(await session.call_tool("ask", {}, allow_input_required=True), types.CallToolResult)
        return
    first = await session.call_tool("ask", {}, allow_input_required=True)
    assert isinstance(first, types.InputRequiredResult)
    assert first.request_state == 'asked once: ü " \\ \u2028'
    assert set(first.input_requests or {}) == {"name"}
    answers: Any = {"name": types.ElicitResult(action="decline")}
    again = await session.call_tool("ask", {}, input_responses=answers, request_state=first.request_state)
    assert text(again) == "decline: None"


async def test_log_messages_arrive(connection: Connection):
    before = len(connection.witness.logs)
    result = await connection.client.call_tool("log", {"text": "careful"}, meta={LOG_LEVEL: "debug"})
    assert text(result) == "logged"
    await until(lambda: len(connection.witness.logs) > before)
    (logged,) = connection.witness.logs[before:]
    assert (logged.level, logged.logger, logged.data) == ("warning", "everything", {"text": "careful"})


async def test_a_method_and_fields_the_protocol_does_not_know_pass(connection: Connection):
    params = {"who": "ü", "list": [1, 2.5, None, {"a": {}}], "_meta": {UP: "here"}, "Arguments": 1}
    request = types.Request[dict[str, Any], str](method="dev.example/mirror", params=params)
    result = await connection.client.session.send_request(request, Anything)
    found = result.model_dump(by_alias=True)
    assert found["mirrored"] == {key: value for key, value in params.items() if key != "_meta"}
    assert found["unheardOf"] == [1, {"a": None}]
    assert found["_meta"][DOWN] == "here"


async def test_an_error_keeps_its_code_message_and_data(connection: Connection):
    request = types.Request[dict[str, Any], str](method="dev.example/refuse", params={})
    with pytest.raises(MCPError) as caught:
        await connection.client.session.send_request(request, Anything)
    assert (caught.value.code, caught.value.message) == (-31337, "refused, politely: ü")
    assert caught.value.data == {"nested": {"list": [1, 2.5, None, True, "ü"]}, "reason": "because"}


async def test_an_unknown_method_is_the_servers_own_error(connection: Connection):
    request = types.Request[dict[str, Any], str](method="dev.example/nonesuch", params={})
    with pytest.raises(MCPError) as caught:
        await connection.client.session.send_request(request, Anything)
    assert caught.value.code == types.METHOD_NOT_FOUND


async def test_many_calls_at_once_each_get_their_own_answer(connection: Connection):
    words = [f"word {number}" for number in range(40)]
    results = await asyncio.gather(*(connection.client.call_tool("echo", {"text": word}) for word in words))
    assert [text(result) for result in results] == words

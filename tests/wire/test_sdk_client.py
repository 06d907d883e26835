"""The `mcp` SDK's client, in every mode, on every combination of transports: as if the gateway were not there.

The gateway runs as shipped, with the server's tools reviewed.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack
from typing import Any

import mcp_types as types
import pytest
import pytest_asyncio
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from support.clients import MODES, connected, over_stdio, until
from support.everything import everything_argv
from support.fork_server import CALLGATE
from support.table import rows

# Without a gateway: what fails there fails in the SDK or the fixture. That changes only with the SDK.
DIRECT = ("direct-http", "direct-stdio")
THROUGH = ("http-http", "stdio-stdio")
# What changes the transport is built of the same two halves.
CROSSED = ("http-stdio", "stdio-http")
# The whole gateway in the process of `callgate wrap`.
ALONE = ("alone-stdio", "alone-http")
NOTE = "memo://note"
UP, DOWN = "dev.example/up", "dev.example/down"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
WAYS = [*(pytest.param(way, marks=pytest.mark.verify) for way in (*DIRECT, *CROSSED, *ALONE)), *THROUGH]

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.parametrize("way", WAYS, scope="module"),
]
every_mode = rows("mode", MODES)


class Anything(types.Result, extra="allow"):
    """A result whatever its members."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def connections(way, everything, gateway, tmp_path_factory):
    """A connection in each mode."""
    errors = tmp_path_factory.mktemp("client") / "stderr"

    def wrapped(name, *options):
        return over_stdio([CALLGATE, "wrap", "-c", str(gateway.config), *options, name], errors)

    server = {
        "direct-http": lambda: everything.url,
        "direct-stdio": lambda: over_stdio(everything_argv("stdio", everything.marks), errors),
        "http-http": lambda: gateway.url("web"),
        "http-stdio": lambda: gateway.url("pipe"),
        "stdio-stdio": lambda: wrapped("pipe"),
        "stdio-http": lambda: wrapped("web"),
        "alone-stdio": lambda: wrapped("pipe", "--alone"),
        "alone-http": lambda: wrapped("web", "--alone"),
    }[way]
    async with AsyncExitStack() as stack:
        yield {mode: await stack.enter_async_context(connected(server(), mode, everything.marks)) for mode in MODES}


def text(result: types.CallToolResult) -> str:
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text


@every_mode
async def test_negotiates_the_version_and_what_the_server_can_do(connections, mode):
    connection = connections[mode]
    client = connection.client
    assert client.protocol_version == connection.version
    if connection.mode in ("auto", "legacy"):
        assert client.server_info is not None
        assert client.server_info.name == "everything"
        assert client.instructions == "Try everything."
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.completions is not None


@every_mode
async def test_lists_tools_with_their_schemas_and_meta(connections, mode):
    connection = connections[mode]
    tools = {tool.name: tool for tool in (await connection.client.list_tools()).tools}
    assert {"echo", "fail", "count", "wait", "ask", "consult", "announce", "touch", "log"} == tools.keys()
    assert tools["echo"].input_schema == {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }
    assert (tools["echo"].output_schema or {})["required"] == ["text", "length"]
    assert (tools["echo"].meta or {})[DOWN] == "echo"


@every_mode
async def test_calls_a_tool_and_gets_structured_content(connections, mode):
    connection = connections[mode]
    result = await connection.client.call_tool("echo", {"text": "grüße 👋\u2028\n"})
    assert text(result) == "grüße 👋\u2028\n"
    assert result.structured_content == {"text": "grüße 👋\u2028\n", "length": 9}
    assert not result.is_error


@every_mode
async def test_a_tool_that_fails_says_so_in_its_result(connections, mode):
    connection = connections[mode]
    result = await connection.client.call_tool("fail")
    assert result.is_error
    assert text(result) == "this tool always fails"


@every_mode
async def test_a_tool_that_is_not_on_the_list_is_an_error(connections, mode, way):
    """The server's own, or the gateway's, which lets nothing through that nobody has reviewed."""
    with pytest.raises(MCPError) as caught:
        await connections[mode].client.call_tool("nonesuch")
    if way in DIRECT:
        assert (caught.value.code, caught.value.message) == (types.INVALID_PARAMS, "Unknown tool: nonesuch")
    else:
        assert caught.value.error.data["reason"] == "tool_unknown"


@every_mode
async def test_meta_travels_both_ways(connections, mode):
    connection = connections[mode]
    sent: Any = {UP: {"deep": [1, 2.5, None, "ü"]}}
    result = await connection.client.call_tool("echo", {"text": ""}, meta=sent)
    assert (result.meta or {})[DOWN] == {"heard": sent[UP]}


@every_mode
async def test_resources_are_listed_and_read(connections, mode):
    connection = connections[mode]
    client = connection.client
    assert [resource.uri for resource in (await client.list_resources()).resources] == [NOTE]
    templates = (await client.list_resource_templates()).resource_templates
    assert [template.uri_template for template in templates] == ["memo://{word}"]
    content = (await client.read_resource("memo://käse")).contents[0]
    assert isinstance(content, types.TextResourceContents)
    assert content.text == "the text of memo://käse"


@every_mode
async def test_a_change_of_a_resource_is_announced(connections, mode):
    connection = connections[mode]
    # One that no earlier result named: that would be a question for a person.
    uri = f"memo://{secrets.token_hex(8)}"
    client, witness = connection.client, connection.witness
    if connection.modern:
        async with client.listen(resource_subscriptions=[uri]) as events:
            await client.call_tool("touch", {"uri": uri})
            assert await anext(events) == ResourceUpdated(uri=uri)
        return
    with pytest.warns(MCPDeprecationWarning):
        await client.subscribe_resource(uri)
    await client.call_tool("touch", {"uri": uri})
    await until(lambda: witness.heard(types.ResourceUpdatedNotification))
    assert witness.heard(types.ResourceUpdatedNotification)[-1].params.uri == uri
    with pytest.warns(MCPDeprecationWarning):
        await client.unsubscribe_resource(uri)


@every_mode
async def test_a_change_of_the_tools_is_announced(connections, mode):
    connection = connections[mode]
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


@every_mode
async def test_prompts_are_listed_and_filled_in(connections, mode):
    connection = connections[mode]
    assert [prompt.name for prompt in (await connection.client.list_prompts()).prompts] == ["greet"]
    result = await connection.client.get_prompt("greet", {"whom": "Åsa"})
    assert result.description == "greet"
    content = result.messages[0].content
    assert isinstance(content, types.TextContent)
    assert content.text == "Greet Åsa."


@every_mode
async def test_arguments_are_completed(connections, mode):
    connection = connections[mode]
    reference = types.PromptReference(type="ref/prompt", name="greet")
    result = await connection.client.complete(reference, {"name": "whom", "value": "pa"})
    assert result.completion.values == ["pair", "pare"]


@every_mode
async def test_progress_arrives_in_order_before_the_result(connections, mode):
    connection = connections[mode]
    seen: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    result = await connection.client.call_tool("count", {"steps": 4}, progress_callback=progress)
    assert text(result) == "counted to 4"
    await until(lambda: len(seen) == 4)
    assert seen == [(step, 4, f"step {step}") for step in (1, 2, 3, 4)]


@every_mode
async def test_a_cancelled_call_is_cancelled_at_the_server(connections, mode):
    connection = connections[mode]
    key = secrets.token_hex(8)
    call = asyncio.create_task(connection.client.call_tool("wait", {"key": key}))
    await until((connection.marks / f"started-{key}").exists)
    assert not (connection.marks / f"cancelled-{key}").exists()
    call.cancel()
    await until((connection.marks / f"cancelled-{key}").exists)
    with pytest.raises(asyncio.CancelledError):
        await call
    assert text(await connection.client.call_tool("echo", {"text": "still here"})) == "still here"


@every_mode
async def test_the_server_asks_the_person(connections, mode):
    """Handshake era: `elicitation/create` from the server. Modern era: `input_required`, and the call again."""
    connection = connections[mode]
    assert text(await connection.client.call_tool("ask")) == "accept: Åsa"
    assert connection.witness.questions[-1] == "Your name?"


@every_mode
async def test_the_server_asks_the_clients_model(connections, mode):
    connection = connections[mode]
    assert text(await connection.client.call_tool("consult")) == "small: 4"
    assert connection.witness.questions[-1] == "10"


@every_mode
async def test_request_state_comes_and_goes_unchanged(connections, mode):
    connection = connections[mode]
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


@every_mode
async def test_log_messages_arrive(connections, mode):
    connection = connections[mode]
    before = len(connection.witness.logs)

    async def log() -> types.CallToolResult:
        return await connection.client.call_tool("log", {"text": "careful"}, meta={LOG_LEVEL: "debug"})

    try:
        result = await log()
    except MCPError as error:
        # The call that was cancelled may still be answered: the gateway started another process, whose tools it checks.
        if error.error.data["reason"] != "toolset_unverified":
            raise
        result = await log()
    assert text(result) == "logged"
    await until(lambda: len(connection.witness.logs) > before)
    (logged,) = connection.witness.logs[before:]
    assert (logged.level, logged.logger, logged.data) == ("warning", "everything", {"text": "careful"})


@every_mode
async def test_a_method_and_fields_the_protocol_does_not_know_pass(connections, mode):
    connection = connections[mode]
    params = {"who": "ü", "list": [1, 2.5, None, {"a": {}}], "_meta": {UP: "here"}, "Arguments": 1}
    request = types.Request[dict[str, Any], str](method="dev.example/mirror", params=params)
    result = await connection.client.session.send_request(request, Anything)
    found = result.model_dump(by_alias=True)
    assert found["mirrored"] == {key: value for key, value in params.items() if key != "_meta"}
    assert found["unheardOf"] == [1, {"a": None}]
    assert found["_meta"][DOWN] == "here"


@every_mode
async def test_an_error_keeps_its_code_message_and_data(connections, mode):
    connection = connections[mode]
    request = types.Request[dict[str, Any], str](method="dev.example/refuse", params={})
    with pytest.raises(MCPError) as caught:
        await connection.client.session.send_request(request, Anything)
    assert (caught.value.code, caught.value.message) == (-31337, "refused, politely: ü")
    assert caught.value.data == {"nested": {"list": [1, 2.5, None, True, "ü"]}, "reason": "because"}


@every_mode
async def test_an_unknown_method_is_the_servers_own_error(connections, mode):
    connection = connections[mode]
    request = types.Request[dict[str, Any], str](method="dev.example/nonesuch", params={})
    with pytest.raises(MCPError) as caught:
        await connection.client.session.send_request(request, Anything)
    assert caught.value.code == types.METHOD_NOT_FOUND


@every_mode
async def test_many_calls_at_once_each_get_their_own_answer(connections, mode):
    connection = connections[mode]
    # Words that no earlier result had in it: those would be a question for a person.
    words = [secrets.token_hex(8) for _ in range(40)]
    results = await asyncio.gather(*(connection.client.call_tool("echo", {"text": word}) for word in words))
    assert [text(result) for result in results] == words

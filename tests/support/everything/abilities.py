"""The tools of the everything server: each shows one ability of the protocol, in the way of the caller's era."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ResourceUpdated, SubscriptionBus, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]
Answer = types.CallToolResult | types.InputRequiredResult

META_UP: Final = "dev.example/up"
META_DOWN: Final = "dev.example/down"
STATE: Final = 'asked once: ü " \\ \u2028'


@dataclass(frozen=True)
class Call:
    """One `tools/call` under way; `marks` is a directory where what happens can be seen from outside."""

    ctx: Context
    params: types.CallToolRequestParams
    bus: SubscriptionBus
    marks: Path

    def argument(self, name: str) -> Any:
        return (self.params.arguments or {})[name]

    @property
    def modern(self) -> bool:
        return self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    def mark(self, name: str) -> None:
        (self.marks / name).touch()


Body = Callable[[Call], Awaitable[Answer]]
BODIES: dict[str, Body] = {}
TOOLS: list[types.Tool] = []


def tool(description: str, output: Mapping[str, Any] | None = None, **arguments: str) -> Callable[[Body], Body]:
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in arguments.items()}}

    def register(body: Body) -> Body:
        BODIES[body.__name__] = body
        TOOLS.append(
            types.Tool(
                name=body.__name__,
                description=description,
                input_schema=schema | {"required": list(arguments)},
                output_schema=None if output is None else dict(output),
                _meta={META_DOWN: body.__name__},
            )
        )
        return body

    return register


def said(text: str, *, is_error: bool = False, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error, **more)


_ECHO: Final = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "length": {"type": "integer"}},
    "required": ["text", "length"],
}


@tool("Says what it was told, and what the request's _meta held.", _ECHO, text="string")
async def echo(call: Call) -> Answer:
    text = str(call.argument("text"))
    heard = (call.ctx.meta or {}).get(META_UP)
    return said(text, structured_content={"text": text, "length": len(text)}, _meta={META_DOWN: {"heard": heard}})


@tool("Fails, inside its result.")
async def fail(call: Call) -> Answer:
    return said("this tool always fails", is_error=True)


@tool("Reports progress so many times.", steps="integer")
async def count(call: Call) -> Answer:
    steps = int(call.argument("steps"))
    for step in range(1, steps + 1):
        await call.ctx.session.report_progress(step, steps, f"step {step}")
    return said(f"counted to {steps}")


@tool("Waits for ever; marks its start and its cancellation.", key="string")
async def wait(call: Call) -> Answer:
    key = call.argument("key")
    call.mark(f"started-{key}")
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        call.mark(f"cancelled-{key}")
        raise
    raise AssertionError("unreachable")


@tool("Asks the person behind the client for a name.")
async def ask(call: Call) -> Answer:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    if not call.modern:
        answer = await call.ctx.session.elicit_form("Your name?", schema, related_request_id=call.ctx.request_id)
        return said(f"{answer.action}: {(answer.content or {}).get('name')}")
    given = (call.params.input_responses or {}).get("name")
    if not isinstance(given, types.ElicitResult):
        question = types.ElicitRequest(
            params=types.ElicitRequestFormParams(message="Your name?", requested_schema=schema)
        )
        return types.InputRequiredResult(input_requests={"name": question}, request_state=STATE)
    if call.params.request_state != STATE:
        raise MCPError(types.INVALID_PARAMS, "requestState came back changed", {"got": call.params.request_state})
    return said(f"{given.action}: {(given.content or {}).get('name')}")


@tool("Asks the client's model.")
async def consult(call: Call) -> Answer:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="2 + 2?"))
    request = types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=10))
    if call.modern:
        given = (call.params.input_responses or {}).get("sum")
        if not isinstance(given, types.CreateMessageResult):
            return types.InputRequiredResult(input_requests={"sum": request}, request_state=STATE)
    else:
        given = await call.ctx.session.send_request(
            request,
            types.CreateMessageResult,
            metadata=ServerMessageMetadata(related_request_id=call.ctx.request_id),
        )
    assert isinstance(given.content, types.TextContent)
    return said(f"{given.model}: {given.content.text}")


@tool("Announces that the list of tools changed.")
async def announce(call: Call) -> Answer:
    if call.modern:
        await call.bus.publish(ToolsListChanged())
    else:
        await call.ctx.session.send_tool_list_changed()
    return said("announced")


@tool("Announces that a resource changed.", uri="string")
async def touch(call: Call) -> Answer:
    if call.modern:
        await call.bus.publish(ResourceUpdated(uri=call.argument("uri")))
    else:
        await call.ctx.session.send_resource_updated(call.argument("uri"))
    return said("touched")


@tool("Writes to the client's log while it works.", text="string")
async def log(call: Call) -> Answer:
    # In the modern era the SDK keeps silent unless the request asked for log messages.
    data = {"text": call.argument("text")}
    await call.ctx.session.send_log_message("warning", data, "everything", related_request_id=call.ctx.request_id)
    return said("logged")

"""The server that the conformance suite is run against, directly and through the gateway.

    python tests/conformance/server.py --port 0
    python tests/conformance/server.py --stdio

One endpoint, both eras: requests at 2025-11-25 have sessions and resumable streams, requests at 2026-07-28 are
single exchanges. Prints `listening on http://127.0.0.1:PORT/mcp` once the port is bound; with `--stdio`, serves one
client on standard input and output.
"""

from __future__ import annotations

import argparse
import itertools
import socket
import warnings
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from fixture import rounds, tools
from fixture.catalogue import PROMPTS, RESOURCES, TEMPLATES, get_prompt, read_resource
from fixture.registry import Call, ToolResult
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types.jsonrpc import JSONRPCMessage
from starlette.applications import Starlette
from starlette.routing import Route

NAME = "callgate-conformance-fixture"
HOST = "127.0.0.1"
PATH = "/mcp"
RETRY_MILLISECONDS = 200
TOOLS = tools.TOOLS | rounds.TOOLS
# Not the SDK's own defaults (0, private), so that a relay which drops or rewrites them is noticed.
_HINT = CacheHint(ttl_ms=1000, scope="public")
CACHE_HINTS: dict[CacheableMethod, CacheHint] = {
    "server/discover": _HINT,
    "tools/list": _HINT,
    "prompts/list": _HINT,
    "resources/list": _HINT,
    "resources/templates/list": _HINT,
    "resources/read": _HINT,
}

Context = ServerRequestContext[Any, Any]


def build_server() -> Server[Any]:
    bus = InMemorySubscriptionBus()

    async def list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=TOOLS.definitions())

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
        entry = TOOLS.get(params.name)
        if entry is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await entry.body(Call(ctx, params, bus))

    server: Server[Any] = Server(
        NAME,
        version="1.0.0",
        cache_hints=CACHE_HINTS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=_list_resources,
        on_list_resource_templates=_list_templates,
        on_read_resource=_read_resource,
        on_subscribe_resource=_acknowledge,
        on_unsubscribe_resource=_acknowledge,
        on_list_prompts=_list_prompts,
        on_get_prompt=_get_prompt,
        on_completion=_complete,
        on_subscriptions_listen=ListenHandler(bus),
    )
    # Not the constructor's keyword: that one warns, and 2025-11-25 has the method all the same.
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _acknowledge)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    return server


async def _list_resources(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=RESOURCES)


async def _list_templates(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(resource_templates=TEMPLATES)


async def _read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    return read_resource(params.uri)


async def _list_prompts(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=PROMPTS)


async def _get_prompt(
    ctx: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    return get_prompt(params)


async def _complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    known = ("test", "testing", "tested", "paris", "park")
    values = [word for word in known if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


async def _acknowledge(ctx: Context, params: types.RequestParams) -> types.EmptyResult:
    return types.EmptyResult()


class SessionEvents(EventStore):
    """The events of one session, kept for clients that come back with Last-Event-ID."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._events: dict[str, tuple[str, JSONRPCMessage | None]] = {}

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        event_id = str(next(self._numbers))
        self._events[event_id] = (stream_id, message)
        return event_id

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        seen = self._events.get(last_event_id)
        if seen is None:
            return None
        stream_id = seen[0]
        for event_id, (stream, message) in list(self._events.items()):
            if stream == stream_id and message is not None and int(event_id) > int(last_event_id):
                await send_callback(EventMessage(message, event_id))
        return stream_id


class SessionManager(StreamableHTTPSessionManager):
    """Gives each session a store of its own: the SDK names a stream by its request's id, which is unique only
    within a session, so a shared store would replay one session's messages to another."""

    @property
    def event_store(self) -> EventStore | None:
        return SessionEvents()

    @event_store.setter
    def event_store(self, value: EventStore | None) -> None:
        """The base class's constructor assigns here; there is nothing to keep."""


def build_app() -> Starlette:
    local = ("127.0.0.1", "localhost", "[::1]")
    manager = SessionManager(
        build_server(),
        retry_interval=RETRY_MILLISECONDS,
        security_settings=TransportSecuritySettings(
            allowed_hosts=[f"{host}:*" for host in local],
            allowed_origins=[f"http://{host}:*" for host in local],
        ),
    )
    return Starlette(
        routes=[Route(PATH, endpoint=StreamableHTTPASGIApp(manager))],
        lifespan=lambda app: manager.run(),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="MCP server for the conformance suite")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free port")
    parser.add_argument("--stdio", action="store_true", help="serve one client on standard input and output")
    options = parser.parse_args()

    # Logging is deprecated at 2026-07-28 and required at 2025-11-25: one server of both eras has to use it.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    if options.stdio:
        anyio.run(_serve_stdio)
    else:
        _serve_http(options.port)


async def _serve_stdio() -> None:
    server = build_server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _serve_http(port: int) -> None:
    with socket.create_server((HOST, port)) as listener:
        print(f"listening on http://{HOST}:{listener.getsockname()[1]}{PATH}", flush=True)
        # h11 and not httptools: the latter leaves whitespace at the end of a header's value, which is no part of
        # the value (RFC 9110 section 5.5), and Mcp-Name would then differ from the body.
        config = uvicorn.Config(build_app(), http="h11", log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()

"""A server with every ability of the protocol, both eras, over stdio or HTTP.

`everything_argv` gives the command. Over HTTP it prints `listening on http://127.0.0.1:PORT/mcp` once the port is bound.
"""

from __future__ import annotations

import argparse
import socket
import warnings
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from starlette.applications import Starlette
from starlette.routing import Route

from support.everything import offers
from support.everything.abilities import BODIES, TOOLS, Answer, Call, Context

HOST = "127.0.0.1"


def build_server(marks: Path) -> Server[Any]:
    bus = InMemorySubscriptionBus()

    async def list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=TOOLS)

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Answer:
        body = BODIES.get(params.name)
        if body is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await body(Call(ctx, params, bus, marks))

    server: Server[Any] = Server(
        "everything",
        version="1.0.0",
        instructions="Try everything.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=offers.list_resources,
        on_list_resource_templates=offers.list_templates,
        on_read_resource=offers.read_resource,
        on_subscribe_resource=offers.acknowledge,
        on_unsubscribe_resource=offers.acknowledge,
        on_list_prompts=offers.list_prompts,
        on_get_prompt=offers.get_prompt,
        on_completion=offers.complete,
        on_subscriptions_listen=ListenHandler(bus),
    )
    server.add_request_handler("dev.example/mirror", types.RequestParams, offers.mirror)
    server.add_request_handler("dev.example/refuse", types.RequestParams, offers.refuse)
    return server


async def serve_stdio(server: Server[Any]) -> None:
    options = server.create_initialization_options(NotificationOptions(tools_changed=True, resources_changed=True))
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


def serve_http(server: Server[Any]) -> None:
    manager = StreamableHTTPSessionManager(server)
    app = Starlette(routes=[Route("/mcp", endpoint=StreamableHTTPASGIApp(manager))], lifespan=lambda app: manager.run())
    with socket.create_server((HOST, 0)) as listener:
        print(f"listening on http://{HOST}:{listener.getsockname()[1]}/mcp", flush=True)
        uvicorn.Server(uvicorn.Config(app, http="h11", log_level="warning", timeout_graceful_shutdown=1)).run(
            [listener]
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="MCP server with every ability")
    parser.add_argument("--marks", type=Path, required=True, help="directory for what happens to be seen in")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--stdio", action="store_true")
    way.add_argument("--http", action="store_true")
    chosen = parser.parse_args()
    # One server of both eras has to use what the newer one deprecates.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    server = build_server(chosen.marks)
    if chosen.stdio:
        anyio.run(serve_stdio, server)
    else:
        serve_http(server)


if __name__ == "__main__":
    main()

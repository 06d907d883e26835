"""Putting verified approval into a low-level `Server`, which every server of the `mcp` SDK has inside."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import MethodBinding
from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams
from starlette.applications import Starlette

from callgate.errors import ConfigError
from callgate.jsonrpc import Limits
from callgate.sdk.server_tools import Context
from callgate.sdk.strict import StrictBodies

Intercept: TypeAlias = Callable[[CallToolRequestParams, Context, CallNext], Awaitable[HandlerResult]]


def bind(low: Server[Any], methods: Sequence[MethodBinding], intercept: Intercept) -> None:
    """Add the methods, and the gate around `tools/call`, unless `MCPServer(extensions=[...])` has done so."""
    first = methods[0]
    bound = low.get_request_handler(first.method)
    if bound is not None and bound.handler == first.handler:
        return
    if bound is not None:
        raise ConfigError(f"the server has its own {first.method}", advice="Attach one VerifiedApproval, once.")
    entry = low.get_request_handler("tools/call")
    if entry is None:
        raise ConfigError(
            "the server has no tools/call handler yet", advice="Attach verified approval after its handlers."
        )
    for method in methods:
        low.add_request_handler(method.method, method.params_type, method.handler)

    async def call(ctx: Context, params: CallToolRequestParams) -> HandlerResult:
        async def run(inner: Context) -> HandlerResult:
            return await entry.handler(inner, params)

        return await intercept(params, ctx, run)

    low.add_request_handler("tools/call", CallToolRequestParams, call)


def around_lifespan(low: Server[Any], opened: Callable[[], contextlib.AbstractAsyncContextManager[None]]) -> None:
    """Hold something open for as long as the server serves."""
    inner = low.lifespan

    @contextlib.asynccontextmanager
    async def lifespan(server: Server[Any]) -> AsyncIterator[Any]:
        async with opened(), inner(server) as state:
            yield state

    low.lifespan = lifespan


def read_strictly(low: Server[Any]) -> None:
    """Whoever asks this server for its HTTP application gets one that reads strictly."""
    make = low.streamable_http_app

    def streamable_http_app(**options: Any) -> Starlette:
        app = make(**options)
        manager = low.session_manager
        limits = Limits(bytes=manager.max_request_body_size)
        # Inside the SDK's own checks of bearer tokens: who may not connect is told so first.
        manager.asgi_app = StrictBodies(manager.asgi_app, limits)  # type: ignore[assignment]
        return app

    low.streamable_http_app = streamable_http_app  # type: ignore[method-assign]

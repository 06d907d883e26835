"""A small web app whose tools only known agents may call; no gateway in front of it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from callgate.sdk.web_bot_auth import (
    AgentPolicy,
    Authenticator,
    Directories,
    Listed,
    MemoryAgents,
    Sources,
    ToolPolicy,
    VerifyOptions,
    WebBotAuthMiddleware,
)


async def tools(request: Request) -> Response:
    """Everything here is verified: who calls, and that this is the body they signed."""
    call = json.loads(await request.body())
    agent = request.state.agent.caller
    return JSONResponse({"jsonrpc": "2.0", "id": call["id"], "result": f"{call['params']['name']} for {agent.id}"})


async def health(_: Request) -> Response:
    return PlainTextResponse("ok")


def make(origin: str, jwk: Mapping[str, str]) -> Starlette:
    """The app under the name that agents know it by, with one agent."""
    # Nonces and fetched directories; with several processes, use `callgate.store.SqlAgents` so that they share one.
    shelf = MemoryAgents()
    shop = Listed("shop-assistant", "", "static", json.dumps(dict(jwk)).encode())
    directories = Directories(Sources(agents=(shop,), discovery="ignore"), shelf)
    authenticator = Authenticator(
        directories.key,
        verify=VerifyOptions(nonces=shelf),
        directory=directories,
        agents=[AgentPolicy("shop-assistant", ToolPolicy(allow=("search", "get_*")))],
        default_policy=ToolPolicy(denied=True),
    )
    guard = Middleware(WebBotAuthMiddleware, authenticator=authenticator, origins=[origin], open_paths=["/health"])
    routes = [Route("/tools", tools, methods=["POST"]), Route("/health", health)]
    return Starlette(routes=routes, middleware=[guard])

"""An ASGI app behind WebBotAuthMiddleware on a real socket, which answers with what reached it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from callgate.sdk.sign import AgentKey
from callgate.sdk.web_bot_auth import (
    Authenticator,
    Directories,
    Listed,
    MemoryAgents,
    Sources,
    VerifyOptions,
    WebBotAuthMiddleware,
)

METHODS = ["GET", "POST", "PUT", "DELETE"]


async def echo(request: Request) -> Response:
    """What the app got."""
    body = await request.body()
    agent = getattr(request.state, "agent", None)
    return JSONResponse(
        {
            "method": request.method,
            "path": request.url.path,
            "sha256": hashlib.sha256(body).hexdigest(),
            "length": len(body),
            "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in request.headers.raw],
            "agent": None if agent is None else agent.caller.id,
            "bound": None if agent is None else agent.caller.digest_verified,
            "tools": None if agent is None else list(agent.tools),
        }
    )


async def away(_: Request) -> Response:
    return RedirectResponse("/echo", 307)


def application() -> Starlette:
    routes = [Route("/echo", echo, methods=METHODS), Route("/away", away, methods=METHODS)]
    return Starlette(routes=[*routes, Route("/healthz", echo), Route("/{rest:path}", echo, methods=METHODS)])


def authenticator(key: AgentKey, **options: Any) -> Authenticator:
    """Lets one agent in, `alice`, by her key."""
    listed = Listed("alice", key.thumbprint, "static", json.dumps(dict(key.jwk)).encode())
    shelf = MemoryAgents()
    found = Directories(Sources(agents=(listed,), discovery="ignore"), shelf)
    verify = {"nonces": shelf, **options.pop("verify", {})}
    return Authenticator(found.key, verify=VerifyOptions(**verify), directory=found, **options)


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    """An app on a free port of this machine; gives its origin."""
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(app, "127.0.0.1", 0, log_level="warning", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    socket = config.bind_socket()
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([socket])), daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        socket.close()


@contextlib.contextmanager
def signed_site(key: AgentKey, *, origins: Any = None, middleware: Any = None, **options: Any) -> Iterator[str]:
    """The echo behind the middleware; `options` are those of the authenticator."""
    app = application()
    held: list[WebBotAuthMiddleware] = []

    async def late(scope: Any, receive: Any, send: Any) -> None:
        await held[0](scope, receive, send)

    with serving(late) as origin:
        auth = authenticator(key, **options)
        held.append(WebBotAuthMiddleware(app, auth, origins=origins or [origin], **(middleware or {})))
        yield origin

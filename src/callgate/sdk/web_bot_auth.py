"""Web Bot Auth for any ASGI app, without the gateway: only agents that prove who they are, calling what they may.

    app.add_middleware(WebBotAuthMiddleware, authenticator=Authenticator(...), origins=["https://api.example"])

What the app gets is what was verified: the same bytes of the body, headers without anybody's claim to be an agent, and
ours instead. `request.state.agent` is the decision, with the caller and the signature that held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callgate.agents.apikeys import ApiKeys
from callgate.agents.authenticator import Authenticator, TestKey, VerifyOptions, by_environment, verified
from callgate.agents.directories import (
    AgentDirectory,
    AgentIdentity,
    Composed,
    Directories,
    HttpDirectory,
    Sources,
    StaticDirectory,
)
from callgate.agents.kya import KyaPay, KyaPolicy, KyaSettings
from callgate.agents.limits import MemoryLimiter, StoreLimiter, ToolLimit
from callgate.agents.model import AgentPolicy, Signed, ToolPolicy, Verified
from callgate.agents.stage import AgentDecision, Response, refusal, stripped
from callgate.agents.storage import Listed
from callgate.agents.tokens import Bearer, BearerSettings, Issuer
from callgate.agents.verifying import Verifier, VerifySettings
from callgate.errors import ConfigError, Reason, Refused
from callgate.gate import Caller

if TYPE_CHECKING:
    from callgate.store.memory import MemoryAgents

__all__ = [
    "AgentDirectory",
    "AgentIdentity",
    "AgentPolicy",
    "ApiKeys",
    "Authenticator",
    "Bearer",
    "BearerSettings",
    "Caller",
    "Composed",
    "Decision",
    "Directories",
    "HttpDirectory",
    "Issuer",
    "KyaPay",
    "KyaPolicy",
    "KyaSettings",
    "Listed",
    "MemoryAgents",
    "MemoryLimiter",
    "Signed",
    "Sources",
    "StaticDirectory",
    "StoreLimiter",
    "TestKey",
    "ToolLimit",
    "ToolPolicy",
    "Verified",
    "Verifier",
    "VerifyOptions",
    "VerifySettings",
    "WebBotAuthMiddleware",
    "by_environment",
    "verified",
]

# The name by which apps know it.
Decision: TypeAlias = AgentDecision


def __getattr__(name: str) -> Any:
    """Loaded when it is asked for: a database takes more room than all the rest."""
    if name != "MemoryAgents":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from callgate.store.memory import MemoryAgents

    return MemoryAgents


MAX_BODY: Final = 4 * 1024 * 1024
BODY_SECONDS: Final = 30.0
# RFC 6455 §7.4.1: against a policy.
_AGAINST_POLICY: Final = 1008
_PORTS: Final = {"http": ":80", "https": ":443"}


class WebBotAuthMiddleware:
    """ASGI middleware around an `Authenticator`.

    `origins` are the addresses that agents know this app by; a signature for any other is refused, whatever Host says.
    Requests to `open_paths`, spelt exactly so, are for everybody. WebSockets are refused: what is said on one is not
    signed.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        *,
        origins: str | Iterable[str],
        open_paths: Collection[str] = (),
        max_body: int = MAX_BODY,
        body_seconds: float = BODY_SECONDS,
        server: str = "",
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._origins = [_origin(one) for one in ([origins] if isinstance(origins, str) else origins)]
        self._names = frozenset(_without_port(authority) for _, authority in self._origins)
        if not self._origins:
            raise ConfigError("nobody could sign for this app", advice='Name its origins, as ["https://api.example"].')
        self._open = frozenset(open_paths)
        self._max_body = max_body
        self._body_seconds = body_seconds
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": _AGAINST_POLICY})
        elif scope["path"] in self._open:
            # Nobody was verified, so nobody is named.
            await self._app({**scope, "headers": list(stripped(_headers(scope)))}, receive, send)
        else:
            await self._ask(scope, receive, send)

    async def _ask(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._body(scope, receive)
        except Refused as refused:
            await _answer(refusal(refused).to_response(), send)
            return
        if body is None:
            return
        request = self._request(scope, body)
        if request is None:
            await _answer(refusal(Refused(Reason.HOST_NOT_ALLOWED)).to_response(), send)
            return
        decision = await self._authenticator.authorize(request, server=self._server)
        if not decision.ok:
            await _answer(decision.to_response(), send)
            return
        state = {**scope.get("state", {}), "agent": decision}
        forward = {**scope, "headers": list(decision.forward_headers()), "state": state}
        await self._app(forward, _replay(decision.raw_body, receive), _with(decision.headers, send))

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body, or None where the client has left; raises Refused where it is too long or too slow."""
        for name, value in scope["headers"]:
            if name == b"content-length" and not (value.isdigit() and int(value[:20]) <= self._max_body):
                raise Refused(Reason.MESSAGE_TOO_LARGE)
        parts: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(self._body_seconds):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    part = message.get("body", b"")
                    size += len(part)
                    if size > self._max_body:
                        raise Refused(Reason.MESSAGE_TOO_LARGE)
                    parts.append(part)
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refused(Reason.BODY_TIMEOUT) from None
        return b"".join(parts)

    def _request(self, scope: Scope, body: bytes) -> Signed | None:
        """The request as it has to be signed; None where Host is another spelling of one of several sites."""
        headers = _headers(scope)
        hosts = [value.decode("latin-1").strip().lower() for name, value in headers if name == b"host"]
        found = [one for one in self._origins if hosts in ([one[1]], [one[1] + _PORTS[one[0]]])]
        if not found and len(self._origins) > 1 and self._names.intersection(map(_without_port, hosts)):
            return None
        # One of ours in any case: a signature for another host is good for nothing here.
        scheme, authority = found[0] if found else self._origins[0]
        raw = scope.get("raw_path") or quote(scope["path"]).encode()
        path = raw.partition(b"?")[0].decode("latin-1")
        # ASGI does not tell an empty query from none.
        query = scope.get("query_string", b"").decode("latin-1") or None
        return Signed(scope["method"], scheme, authority, path, query, headers, body)


def _origin(text: str) -> tuple[str, str]:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ConfigError(f"{text!r} is no origin", advice="Write it as https://api.example, without a path.")
    return parts.scheme, parts.netloc.rpartition("@")[2].lower()


def _without_port(authority: str) -> str:
    """A host without its port, as frameworks compare it."""
    name, colon, port = authority.rpartition(":")
    return (name if colon and (port.isdigit() or not port) else authority).rstrip(".")


def _headers(scope: Scope) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((bytes(name).lower(), bytes(value)) for name, value in scope["headers"])


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body as it was verified, once; then whatever else the server has to tell."""
    left = [body]

    async def again() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return again


def _with(headers: tuple[tuple[bytes, bytes], ...], send: Send) -> Send:
    """Adds what the decision has to say to the answer: how much of a rate limit is left."""
    if not headers:
        return send

    async def add(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *headers]}
        await send(message)

    return add


async def _answer(response: Response, send: Send) -> None:
    length = (b"content-length", str(len(response.body)).encode())
    await send({"type": "http.response.start", "status": response.status, "headers": [*response.headers, length]})
    await send({"type": "http.response.body", "body": response.body})

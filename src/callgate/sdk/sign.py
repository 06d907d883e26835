"""For agents: sign what an HTTP client sends, so that gateways and sites know who calls (Web Bot Auth).

No HTTP library is imported before it is used. Each helper signs the request as it leaves, its body with it:

    signer = sign.AgentKey.read("agent.pem").signer("https://agent.example")
    httpx2.AsyncClient(auth=sign.Auth(signer))                       # httpx too
    requests.post(url, json=..., auth=sign.Auth(signer))
    aiohttp.ClientSession(middlewares=[sign.aiohttp_middleware(signer)])
    mcp.Client(sign.mcp_transport(url, signer))
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from callgate.agents.model import Signed
from callgate.agents.signing import COVERED, EXPIRES_IN, Signer
from callgate.agents.verifying import dictionary, member
from callgate.errors import ConfigError, Reason
from callgate.sdk.agent_keys import AgentKey

if TYPE_CHECKING:
    import httpx2

__all__ = [
    "FOR_WEB_BOT_AUTH_0_1",
    "AgentKey",
    "Auth",
    "Signer",
    "aiohttp_middleware",
    "mcp_http_client",
    "mcp_transport",
    "signed_headers",
]

Headers = tuple[tuple[bytes, bytes], ...]

# What npm's `web-bot-auth` 0.1 reads: it has another value for `@query` where a request has none.
FOR_WEB_BOT_AUTH_0_1: Final = ("@method", "@authority", "@target-uri")

_DICTIONARIES: Final = ("signature-input", "signature", "signature-agent")
_WHOLE: Final = "Give the body whole, as bytes, text or JSON."


class Auth:
    """The `auth` of a client of httpx, httpx2 or requests: signs each request with its body.

    `covered` and `legacy` are for verifiers that cannot read all of today's form, as `Signer.sign` takes them: npm's
    `web-bot-auth` 0.1.3 wants `covered=FOR_WEB_BOT_AUTH_0_1, legacy=True`.
    """

    def __init__(
        self,
        signer: Signer,
        *,
        expires_in: int = EXPIRES_IN,
        digest: bool = True,
        covered: Sequence[str] = COVERED,
        legacy: bool = False,
    ) -> None:
        self._signer = signer
        self._how: dict[str, Any] = {
            "expires_in": expires_in,
            "digest": digest,
            "covered": tuple(covered),
            "legacy": legacy,
        }

    def __call__(self, request: Any) -> Any:
        url = str(request.url)
        body = _requests_body(request.body) if hasattr(request, "body") else _httpx_body(request)
        added = signed_headers(
            self._signer,
            request.method,
            url,
            body,
            list(request.headers.items()),
            **self._how,
        )
        _put_headers(request.headers, added)
        return request


def aiohttp_middleware(
    signer: Signer,
    *,
    expires_in: int = EXPIRES_IN,
    digest: bool = True,
    covered: Sequence[str] = COVERED,
    legacy: bool = False,
) -> Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]]:
    """For `aiohttp.ClientSession(middlewares=[...])`: signs each request with its body, redirected ones anew."""

    async def middleware(request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        if request.compress:
            raise ConfigError("what aiohttp compresses on its way cannot be signed", advice="Leave `compress` out.")
        body = request.body if isinstance(request.body, bytes) else await request.body.as_bytes()
        added = signed_headers(
            signer,
            request.method,
            str(request.url),
            body,
            list(request.headers.items()),
            expires_in=expires_in,
            digest=digest,
            covered=covered,
            legacy=legacy,
        )
        _put_headers(request.headers, added)
        return await handler(request)

    return middleware


def mcp_http_client(signer: Signer, **options: Any) -> httpx2.AsyncClient:
    """The `http_client` for `streamable_http_client` of the `mcp` SDK, whose time limits it has; close it yourself."""
    try:
        import httpx2
    except ModuleNotFoundError as missing:
        raise ConfigError("the `mcp` SDK is not installed", advice="pip install 'callgate[sdk]'") from missing
    # A server may hold a stream open for a while.
    options.setdefault("timeout", httpx2.Timeout(30.0, read=300.0))
    return httpx2.AsyncClient(auth=Auth(signer), **options)


@asynccontextmanager
async def mcp_transport(url: str, signer: Signer, **options: Any) -> AsyncIterator[Any]:
    """A transport for `mcp.Client`. Everything is signed: messages, the handshake era's stream, the session's end."""
    async with mcp_http_client(signer) as http_client:
        from mcp.client.streamable_http import streamable_http_client

        async with streamable_http_client(url, http_client=http_client, **options) as streams:
            yield streams


def signed_headers(
    signer: Signer,
    method: str,
    url: str,
    body: bytes = b"",
    headers: Iterable[tuple[str, str]] | Mapping[str, str] = (),
    **how: Any,
) -> dict[str, str]:
    """The headers to set on a request, for any client. `how` is as `Signer.sign` takes it.

    A signature of an earlier try under the same label is replaced; those of others stay.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    sent = tuple((name.lower().encode("ascii"), str(value).encode("latin-1")) for name, value in pairs)
    # A body of another try has another digest.
    kept = tuple(one for one in _without_label(sent, signer.label) if one[0] != b"content-digest")
    return signer.sign(request_of(method, url, body, kept), **how)


def request_of(method: str, url: str, body: bytes, headers: Headers) -> Signed:
    """A request as whoever receives it sees it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url[:200]!r} is no http address", advice="Write it whole, such as https://gate.example/x.")
    named = [value.decode("latin-1") for name, value in headers if name == b"host"]
    authority = named[0] if named else parts.netloc.rpartition("@")[2]
    query = parts.query if "?" in url.partition("#")[0] else None
    return Signed(method.upper(), parts.scheme, authority, parts.path or "/", query, headers, body)


def _without_label(headers: Headers, label: str) -> Headers:
    """Headers without what was signed under a label."""
    found = []
    for name, value in headers:
        if name.decode("ascii") not in _DICTIONARIES or value[:1] == b'"':
            found.append((name, value))
            continue
        members = dictionary(value, Reason.SIGNATURE_INPUT_MALFORMED)
        if label not in members:
            found.append((name, value))
        elif len(members) > 1:
            others = {key: one for key, one in members.items() if key != label}
            found.append((name, ", ".join(f"{key}={member(one)}" for key, one in others.items()).encode()))
    return tuple(found)


def _put_headers(headers: Any, added: Mapping[str, str]) -> None:
    for name, value in added.items():
        headers[name] = value


def _requests_body(body: object) -> bytes:
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes | bytearray):
        return bytes(body)
    raise ConfigError("a body that is read while it is sent cannot be signed", advice=_WHOLE)


def _httpx_body(request: Any) -> bytes:
    if not isinstance(request.stream, Iterable):
        raise ConfigError("a body that is read while it is sent cannot be signed", advice=_WHOLE)
    return bytes(request.read())

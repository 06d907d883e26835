"""What becomes of a request: a value that can answer it, or say how it travels on."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from callgate.agents.model import IDENTITY_HEADERS, Signed, Verified
from callgate.errors import Reason, Refused
from callgate.gate import Caller
from callgate.jsonrpc import error_reply

Headers = tuple[tuple[bytes, bytes], ...]

# RFC 9110 §7.6.1: what is for one connection ends with it.
_HOPS: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_OURS: Final = frozenset(IDENTITY_HEADERS)
# Everything else is percent-encoded: no line can be broken, no list begun, and it can be undone.
_PLAIN: Final = "!#$&'()*+/:;=?@[]~"


class Response(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: Headers
    body: bytes


class AgentDecision(msgspec.Struct, frozen=True):
    """Whether a request goes on. `info` is the signature that held, where there was one."""

    ok: bool
    reason: Reason | None = None
    status: int = 200
    detail: str = ""
    caller: Caller | None = None
    info: Verified | None = None
    tools: tuple[str, ...] = ()
    request: Signed | None = None
    refused: Refused | None = None
    # For the answer, whoever gives it: Retry-After and the rate limit's, or WWW-Authenticate.
    headers: Headers = ()
    # Request headers that were for us alone.
    used: frozenset[bytes] = frozenset()

    def __repr__(self) -> str:
        # Nothing of the request: its headers may hold a secret.
        who = self.caller.id if self.caller is not None else ""
        return f"Decision(ok={self.ok}, reason={self.reason}, status={self.status}, caller={who!r})"

    @property
    def raw_body(self) -> bytes:
        """The bytes that were verified: send these on, and no others (WB-028)."""
        return self.request.body if self.ok and self.request is not None else b""

    def to_response(self) -> Response:
        """The answer to a request that does not go on; its body is the JSON-RPC error with `error.data.reason`."""
        if self.refused is None:
            raise ValueError("a request that is let through is not answered here")
        headers = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"), *self.headers)
        return Response(self.status, headers, error_reply(None, self.refused))

    def identity_headers(self) -> Headers:
        """Who was verified, for the server behind (WB-029)."""
        if not self.ok or self.caller is None:
            raise ValueError("nobody was verified")
        return identity_headers(self.caller)

    def forward_headers(self) -> Headers:
        """The request's headers as they travel on: without claims of identity or what was for us, with ours instead."""
        ours = self.identity_headers()
        return (*stripped(self.request.headers if self.request is not None else (), self.used), *ours)


def refusal(refused: Refused, *, headers: Headers = (), **known: Any) -> AgentDecision:
    """The decision that a refusal is."""
    return AgentDecision(
        ok=False,
        reason=refused.reason,
        status=refused.status,
        detail=refused.message,
        refused=refused,
        headers=headers,
        **known,
    )


def identity_headers(caller: Caller) -> Headers:
    """The headers that tell who was verified; what is empty is left out."""
    values = (caller.id, caller.key, caller.directory, caller.source, "true" if caller.digest_verified else "false")
    pairs = zip(IDENTITY_HEADERS, values, strict=True)
    return tuple((name, quote(value, safe=_PLAIN).encode()) for name, value in pairs if value)


def stripped(headers: Headers, used: frozenset[bytes] = frozenset()) -> Headers:
    """A request's headers without copies of ours, in any spelling that a server may read as ours, and without hops.

    A client may not name ours in Connection either, to have the next proxy drop them.
    """
    named = {one.strip() for name, value in headers if name == b"connection" for one in value.lower().split(b",")}
    gone = _HOPS | named | used
    return tuple((name, value) for name, value in headers if name.lower() not in gone and not is_identity(name))


def is_identity(name: bytes) -> bool:
    """Whether a server could take this header for one of ours: CGI reads `_` and `-` as one."""
    folded = name.strip().lower().replace(b"_", b"-")
    return folded in _OURS or folded.startswith(b"callgate-agent-")

"""What agents speaks of: a request as its signature sees it, who sent it, and what they may do.

Names of the profile are those of draft-ietf-webbotauth-httpsig-protocol-01; RFC 9421 is the message signature, RFC 7638
the thumbprint of a key, RFC 9530 the digest of a body.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

TAG: Final = "web-bot-auth"
DIRECTORY_TAG: Final = "http-message-signatures-directory"
WELL_KNOWN: Final = "/.well-known/http-message-signatures-directory"
DIRECTORY_TYPE: Final = "application/http-message-signatures-directory+json"
MAX_WINDOW: Final = 480
SKEW: Final = 5
# Headers that tell a server who was verified; copies from outside are dropped.
IDENTITY_HEADERS: Final = (
    b"callgate-agent",
    b"callgate-agent-key",
    b"callgate-agent-directory",
    b"callgate-agent-source",
    b"callgate-body-verified",
)

Profile: TypeAlias = Literal["ietf", "legacy"]


class Signed(msgspec.Struct, frozen=True):
    """A request as it came, for whoever rebuilds what was signed. Header names are lower case, in their order."""

    method: str
    scheme: str
    authority: str
    # As on the wire, percent-encoding untouched; `query` without the `?`, None where there was none.
    path: str
    query: str | None
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes = b""


class Verified(msgspec.Struct, frozen=True):
    """A signature that holds."""

    label: str
    keyid: str
    algorithm: str
    # The directory that the key came from: a URL, `static`, `self` or `test`.
    directory: str
    created: int
    expires: int
    nonce: str | None
    covered: tuple[str, ...]
    # Whether the body is bound to the signature (WB-094).
    digest_verified: bool = False
    # Further labels that did not hold, each with its reason.
    others: Mapping[str, str] = {}


class ToolPolicy(msgspec.Struct, frozen=True):
    """Which tools may be called: globs, `*` for all. Deny wins over allow. `allow` None says nothing."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    denied: bool = False
    # Sustained calls per minute and how many at once above that; None does not limit.
    per_minute: float | None = None
    burst: int | None = None


class AgentPolicy(msgspec.Struct, frozen=True):
    """What one agent may do; by server where that differs."""

    agent: str
    policy: ToolPolicy = ToolPolicy()
    servers: Mapping[str, ToolPolicy] = {}


class ApiKey(msgspec.Struct, frozen=True):
    """A static key: only its digest is kept. `id` is the part of it that may be shown."""

    id: str
    agent: str
    digest: bytes
    created_at: int
    created_by: str = ""
    expires_at: int | None = None
    revoked_at: int | None = None

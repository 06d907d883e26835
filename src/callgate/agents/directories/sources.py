"""What an operator sets about directories, with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from callgate.agents.directories.documents import Times
from callgate.agents.fetching import Caps
from callgate.agents.jwks import MAX_KEYS
from callgate.agents.reaching import Reach
from callgate.agents.storage import Listed

Discovery: TypeAlias = Literal["trust", "allow", "ignore"]


class Sources(msgspec.Struct, frozen=True):
    """Where keys and agents come from. There is no address that is asked unless it is here or a request names it."""

    # Key directories that are trusted by configuration, ahead of discovered ones (WB-046).
    jwks_urls: tuple[str, ...] = ()
    # What becomes of a directory that a request names: believed, believed if allowed, or ignored (WB-047, WB-048).
    discovery: Discovery = "trust"
    # With `allow`: `https://agent.example`, `https://*.example.com`; with a path for other than the well-known one.
    allowed: tuple[str, ...] = ()
    # Our own origin is never fetched; its keys are these (WB-049).
    self_origin: str = ""
    self_jwks: Mapping[str, Any] | None = None
    # Keys that may come inside a request, in a data: URI, by thumbprint; without any, such URIs are refused (WB-093).
    inline_keys: tuple[str, ...] = ()
    # Whether the `kid` of a key may stand for its thumbprint within its directory (WB-005).
    kid_fallback: bool = False
    # Whether a directory has to be signed by the keys in it, and that signature to cover the document (WB-092).
    signed: Literal["optional", "required"] = "optional"
    signed_digest: Literal["required", "optional"] = "required"
    # Agents of the configuration, and documents of agents (WB-030, WB-031).
    agents: tuple[Listed, ...] = ()
    agent_urls: tuple[str, ...] = ()
    # Whether a document of agents may name a key without its directory, whichever directory the key then comes from.
    keyid_alone: bool = False
    # Whether an agent that nobody listed is refused; None: as soon as anything is listed (WB-035, WB-077).
    listed_only: bool | None = None
    most_keys: int = MAX_KEYS
    reach: Reach = Reach()
    caps: Caps = Caps()
    times: Times = Times()

"""Who asks for signatures: the WebAuthn relying party, and the pages that people may sign on."""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from typing import Final

import msgspec

from callgate.errors import ConfigError

_ANY_LOCAL_PORT: Final = "http://localhost:*"
_LOCAL: Final = re.compile(r"http://localhost(:[0-9]{1,5})?\Z")


class RelyingParty(msgspec.Struct, frozen=True, dict=True):
    """`id` is the domain that passkeys are bound to; `origins` are the pages they may be used on."""

    id: str
    name: str = "Callgate"
    origins: tuple[str, ...] = ()
    top_origins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.id or not self.origins:
            raise ConfigError("a relying party needs an id and at least one origin", advice="Give both.")

    @cached_property
    def hash(self) -> bytes:
        """What authenticator data begins with (WebAuthn §6.1)."""
        return hashlib.sha256(self.id.encode()).digest()

    @cached_property
    def _exact(self) -> frozenset[str]:
        return frozenset(self.origins)

    @cached_property
    def _any_port(self) -> bool:
        return _ANY_LOCAL_PORT in self.origins

    def takes(self, origin: str) -> bool:
        """Whether a signature made on a page of this origin counts."""
        if origin in self._exact and origin != _ANY_LOCAL_PORT:
            return True
        return self._any_port and _LOCAL.match(origin) is not None

    def takes_around(self, top_origin: str | None) -> bool:
        """Whether a page of this origin may hold the signing page in a frame."""
        return top_origin is not None and top_origin in self.top_origins

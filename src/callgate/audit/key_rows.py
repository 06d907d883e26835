"""Which keys a gateway has, as the command line and the console show them; never what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from callgate.audit.note import VerifierKey


class Version(Protocol):
    """One version of a key."""

    @property
    def version(self) -> int: ...

    @property
    def public(self) -> bytes: ...

    @property
    def source(self) -> str: ...


class Ring(Protocol):
    """All keys by name."""

    def names(self) -> list[str]: ...

    def versions(self, name: str) -> Sequence[Version]: ...


def key_rows(ring: Ring) -> list[dict[str, Any]]:
    """The newest version of each key first."""
    return [
        {
            "name": name,
            "version": key.version,
            "state": "current" if at == 0 else "retired",
            "source": key.source,
            "fingerprint": VerifierKey(name, key.public).fingerprint if key.public else "-",
        }
        for name in ring.names()
        for at, key in enumerate(ring.versions(name))
    ]

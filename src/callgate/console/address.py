"""Where the console is reached: one origin, spelt one way, and what follows from it."""

from __future__ import annotations

from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

import msgspec

from callgate.errors import ConfigError

_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Address(msgspec.Struct, frozen=True, dict=True):
    """The console's own origin, such as `http://localhost:8700`; `secure` says that browsers reach it by https."""

    origin: str
    secure: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.origin)
        if parts.scheme not in _PORTS or not parts.hostname or f"{parts.scheme}://{parts.netloc}" != self.origin:
            raise ConfigError(
                f"{self.origin!r} is not an origin", advice="Give scheme, host and port only: http://localhost:8700."
            )

    @cached_property
    def port(self) -> int:
        parts = urlsplit(self.origin)
        return parts.port or _PORTS[parts.scheme]

    @cached_property
    def _hosts(self) -> frozenset[str]:
        netloc = urlsplit(self.origin).netloc.lower()
        name = _name(netloc)
        usual = self.port == _PORTS[urlsplit(self.origin).scheme]
        return frozenset({netloc, f"{name}:{self.port}", *([name] if usual else [])})

    @cached_property
    def cookie(self) -> str:
        """Cookies do not know ports (RFC 6265 §8.5), so two gateways on one machine need two names."""
        return "__Host-callgate_session" if self.secure else f"callgate_session_{self.port}"

    def is_ours(self, host: str) -> bool:
        """Whether a Host header names this console."""
        return host.strip().lower() in self._hosts

    @staticmethod
    def is_this_machine(host: str) -> bool:
        """Whether a Host header names the machine itself: a harmless mistake, where others are an attack."""
        return _name(host.strip().lower()) in _LOOPBACK


def _name(netloc: str) -> str:
    name, colon, port = netloc.rpartition(":")
    return name if colon and port.isdigit() else netloc

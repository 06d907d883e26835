"""The one spelling of a directory's address, and which addresses an operator lets requests name.

A key counts together with the directory it came from, so an address that could be spelt in two ways would be two
directories. `https://agent.example` stands for the well-known path there.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from callgate.agents.model import WELL_KNOWN
from callgate.agents.reaching import USUAL, Place, Reach, place
from callgate.errors import ConfigError

# Directories that have no address: keys an operator gave whole, the gate's own, those inside a request.
STATIC: Final = "static"
SELF: Final = "self"
INLINE: Final = "data:"
TEST: Final = "test"
NAMELESS: Final = frozenset((STATIC, SELF, INLINE, TEST))

_PATTERN: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\*|(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])"
    r"(?P<port>:\d{1,5})?(?P<path>/\S*)?"
)


def directory_place(text: str, reach: Reach = USUAL) -> Place:
    """A directory's address as Signature-Agent or a configuration names it; raises `FetchFailed`."""
    where = place(text, reach)
    if where.path == "/" and "?" not in where.url:
        return where._replace(url=f"{where.origin}{WELL_KNOWN}", path=WELL_KNOWN)
    return where


def directory_url(text: str, reach: Reach = USUAL) -> str:
    """The same, as the text that keys and agents are listed under."""
    return text if text in NAMELESS else directory_place(text, reach).url


class Pattern(NamedTuple):
    """Which directories may be named: an origin, `https://*.example.com`, `https://*`, or one of these with a path.

    Without a path it stands for the well-known path only: on a host where anybody may put files, any other path could
    be anybody's.
    """

    scheme: str
    # The host, or what it ends with, from the dot on; empty for every host.
    host: str
    wild: bool
    port: str
    path: str

    def fits(self, where: Place) -> bool:
        """Whether a directory is one of those."""
        if where.scheme != self.scheme or where.authority.removeprefix(_spelt(where)) != self.port:
            return False
        if not (_spelt(where).endswith(self.host) if self.wild else _spelt(where) == self.host):
            return False
        if not self.path:
            return where.path == WELL_KNOWN and "?" not in where.url
        path = where.url.removeprefix(where.origin)
        return path.startswith(self.path[:-1]) if self.path.endswith("/*") else path == self.path


def pattern(text: str) -> Pattern:
    """A pattern as an operator writes it; `ConfigError` where it could mean more than they think."""
    match = _PATTERN.fullmatch(text)
    if match is None or "*" in (match["path"] or "").removesuffix("/*") or ".." in (match["path"] or ""):
        what = 'expected an origin such as "https://agent.example" or "https://*.example.com", with a path if need be'
        raise ConfigError(f"{text!r} cannot be allowed: {what}; * stands for whole names only")
    host = match["host"]
    port = match["port"] or ""
    if port == {"https": ":443", "http": ":80"}[match["scheme"]]:
        port = ""
    path = "" if match["path"] in {None, "/", WELL_KNOWN} else match["path"]
    return Pattern(match["scheme"], host.removeprefix("*"), host.startswith("*"), port, path)


def _spelt(where: Place) -> str:
    return f"[{where.host}]" if ":" in where.host else where.host

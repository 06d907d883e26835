"""What may be reached at all: which URLs, which addresses. Checked by text first, by address when it is known."""

from __future__ import annotations

import ipaddress
import re
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec

from callgate.errors import CallgateError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_URL: Final = 2048
PORTS: Final = {"https": 443, "http": 80}
_HOST: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\Z")
_SLASH: Final = re.compile(r"[/\\]")
# RFC 6052 §2.1: IPv4 addresses behind a translator.
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
# Special purposes (RFC 6890 and its registries) that not every Python version knows to be such.
_NEVER: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(network)
    for network in (
        "100.64.0.0/10",
        "192.0.0.0/24",
        "192.88.99.0/24",
        "64:ff9b:1::/48",
        "100::/63",
        "2001::/23",
        "2001:db8::/32",
        "3fff::/20",
        "5f00::/16",
        "fec0::/10",
    )
)


class Reach(msgspec.Struct, frozen=True):
    """What may be reached. Both are for development and for directories inside one's own network."""

    plain_http: bool = False
    # Networks, such as `127.0.0.0/8`, that may be reached although they are not public.
    networks: tuple[str, ...] = ()


USUAL: Final = Reach()
_ANY: Final = Reach(plain_http=True)


class FetchFailed(CallgateError):
    """Nothing was fetched; `reason` is for machines, the text for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Place(NamedTuple):
    """A URL, taken apart and spelt in its one way."""

    url: str
    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """RFC 9421 §2.2.3: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def place(url: str, reach: Reach = USUAL) -> Place:
    """A URL that may be fetched as far as its text tells."""
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or any(c in url for c in ' \\"<>^`{|}'):
        raise FetchFailed("url_invalid", "the URL is not plain ASCII of a sensible length")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError as why:
        raise FetchFailed("url_invalid", "the URL cannot be read") from why
    if parts.scheme != "https" and not (parts.scheme == "http" and reach.plain_http):
        raise FetchFailed("not_https", "only https is fetched")
    if "@" in parts.netloc or "#" in url or port == 0:
        raise FetchFailed("url_invalid", "the URL has a user, a fragment or port 0")
    if any(part.partition(";")[0] in {".", ".."} for part in _SLASH.split(unquote(parts.path))):
        # What is allowed and what is fetched would be two places: servers take such steps themselves.
        raise FetchFailed("url_invalid", "the URL has steps (`..`) in its path")
    literal = literal_address(host)
    if literal is None and not _HOST.fullmatch(host):
        raise FetchFailed("url_invalid", "the URL has no host that could be looked up")
    spelt = Place("", parts.scheme, str(literal or host), port or PORTS[parts.scheme], parts.path or "/")
    query = f"?{parts.query}" if parts.query else ""
    return spelt._replace(url=f"{spelt.origin}{spelt.path}{query}")


def place_of(url: str) -> Place:
    """A URL that was fetched already."""
    return place(url, _ANY)


def public(address: Address) -> bool:
    """Whether an address is one of the open internet, also seen through the ways of writing IPv4 in IPv6."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return public(inner)
    if any(address in network for network in _NEVER if network.version == address.version):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def literal_address(text: str) -> Address | None:
    """An IP address that is written out; None for a name."""
    if "%" in text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None

"""Fetching what a stranger's request names: which addresses may be reached, and how much is read."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from callgate.agents.model import DIRECTORY_TYPE
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


class FetchTarget(NamedTuple):
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


def place(url: str, reach: Reach = USUAL) -> FetchTarget:
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
    spelt = FetchTarget("", parts.scheme, str(literal or host), port or PORTS[parts.scheme], parts.path or "/")
    query = f"?{parts.query}" if parts.query else ""
    return spelt._replace(url=f"{spelt.origin}{spelt.path}{query}")


def place_of(url: str) -> FetchTarget:
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


# Every address of a host, once.
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

MOST: Final = 32


class Lookups:
    """Every address of a host, by the system's resolver; never more than `most` names at once.

    Its threads do not keep the process from ending.
    """

    def __init__(self, most: int = MOST) -> None:
        # Given back when the resolver is done, not when whoever asked has gone.
        self._room = threading.Semaphore(most)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        if not self._room.acquire(blocking=False):
            raise FetchFailed("busy", "too many names are being looked up")
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Sequence[str]] = loop.create_future()
        try:
            threading.Thread(target=self._ask, args=(host, port, loop, found), daemon=True).start()
        except RuntimeError:
            self._room.release()
            raise FetchFailed("busy", "there is no thread to look the name up") from None
        return await found

    def _ask(self, host: str, port: int, loop: asyncio.AbstractEventLoop, found: asyncio.Future[Sequence[str]]) -> None:
        answer: Sequence[str] | Exception
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
            answer = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in rows))
        except (OSError, ValueError) as error:
            answer = error
        finally:
            self._room.release()
        # The loop may have ended meanwhile; then nobody waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, found, answer)


def _settle(found: asyncio.Future[Sequence[str]], answer: Sequence[str] | Exception) -> None:
    if found.done():
        return
    if isinstance(answer, Exception):
        found.set_exception(answer)
    else:
        found.set_result(answer)


JSON_TYPES: Final = (DIRECTORY_TYPE, "application/jwk-set+json", "application/json")
_MAX_AGE: Final = re.compile(r"(?:\A|[\s,])max-age\s*=\s*\"?(\d{1,9})\b", re.IGNORECASE)


class Caps(msgspec.Struct, frozen=True):
    """How much of a stranger's answer is taken. `seconds` is for all of it, so that a trickle ends there too."""

    bytes: int = 256 * 1024
    seconds: float = 5.0
    field_bytes: int = 16 * 1024
    fields: int = 64
    addresses: int = 16


USUAL_CAPS: Final = Caps()


class FetchResponse(NamedTuple):
    """A document as it was answered. Names of headers are lower case."""

    url: str
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    # What the publisher asks for, in seconds; None where it says nothing.
    max_age: int | None = None


class Fetcher:
    """Fetches documents over https, each on a connection of its own."""

    def __init__(
        self,
        reach: Reach = USUAL,
        caps: Caps = USUAL_CAPS,
        *,
        resolve: Resolve | None = None,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        self.reach = reach
        self.caps = caps
        self._given = resolve
        self._resolve = resolve or Lookups()
        self._networks: tuple[Network, ...] = tuple(ipaddress.ip_network(one) for one in reach.networks)
        self._tls = trusted

    async def fetch(self, url: str, types: Sequence[str] = JSON_TYPES) -> FetchResponse:
        """The document at a URL, or `FetchFailed`."""
        where = place(url, self.reach)
        try:
            async with asyncio.timeout(self.caps.seconds):
                addresses = await self._addresses(where)
                return await self._get(where, addresses, types)
        except TimeoutError as why:
            raise FetchFailed("too_slow", f"not answered in full within {self.caps.seconds:g} s") from why
        except aiohttp.ClientError as why:
            raise FetchFailed("unreachable", f"the connection failed: {type(why).__name__}") from why
        except (OSError, ValueError) as why:
            raise FetchFailed("unreachable", f"the host cannot be reached: {type(why).__name__}") from why

    def apart(self) -> Fetcher:
        """Another one like this, whose names need not wait behind those of strangers."""
        return Fetcher(self.reach, self.caps, resolve=self._given, trusted=self._tls)

    async def body(self, url: str) -> bytes:
        """The same without what is around it, for whoever wants a key set."""
        return (await self.fetch(url)).body

    async def _addresses(self, where: FetchTarget) -> tuple[str, ...]:
        literal = literal_address(where.host)
        texts = [str(literal)] if literal is not None else await self._resolve(where.host, where.port)
        if not texts or len(texts) > self.caps.addresses:
            raise FetchFailed("unreachable", "the host has no address, or too many")
        for text in texts:
            # One address inside is enough to refuse: a name that is both outside and inside is a trap.
            if not self._allowed(text):
                raise FetchFailed("not_public", "the host has an address that is not public")
        return tuple(texts)

    def _allowed(self, text: str) -> bool:
        address = literal_address(text)
        if address is None:
            return False
        return public(address) or any(address in network for network in self._networks)

    async def _get(self, where: FetchTarget, addresses: tuple[str, ...], types: Sequence[str]) -> FetchResponse:
        connector = aiohttp.TCPConnector(
            resolver=_Pinned(where.host, addresses),
            use_dns_cache=False,
            force_close=True,
            limit=1,
            ssl=self._context(),
            socket_factory=_only(addresses),
        )
        async with (
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
                max_line_size=self.caps.field_bytes,
                max_field_size=self.caps.field_bytes,
                max_headers=self.caps.fields,
                timeout=aiohttp.ClientTimeout(total=self.caps.seconds),
            ) as session,
            session.get(
                # Already in its one spelling: what is signed and checked is what is asked for.
                URL(where.url, encoded=True),
                allow_redirects=False,
                headers={"Accept": ", ".join(types), "Accept-Encoding": "identity", "User-Agent": "callgate"},
            ) as response,
        ):
            _check_head(response, types, self.caps.bytes)
            body = await self._body(response)
            headers = tuple((name.lower(), value) for name, value in response.raw_headers)
            return FetchResponse(where.url, body, headers, _max_age(response.headers.get("Cache-Control", "")))

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > self.caps.bytes:
                raise FetchFailed("too_large", f"larger than {self.caps.bytes} bytes")
        return bytes(body)

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


class _Pinned(AbstractResolver):
    """Answers with the addresses that were checked, so that nobody asks DNS a second time."""

    def __init__(self, host: str, addresses: tuple[str, ...]) -> None:
        self._host = host
        self._addresses = addresses

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002
    ) -> list[ResolveResult]:
        if host != self._host:
            raise OSError("another host than the one that was checked")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Holds nothing."""


def _only(addresses: tuple[str, ...]) -> Callable[[Any], socket.socket]:
    """The last look before a connection: whatever led here, it goes to a checked address or nowhere."""

    def make(info: tuple[int, int, int, str, tuple[Any, ...]]) -> socket.socket:
        family, kind, proto, _, sockaddr = info
        if sockaddr[0] not in addresses:
            raise OSError("another address than the one that was checked")
        return socket.socket(family, kind, proto)

    return make


def _check_head(response: aiohttp.ClientResponse, types: Sequence[str], most: int) -> None:
    if 300 <= response.status < 400:
        raise FetchFailed("redirected", "it answers with a redirect, which is not followed")
    if response.status != 200:
        raise FetchFailed("bad_status", f"it answers with status {response.status}")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise FetchFailed("encoded", "it answers in an encoding that was not asked for")
    if response.headers.get("Content-Type", "").partition(";")[0].strip().lower() not in types:
        raise FetchFailed("wrong_type", f"it does not answer with a content type of {', '.join(types)}")
    if response.content_length is not None and response.content_length > most:
        raise FetchFailed("too_large", f"larger than {most} bytes")


def _max_age(value: str) -> int | None:
    lowered = value.lower()
    if "no-store" in lowered or "no-cache" in lowered:
        return 0
    match = _MAX_AGE.search(value)
    return int(match[1]) if match else None

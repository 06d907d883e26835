"""Fetching what a stranger's request names, without being led into the house.

The address of a directory comes from whoever calls, so the fetch is where a gateway can be made to knock at doors that
are not meant for strangers. Hence: https only; the name is looked up once, every address it has must be public, and the
connection goes to one of those addresses and no other; no redirects, no proxies, no cookies; and caps on bytes, time
and headers.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from callgate.agents.model import DIRECTORY_TYPE
from callgate.agents.reaching import USUAL, FetchFailed, Network, Place, Reach, literal_address, place, public
from callgate.agents.resolving import Lookups, Resolve

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


class Answer(NamedTuple):
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

    async def fetch(self, url: str, types: Sequence[str] = JSON_TYPES) -> Answer:
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

    async def _addresses(self, where: Place) -> tuple[str, ...]:
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

    async def _get(self, where: Place, addresses: tuple[str, ...], types: Sequence[str]) -> Answer:
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
            return Answer(where.url, body, headers, _max_age(response.headers.get("Cache-Control", "")))

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

"""Where people may sign: browsers bind passkeys to a domain and tell a page's origin, both in exactly one spelling."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from callgate.config.rules import http_url

ANY_LOCAL_PORT: Final = "http://localhost:*"
LOCAL: Final = "localhost"

_DOMAIN: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*\Z")
_PORTS: Final = {"http": 80, "https": 443}
_NAMES: Final = "passkeys belong to a name, never to an IP address"
_ORIGIN: Final = (
    'expected an origin, such as "https://agent.example" or "http://localhost:6274": scheme, host and port only'
)


def origin(text: str) -> str | None:
    """An origin of pages on which passkeys can be used, as browsers spell it."""
    if "*" in text:
        return f'wildcards are not taken, but for "{ANY_LOCAL_PORT}" in origins; name each origin'
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return _ORIGIN
    if parts.scheme not in _PORTS or not host or not text.isascii() or "@" in parts.netloc:
        return _ORIGIN
    if f"{parts.scheme}://{parts.netloc}".lower() != text.lower():
        return _ORIGIN
    if _is_ip(host):
        return f'{_NAMES}; write "{_spelt(parts.scheme, LOCAL, port)}" for this machine'
    if parts.scheme == "http" and host != LOCAL:
        return "browsers use passkeys on https pages only, and on http://localhost; write https"
    if text != (right := _spelt(parts.scheme, host, port)):
        return f'browsers spell this origin "{right}"; write it so'
    return None


def signing_origin(text: str) -> str | None:
    """The same, or any port of this machine."""
    return None if text == ANY_LOCAL_PORT else origin(text)


def console_url(text: str) -> str | None:
    """The console's address; its pages are at the root."""
    wrong = http_url(text)
    if wrong is not None:
        return wrong
    bare = text.removesuffix("/")
    wrong = origin(bare)
    return (
        'expected scheme, host and port only, such as "https://gate.example"; the console is at the root of its host'
        if wrong == _ORIGIN
        else wrong
    )


def relying_party(text: str) -> str | None:
    """A WebAuthn rpId."""
    if _is_ip(text.strip("[]")):
        return f'{_NAMES}; write "localhost", or the host of url'
    if not _DOMAIN.match(text):
        return 'expected a domain in small letters, such as "gate.example", without scheme, port or path'
    return None


def misfit(url: str | None, rp_id: str, origins: tuple[str, ...]) -> str | None:
    """Why passkeys for `rp_id` could not be used on the console's pages: the domain is theirs, or one above it."""
    if url is None:
        if rp_id == LOCAL or origins:
            return None
        return f'people sign on a page of this domain, and none is named; write url = "https://{rp_id}" as well'
    host = urlsplit(url).hostname or ""
    if host == rp_id or ("." in rp_id and host.endswith(f".{rp_id}")):
        return None
    if rp_id == LOCAL:
        return (
            'passkeys are bound to a domain, by default to "localhost", and no page of '
            f'{host} could use them; write rp_id = "{host}" beside url in [approval]'
        )
    if host == LOCAL:
        return (
            f'a page of localhost cannot use passkeys for {rp_id}; take rp_id away, or write url = "https://{rp_id}" '
            "and put TLS in front of it"
        )
    return f'a page of {host} can use passkeys for {host} or a domain above it, not for {rp_id}; write rp_id = "{host}"'


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        # Browsers read a host of digits as an IPv4 address, in forms that Python does not know.
        return re.fullmatch(r"(.*\.)?(\d+|0x[0-9a-f]*)\.?", text.lower()) is not None
    return True


def _spelt(scheme: str, host: str, port: int | None) -> str:
    return f"{scheme}://{host}" if port in (None, _PORTS[scheme]) else f"{scheme}://{host}:{port}"

"""JSON Web Tokens of others: read strictly, verified with keys that their issuer publishes.

Follows RFC 8725: the algorithm is ours to choose, the issuer is looked at before anything is fetched, and a key counts
only for the algorithm that it is made for. What a token says about keys (`jku`, `jwk`, `x5u`) is never followed.
"""

from __future__ import annotations

import asyncio
import binascii
import logging
import math
import re
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from callgate.agents.fetching import Fetcher
from callgate.agents.jwks import PRIVATE, BadKeys, strict_json
from callgate.errors import CallgateError, place

log = logging.getLogger("callgate.agents")

# Gets a document; the guard against inner addresses, redirects and size is the fetcher's.
Fetch: TypeAlias = Callable[[str], Awaitable[bytes]]
_Key: TypeAlias = ECKey | RSAKey | OKPKey

MAX_TOKEN: Final = 16 * 1024
MAX_KEYS: Final = 64
MAX_JWKS: Final = 256 * 1024
# How long keys are used before they are fetched again, how soon they may be for a key that is not there, in seconds.
FRESH: Final = 300
AGAIN: Final = 30
# Asymmetric only: whoever can verify must not be able to make one. EdDSA by its RFC 9864 name.
ALGORITHMS: Final = ("ES256", "ES384", "PS256", "RS256", "Ed25519")
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
ASYMMETRIC: Final = frozenset({*_CURVES, *_RSA, "Ed25519"})
_COMPACT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


def fetching(fetcher: Fetcher) -> Fetch:
    """Fetches as directories are fetched, with the same guard."""

    async def fetch(url: str) -> bytes:
        return (await fetcher.fetch(url)).body

    return fetch


class BadToken(CallgateError):
    """A token that does not hold; the message never repeats what was in it."""


class NoKeys(CallgateError):
    """The issuer's keys cannot be had, so nothing can be said about its tokens."""


class Outline(msgspec.Struct, frozen=True):
    """What a token claims about itself, before anybody believes it."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]

    def __repr__(self) -> str:
        return "Outline()"

    @property
    def issuer(self) -> str:
        return text(self.claims, "iss")

    @property
    def type(self) -> str:
        """`typ` in lower case without `application/`, as RFC 7515 §4.1.9 compares it."""
        typ = self.header.get("typ", "")
        return typ.lower().removeprefix("application/") if isinstance(typ, str) else "?"


def outline(token: str) -> Outline:
    """Read a token without believing it; raises BadToken."""
    if len(token) > MAX_TOKEN:
        raise BadToken("the token is too long")
    if _COMPACT.fullmatch(token) is None:
        raise BadToken("the token is not in compact form")
    head, body, _ = token.split(".")
    header, claims = _object(head), _object(body)
    # RFC 7515 §4.1.11, RFC 7797: nothing that changes how the rest is to be read.
    if "crit" in header or "b64" in header:
        raise BadToken("the token asks for extensions that are not taken here")
    return Outline(header, claims)


class Keys:
    """The keys of one issuer, fetched when they are needed; a failed fetch never takes away what was there."""

    def __init__(self, url: str | Callable[[], Awaitable[str]], fetch: Fetch, clock: Callable[[], float]) -> None:
        self._url = url
        self._fetch = fetch
        self._clock = clock
        self._keys: tuple[Mapping[str, Any], ...] = ()
        self._tried_at = -math.inf
        self._fetched_at = -math.inf
        self._lock = asyncio.Lock()

    async def verified(self, token: str, found: Outline, algorithms: Collection[str]) -> Mapping[str, Any]:
        """The claims of a token that one of these keys signed; raises BadToken, NoKeys."""
        alg, kid = found.header.get("alg"), found.header.get("kid")
        if not isinstance(alg, str) or alg not in algorithms or alg not in ASYMMETRIC:
            raise BadToken("the token's algorithm is not taken here")
        if kid is not None and not isinstance(kid, str):
            raise BadToken("the token does not name its key")
        fitting = await self._fitting(alg, kid)
        if kid is None and len(fitting) != 1:
            raise BadToken("the token does not name its key")
        if not fitting:
            raise BadToken("the token's key is not one of its issuer's")
        if not any(_signed(token, key, alg) for key in fitting):
            raise BadToken("the token's signature does not hold")
        return found.claims

    async def _fitting(self, alg: str, kid: str | None) -> list[_Key]:
        now = self._clock()
        if now - self._fetched_at >= FRESH:
            await self._refresh(now)
        fitting = self._of(alg, kid)
        if not fitting and now - self._tried_at >= AGAIN:
            await self._refresh(now)
            fitting = self._of(alg, kid)
        if not self._keys:
            raise NoKeys("the issuer's keys cannot be fetched")
        return fitting

    def _of(self, alg: str, kid: str | None) -> list[_Key]:
        named = [jwk for jwk in self._keys if kid is None or jwk.get("kid") == kid]
        return [key for key in (_usable(jwk, alg) for jwk in named) if key is not None]

    async def _refresh(self, now: float) -> None:
        async with self._lock:
            # Somebody else may have tried while we waited for the lock.
            if now - self._tried_at < AGAIN:
                return
            self._tried_at = now
            try:
                url = self._url if isinstance(self._url, str) else await self._url()
                self._keys = _read_keys(await self._fetch(url))
                self._fetched_at = now
            except Exception as error:  # noqa: BLE001 - whatever a peer's document breaks, the old keys stay
                log.warning("keys of an issuer not fetched", extra={"fields": {"error": place(error)}})


def text(claims: Mapping[str, Any], name: str, limit: int = 512) -> str:
    """A claim that has to be a short printable text; raises BadToken."""
    value = claims.get(name)
    if not isinstance(value, str) or not value or len(value) > limit or not value.isprintable():
        raise BadToken(f"the token has no usable {name}")
    return value


def moment(claims: Mapping[str, Any], name: str) -> float | None:
    """A NumericDate (RFC 7519 §2), None where there is none; raises BadToken."""
    value = claims.get(name)
    if value is None and name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**53:
        raise BadToken(f"{name} of the token is no time")
    return float(value)


def check_times(claims: Mapping[str, Any], now: float, skew: float) -> float:
    """`exp`, `nbf` and `iat` against the clock; answers with `exp`. Raises BadToken."""
    expires, starts, issued = (moment(claims, name) for name in ("exp", "nbf", "iat"))
    if expires is None:
        raise BadToken("the token never expires")
    if expires <= now - skew:
        raise BadToken("the token has expired")
    if (starts is not None and starts > now + skew) or (issued is not None and issued > now + skew):
        raise BadToken("the token is not valid yet")
    return expires


# ---- documents and keys ----


def read_object(raw: bytes) -> dict[str, Any]:
    """A JSON object, each key once; raises BadToken."""
    try:
        value = strict_json(raw)
    except BadKeys:
        raise BadToken("not a JSON object, or one that two readers could read differently") from None
    if not isinstance(value, dict):
        raise BadToken("not a JSON object")
    return value


def _object(segment: str) -> dict[str, Any]:
    try:
        return read_object(urlsafe_b64decode(segment + "=" * (-len(segment) % 4)))
    except binascii.Error:
        raise BadToken("the token is not in compact form") from None


def _read_keys(raw: bytes) -> tuple[Mapping[str, Any], ...]:
    if len(raw) > MAX_JWKS:
        raise NoKeys("the issuer's set of keys is too large")
    keys = read_object(raw).get("keys")
    if not isinstance(keys, list) or len(keys) > MAX_KEYS:
        raise NoKeys("the issuer's set of keys is none, or too large")
    return tuple(key for key in keys if isinstance(key, dict) and not PRIVATE & key.keys())


def _usable(jwk: Mapping[str, Any], alg: str) -> _Key | None:
    """The key, where it may verify this algorithm: by kind, curve, size, and by what its issuer says of it."""
    if jwk.get("use", "sig") != "sig" or jwk.get("alg", alg) != alg:
        return None
    if "key_ops" in jwk and (not isinstance(jwk["key_ops"], list) or "verify" not in jwk["key_ops"]):
        return None
    key = _imported(jwk)
    if isinstance(key, ECKey):
        return key if _CURVES.get(alg) == jwk.get("crv") else None
    if isinstance(key, RSAKey):
        return key if alg in _RSA and key.public_key.key_size >= 2048 else None
    return key if key is not None and alg == "Ed25519" and jwk.get("crv") == "Ed25519" else None


# In base64url: 8192 bits, and the 2048 bits below which RSA is not taken.
_MAX_NUMBER: Final = 1366
_MIN_MODULUS: Final = 342
_KINDS: Final[dict[str, tuple[type[_Key], tuple[str, ...]]]] = {
    "EC": (ECKey, ("crv", "x", "y")),
    "RSA": (RSAKey, ("n", "e")),
    "OKP": (OKPKey, ("crv", "x")),
}


def _imported(jwk: Mapping[str, Any]) -> _Key | None:
    kty = jwk.get("kty")
    if not isinstance(kty, str) or kty not in _KINDS:
        return None
    kind, members = _KINDS[kty]
    public: dict[str, str | list[str]] = {"kty": kty}
    for name in members:
        value = jwk.get(name)
        if not isinstance(value, str) or len(value) > _MAX_NUMBER or (name == "n" and len(value) < _MIN_MODULUS):
            return None
        public[name] = value
    try:
        key = kind.import_key(public)
        # Only now is the key made of its numbers; a point off the curve shows here.
        _ = key.public_key
    except (JoseError, ValueError, KeyError, TypeError):
        return None
    return key


def _signed(token: str, key: _Key, alg: str) -> bool:
    try:
        registry = jws.JWSRegistry(algorithms=[alg], strict_check_header=False)
        registry.max_header_length = MAX_TOKEN
        jws.deserialize_compact(token, key, [alg], registry)
    except (JoseError, ValueError, TypeError):
        return False
    return True

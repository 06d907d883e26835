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
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from callgate.agents.keys import PRIVATE, BadKeys, strict_json
from callgate.errors import CallgateError, ConfigError, Reason, Refused, place
from callgate.gate import Caller

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


class IssuerKeys:
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


WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
MAX_METADATA: Final = 64 * 1024
# RFC 9068 §2.1 says at+jwt; most issuers still say JWT or nothing. Any other type is a token for something else.
_TYPES: Final = frozenset({"", "jwt", "at+jwt"})
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
# What of a token is kept for policy and record.
_KEPT: Final = ("iss", "sub", "client_id", "azp", "scope", "jti", "exp")
SKEW: Final = 30


class Issuer(msgspec.Struct, frozen=True):
    """An authorization server that is believed; without `jwks_url` its own metadata is asked for it (RFC 8414)."""

    issuer: str
    jwks_url: str = ""
    algorithms: tuple[str, ...] = ALGORITHMS
    # The operator's names for subjects and for clients of this issuer; others are called `issuer#subject`. Apart, since
    # a person may be able to choose a subject that is spelt like a client (RFC 9068 §5).
    agents: Mapping[str, str] = {}
    clients: Mapping[str, str] = {}


class BearerSettings(msgspec.Struct, frozen=True):
    """Who we are as a resource, and whose tokens count."""

    # RFC 8707: the resource that tokens have to be for, such as https://gate.example/mcp.
    resource: str
    issuers: tuple[Issuer, ...]
    # Further audiences that are us.
    audiences: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    name: str = ""
    skew: int = SKEW


class Bearer:
    """Verifies access tokens."""

    def __init__(self, settings: BearerSettings, fetch: Fetch, clock: Callable[[], float]) -> None:
        _check(settings)
        self._settings = settings
        self._clock = clock
        self._issuers = {one.issuer: one for one in settings.issuers}
        self._keys = {one.issuer: IssuerKeys(_jwks(one, fetch), fetch, clock) for one in settings.issuers}
        self._audiences = {settings.resource, *settings.audiences}

    async def verify(self, token: str, resource: str = "") -> Caller:
        """Whose token this is; raises Refused. `challenge` makes the header that belongs to that.

        `resource` is what of us the request is for, such as one server: tokens for that alone are taken too.
        """
        try:
            found = outline(token)
            issuer = self._issuers.get(found.issuer)
            if issuer is None:
                raise BadToken("the token's issuer is not trusted here")
            if found.type not in _TYPES:
                raise BadToken("the token is not an access token")
            self._aimed(found.claims, resource)
            _unbound(found.claims)
            check_times(found.claims, self._clock(), self._settings.skew)
            claims = await self._keys[issuer.issuer].verified(token, found, issuer.algorithms)
            self._scoped(claims)
            return _caller(issuer, claims)
        except BadToken as bad:
            raise Refused(Reason.CREDENTIALS_INVALID, bad.message) from None
        except NoKeys as missing:
            raise Refused(Reason.CHECK_FAILED, missing.message) from None

    def challenge(self, refused: Refused | None = None, resource: str = "") -> str:
        """WWW-Authenticate for an answer (RFC 6750 §3, RFC 9728 §5.1)."""
        parts = [f'resource_metadata="{metadata_url(resource or self._settings.resource)}"']
        if refused is not None and refused.reason is Reason.CREDENTIALS_INVALID:
            parts.insert(0, f'error="{"insufficient_scope" if refused.status == 403 else "invalid_token"}"')
        if self._settings.scopes:
            parts.append(f'scope="{" ".join(self._settings.scopes)}"')
        return f"Bearer {', '.join(parts)}"

    def metadata(self, resource: str = "") -> Mapping[str, Any]:
        """The protected resource's metadata (RFC 9728 §2), to be served at the path of its `metadata_url`."""
        found: dict[str, Any] = {
            "resource": resource or self._settings.resource,
            "authorization_servers": [one.issuer for one in self._settings.issuers],
            "bearer_methods_supported": ["header"],
        }
        if self._settings.scopes:
            found["scopes_supported"] = list(self._settings.scopes)
        if self._settings.name:
            found["resource_name"] = self._settings.name
        return MappingProxyType(found)

    @property
    def metadata_path(self) -> str:
        return urlsplit(metadata_url(self._settings.resource)).path

    def _aimed(self, claims: Mapping[str, Any], resource: str) -> None:
        audience, taken = claims.get("aud"), self._audiences | {resource or self._settings.resource}
        named = [audience] if isinstance(audience, str) else audience
        if not isinstance(named, list) or not any(isinstance(one, str) and one in taken for one in named):
            raise BadToken("the token is for somebody else")

    def _scoped(self, claims: Mapping[str, Any]) -> None:
        missing = sorted(set(self._settings.scopes) - _scopes(claims))
        if missing:
            detail = f"the token lacks the scope {' '.join(missing)}"
            raise Refused(Reason.CREDENTIALS_INVALID, detail, status=403, advice="Get a token with that scope.")


def _unbound(claims: Mapping[str, Any]) -> None:
    """A token that is bound to a key (RFC 7800: DPoP, a client's certificate) is no bearer token: whoever brings it has
    to prove that they have the key, and no such proof is taken here."""
    if claims.get("cnf") is not None:
        raise BadToken("the token is bound to a key, and proofs of that key are not taken here; get one without cnf")


def metadata_url(resource: str) -> str:
    """Where the metadata of a resource is: the well-known path goes between host and path (RFC 9728 §3.1)."""
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"


def _caller(issuer: Issuer, claims: Mapping[str, Any]) -> Caller:
    subject = text(claims, "sub")
    client = claims.get("client_id", claims.get("azp"))
    name = issuer.agents.get(subject) or (issuer.clients.get(client, "") if isinstance(client, str) else "")
    kept = {key: claims[key] for key in _KEPT if isinstance(claims.get(key), (str, int, float))}
    # With its issuer before it, no subject can be called like an agent that the operator has rules for.
    return Caller(id=name or f"{issuer.issuer}#{subject}", source="oauth", key=subject, name=name, claims=kept)


def _scopes(claims: Mapping[str, Any]) -> set[str]:
    """`scope` as RFC 8693 §4.2 has it, or the `scp` that some issuers write."""
    scope = claims.get("scope", claims.get("scp", ""))
    given: Sequence[Any] = scope.split(" ") if isinstance(scope, str) else scope if isinstance(scope, list) else []
    return {one for one in given if isinstance(one, str) and one}


def _jwks(issuer: Issuer, fetch: Fetch) -> Callable[[], Any] | str:
    if issuer.jwks_url:
        return issuer.jwks_url
    parts = urlsplit(issuer.issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    places = (
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{issuer.issuer.rstrip('/')}/.well-known/openid-configuration",
    )

    async def discover() -> str:
        for address in places:
            try:
                raw = await fetch(address)
            except Exception:  # noqa: BLE001, S112 - the next place may have it; the last one's absence is told below
                continue
            found = read_object(raw) if len(raw) <= MAX_METADATA else {}
            url = found.get("jwks_uri")
            # RFC 8414 §3.3: metadata of another issuer is nobody's.
            if found.get("issuer") == issuer.issuer and isinstance(url, str) and _https(url):
                return url
        raise NoKeys("the issuer does not say where its keys are")

    return discover


def _https(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc and url.isprintable()


def _check(settings: BearerSettings) -> None:
    if not settings.issuers:
        raise ConfigError("no issuer of tokens is named", advice="Name the authorization server that you trust.")
    named = [settings.resource, *(one.issuer for one in settings.issuers)]
    named += [one.jwks_url for one in settings.issuers if one.jwks_url]
    for url in named:
        parts = urlsplit(url)
        if not _https(url) or parts.query or parts.fragment or '"' in url or " " in url:
            raise ConfigError(
                f"{url!r} is no https address", advice="Write it whole, such as https://gate.example/mcp."
            )
    if len({one.issuer for one in settings.issuers}) != len(settings.issuers):
        raise ConfigError("an issuer is named twice", advice="Name each issuer once.")
    for one in settings.issuers:
        if not one.algorithms or not set(one.algorithms) <= ASYMMETRIC:
            advice = f"Use some of {', '.join(sorted(ASYMMETRIC))}."
            raise ConfigError("tokens are verified with asymmetric algorithms only", advice=advice)
    if not all(_SCOPE.fullmatch(scope) for scope in settings.scopes):
        raise ConfigError("a scope holds characters that scopes cannot have", advice="See RFC 6749 §3.3.")

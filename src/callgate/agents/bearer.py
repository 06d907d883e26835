"""OAuth access tokens as JWT (RFC 9068), for a resource server as the MCP authorization specification describes it.

A token is good for one audience: ours. It is checked here and ends here; it never travels on to a server behind us.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from callgate.agents.tokens import (
    ALGORITHMS,
    ASYMMETRIC,
    BadToken,
    Fetch,
    Keys,
    NoKeys,
    check_times,
    outline,
    read_object,
    text,
)
from callgate.errors import ConfigError, Reason, Refused
from callgate.gate import Caller

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
        self._keys = {one.issuer: Keys(_jwks(one, fetch), fetch, clock) for one in settings.issuers}
        self._audiences = {settings.resource, *settings.audiences}

    async def verify(self, token: str) -> Caller:
        """Whose token this is; raises Refused. `challenge` makes the header that belongs to that."""
        try:
            found = outline(token)
            issuer = self._issuers.get(found.issuer)
            if issuer is None:
                raise BadToken("the token's issuer is not trusted here")
            if found.type not in _TYPES:
                raise BadToken("the token is not an access token")
            self._aimed(found.claims)
            check_times(found.claims, self._clock(), self._settings.skew)
            claims = await self._keys[issuer.issuer].verified(token, found, issuer.algorithms)
            self._scoped(claims)
            return _caller(issuer, claims)
        except BadToken as bad:
            raise Refused(Reason.CREDENTIALS_INVALID, bad.message) from None
        except NoKeys as missing:
            raise Refused(Reason.CHECK_FAILED, missing.message) from None

    def challenge(self, refused: Refused | None = None) -> str:
        """WWW-Authenticate for an answer (RFC 6750 §3, RFC 9728 §5.1)."""
        parts = [f'resource_metadata="{metadata_url(self._settings.resource)}"']
        if refused is not None and refused.reason is Reason.CREDENTIALS_INVALID:
            parts.insert(0, f'error="{"insufficient_scope" if refused.status == 403 else "invalid_token"}"')
        if self._settings.scopes:
            parts.append(f'scope="{" ".join(self._settings.scopes)}"')
        return f"Bearer {', '.join(parts)}"

    def metadata(self) -> Mapping[str, Any]:
        """The protected resource's metadata (RFC 9728 §2), to be served at `metadata_path`."""
        found: dict[str, Any] = {
            "resource": self._settings.resource,
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

    def _aimed(self, claims: Mapping[str, Any]) -> None:
        audience = claims.get("aud")
        named = [audience] if isinstance(audience, str) else audience
        if not isinstance(named, list) or not any(isinstance(one, str) and one in self._audiences for one in named):
            raise BadToken("the token is for somebody else")

    def _scoped(self, claims: Mapping[str, Any]) -> None:
        missing = sorted(set(self._settings.scopes) - _scopes(claims))
        if missing:
            detail = f"the token lacks the scope {' '.join(missing)}"
            raise Refused(Reason.CREDENTIALS_INVALID, detail, status=403, advice="Get a token with that scope.")


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
        for place in places:
            try:
                raw = await fetch(place)
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

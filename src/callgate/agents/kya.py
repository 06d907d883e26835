"""Know your agent: a token that says on whose behalf an agent acts.

Anybody can verify such tokens (`KyaVerifier`); the one built in reads those of the KYAPay profile, which come in the
header KYAPay-Token. Its issuer is looked at before anything is fetched, its algorithm is ES256 and nothing else, it
is for us, it counts once, and it counts only from the agent whose key it names: `cnf.jwk` (RFC 7800) has to be the key
that signed the request. Whoever finds a token cannot use it. No token, and nothing personal in it, goes into a log.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from callgate.agents.keys import PublicKey
from callgate.agents.model import SKEW
from callgate.agents.storage import NonceStore
from callgate.agents.tokens import (
    BadToken,
    Fetch,
    IssuerKeys,
    NoKeys,
    Outline,
    check_times,
    moment,
    outline,
    text,
)
from callgate.errors import ConfigError, Reason, Refused, StoreError, place
from callgate.gate import Caller

log = logging.getLogger("callgate.agents")

Mode: TypeAlias = Literal["off", "optional", "required"]

HEADER: Final = b"kyapay-token"
ALGORITHM: Final = ("ES256",)
# Tokens that only pay say nothing about who acts.
_IDENTITY: Final = frozenset({"kya+jwt", "kya+pay+jwt"})
MAX_FIELD: Final = 32 * 1024
MAX_TOKENS: Final = 4
_KEPT: Final = ("iss", "sub", "jti", "exp", "env")


class Attested(msgspec.Struct, frozen=True):
    """What a token established; `claims` holds nothing personal."""

    principal: str
    claims: Mapping[str, Any] = {}


class KyaVerifier(Protocol):
    """Decides about a token. Raises Refused where it does not hold; whatever else it raises counts as not working."""

    async def verify(self, token: str, caller: Caller) -> Attested:
        """`token` is the header's value; `caller` is who signed the request, `caller.key` the thumbprint of its key."""


class KyaPolicy(msgspec.Struct, frozen=True):
    """Whether a token is asked for. `optional` takes none, but does not take a bad one."""

    mode: Mode = "off"
    verifier: KyaVerifier | None = None
    header: bytes = HEADER


async def attest(policy: KyaPolicy, headers: tuple[tuple[bytes, bytes], ...], caller: Caller) -> Attested | None:
    """What the request's token says, None where none is asked for or needed; raises Refused."""
    if policy.mode == "off":
        return None
    values = [value for name, value in headers if name == policy.header.lower()]
    if policy.mode == "required" and policy.verifier is None:
        raise _broken("tokens are required here, and nothing is set up that could verify one")
    if not any(value.strip() for value in values):
        if policy.mode == "required":
            raise Refused(Reason.KYA_REQUIRED)
        return None
    if policy.verifier is None:
        raise _broken("nothing is set up here that could verify the token")
    field = b", ".join(values)
    if len(field) > MAX_FIELD or not field.isascii():
        raise Refused(Reason.KYA_INVALID, "the token is too long, or no text")
    try:
        attested = await policy.verifier.verify(field.decode(), caller)
    except Refused as refused:
        # Whatever a verifier says no with, it is this check that says it.
        if refused.reason is Reason.KYA_INVALID:
            raise
        raise Refused(Reason.KYA_INVALID, refused.message) from None
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - a verifier of others may raise anything; none of it is a pass
        # Only the place: the text of an exception may hold the token.
        log.error("token verifier failed", extra={"fields": {"error": place(error)}})
        raise _broken("the token cannot be verified now") from None
    if not isinstance(attested, Attested):
        raise _broken("the verifier gave no answer")
    return attested


def _broken(detail: str) -> Refused:
    return Refused(Reason.KYA_INVALID, detail, status=500, advice="The operator looks at `kya` in the configuration.")


class KyaSettings(msgspec.Struct, frozen=True):
    """Whose tokens count, and for whom they have to be."""

    # Each issuer with the place of its keys; "" means where the profile has them, under /.well-known/jwks.json.
    issuers: Mapping[str, str]
    audience: str
    env: str = "production"
    # The longest life of a token, in seconds: its jti is remembered that long.
    max_life: int = 86_400
    skew: int = SKEW


class KyaPay:
    """Verifies tokens of the KYAPay profile (draft-skyfire-oauth-kyapay-token)."""

    def __init__(self, settings: KyaSettings, fetch: Fetch, nonces: NonceStore, clock: Callable[[], float]) -> None:
        _check(settings)
        self._settings = settings
        self._nonces = nonces
        self._clock = clock
        self._keys = {
            issuer: IssuerKeys(url or f"{issuer.rstrip('/')}/.well-known/jwks.json", fetch, clock)
            for issuer, url in settings.issuers.items()
        }

    async def verify(self, token: str, caller: Caller) -> Attested:
        """Raises Refused (kya_invalid) unless the token holds, here, now, once, and for this caller."""
        try:
            one, found = _only_identity(token)
            keys = self._keys.get(found.issuer)
            if keys is None:
                raise BadToken("the token's issuer is not trusted here")
            expires = self._check_claims(found.claims)
            _check_key(found.claims, caller)
            if not isinstance(found.header.get("kid"), str):
                raise BadToken("the token does not name its key")
            claims = await keys.verified(one, found, ALGORITHM)
        except BadToken as bad:
            raise Refused(Reason.KYA_INVALID, bad.message) from None
        except NoKeys as missing:
            raise _broken(missing.message) from None
        await self._take(found, expires)
        kept = {key: claims[key] for key in _KEPT if isinstance(claims.get(key), (str, int, float))}
        return Attested(f"{found.issuer}#{text(claims, 'sub')}", kept)

    def _check_claims(self, claims: Mapping[str, Any]) -> float:
        now, wanted = self._clock(), self._settings
        if claims.get("aud") != wanted.audience:
            raise BadToken("the token is for somebody else")
        for name in ("sub", "jti"):
            text(claims, name)
        expires, issued = check_times(claims, now, wanted.skew), moment(claims, "iat")
        if issued is None:
            raise BadToken("the token does not say when it was issued")
        if not 0 < expires - issued <= wanted.max_life:
            raise BadToken("the token is valid for longer than is taken here")
        if claims.get("env", wanted.env) != wanted.env:
            raise BadToken("the token is for another environment")
        return expires

    async def _take(self, found: Outline, expires: float) -> None:
        now = self._clock()
        until = int((expires + self._settings.skew) * 1000) + 1
        if not await self._nonces.take_nonce(f"kya:{found.issuer}", text(found.claims, "jti"), until, int(now * 1000)):
            raise Refused(Reason.KYA_INVALID, "the token was used before")


def _only_identity(field: str) -> tuple[str, Outline]:
    """The one token of the header that says who acts; payments may stand beside it."""
    tokens = [one.strip() for one in field.split(",")]
    if len(tokens) > MAX_TOKENS:
        raise BadToken("there are too many tokens")
    outlines = [(one, outline(one)) for one in tokens]
    found = [(one, seen) for one, seen in outlines if seen.type in _IDENTITY]
    if len(found) != 1:
        raise BadToken("there has to be one token of type kya+jwt or kya+pay+jwt")
    return found[0]


def _check_key(claims: Mapping[str, Any], caller: Caller) -> None:
    confirmed = claims.get("cnf")
    jwk = confirmed.get("jwk") if isinstance(confirmed, dict) else None
    if not isinstance(jwk, dict):
        raise BadToken("the token does not say whose key it is for")
    if caller.source != "web-bot-auth" or not caller.key:
        raise BadToken("the token counts only with a signed request")
    try:
        # Refuses private halves as well: a key that travels in tokens is nobody's any more.
        named = PublicKey.read(jwk).thumbprint
    except Refused:
        raise BadToken("the key in the token cannot be used: it is private, or of no kind that is taken here") from None
    if not hmac.compare_digest(named.encode(), caller.key.encode()):
        raise BadToken("the token is for another key than the one that signed the request")


def _check(settings: KyaSettings) -> None:
    if not settings.issuers or not settings.audience:
        advice = "Name the issuers that you trust, and the audience that their tokens for you have."
        raise ConfigError("kya needs issuers and an audience", advice=advice)
    for url in (*settings.issuers, *settings.issuers.values()):
        if url and not (url.startswith("https://") and url.isascii() and url.isprintable()):
            raise ConfigError(f"{url!r} is no https address", advice="Write issuers and their keys with https://.")

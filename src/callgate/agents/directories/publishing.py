"""Key directories: what one publishes, how its keys prove that they belong to it, and those inside a request."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

from callgate.agents.directories.documents import INLINE, DocumentKind
from callgate.agents.fetching import FetchResponse, place_of
from callgate.agents.keys import (
    ALGORITHMS,
    RSA_PSS_256,
    BadKeys,
    KeySet,
    PublicKey,
    jwks,
    key_set,
    read_keys,
    strict_json,
    thumbprint,
)
from callgate.agents.model import DIRECTORY_TAG, DIRECTORY_TYPE, SKEW, Signed
from callgate.agents.verifying import (
    Input,
    SignedMessage,
    SignedResponse,
    check_digest,
    covers_digest,
    inputs,
    joined,
    signature_base,
    signatures,
)
from callgate.errors import Refused

_TAKEN: Final = frozenset(ALGORITHMS) - {RSA_PSS_256}


def prove(
    answer: FetchResponse, keys: Mapping[str, PublicKey], now: float, *, signed: bool = True, digest: bool
) -> tuple[frozenset[str], Mapping[str, str]]:
    """Check every directory signature of an answer. `digest`: a signature has to cover the document too.

    Which keys stand for it, and by thumbprint why a signature that was there does not hold. Where a directory need not
    be `signed`, a signature that has run out, or has the form of an earlier draft, counts as none: a file that was
    signed once stays of use.
    Raises `Refused` where the document is not what its Content-Digest says.
    """
    message = SignedMessage(SignedResponse(200, answer.headers, _asked(answer.url), answer.body))
    if (stated := message.header(b"content-digest")) is not None:
        check_digest(stated, answer.body)
    try:
        named = inputs(_header(answer, b"signature-input"))
        made = signatures(_header(answer, b"signature"))
    except Refused:
        return frozenset(), {}
    proven: set[str] = set()
    failed: dict[str, str] = {}
    for label, given in named.items():
        if given is None or given.params.get("tag") != DIRECTORY_TAG:
            continue
        key = keys.get(str(given.params.get("keyid", "")))
        if key is None:
            continue
        outdated = _outdated(given, now)
        if outdated and not signed:
            continue
        wrong = outdated or _wrong(given, key, now, digest=digest) or _unverified(given, key, made.get(label), message)
        if wrong:
            failed[key.thumbprint] = wrong
        else:
            proven.add(key.thumbprint)
    return frozenset(proven), {name: why for name, why in failed.items() if name not in proven}


def _outdated(given: Input, now: float) -> str:
    """Why a signature says nothing any more: its time is over, or it has the form of an earlier draft."""
    created, expires = given.params.get("created"), given.params.get("expires")
    if type(created) is not int or type(expires) is not int:
        return "it has no created and expires"
    if expires <= now:
        return "its time is over"
    if not any(one.name == "@authority" and dict(one.params) == {"req": True} for one in given.components):
        return 'it does not cover "@authority";req'
    return ""


def _wrong(given: Input, key: PublicKey, now: float, *, digest: bool) -> str:
    """What is wrong with what a signature covers and when, before it is computed."""
    created = given.params.get("created")
    if isinstance(created, int) and created > now + SKEW:
        return "it was made in the future"
    if digest and not covers_digest(given.components):
        return "it does not cover content-digest"
    named = given.params.get("alg")
    try:
        key.algorithm(named if isinstance(named, str) else None, _TAKEN)
    except Refused as why:
        return why.message
    return ""


def _unverified(given: Input, key: PublicKey, signature: bytes | None, message: SignedMessage) -> str:
    if signature is None:
        return "it has no signature under its label"
    named = given.params.get("alg")
    algorithm = key.algorithm(named if isinstance(named, str) else None, _TAKEN)
    try:
        base = signature_base(given, message)
    except Refused as why:
        return why.message
    return "" if key.verifies(algorithm, signature, base) else "it does not verify"


def _asked(url: str) -> Signed:
    where = place_of(url)
    parts = urlsplit(url)
    return Signed("GET", where.scheme, where.authority, parts.path, parts.query or None, ())


def _header(answer: FetchResponse, name: bytes) -> bytes:
    return joined(value for one, value in answer.headers if one == name)


# Members of a JWK that say something here; the rest is not kept, and nothing that is private can be.
_KEPT: Final = ("kty", "crv", "x", "y", "n", "e", "kid", "alg", "use", "key_ops", "nbf", "exp")


def publishing(most: int, clock: Callable[[], float], *, signed: bool, digest: bool) -> DocumentKind[KeySet]:
    """Key directories. `signed`: a key counts only if it signed its directory; `digest`: and covered the document."""

    def keep(answer: FetchResponse) -> bytes:
        found = jwks(answer.body)
        keys = key_set(found, answer.url, most)
        proven, failed = prove(answer, keys.keys, clock(), signed=signed, digest=digest)
        counting = keys.keys.keys() - failed.keys()
        if signed:
            counting &= proven
            if keys.keys and not counting:
                raise BadKeys(_unsigned(failed))
        left_out = [*keys.left_out, *(f"{name}: {why}" for name, why in _failures(failed))]
        unsigned = keys.keys.keys() - counting - failed.keys()
        left_out += [f"{name}: it did not sign the directory" for name in sorted(unsigned)]
        kept = {
            "keys": [_kept(jwk) for jwk in found if _name(jwk) in counting],
            "proven": sorted(proven),
            "digest": digest,
            "left_out": left_out[:most],
        }
        return json.dumps(kept, separators=(",", ":")).encode()

    def read(url: str, body: bytes) -> KeySet:
        kept = strict_json(body)
        if not isinstance(kept, dict) or not isinstance(kept.get("keys"), list):
            raise BadKeys("what was kept of it cannot be read")
        keys = key_set(kept["keys"], url, most)
        proven = frozenset(kept.get("proven", ()))
        # It may have been kept by rules that asked for less.
        counting = proven if kept.get("digest") or not digest else frozenset[str]()
        usable = {name: key for name, key in keys.keys.items() if not signed or name in counting}
        return KeySet(usable, (*kept.get("left_out", ()), *keys.left_out), proven)

    return DocumentKind(keep, read)


def _unsigned(failed: Mapping[str, str]) -> str:
    text = "; ".join(f"{name}: {why}" for name, why in _failures(failed))
    return f"none of its keys signed it, which is demanded here{': ' if text else ''}{text}"


def _failures(failed: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, f"its signature of the directory: {why}") for name, why in sorted(failed.items())[:8]]


def _kept(jwk: Mapping[str, Any]) -> dict[str, Any]:
    return {name: jwk[name] for name in _KEPT if name in jwk}


def _name(jwk: object) -> str:
    return thumbprint(jwk) if isinstance(jwk, dict) and jwk.get("kty") in {"OKP", "EC", "RSA"} else ""


MAX_URI: Final = 16 * 1024
MAX_KEYS: Final = 8


def read_inline(uri: str, known: Collection[str]) -> KeySet:
    """The keys of a data: URI that are among `known` thumbprints; nothing is read where none is."""
    if not known:
        raise BadKeys("directories inside a request are refused here")
    if len(uri) > MAX_URI:
        raise BadKeys(f"longer than {MAX_URI} characters")
    head, comma, data = uri.removeprefix(INLINE).partition(",")
    kind, *params = [part.strip().lower() for part in head.split(";")]
    if not comma or kind != DIRECTORY_TYPE:
        raise BadKeys(f"its media type is not {DIRECTORY_TYPE}")
    raw = unquote_to_bytes(data)
    if "base64" in params:
        try:
            raw = base64.b64decode(raw, validate=True)
        except binascii.Error as why:
            raise BadKeys("it is not base64") from why
    found = read_keys(raw, INLINE, MAX_KEYS)
    return KeySet({name: key for name, key in found.keys.items() if name in known}, found.left_out)

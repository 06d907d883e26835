"""Signatures of directories over themselves: each key says that it belongs to this directory, and to no other host.

With tag `http-message-signatures-directory` a directory's answer is signed once by each of its keys. It covers the
authority that was asked, so that nobody can publish a stranger's key as their own, and where demanded the digest of the
document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from callgate.agents.components import Answer as SignedAnswer
from callgate.agents.components import Message, signature_base
from callgate.agents.digest import check_digest, covers_digest
from callgate.agents.fetching import Answer
from callgate.agents.fields import Input, inputs, joined, signatures
from callgate.agents.keys import ALGORITHMS, RSA_PSS_256, Key
from callgate.agents.model import DIRECTORY_TAG, Signed
from callgate.agents.reaching import place_of
from callgate.errors import Refused

# Clocks of strangers; directories are signed ahead and cached, so seconds do not matter here.
SKEW: Final = 60
_TAKEN: Final = frozenset(ALGORITHMS) - {RSA_PSS_256}


class Proofs(msgspec.Struct, frozen=True):
    """What the signatures of an answer say: which keys stand for it, and which do not although they are named."""

    proven: frozenset[str] = frozenset()
    # By thumbprint, why a signature that was there does not hold.
    failed: Mapping[str, str] = {}


def prove(answer: Answer, keys: Mapping[str, Key], now: float, *, digest: bool) -> Proofs:
    """Check every directory signature of an answer. `digest`: a signature has to cover the document too.

    Raises `Refused` where the document is not what its Content-Digest says.
    """
    message = Message(SignedAnswer(200, answer.headers, _asked(answer.url), answer.body))
    if (stated := message.header(b"content-digest")) is not None:
        check_digest(stated, answer.body)
    try:
        named = inputs(_header(answer, b"signature-input"))
        made = signatures(_header(answer, b"signature"))
    except Refused:
        return Proofs()
    proven: set[str] = set()
    failed: dict[str, str] = {}
    for label, given in named.items():
        if given is None or given.params.get("tag") != DIRECTORY_TAG:
            continue
        key = keys.get(str(given.params.get("keyid", "")))
        if key is None:
            continue
        wrong = _wrong(given, key, now, digest=digest) or _unverified(given, key, made.get(label), message)
        if wrong:
            failed[key.thumbprint] = wrong
        else:
            proven.add(key.thumbprint)
    return Proofs(frozenset(proven), {name: why for name, why in failed.items() if name not in proven})


def _wrong(given: Input, key: Key, now: float, *, digest: bool) -> str:
    """What is wrong with what a signature covers and when, before it is computed."""
    created, expires = given.params.get("created"), given.params.get("expires")
    if type(created) is not int or type(expires) is not int:
        return "it has no created and expires"
    if created > now + SKEW or expires <= now:
        return "it is not valid at this time"
    if not any(one.name == "@authority" and dict(one.params) == {"req": True} for one in given.components):
        return 'it does not cover "@authority";req'
    if digest and not covers_digest(given.components):
        return "it does not cover content-digest"
    named = given.params.get("alg")
    try:
        key.algorithm(named if isinstance(named, str) else None, _TAKEN)
    except Refused as why:
        return why.message
    return ""


def _unverified(given: Input, key: Key, signature: bytes | None, message: Message) -> str:
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


def _header(answer: Answer, name: bytes) -> bytes:
    return joined(value for one, value in answer.headers if one == name)

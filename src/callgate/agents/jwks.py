"""Key sets: RFC 7517 documents and the directories of Web Bot Auth, read as what they are, somebody else's text.

A key counts only if it is public, of a kind that is used here, and spelt in exactly one way: its RFC 7638 thumbprint is
its name, so two spellings would be two names for one key. One odd key does not spoil the others of its document; what
was left out is reported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from callgate.agents.keys import Key, thumbprint
from callgate.errors import CallgateError, Refused

MAX_BYTES: Final = 256 * 1024
MAX_KEYS: Final = 100
MAX_KID: Final = 256

# RFC 7518 §6 and RFC 8037 §2: members that only whoever signs may know. `k` is the whole of a shared secret.
PRIVATE: Final = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth", "k"))


class BadKeys(CallgateError):
    """A document that is no key set, or a key that is not taken; the text says why."""


class KeySet(NamedTuple):
    """The keys of one document by thumbprint, and what was left out of it, each with its reason."""

    keys: Mapping[str, Key]
    left_out: tuple[str, ...] = ()

    def find(self, keyid: str, *, by_kid: bool = False) -> Key | None:
        """The key of this thumbprint; for old directories also the only one that is called so (WB-005)."""
        if (key := self.keys.get(keyid)) is not None or not by_kid:
            return key
        called = [one for one in self.keys.values() if one.kid == keyid]
        return called[0] if keyid and len(called) == 1 else None


def read_keys(raw: bytes, directory: str, most: int = MAX_KEYS) -> KeySet:
    """The keys of a JWKS or directory document."""
    return key_set(jwks(raw), directory, most)


def jwks(raw: bytes) -> list[Any]:
    """The list of JWKs of a document, before any of them is looked at."""
    if len(raw) > MAX_BYTES:
        raise BadKeys(f"larger than {MAX_BYTES} bytes")
    document = strict_json(raw)
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise BadKeys("not an object with a list `keys`")
    found: list[Any] = document["keys"]
    return found


def key_set(found: Sequence[object], directory: str, most: int = MAX_KEYS) -> KeySet:
    """The keys of a list of JWKs. One whose private part is in it is nobody's any more, however often it is listed."""
    if len(found) > most:
        raise BadKeys(f"more than {most} keys")
    exposed = {name for jwk in found if isinstance(jwk, dict) and (name := _exposed(jwk))}
    keys: dict[str, Key] = {}
    left_out: list[str] = []
    for at, jwk in enumerate(found):
        try:
            key = read_key(jwk, directory)
        except BadKeys as why:
            left_out.append(f"key {at}: {why}")
            continue
        if key.thumbprint in exposed:
            left_out.append(f"key {at}: its private half is published with another copy of it")
        elif key.thumbprint in keys:
            left_out.append(f"key {at}: listed twice")
        else:
            keys[key.thumbprint] = key
    return KeySet(keys, tuple(left_out))


def read_key(jwk: object, directory: str) -> Key:
    """One JWK."""
    if not isinstance(jwk, dict):
        raise BadKeys("it is no JSON object")
    if any(_padded(jwk.get(name)) for name in ("n", "e")):
        raise BadKeys("its numbers begin with zeroes, RFC 7518 §2")
    kid = jwk.get("kid", "")
    if not isinstance(kid, str) or len(kid) > MAX_KID:
        raise BadKeys(f"its kid is no text of at most {MAX_KID} characters")
    try:
        return Key.read(jwk, directory)
    except Refused as why:
        raise BadKeys(why.message.removeprefix("The key cannot be used: ")) from why


def usable(key: Key, now: float) -> bool:
    """Whether a key may be used at this time, in seconds: from `nbf` on, and before `exp`."""
    return (key.not_before is None or key.not_before <= now) and (key.not_after is None or now < key.not_after)


def strict_json(raw: bytes) -> Any:
    """JSON that two readers cannot read differently: no key twice, no NaN, UTF-8."""
    try:
        return json.loads(raw.decode(), object_pairs_hook=_pairs, parse_constant=_constant)
    except (ValueError, RecursionError) as why:
        raise BadKeys("not JSON in UTF-8") from why


def _exposed(jwk: Mapping[str, Any]) -> str | None:
    try:
        return thumbprint(jwk) if PRIVATE & jwk.keys() else None
    except Refused:
        return None


def _padded(number: object) -> bool:
    # Eight zero bits in base64url: A, and one of A to P.
    return isinstance(number, str) and number[:1] == "A" and "A" <= number[1:2] <= "P"


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadKeys("an object has the same key twice")
    return found


def _constant(text: str) -> Any:
    raise BadKeys(f"{text} is not JSON")

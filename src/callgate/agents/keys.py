"""Public keys of agents: read from a JWK, named by their thumbprint, and bound to the algorithms they are for.

The key says which algorithm is used; a message may only choose among what its key allows (RFC 9421 §3.2).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from callgate.ed25519 import public_key
from callgate.errors import CallgateError, Reason, Refused

ED25519: Final = "ed25519"
ECDSA_P256: Final = "ecdsa-p256-sha256"
RSA_PSS_512: Final = "rsa-pss-sha512"
# Not registered; older agents use it.
RSA_PSS_256: Final = "rsa-pss-sha256"
ALGORITHMS: Final = (ED25519, ECDSA_P256, RSA_PSS_512, RSA_PSS_256)
RSA_BITS: Final = range(2048, 8193)

_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
# RFC 7518 §6 and RFC 8037 §2: members that only whoever signs may know. `k` is the whole of a shared secret.
PRIVATE: Final = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth", "k"))
_MEMBERS = {"OKP": ("crv", "kty", "x"), "EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n")}
# By the `alg` of the JWK; None stands for a JWK without one.
_BY_ALG: Mapping[str, Mapping[str | None, tuple[str, ...]]] = {
    "OKP": {None: (ED25519,), "EdDSA": (ED25519,), "Ed25519": (ED25519,), "ed25519": (ED25519,)},
    "EC": {None: (ECDSA_P256,), "ES256": (ECDSA_P256,), ECDSA_P256: (ECDSA_P256,)},
    "RSA": {
        None: (RSA_PSS_512, RSA_PSS_256),
        "PS512": (RSA_PSS_512,),
        RSA_PSS_512: (RSA_PSS_512,),
        "PS256": (RSA_PSS_256,),
        RSA_PSS_256: (RSA_PSS_256,),
    },
}


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key and where it came from: the URL of a directory, `static`, `self` or `test`."""

    thumbprint: str
    # What it may be used with; the first is meant where the message names none.
    algorithms: tuple[str, ...]
    public: Any = field(repr=False, compare=False)
    directory: str = "static"
    kid: str = ""
    # Seconds since 1970, where the directory limits the key's life.
    not_before: int | None = None
    not_after: int | None = None
    # The members that the thumbprint is made of, for whoever compares keys (a KYA token's cnf.jwk).
    jwk: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, jwk: Mapping[str, Any], directory: str = "static") -> PublicKey:
        """From a JWK (RFC 7517). Refused as `unsupported_alg` where it is no public key for signatures we know."""
        if not isinstance(jwk, Mapping):
            raise _unusable("it is no JSON object")
        kind, allowed = _purpose(jwk)
        members: dict[str, Any] = {name: jwk.get(name) for name in _MEMBERS[kind]}
        if not all(isinstance(value, str) and len(value) <= 2048 for value in members.values()):
            raise _unusable(f"{', '.join(_MEMBERS[kind])} are needed, as strings")
        try:
            public = _READERS[kind](members)
        except (ValueError, TypeError) as error:
            raise _unusable("its numbers make no key") from error
        kid = jwk.get("kid", "")
        return cls(
            thumbprint=thumbprint(jwk),
            algorithms=allowed,
            public=public,
            directory=directory,
            kid=kid if isinstance(kid, str) else "",
            not_before=_time(jwk, "nbf"),
            not_after=_time(jwk, "exp"),
            jwk=members,
        )

    def algorithm(self, named: str | None, taken: frozenset[str]) -> str:
        """The algorithm of a signature: one that the key is for and that is taken here; `named` may only agree."""
        for own in self.algorithms:
            if own in taken and (named is None or named == own):
                return own
        raise Refused(
            Reason.UNSUPPORTED_ALG, f"The key is for {' or '.join(self.algorithms)}, and that is not what is used here."
        )

    def verifies(self, algorithm: str, signature: bytes, base: bytes) -> bool:
        try:
            if algorithm == ED25519:
                self.public.verify(signature, base)
                return True
            return _VERIFIERS[algorithm](self.public, signature, base)
        except InvalidSignature:
            return False


def thumbprint(jwk: Mapping[str, Any]) -> str:
    """RFC 7638 with SHA-256; RFC 8037 for OKP. Private members and all others make no difference."""
    kind = jwk.get("kty") if isinstance(jwk, Mapping) else None
    if not isinstance(kind, str) or kind not in _MEMBERS:
        raise _unusable("its type is not known here")
    members = json.dumps({name: jwk.get(name) for name in _MEMBERS[kind]}, separators=(",", ":"), sort_keys=True)
    return base64.urlsafe_b64encode(hashlib.sha256(members.encode()).digest()).rstrip(b"=").decode()


def public_jwk(public: Any) -> dict[str, str]:
    """The JWK of a public key of the `cryptography` library, as a directory shows it."""
    if isinstance(public, ed25519.Ed25519PublicKey):
        return {"kty": "OKP", "crv": "Ed25519", "x": _encoded(public.public_bytes_raw())}
    if isinstance(public, ec.EllipticCurvePublicKey) and isinstance(public.curve, ec.SECP256R1):
        at = public.public_numbers()
        x, y = (_encoded(number.to_bytes(32, "big")) for number in (at.x, at.y))
        return {"kty": "EC", "crv": "P-256", "x": x, "y": y}
    if isinstance(public, rsa.RSAPublicKey):
        of = public.public_numbers()
        n, e = (_encoded(number.to_bytes((number.bit_length() + 7) // 8, "big")) for number in (of.n, of.e))
        return {"kty": "RSA", "n": n, "e": e}
    raise _unusable("it is neither Ed25519, P-256 nor RSA")


def _purpose(jwk: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The type of a key and what it may be used with."""
    kind, alg = jwk.get("kty"), jwk.get("alg")
    if not isinstance(kind, str) or kind not in _MEMBERS:
        raise _unusable("its type is not known here")
    if PRIVATE & jwk.keys():
        raise _unusable("its private half is published with it")
    if jwk.get("use", "sig") != "sig":
        raise _unusable("it is not for signatures")
    operations = jwk.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        raise _unusable("it is not for verifying")
    allowed = _BY_ALG[kind].get(alg) if alg is None or isinstance(alg, str) else None
    if allowed is None:
        raise _unusable("its alg is not one that is taken with such a key")
    return kind, allowed


def _ed25519(jwk: Mapping[str, Any]) -> ed25519.Ed25519PublicKey:
    raw = _decoded(jwk["x"])
    if jwk["crv"] != "Ed25519":
        raise ValueError("another curve")
    return public_key(raw)


def _p256(jwk: Mapping[str, Any]) -> ec.EllipticCurvePublicKey:
    x, y = _decoded(jwk["x"]), _decoded(jwk["y"])
    if jwk["crv"] != "P-256" or len(x) != 32 or len(y) != 32:
        raise ValueError("no point of P-256")
    numbers = ec.EllipticCurvePublicNumbers(int.from_bytes(x, "big"), int.from_bytes(y, "big"), ec.SECP256R1())
    return numbers.public_key()


def _rsa(jwk: Mapping[str, Any]) -> rsa.RSAPublicKey:
    n, e = int.from_bytes(_decoded(jwk["n"]), "big"), int.from_bytes(_decoded(jwk["e"]), "big")
    if n.bit_length() not in RSA_BITS or not 65_537 <= e < 2**32:
        raise ValueError("an RSA key of a size that is not taken")
    return rsa.RSAPublicNumbers(e, n).public_key()


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {"OKP": _ed25519, "EC": _p256, "RSA": _rsa}


def _verify_p256(public: Any, signature: bytes, base: bytes) -> bool:
    """RFC 9421 §3.3.4: r and s, 32 bytes each. Its mirror buys nothing: nobody remembers a signature by its bytes."""
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    if len(signature) != 64 or not (0 < r < _ORDER and 0 < s < _ORDER):
        return False
    public.verify(encode_dss_signature(r, s), base, ec.ECDSA(hashes.SHA256()))
    return True


def _verify_pss(digest: hashes.HashAlgorithm) -> Callable[[Any, bytes, bytes], bool]:
    scheme = padding.PSS(mgf=padding.MGF1(digest), salt_length=digest.digest_size)

    def verify(public: Any, signature: bytes, base: bytes) -> bool:
        if len(signature) != (public.key_size + 7) // 8:
            return False
        public.verify(signature, base, scheme, digest)
        return True

    return verify


_VERIFIERS: Mapping[str, Callable[[Any, bytes, bytes], bool]] = {
    ECDSA_P256: _verify_p256,
    RSA_PSS_512: _verify_pss(hashes.SHA512()),
    RSA_PSS_256: _verify_pss(hashes.SHA256()),
}


def _time(jwk: Mapping[str, Any], name: str) -> int | None:
    value = jwk.get(name)
    if value is not None and type(value) is not int:
        raise _unusable(f"its {name} is no integer")
    return value


def _decoded(text: str) -> bytes:
    """base64url without padding and without spare bits: a key has one spelling, and so one thumbprint."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError("no base64url") from error
    if _encoded(raw) != text:
        raise ValueError("no base64url as it has to be")
    return raw


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _unusable(why: str) -> Refused:
    return Refused(Reason.UNSUPPORTED_ALG, f"The key cannot be used: {why}.")


MAX_BYTES: Final = 256 * 1024
MAX_KEYS: Final = 100
MAX_KID: Final = 256
MAX_DEPTH: Final = 64
# A string, whole or without its end, or one bracket.
_NESTING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"?|[][{}]', re.DOTALL)


class BadKeys(CallgateError):
    """A document that is no key set, or a key that is not taken; the text says why."""


class KeySet(NamedTuple):
    """The keys of one document by thumbprint, and what was left out of it, each with its reason."""

    keys: Mapping[str, PublicKey]
    left_out: tuple[str, ...] = ()
    # Thumbprints of keys that signed the directory themselves.
    proven: frozenset[str] = frozenset()

    def find(self, keyid: str, *, by_kid: bool = False) -> PublicKey | None:
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
    keys: dict[str, PublicKey] = {}
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


def read_key(jwk: object, directory: str) -> PublicKey:
    """One JWK."""
    if not isinstance(jwk, dict):
        raise BadKeys("it is no JSON object")
    if any(_padded(jwk.get(name)) for name in ("n", "e")):
        raise BadKeys("its numbers begin with zeroes, RFC 7518 §2")
    kid = jwk.get("kid", "")
    if not isinstance(kid, str) or len(kid) > MAX_KID:
        raise BadKeys(f"its kid is no text of at most {MAX_KID} characters")
    try:
        return PublicKey.read(jwk, directory)
    except Refused as why:
        raise BadKeys(why.message.removeprefix("The key cannot be used: ")) from why


def usable(key: PublicKey, now: float) -> bool:
    """Whether a key may be used at this time, in seconds: from `nbf` on, and before `exp`."""
    return (key.not_before is None or key.not_before <= now) and (key.not_after is None or now < key.not_after)


def _too_deep(raw: bytes) -> bool:
    """Whether JSON is nested deeper than any document of keys. A parser that runs out of stack cannot clean up."""
    depth = 0
    for token in _NESTING.finditer(raw):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token[0], 0)
        if depth > MAX_DEPTH:
            return True
    return False


def strict_json(raw: bytes) -> Any:
    """JSON that two readers cannot read differently: no key twice, no NaN, UTF-8."""
    if _too_deep(raw):
        raise BadKeys(f"nested more than {MAX_DEPTH} levels deep")
    try:
        return json.loads(raw.decode(), object_pairs_hook=_pairs, parse_constant=_constant)
    except ValueError as why:
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

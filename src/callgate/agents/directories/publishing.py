"""What a key directory publishes, and what of it counts and is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from callgate.agents.directories.documents import Kind
from callgate.agents.directories.proving import prove
from callgate.agents.fetching import Answer
from callgate.agents.jwks import BadKeys, KeySet, jwks, key_set, strict_json
from callgate.agents.keys import thumbprint

# Members of a JWK that say something here; the rest is not kept, and nothing that is private can be.
_KEPT: Final = ("kty", "crv", "x", "y", "n", "e", "kid", "alg", "use", "key_ops", "nbf", "exp")


class Published(msgspec.Struct, frozen=True):
    """A key directory as it counts."""

    keys: KeySet
    # Thumbprints of keys that signed the directory themselves.
    proven: frozenset[str] = frozenset()


def publishing(most: int, clock: Callable[[], float], *, signed: bool, digest: bool) -> Kind[Published]:
    """Key directories. `signed`: a key counts only if it signed its directory; `digest`: and covered the document."""

    def keep(answer: Answer) -> bytes:
        found = jwks(answer.body)
        keys = key_set(found, answer.url, most)
        proofs = prove(answer, keys.keys, clock(), digest=digest)
        counting = keys.keys.keys() - proofs.failed.keys()
        if signed:
            counting &= proofs.proven
            if keys.keys and not counting:
                raise BadKeys(_unsigned(proofs.failed))
        left_out = [*keys.left_out, *(f"{name}: {why}" for name, why in _told(proofs.failed))]
        unsigned = keys.keys.keys() - counting - proofs.failed.keys()
        left_out += [f"{name}: it did not sign the directory" for name in sorted(unsigned)]
        kept = {
            "keys": [_kept(jwk) for jwk in found if _name(jwk) in counting],
            "proven": sorted(proofs.proven),
            "digest": digest,
            "left_out": left_out[:most],
        }
        return json.dumps(kept, separators=(",", ":")).encode()

    def read(url: str, body: bytes) -> Published:
        kept = strict_json(body)
        if not isinstance(kept, dict) or not isinstance(kept.get("keys"), list):
            raise BadKeys("what was kept of it cannot be read")
        keys = key_set(kept["keys"], url, most)
        proven = frozenset(kept.get("proven", ()))
        # It may have been kept by rules that asked for less.
        counting = proven if kept.get("digest") or not digest else frozenset[str]()
        usable = {name: key for name, key in keys.keys.items() if not signed or name in counting}
        return Published(KeySet(usable, (*kept.get("left_out", ()), *keys.left_out)), proven)

    return Kind(keep, read)


def _unsigned(failed: Mapping[str, str]) -> str:
    told = "; ".join(f"{name}: {why}" for name, why in _told(failed))
    return f"none of its keys signed it, which is demanded here{': ' if told else ''}{told}"


def _told(failed: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, f"its signature of the directory: {why}") for name, why in sorted(failed.items())[:8]]


def _kept(jwk: Mapping[str, Any]) -> dict[str, Any]:
    return {name: jwk[name] for name in _KEPT if name in jwk}


def _name(jwk: object) -> str:
    return thumbprint(jwk) if isinstance(jwk, dict) and jwk.get("kty") in {"OKP", "EC", "RSA"} else ""

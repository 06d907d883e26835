"""Who cosigns the heads of the audit log: `[audit.witnesses.NAME]`."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from typing import Annotated, Final

from callgate.config import rules
from callgate.config.rules import Clash, KeyRule, Section

_KEY: Final = re.compile(r"([^\s+]{1,255})\+([0-9a-f]{8})\+([A-Za-z0-9+/]{44})\Z")
# tlog-cosignature "Format": the type byte of an Ed25519 key that cosigns.
_COSIGNS: Final = b"\x04"


def _check_key(text: str) -> str | None:
    found = _KEY.match(text)
    try:
        raw = base64.b64decode(found[3], validate=True) if found else b""
    except binascii.Error:
        raw = b""
    if found is None or len(raw) != 33 or raw[:1] != _COSIGNS:
        return "expected the public key of a witness, NAME+HASH+BASE64; `callgate witness key` prints it"
    if hashlib.sha256(found[1].encode() + b"\n" + raw).hexdigest()[:8] != found[2]:
        return "the hash in the key does not fit the key; copy it again"
    return None


class WitnessSection(Section, frozen=True):
    """A witness: somebody else who cosigns the heads of the log (C2SP tlog-witness)."""

    url: Annotated[str | None, KeyRule(check=rules.http_url)] = None
    """Where it is; the gateway posts to `/add-checkpoint` below it."""
    key: Annotated[str | None, KeyRule(check=_check_key)] = None
    """Its public key, as `callgate witness key` prints it."""

    def clashes(self) -> Iterator[Clash]:
        for name in ("url", "key"):
            if getattr(self, name) is None:
                yield Clash(name, f"a witness needs its {name}", (name,))

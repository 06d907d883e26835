"""Secrets in JSON, with words in their place: a model that works with a result has no need of the key in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def masked(raw: bytes, secrets: Mapping[str, str]) -> bytes:
    """JSON with words in the place of each secret, in whatever string; `secrets` has the words for each of them.
    Everything else stays byte for byte."""
    # Of two that begin alike, the longer one.
    found = re.compile("|".join(map(re.escape, sorted(secrets, key=len, reverse=True))))

    def words(string: re.Match[bytes]) -> bytes:
        text = json.loads(string[0], strict=False)
        plain = found.sub(lambda one: f"[masked: {secrets[one[0]]}]", text)
        return string[0] if plain == text else json.dumps(plain).encode()

    return _STRING.sub(words, raw)

"""Secrets in JSON, with words in their place: a model that works with a result has no need of the key in it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Final

from callgate.trust.encoded import runs, text_of

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def masked(raw: bytes, secrets: Mapping[str, str]) -> bytes:
    """JSON with words in the place of each secret, in whatever string; `secrets` has the words for each of them.
    Everything else stays byte for byte."""
    # Of two that begin alike, the longer one.
    found = re.compile("|".join(map(re.escape, sorted(secrets, key=len, reverse=True))))

    def words_for(one: re.Match[str]) -> str:
        return f"[masked: {secrets[one[0]]}]"

    def words(string: re.Match[bytes]) -> bytes:
        text = json.loads(string[0], strict=False)
        plain = found.sub(words_for, text)
        for run in [text] if text_of(text) else [one[0] for one in runs(text)]:
            # A text in Base64 stays one.
            held = text_of(run) or ""
            if (without := found.sub(words_for, held)) != held:
                plain = plain.replace(run, base64.b64encode(without.encode()).decode())
        return string[0] if plain == text else json.dumps(plain).encode()

    return _STRING.sub(words, raw)

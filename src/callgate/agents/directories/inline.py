"""Directories inside a request: a data: URI in Signature-Agent. Read only where an operator knows the key already."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from typing import Final
from urllib.parse import unquote_to_bytes

from callgate.agents.directories.addresses import INLINE
from callgate.agents.jwks import BadKeys, KeySet, read_keys
from callgate.agents.model import DIRECTORY_TYPE

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

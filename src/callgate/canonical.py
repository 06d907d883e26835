"""RFC 8785 (JSON Canonicalization Scheme) and the hashes built on it.

`rfc8785` is the reference; orjson with sorted keys gives the same bytes much faster for most values. Where the two
could differ the reference is asked: floats (RFC 8785 §3.2.2.3 wants ECMAScript's spelling), keys whose order by
UTF-16 code units (§3.2.3) is not their order by code points, and types that are not plain JSON. Integers beyond
±(2^53−1) have no canonical form: both refuse them.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

import orjson
import rfc8785

from callgate.errors import MessageError, Reason

MAX_SAFE_INTEGER: Final = 2**53 - 1

_OPTIONS: Final = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
# orjson gives up at 254 levels; nothing that deep is worth a faster path.
_FAST_DEPTH: Final = 128


def canonical(value: Any) -> bytes:
    """The RFC 8785 form of a decoded JSON value."""
    if _is_plain(value):
        try:
            return orjson.dumps(value, option=_OPTIONS)
        except TypeError:
            pass  # an integer out of range or a lone surrogate: let the reference say which
    try:
        return rfc8785.dumps(value)
    except rfc8785.IntegerDomainError as error:
        raise MessageError(Reason.NUMBER_OUT_OF_RANGE, f"{error}") from None
    except rfc8785.FloatDomainError as error:
        raise MessageError(Reason.NUMBER_OUT_OF_RANGE, f"{error}") from None
    except RecursionError:
        raise MessageError(Reason.TOO_DEEP, code=Reason.INVALID_PARAMS.code) from None
    except (rfc8785.CanonicalizationError, ValueError, TypeError) as error:
        if _has_lone_surrogate(value):
            raise MessageError(Reason.LONE_SURROGATE) from None
        raise MessageError(Reason.INVALID_PARAMS, f"this value has no canonical JSON form: {error}") from None


def parts_hash(*parts: str | bytes) -> bytes:
    """SHA-256 over texts of any length and kind; their borders count."""
    whole = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        whole.update(len(raw).to_bytes(8))
        whole.update(raw)
    return whole.digest()


def _has_lone_surrogate(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return True
    except (TypeError, ValueError):
        return False
    return False


def _is_plain(value: Any) -> bool:
    """Whether orjson's spelling of this value is the canonical one."""
    level: list[Any] = [[value]]
    for _ in range(_FAST_DEPTH):
        deeper: list[Any] = []
        for node in level:
            if type(node) is dict:
                # Keys below the surrogates sort alike by code point and by UTF-16 code unit.
                for key in node:
                    if type(key) is not str or not (key.isascii() or max(key) < "\ud800"):
                        return False
                node = node.values()
            for item in node:
                kind = type(item)
                if kind is dict or kind is list:
                    deeper.append(item)
                elif not (kind is str or kind is int or kind is bool or item is None):
                    return False
        if not deeper:
            return True
        level = deeper
    return False

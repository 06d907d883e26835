"""What may be written to a log: values of secret-looking names, call arguments and credentials in text are masked."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from callgate.config.secret import MASK, Secret

_MAX_TEXT: Final = 2000
_MAX_ITEMS: Final = 50
_MAX_DEPTH: Final = 4
_MAX_INTEGER: Final = 2**63

_TEXTUAL: Final = (str, Secret, BaseException, Enum, PurePath, dt.date, dt.time, dt.timedelta, UUID)

# What a call carries is as private as a password; whoever wants it in writing has the audit log.
_PAYLOADS: Final = frozenset(
    {"arguments", "args", "params", "result", "content", "body", "payload", "raw", "canonical"}
)
_SECRET_NAME: Final = re.compile(
    r"token|secret|passw|passphrase|authori[sz]ation|cookie|credential|api[-_]?key|private[-_]?key|assertion|bearer",
    re.IGNORECASE,
)
# Each alternative begins with fixed letters and is bounded, so that no text of a peer makes the search slow.
_CREDENTIALS: Final = re.compile(
    r"(?P<scheme>\b(?:bearer|basic|digest|dpop)\s{1,8})[A-Za-z0-9._~+/=-]{4,}"
    r"|(?P<user>://[^\s/@:]{0,64}:)[^\s/@]{1,256}(?=@)"
    r"|(?P<pair>(?:token|secret|passw(?:or)?d|api[-_]?key)[\w-]{0,32}=)[^\s&;,\"']+",
    re.IGNORECASE,
)


def is_private(name: str) -> bool:
    """Whether values under this name stay out of logs."""
    return name.lower() in _PAYLOADS or _SECRET_NAME.search(name) is not None


def fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a log record, fit to be written."""
    return _mapping(values, 0)


def text(message: str) -> str:
    """A text without credentials, at a bounded length."""
    if len(message) > _MAX_TEXT:
        message = f"{message[:_MAX_TEXT]}… ({len(message)} characters)"
    return _CREDENTIALS.sub(_mask, message)


def _mask(match: re.Match[str]) -> str:
    return f"{match['scheme'] or match['user'] or match['pair']}{MASK}"


def _mapping(values: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for count, (name, value) in enumerate(values.items()):
        if count == _MAX_ITEMS:
            shown["…"] = f"{len(values) - count} more"
            break
        name = text(str(name))
        shown[name] = MASK if is_private(name) else _value(value, depth + 1)
    return shown


def _value(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return int(value) if -_MAX_INTEGER <= value < _MAX_INTEGER else "a huge integer"
    if isinstance(value, _TEXTUAL):
        return text(str(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    if depth > _MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return _mapping(value, depth)
    if isinstance(value, list | tuple | set | frozenset):
        items = [_value(item, depth + 1) for _, item in zip(range(_MAX_ITEMS), value, strict=False)]
        return [*items, f"{len(value) - _MAX_ITEMS} more"] if len(value) > _MAX_ITEMS else items
    # The text of any other object may show what it holds.
    return f"<{type(value).__name__}>"

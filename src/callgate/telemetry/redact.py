"""What may be written to a log: values of secret-looking names, call arguments and credentials in text are masked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from callgate.config.secret import MASK, Secret

_MAX_TEXT: Final = 2000
_MAX_ITEMS: Final = 50
_MAX_DEPTH: Final = 4
_MAX_INTEGER: Final = 2**63

# What a call carries is as private as a password; whoever wants it in writing has the audit log.
_PAYLOADS: Final = frozenset(
    {"arguments", "args", "params", "result", "content", "body", "payload", "raw", "canonical"}
)
_SECRET_NAME: Final = re.compile(
    r"token|secret|passw|passphrase|authori[sz]ation|cookie|credential|api[-_]?key|private[-_]?key|assertion|bearer",
    re.IGNORECASE,
)
_CREDENTIALS: Final = re.compile(
    r"(?P<scheme>\b(?:bearer|basic|digest|dpop)\s+)[A-Za-z0-9._~+/=-]{4,}"
    r"|(?P<user>[a-z][a-z0-9+.-]{0,20}://[^\s/@:]{0,256}:)[^\s/@]{1,1024}(?=@)"
    r"|(?P<pair>[\w-]{0,64}(?:token|secret|passw(?:or)?d|api[-_]?key)[\w-]{0,64}=)[^\s&;,\"']+",
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
    if isinstance(value, str | Secret):
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
    return text(str(value))

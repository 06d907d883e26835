"""Values that must not be shown: they print masked, and only `reveal()` gives what they hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Never
from urllib.parse import urlsplit, urlunsplit

MASK: Final = "***"

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
_SECRET_FLAG: Final = re.compile(
    r"(?i)^(--?[\w-]*(?:token|secret|passw|passphrase|api-?key|auth|credential)[\w-]*)(=.*)?$", re.DOTALL
)
_SECRET_PAIR: Final = re.compile(r"(?i)^(\w*(?:token|secret|passw|passphrase|api_?key|credential)\w*)=.*$", re.DOTALL)


class Secret:
    """A string that does not leak by being printed, logged, compared in a traceback or pickled."""

    __slots__ = ("_shown", "_value")

    def __init__(self, value: str, shown: str = MASK) -> None:
        self._value = value
        self._shown = shown

    def reveal(self) -> str:
        return self._value

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        return f"Secret({self._shown!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))

    def __bool__(self) -> bool:
        return bool(self._value)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> Never:
        raise TypeError("a Secret is not to be pickled; call reveal() where its value is needed")


def references(written: str) -> list[str]:
    """The names of the environment variables that a value refers to, in order."""
    return [match[1] for match in _REFERENCE.finditer(written) if match[1]]


def mask_all(written: Sequence[str]) -> list[str]:
    """Nothing of the value; the names of the variables it comes from help to find a wrong one."""
    return [" ".join(f"${{{name}}}" for name in references(text)) or MASK for text in written]


def mask_url(written: Sequence[str]) -> list[str]:
    """A URL without its password and without the values of its query."""
    return [_mask_url(text) for text in written]


def mask_command(written: Sequence[str]) -> list[str]:
    """A command line without the values of options and assignments whose names tell that they are secret."""
    shown: list[str] = []
    hide_next = False
    for word in written:
        text = _without_defaults(word)
        flag = _SECRET_FLAG.match(text)
        if hide_next:
            text = mask_all([word])[0]
        elif flag and flag[2]:
            text = f"{flag[1]}={mask_all([flag[2]])[0]}"
        elif pair := _SECRET_PAIR.match(text):
            text = f"{pair[1]}={MASK}"
        elif "://" in text:
            text = _mask_url(word)
        hide_next = bool(flag and not flag[2] and not hide_next)
        shown.append(text)
    return shown


def _without_defaults(written: str) -> str:
    return _REFERENCE.sub(lambda match: f"${{{match[1]}}}" if match[1] else match[0], written)


def _mask_url(written: str) -> str:
    text = _without_defaults(written)
    try:
        parts = urlsplit(text)
    except ValueError:
        return MASK
    place = parts.netloc
    if "@" in place:
        user, _, host = place.rpartition("@")
        name, colon, _ = user.partition(":")
        # A name without a password may be a token itself.
        place = f"{name}:{MASK}@{host}" if colon else f"{MASK}@{host}"
    pairs = [pair.partition("=") for pair in parts.query.split("&") if pair]
    query = "&".join(f"{name}={MASK}" if equals else MASK for name, equals, _ in pairs)
    return urlunsplit((parts.scheme, place, parts.path, query, parts.fragment and MASK))

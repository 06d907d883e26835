"""How a call's arguments are stored: whole, redacted by rule, or only as a salted hash.

A redaction rule is `PATH` or `SERVER/TOOL:PATH`.

- SERVER, TOOL and every segment of PATH are globs (`*`, `?`), upper and lower case alike.
- A PATH of one segment names a key at any depth: `password`, `*token*`.
- A PATH with dots starts at the arguments: `user.email`, `items.*.price` (`*` also stands for a list's positions).
- A segment `**` stands for any number of segments: `headers.**.cookie`.

What a rule names is replaced, with everything below it, by `{"redacted": HASH}`; HASH is SHA-256 over the record's
salt and the RFC 8785 form of the value, so that someone who knows the value can show that it was this one. The salt
is in the record: a hash hides a value only as far as the value cannot be guessed.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import secrets
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from callgate.audit.records import Arguments
from callgate.canonical import canonical
from callgate.errors import ConfigError

# Names that hold secrets nearly everywhere; part of every `redacted` policy.
DEFAULT_RULES: Final = (
    "*passw*",
    "passphrase",
    "*secret*",
    "*token*",
    "*api_key*",
    "*api-key*",
    "*apikey*",
    "*private_key*",
    "*privatekey*",
    "*credential*",
    "authorization",
    "cookie",
    "set-cookie",
    "pin",
    "cvv",
    "otp",
)
MAX_RULES: Final = 1000
_SALT: Final = 16
_PLANS: Final = 2000
_SHARED: Final = 200
_NAMES: Final = 2000
_POSITIONS: Final = 1000
# Callers choose the names of tools and keys; what is remembered of them is bounded in number and in length.
_LONGEST: Final = 200
_SEGMENTS: Final = re.compile(r"[.\[\]]+")
_NUMERIC: Final = frozenset("0123456789*?")
_ANY: Final = None

Mode = Literal["whole", "redacted", "hashed"]
_Path = tuple[re.Pattern[str] | None, ...]


class RedactionRule(msgspec.Struct, frozen=True):
    """One parsed rule; a None in `path` is `**`."""

    server: re.Pattern[str]
    tool: re.Pattern[str]
    path: tuple[re.Pattern[str] | None, ...]
    # For a rule that names a key at any depth: that key; not for one that may name a list's position.
    key: re.Pattern[str] | None = None

    @classmethod
    def parse(cls, text: str) -> RedactionRule:
        where, colon, path = text.partition(":")
        if not colon:
            where, path = "*/*", text
        server, slash, tool = where.partition("/")
        segments = path.split(".")
        if not slash or not server or not tool or not all(segments) or len(text) > 500:
            raise ConfigError(
                f"{text!r} is not a redaction rule",
                advice="Write a key's name (`password`), a path (`user.email`) or SERVER/TOOL:PATH in audit.redact.",
            )
        parsed = tuple(_ANY if segment == "**" else _glob(segment) for segment in segments)
        if len(parsed) > 1:
            return cls(_glob(server), _glob(tool), parsed)
        key = None if _names_a_position(segments[0], parsed[0]) else parsed[0]
        return cls(_glob(server), _glob(tool), (_ANY, *parsed), key)


class ArgumentsPolicy:
    """Turns a call's arguments into what is stored of them."""

    def __init__(
        self, mode: Mode, redact: Iterable[str] = (), *, random: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        rules = [*DEFAULT_RULES, *redact]
        if len(rules) > MAX_RULES:
            raise ConfigError("there are too many redaction rules", advice=f"Keep audit.redact under {MAX_RULES}.")
        self.mode = mode
        self._rules = [RedactionRule.parse(text) for text in rules]
        self._random = random
        self._plan = lru_cache(_PLANS)(self._make_plan)
        self._hidden = lru_cache(_PLANS)(self._hides)
        # Tools under the same rules share a plan and what it remembers: most rules are for all tools.
        self._shared = lru_cache(_SHARED)(lambda *chosen: _Plan([self._rules[at] for at in chosen]))

    def store(
        self, server: str, tool: str, arguments: Any, form: bytes | None = None, raw: bytes | None = None
    ) -> tuple[Arguments, str | None]:
        """What to store, and the hash of the arguments where that gives nothing hidden away.

        `form` is the RFC 8785 form of the arguments and `raw` their own JSON, if the caller has them.
        """
        form = canonical(arguments) if form is None else form
        if self.mode == "whole":
            value = arguments if raw is None else msgspec.Raw(raw)
            return Arguments("whole", value), "sha256:" + hashlib.sha256(form).hexdigest()
        if self.mode == "hashed":
            salt = self._random(_SALT)
            return Arguments("hashed", hash=_salted(salt, form), salt=salt.hex()), None
        plan = self._plan(server, tool) if len(tool) <= _LONGEST else self._make_plan(server, tool)
        if not plan.names_something(arguments):
            value = arguments if raw is None else msgspec.Raw(raw)
            return Arguments("redacted", value), "sha256:" + hashlib.sha256(form).hexdigest()
        salt = self._random(_SALT)
        value, touched = _redact(arguments, plan.paths, salt)
        if not touched:
            return Arguments("redacted", value), "sha256:" + hashlib.sha256(form).hexdigest()
        # An unsalted hash of the whole would let anyone guess the one value that is missing.
        return Arguments("redacted", value, hash=_salted(salt, form), salt=salt.hex()), None

    def hides(self, server: str, tool: str, path: str) -> bool:
        """Whether the value at a path of the arguments (`user.email`, `to[0].address`) must not be kept elsewhere."""
        if self.mode != "redacted":
            return self.mode == "hashed"
        return (self._hidden if len(tool) + len(path) <= _LONGEST else self._hides)(server, tool, path)

    def _hides(self, server: str, tool: str, path: str) -> bool:
        paths = self._make_plan(server, tool).paths
        # A key may have a dot in it: then it is looked at whole too.
        return _named(paths, [part for part in _SEGMENTS.split(path) if part]) or _named(paths, [path])

    def _make_plan(self, server: str, tool: str) -> _Plan:
        rules = enumerate(self._rules)
        return self._shared(*(at for at, rule in rules if rule.server.match(server) and rule.tool.match(tool)))


class _Plan:
    """The rules for one tool. Most arguments hold nothing that a rule names, and that is seen without copying them."""

    def __init__(self, rules: list[RedactionRule]) -> None:
        self.paths = [rule.path for rule in rules]
        # A rule with a path of its own, or one that names a list's position, is left to the thorough walk.
        self._keys = [rule.key for rule in rules if rule.key is not None]
        self._thorough = len(self._keys) != len(rules)
        self._named: dict[str, bool] = {}

    def names_something(self, value: Any) -> bool:
        """Whether a rule may name something in there."""
        if self._thorough:
            return True
        named = self._named
        waiting = [value]
        while waiting:
            node = waiting.pop()
            if type(node) is dict:
                for key in node:
                    known = named.get(key)
                    if known or (known is None and self._look(key)):
                        return True
                node = node.values()
            elif len(node) > _POSITIONS:
                return True
            waiting += [item for item in node if type(item) is dict or type(item) is list]
        return False

    def _look(self, key: str) -> bool:
        found = any(pattern.match(key) for pattern in self._keys)
        if len(key) <= _LONGEST:
            if len(self._named) >= _NAMES:
                self._named.clear()
            self._named[key] = found
        return found


def matches(arguments: Any, stored: Arguments, args_hash: str | None) -> bool:
    """Whether these arguments are the ones that were stored."""
    form = canonical(arguments)
    if stored.hash is not None and stored.salt is not None:
        return _salted(bytes.fromhex(stored.salt), form) == stored.hash
    return args_hash == "sha256:" + hashlib.sha256(form).hexdigest()


def _salted(salt: bytes, form: bytes) -> str:
    return "sha256:" + hashlib.sha256(salt + form).hexdigest()


def _redact(value: Any, paths: list[_Path], salt: bytes) -> tuple[Any, bool]:
    """The value without what the paths name. Recursion is bounded by the depth limit on messages."""
    if isinstance(value, dict):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return value, False
    touched = False
    kept: dict[Any, Any] = {}
    for key, item in items:
        below = list(dict.fromkeys(rest for path in paths for rest in _step(path, str(key))))
        if any(all(part is _ANY for part in rest) for rest in below):
            kept[key], touched = {"redacted": _salted(salt, canonical(item))}, True
            continue
        kept[key], inner = _redact(item, below, salt) if below else (item, False)
        touched = touched or inner
    return (list(kept.values()) if isinstance(value, list) else kept), touched


def _named(paths: list[_Path], keys: list[str]) -> bool:
    """Whether one of the paths names what these keys lead to, or something around it."""
    for key in keys:
        paths = list(dict.fromkeys(rest for path in paths for rest in _step(path, key)))
        if any(all(part is _ANY for part in rest) for rest in paths):
            return True
    return False


def _step(path: _Path, key: str) -> Iterable[_Path]:
    """What is left of a path after one key; if nothing but `**` is left, the key's value is named."""
    if not path:
        return
    head = path[0]
    if head is _ANY:
        yield path
        yield from _step(path[1:], key)
    elif head.match(key):
        yield path[1:]


def _names_a_position(segment: str, pattern: re.Pattern[str] | None) -> bool:
    if pattern is None:
        return True
    # Nearly every name has a character that no number has: told without trying.
    if "[" not in segment and not _NUMERIC.issuperset(segment):
        return False
    return any(pattern.match(str(number)) for number in range(_POSITIONS))


def _glob(text: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(text), re.IGNORECASE)

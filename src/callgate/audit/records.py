"""What is written down: records, how arguments are kept in them, and the record of a decision."""

from __future__ import annotations

import fnmatch
import hashlib
import re
import secrets
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from callgate.canonical import canonical
from callgate.errors import ConfigError
from callgate.gate import Answer, Call, Context, Decision, Pass, Refuse

DECISION: Final = 1
OUTCOME: Final = 2
ADMIN: Final = 3


class AuditRow(NamedTuple):
    """A sealed record; every field but `body` and `seal` repeats the body, for filtering only."""

    kind: int
    at: int
    call: str | None
    server: str | None
    tool: str | None
    verdict: str | None
    reason: str | None
    body: bytes
    seal: bytes


COLUMNS: Final = AuditRow._fields


VERSION: Final = 1
# The filter columns repeat the record; a long name is found by its beginning.
COLUMN_CHARS: Final = 256


def _version() -> int:
    return VERSION


class Arguments(msgspec.Struct, frozen=True, omit_defaults=True):
    """The call's arguments as stored: whole, redacted by rule, or only as a salted hash."""

    mode: Literal["whole", "redacted", "hashed"]
    value: Any = None
    hash: str | None = None
    salt: str | None = None


class CheckNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one check said."""

    name: str
    verdict: str
    reason: str | None = None
    note: str | None = None


class Repeated(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record that stands for several refusals of one caller: how many, the first and the last, some of the tools."""

    count: int
    first: int
    last: int
    tools: tuple[str, ...] = ()


class DecisionRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="decision", tag_field="kind"):
    """What the gate decided, written before the call leaves."""

    v: int = msgspec.field(default_factory=_version)
    call: str
    at: int
    gateway: str
    server: str
    session: str | None = None
    transport: str
    protocol: str | None = None
    caller: dict[str, Any] | None = None
    tool: str
    arguments: Arguments
    args_hash: str | None = None
    verdict: Literal["allow", "refuse"]
    reason: str | None = None
    detail: str | None = None
    checks: tuple[CheckNote, ...] = ()
    extra: dict[str, Any] | None = None
    repeated: Repeated | None = None

    @property
    def calls(self) -> int:
        """How many calls the record stands for."""
        return 1 if self.repeated is None else self.repeated.count

    @property
    def unproven(self) -> bool:
        """Whether it was refused because nobody knows who called."""
        return self.caller is not None and "proof" in self.caller


class OutcomeRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="outcome", tag_field="kind"):
    """What became of a call that was let through."""

    v: int = msgspec.field(default_factory=_version)
    call: str
    at: int
    outcome: str
    code: int | None = None
    bytes: int | None = None
    result_hash: str | None = None
    ms: float | None = None
    extra: dict[str, Any] | None = None


class AdminRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag="admin", tag_field="kind"):
    """What an operator, or the gateway on its own, did to the store."""

    v: int = msgspec.field(default_factory=_version)
    at: int
    action: str
    by: str
    detail: dict[str, Any] | None = None


Record: TypeAlias = DecisionRecord | OutcomeRecord | AdminRecord

encode: Final = msgspec.json.Encoder().encode
_decoder: Final[msgspec.json.Decoder[Record]] = msgspec.json.Decoder(Record)


def decode(body: bytes) -> Record:
    """The record in a stored body; raises `msgspec.MsgspecError` if it is none that this version writes."""
    record = _decoder.decode(body)
    if record.v != VERSION:
        raise msgspec.ValidationError(f"record version {record.v}, this Callgate knows {VERSION}")
    return record


def row(record: Record, body: bytes, seal: bytes) -> AuditRow:
    """The row that stores a record: its body, its seal, and the filter columns."""
    if isinstance(record, DecisionRecord):
        call, server, tool, reason = record.call, record.server, record.tool, record.reason
        if "\0" in f"{call}{server}{tool}{reason}" or max(len(call), len(server), len(tool)) > COLUMN_CHARS:
            call, server, tool = _column(call), _column(server), _column(tool)
            reason = _column(reason) if reason else None
        return AuditRow(DECISION, record.at, call, server, tool, record.verdict, reason or None, body, seal)
    if isinstance(record, OutcomeRecord):
        call = record.call if len(record.call) <= COLUMN_CHARS and "\0" not in record.call else _column(record.call)
        outcome = record.outcome if record.outcome.isalpha() else _column(record.outcome)
        return AuditRow(OUTCOME, record.at, call, None, None, None, outcome[:COLUMN_CHARS], body, seal)
    return AuditRow(ADMIN, record.at, None, None, None, None, _column(record.action), body, seal)


def _column(value: str) -> str:
    # PostgreSQL has no NUL in text, and a name chosen by a caller must not make a row unwritable.
    if "\0" in value:
        value = value.replace("\0", "\ufffd")
    return value if len(value) <= COLUMN_CHARS else value[:COLUMN_CHARS]


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


def decision_record(
    call: Call,
    decision: Decision,
    policy: ArgumentsPolicy,
    gateway: str,
    caller: Callable[[Context], dict[str, Any]] | None = None,
) -> DecisionRecord:
    """The record; `caller` tells who used what a person gave, where nobody was verified, in their own words."""
    refused, context = decision.refused, call.context
    arguments, args_hash = policy.store(context.server, call.tool, call.arguments, call.canonical)
    # What a broken check answered may be anything; it is refused all the same, and on record.
    facts: dict[str, Any] = {}
    checks: list[CheckNote] = []
    for answer in decision.answers:
        verdict = answer.verdict
        facts.update(getattr(verdict, "facts", {}))
        passed = _PASSED.get(answer.check) if isinstance(verdict, Pass) else None
        checks.append(passed or _note(answer))
    return DecisionRecord(
        v=VERSION,
        call=call.id,
        at=call.at,
        gateway=gateway,
        server=context.server,
        session=context.session,
        transport=context.transport,
        protocol=context.protocol,
        caller=dict(call.agent) or (caller(context) if caller is not None and "approval" in facts else None),
        tool=call.tool,
        arguments=arguments,
        args_hash=args_hash,
        verdict="allow" if refused is None else "refuse",
        reason=None if refused is None else refused.reason.value,
        detail=None if refused is None else refused.message,
        checks=tuple(checks),
        extra=facts or None,
    )


_PASSED: Final = {check: CheckNote(check, "pass") for check in ("agents", "pinning", "trust", "approval")}


def _note(answer: Answer) -> CheckNote:
    verdict = answer.verdict
    if isinstance(verdict, Pass):
        return CheckNote(answer.check, "pass")
    if isinstance(verdict, Refuse):
        return CheckNote(answer.check, "refuse", verdict.reason.value, verdict.detail or None)
    return CheckNote(answer.check, "ask", None, getattr(verdict, "why", "no verdict"))

"""Reading calls and cases strictly: `callgate policy explain` and `callgate policy test`.

A misspelt word in a case would let it come out as expected for the wrong reason, and nobody would notice. So the words
are those that rules are checked against, and every mistake is told at once, with its line and a caret.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, time
from math import isfinite
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from callgate.errors import ConfigError, Problem
from callgate.places import Path as Keys
from callgate.trust.model import CLASSES, FOUND
from callgate.trust.policy.calls import Case, WrittenCall
from callgate.trust.policy.condition import meant
from callgate.trust.policy.decoding import decode, dotted
from callgate.trust.policy.facts import FACTS, KINDS
from callgate.trust.policy.rules import EFFECTS, RESULT_EFFECTS, Rule

MAX_CASES: Final = 1000
_SHOWN: Final = 64
_LISTED: Final = 20
_T = TypeVar("_T")


def read_call(text: str, source: str, *, again: str = "") -> WrittenCall:
    """One call, JSON or TOML. `again` is what to type once the mistakes are put right."""
    reader = _Reader(source, text, again or shlex.join(["callgate", "policy", "explain", source]))
    call = reader.table((), "a call", reader.value)
    if call is not None:
        reader.call((), call, CALL, "a call")
    return reader.made(call, WrittenCall)


def read_cases(text: str, source: str, rules: Sequence[Rule] | None = None, *, again: str = "") -> list[Case]:
    """The cases of a file, TOML or JSON; with `rules`, the ones that they name have to be among them."""
    reader = _Reader(source, text, again or shlex.join(["callgate", "policy", "test", source]))
    data = reader.table((), "a file of cases", reader.value)
    several = None if data is None else data.get("cases")
    if data is not None:
        reader.keys((), data, ("cases",), "a file of cases")
        if not isinstance(several, list) or not 0 < len(several) <= MAX_CASES:
            reader.tell(("cases",), f"from 1 to {MAX_CASES} cases are wanted, each as [[cases]]")
        else:
            for at, one in enumerate(several):
                reader.case(("cases", at), one, rules)
    return reader.made(several, list[Case])


def known_word(word: str, words: Sequence[str]) -> bool:
    """Whether a rule could compare with this word: an organisation's classes and regulated ones are anybody's."""
    return word in words or (words is CLASSES and (word.startswith("regulated:") or "." in word))


class _Reader:
    """One text; what is wrong with it goes into `problems`."""

    def __init__(self, source: str, text: str, again: str) -> None:
        decoded = decode(source, text)
        self.value = decoded.value
        self.problems: list[Problem] = list(decoded.problems)
        self._places = decoded.places
        self._unread = decoded.value is None and bool(decoded.problems)
        self._again = again

    def made(self, data: Any, kind: type[_T]) -> _T:
        """The value, once nothing is wrong with it."""
        if self.problems:
            problems = sorted(self.problems, key=lambda problem: problem.line or 0)
            these = "this" if len(problems) == 1 else "these"
            raise ConfigError(problems=tuple(problems), advice=f"Put {these} right, then run `{self._again}`.")
        return msgspec.convert(data, kind)

    def tell(self, path: Keys, what: str, *, key: bool = False) -> None:
        at = self._places.of_key(path) if key else self._places.of_value(path)
        self.problems.append(self._places.problem(at, dotted(path), what))

    def table(self, path: Keys, what: str, value: Any) -> dict[str, Any] | None:
        if isinstance(value, dict):
            return value
        if not self._unread:
            self.tell(path, f"{what} is a table")
        return None

    def keys(self, path: Keys, table: Mapping[str, Any], known: Sequence[str], what: str) -> None:
        for key in table:
            if key not in known:
                there = f"; {what} has {', '.join(known)}"
                self.tell((*path, key), f"there is no such key{meant(key, known)}{there}", key=True)

    def members(self, path: Keys, table: Mapping[str, Any], checks: Mapping[str, Check], what: str) -> None:
        """Every key, and what stands under it."""
        self.keys(path, table, tuple(checks), what)
        for key, value in table.items():
            if key in checks:
                checks[key](self, (*path, key), value)

    def call(self, path: Keys, call: Mapping[str, Any], checks: Mapping[str, Check], what: str) -> None:
        """A call, or a case, which is one too."""
        self.members(path, call, checks, what)
        if "tool" not in call:
            self.tell(path, f"{what} has a tool; give its name under `tool`", key=True)
        if isinstance(arguments := call.get("arguments", {}), dict):
            known = {one for _, one, _ in _each(arguments)}
            listed = sorted(known)[:_LISTED]
            there = f"; there are {', '.join(listed)}" if known else "; it has none"
            for place, named in _named(call):
                if named not in known:
                    text = f'no argument of this call is at "{named[:_SHOWN]}"{meant(named, listed)}{there}'
                    self.tell((*path, *place), text, key=place[0] == "provenance" and len(place) == 2)

    def case(self, path: Keys, given: Any, rules: Sequence[Rule] | None) -> None:
        case = self.table(path, "a case", given)
        if case is None:
            return
        self.call(path, case, {"name": _text, "expect": _text, "rule": _or_none(_text), **CALL}, "a case")
        for key in ("name", "expect"):
            if key not in case:
                self.tell(path, f"the case has no {key}", key=True)
        result = case.get("result") is not None
        effects = RESULT_EFFECTS if result else EFFECTS
        if isinstance(expect := case.get("expect"), str) and expect not in effects:
            what = "a result" if result else "a call"
            self.tell((*path, "expect"), f"rules say of {what} one of {', '.join(effects)}{meant(expect, effects)}")
        if rules is not None and isinstance(name := case.get("rule"), str):
            self._rule((*path, "rule"), name, rules, "result" if result else "call")

    def _rule(self, path: Keys, name: str, rules: Sequence[Rule], on: str) -> None:
        found = next((rule for rule in rules if rule.name == name), None)
        if found is None:
            names = [rule.name for rule in rules]
            listed = "; `callgate policy check` lists them"
            self.tell(path, f"there is no rule {name[:_SHOWN]} among these{meant(name, names)}{listed}")
        elif found.on != on:
            has = "has no result" if found.on == "result" else "has a result"
            self.tell(path, f"this is a rule on {found.on}s, and the case {has}")


def _named(call: Mapping[str, Any]) -> Iterator[tuple[Keys, str]]:
    """Every path of an argument that the call names, and where it does."""
    provenance, links = call.get("provenance"), call.get("foreign_links")
    if isinstance(provenance, dict):
        yield from ((("provenance", path), path) for path in provenance)
    for at, one in enumerate(provenance if isinstance(provenance, list) else ()):
        if isinstance(one, dict) and isinstance(path := one.get("path"), str):
            yield ("provenance", at, "path"), path
    for at, one in enumerate(links if isinstance(links, list) else ()):
        if isinstance(one, str):
            yield ("foreign_links", at), one


def _each(arguments: Mapping[str, Any]) -> Iterator[tuple[Keys, str, Any]]:
    """Everything among the arguments: its keys, its path as facts have it (`to[0]`, `address.city`), and the value."""
    stack: list[tuple[Keys, str, Any]] = [((name,), name, value) for name, value in arguments.items()]
    while stack:
        keys, path, value = stack.pop()
        yield keys, path, value
        if isinstance(value, dict):
            stack += [((*keys, name), f"{path}.{name}", one) for name, one in value.items()]
        elif isinstance(value, list):
            stack += [((*keys, at), f"{path}[{at}]", one) for at, one in enumerate(value)]


# -- what may stand under each key -------------------------------------------------------------------------------

Check: TypeAlias = Callable[[_Reader, Keys, Any], None]


def _flag(reader: _Reader, path: Keys, value: Any) -> None:
    if type(value) is not bool:
        reader.tell(path, "true or false is wanted")


def _text(reader: _Reader, path: Keys, value: Any) -> None:
    if not isinstance(value, str):
        reader.tell(path, "a string is wanted")


def _tool(reader: _Reader, path: Keys, value: Any) -> None:
    if not isinstance(value, str) or not value:
        reader.tell(path, "the name of a tool is wanted")


def _count(reader: _Reader, path: Keys, value: Any) -> None:
    if type(value) is not int or not 0 <= value < 2**63:
        reader.tell(path, "a number is wanted, 0 or more")


def _texts(reader: _Reader, path: Keys, value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        reader.tell(path, "a list of strings is wanted")


def _arguments(reader: _Reader, path: Keys, value: Any) -> None:
    table = reader.table(path, "what a call has as arguments", value)
    for keys, _, one in _each(table or {}):
        # TOML has dates, and both have numbers that are none; calls are JSON.
        if isinstance(one, date | time) or (isinstance(one, float) and not isfinite(one)):
            reader.tell((*path, *keys), "JSON, which calls are sent in, has no such value; write a string")


def _word(words: Sequence[str]) -> Check:
    def check(reader: _Reader, path: Keys, value: Any) -> None:
        if not isinstance(value, str):
            reader.tell(path, "a string is wanted")
        elif not known_word(value, words):
            own = ", regulated:SCOPE and classes of your own such as com.example.payroll" if words is CLASSES else ""
            there = f"there are {', '.join(words)}{own}"
            reader.tell(path, f'there is no "{value[:_SHOWN]}"{meant(value, words)}; {there}')

    return check


def _words(fact: str) -> Check:
    """One word that the fact may have, or a list of them."""
    one = _word(FACTS[fact].words)

    def check(reader: _Reader, path: Keys, value: Any) -> None:
        if isinstance(value, list):
            for at, word in enumerate(value):
                one(reader, (*path, at), word)
        elif isinstance(value, str):
            one(reader, path, value)
        else:
            reader.tell(path, "a string or a list of strings is wanted")

    return check


def _or_none(check: Check) -> Check:
    return lambda reader, path, value: None if value is None else check(reader, path, value)


def _members(what: str, checks: Mapping[str, Check]) -> Check:
    def check(reader: _Reader, path: Keys, value: Any) -> None:
        table = reader.table(path, what, value)
        if table is not None:
            reader.members(path, table, checks, what)

    return check


def _provenance(reader: _Reader, path: Keys, value: Any) -> None:
    if isinstance(value, dict):
        for name, found in value.items():
            _word(FOUND)(reader, (*path, name), found)
        return
    if not isinstance(value, list):
        reader.tell(path, 'where each argument was found is wanted, as in { to = "untrusted" }')
        return
    for at, one in enumerate(value):
        _VALUE(reader, (*path, at), one)
        if isinstance(one, dict):
            for key in ("path", "found"):
                if key not in one:
                    reader.tell((*path, at), f"the value has no {key}", key=True)


_SAID: Final[dict[str, Check]] = {"open_world": _flag, "malicious": _flag, "attribution": _texts}
_VALUE: Final = _members("a value", {"path": _text, "found": _word(FOUND), "kind": _word(KINDS), "critical": _flag})
_AGENT: Final[dict[str, Check]] = {
    name.removeprefix("agent."): _word(fact.words) if fact.words else _text
    for name, fact in FACTS.items()
    if name.startswith("agent.")
}
_LABELS: Final[dict[str, Check]] = {
    "destination": _or_none(_words("tool.destinations")),
    "outcomes": _or_none(_words("tool.possible_outcomes")),
    "source": _or_none(_words("tool.sources")),
    "sensitivity": _or_none(_words("tool.returns")),
    "accepts": _or_none(_words("tool.accepts")),
    "read_only": _flag,
    "destructive": _flag,
    "open_world": _flag,
    "malicious": _flag,
}
CALL: Final[dict[str, Check]] = {
    "server": _text,
    "tool": _tool,
    "arguments": _arguments,
    "labels": _or_none(_members("a tool's labels", _LABELS)),
    "session": _members("a session", {**_SAID, "sensitivity": _words("session.sensitivity"), "steps": _count}),
    "request": _or_none(_members("a request", _SAID)),
    "provenance": _provenance,
    "foreign_links": _texts,
    "own_words": _or_none(_flag),
    "prompt_known": _flag,
    "carried": _or_none(_words("data.sensitivity")),
    "agent": _members("an agent", _AGENT),
    "result": _or_none(
        _members(
            "a result",
            {
                **_SAID,
                "source": _words("result.source"),
                "sensitivity": _words("result.sensitivity"),
                "warnings": _texts,
                "secrets": _texts,
            },
        )
    ),
}

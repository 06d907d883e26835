"""Conditions as the trust annotations' proposal writes them: `{fact, equals}` and `{and: [...]}`, turned into CEL.

Its facts are paths into annotations. One that may hold several values equals a value if that is among them: a tool that
may be irreversible is met by a rule for irreversible tools, and so is one of which nobody says what it does.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from callgate.places import Path as Keys
from callgate.trust.policy.condition import Condition, compile_condition, meant
from callgate.trust.policy.facts import FACTS

MAX_DEPTH: Final = 16
_HINTS: Final = {
    "openWorldHint": "open_world",
    "maliciousActivityHint": "malicious",
    "attribution": "attribution",
}
# Their paths, and our facts.
PATHS: Final = {
    **{f"request.annotations.{theirs}": f"request.{ours}" for theirs, ours in _HINTS.items()},
    **{f"session.annotations.{theirs}": f"session.{ours}" for theirs, ours in _HINTS.items()},
    **{f"response.annotations.{theirs}": f"result.{ours}" for theirs, ours in _HINTS.items()},
    "response.annotations.returnMetadata.source": "result.source",
    "response.annotations.returnMetadata.sensitivity": "result.sensitivity",
    "tool.annotations.readOnlyHint": "tool.read_only",
    "tool.annotations.destructiveHint": "tool.destructive",
    "tool.annotations.openWorldHint": "tool.open_world",
    "tool.annotations.maliciousActivityHint": "tool.malicious",
    "tool.annotations.inputMetadata.destination": "tool.destinations",
    "tool.annotations.inputMetadata.outcomes": "tool.possible_outcomes",
    "tool.annotations.inputMetadata.sensitivity": "tool.accepts",
    "tool.annotations.returnMetadata.source": "tool.sources",
    "tool.annotations.returnMetadata.sensitivity": "tool.returns",
}
_ARGUMENT: Final = re.compile(r"args\.([A-Za-z0-9_-]{1,64})")
_WANTED: Final = {"bool": bool, "int": int, "string": str, "strings": str}
_NAMES: Final = {"bool": "true or false", "int": "an integer", "string": "a string", "strings": "a string"}


class SeedCondition(NamedTuple):
    """A condition in CEL, and from where in the file each part of it comes."""

    text: str
    spans: tuple[tuple[int, Keys], ...]
    on_result: bool

    def place(self, index: int) -> Keys:
        """The value that a character of the condition was made from."""
        found = self.spans[0][1]
        for begin, path in self.spans:
            if begin <= index:
                found = path
        return found


def written(conditions: Any, path: Keys) -> SeedCondition | list[tuple[Keys, str]]:
    """The conditions in CEL, or what is wrong with them."""
    writer = _Writer()
    writer.add(conditions, path, 0)
    found = writer.written()
    if not writer.wrong:
        return found
    # What else is wrong is told at the same time: the clauses that could be written, checked by themselves.
    mistakes = compile_condition(found.text, result=writer.on_result) if writer.clauses else ()
    others = [] if isinstance(mistakes, Condition) else [(found.place(one.at), one.text) for one in mistakes]
    return writer.wrong + others


class _Writer:
    def __init__(self) -> None:
        self.clauses: list[tuple[str, Keys]] = []
        self.wrong: list[tuple[Keys, str]] = []
        self.on_result = False

    def add(self, one: Any, path: Keys, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.wrong.append((path, "the conditions are nested too deeply"))
        elif isinstance(one, dict) and set(one) == {"and"}:
            self._all(one["and"], (*path, "and"), depth)
        elif isinstance(one, dict) and set(one) == {"fact", "equals"}:
            self._fact(one, path)
        else:
            self.wrong.append(
                (path, 'a condition is {"fact": ..., "equals": ...} or {"and": [...]}, and nothing besides')
            )

    def _all(self, several: Any, path: Keys, depth: int) -> None:
        if not isinstance(several, list) or not several:
            self.wrong.append((path, "a list of conditions is wanted, with at least one in it"))
            return
        for at, one in enumerate(several):
            self.add(one, (*path, at), depth + 1)

    def _fact(self, one: dict[str, Any], path: Keys) -> None:
        name, value = one["fact"], one["equals"]
        here = (*path, "fact")
        if not isinstance(name, str):
            self.wrong.append((here, "a string is wanted"))
            return
        if argument := _ARGUMENT.fullmatch(name):
            self._argument(argument[1], value, path)
            return
        fact = FACTS.get(PATHS.get(name, name))
        if fact is None or fact.kind not in _WANTED:
            known = (*PATHS, *FACTS)
            self.wrong.append((here, f"there is no fact {name[:80]}{meant(name, known)}"))
            return
        if type(value) is not _WANTED[fact.kind]:
            self.wrong.append(((*path, "equals"), f"{_NAMES[fact.kind]} is wanted for {name}"))
            return
        self.on_result = self.on_result or fact.result
        shown = _literal(value)
        self._write(f"{shown} in {fact.name}" if fact.kind == "strings" else f"{fact.name} == {shown}", path)

    def _argument(self, name: str, value: Any, path: Keys) -> None:
        if not isinstance(value, str | int | float):
            self.wrong.append(((*path, "equals"), "a string, a number, true or false is wanted"))
            return
        key = _literal(name)
        self._write(f"{key} in args && args[{key}] == {_literal(value)}", path)

    def _write(self, text: str, path: Keys) -> None:
        self.clauses.append((text, (*path, "equals")))

    def written(self) -> SeedCondition:
        """The clauses, all of which have to hold."""
        spans, text = [], ""
        for clause, path in self.clauses:
            text += " && " if text else ""
            spans.append((len(text), path))
            text += clause
        return SeedCondition(text, tuple(spans), self.on_result)


def _literal(value: Any) -> str:
    # JSON's strings, numbers and booleans are CEL's too, once all but ASCII is escaped and no surrogates are left.
    if isinstance(value, str):
        return '"' + "".join(_escaped(char) for char in value) + '"'
    return json.dumps(value)


def _escaped(char: str) -> str:
    return char if char.isascii() and char.isprintable() and char not in '"\\' else f"\\U{ord(char):08x}"

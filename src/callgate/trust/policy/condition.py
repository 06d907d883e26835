"""A rule's condition: compiled, checked against the table of facts, and every mistake in it found with its place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from cel_expr_python import cel

from callgate.trust.model import CLASSES
from callgate.trust.policy.facts import FACTS, MEMBERS, TABLE, Kind
from callgate.trust.policy.tree import SyntaxNode, read_tree

MAX_CHARS: Final = 4000
MAX_PATTERN: Final = 500

_TYPES: Final[dict[Kind, Any]] = {
    "bool": cel.Type.BOOL,
    "int": cel.Type.INT,
    "string": cel.Type.STRING,
    "strings": cel.Type.List(cel.Type.STRING),
    "values": cel.Type.List(cel.Type.Map(cel.Type.STRING, cel.Type.STRING)),
    "found": cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
    "args": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
}
TYPE_NAMES: Final[Mapping[Kind, str]] = {
    "bool": "bool",
    "int": "int",
    "string": "string",
    "strings": "list of strings",
    "values": "list of values",
    "found": "map of strings",
    "args": "map",
}
_ERROR: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD: Final = re.compile(r"found no matching overload for '([^']*)' applied to '(.*)'")
_SYNTAX: Final = re.compile(
    r"Syntax error: (?:mismatched input|extraneous input|no viable alternative at input|token recognition error at:)"
    r" '(.*?)'(?: expecting|$)"
)


class Mistake(NamedTuple):
    """Something wrong in a condition, and at which of its characters."""

    at: int
    text: str


class Condition(NamedTuple):
    """A condition that compiled."""

    text: str
    program: cel.Expression
    tree: SyntaxNode
    # The facts that it reads.
    reads: frozenset[str]
    # The arguments that it reads by name; None if it may read any.
    keys: frozenset[str] | None
    # How deep its loops are nested.
    loops: int


@cache
def environment(*, result: bool) -> cel.Env:
    """What conditions are checked against."""
    return cel.NewEnv(variables={fact.name: _TYPES[fact.kind] for fact in TABLE if result or not fact.result})


def compile_condition(text: str, *, result: bool) -> Condition | list[Mistake]:
    """The condition, or what is wrong with it."""
    if len(text) > MAX_CHARS:
        return [Mistake(0, f"the condition is longer than {MAX_CHARS} characters")]
    if not text.strip():
        return [Mistake(0, "there is no condition; a rule for every call has no `when` at all")]
    try:
        program = environment(result=result).compile(text)
    except (RuntimeError, ValueError) as error:
        return _mistakes(text, str(error), result=result)
    if program.return_type() != cel.Type.BOOL:
        kind = program.return_type().name().lower()
        return [
            Mistake(_start(text), f"a condition is true or false, this is {_article(kind)}; compare it with something")
        ]
    tree = read_tree(program.serialize())
    if wrong := sorted(set(_look(tree))):
        return wrong
    reads = frozenset(node.name for node in tree.walk() if node.kind == "name" and node.name in FACTS)
    if not reads and program.eval(data={}).type() != cel.Type.BOOL:
        return [Mistake(_start(text), "this condition always fails")]
    return Condition(text, program, tree, reads, _keys(tree), _depth(tree))


def _start(text: str) -> int:
    return len(text) - len(text.lstrip())


def _article(kind: str) -> str:
    return "something that only the call tells" if kind == "dyn" else f"a {kind}"


def _mistakes(text: str, message: str, *, result: bool) -> list[Mistake]:
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found = []
    for line, column, what in _ERROR.findall(message):
        row = min(int(line), len(starts)) - 1
        found.append(_reworded(text, min(starts[row] + int(column) - 1, len(text)), what, result=result))
        if what.startswith("Syntax error"):  # what follows it is guesswork
            return found[-1:]
    # One slip can have several complaints; the first at a place is the one to read.
    first = {one.at: one for one in reversed(found)}
    return sorted(first.values()) or [Mistake(0, f"the condition cannot be read: {message[:200]}")]


def _reworded(text: str, at: int, what: str, *, result: bool) -> Mistake:
    if match := _UNDECLARED.search(what):
        return _undeclared(text, at, match[1], result=result)
    if match := _OVERLOAD.search(what):
        name, applied = _operator(match[1]), match[2].strip("()")
        return Mistake(at, f"{name} does not go with ({applied})")
    if match := _SYNTAX.search(what):
        return Mistake(
            at, "the condition ends too early" if match[1] == "<EOF>" else f"'{match[1].strip()}' is not expected here"
        )
    return Mistake(at, what.removeprefix("Syntax error: ")[:200])


def _operator(name: str) -> str:
    return {"@in": "`in`", "_[_]": "`[...]`", "_?_:_": "`? :`"}.get(name, f"`{name.replace('_', '')}`")


def _undeclared(text: str, at: int, name: str, *, result: bool) -> Mistake:
    # The place that is told is that of the last dot.
    begin = text.rfind(name, 0, at + len(name))
    at = begin if begin >= 0 else at
    if re.match(r"\s*\(", text[at + len(name) :]):
        return Mistake(at, f"there is no function {name}")
    if name in FACTS and not result:
        return Mistake(at, f'{name} is known to rules with on = "result" only')
    known = [fact for fact in FACTS if result or not FACTS[fact].result]
    if name in {fact.partition(".")[0] for fact in known}:
        members = ", ".join(sorted(fact for fact in known if fact.startswith(f"{name}.")))
        return Mistake(at, f"{name} is not a fact itself; there are {members}")
    return Mistake(at, f"there is no fact {name}{meant(name, known)}; `callgate policy facts` lists them")


def meant(word: str, known: Iterable[str]) -> str:
    """A word that may have been meant, as the end of a sentence."""
    close = difflib.get_close_matches(word, list(known), 1, 0.6)
    return f", perhaps {close[0]}" if close else ""


# -- what the type checker does not see --------------------------------------------------------------------------


def _look(tree: SyntaxNode) -> Iterator[Mistake]:
    entries = _entry_names(tree)
    for node in tree.walk():
        if node.kind in {"select", "has"} and _is_entry(node.parts[0], entries) and node.name not in MEMBERS:
            text = f"a value has no {node.name}{meant(node.name, MEMBERS)}; there are {', '.join(MEMBERS)}"
            yield Mistake(node.at, text)
        if node.kind == "call":
            yield from _look_at_pattern(node)
            yield from _look_at_words(node, entries)


def _entry_names(tree: SyntaxNode) -> frozenset[str]:
    """The variables of loops over lists of values."""
    return frozenset(node.name for node in tree.walk() if node.kind == "loop" and _is_entries(node.parts[0]))


def _is_entries(node: SyntaxNode) -> bool:
    while node.kind == "loop":
        node = node.parts[0]
    return node.kind == "name" and node.name in FACTS and FACTS[node.name].kind == "values"


def _is_entry(node: SyntaxNode, names: frozenset[str]) -> bool:
    if node.kind == "call" and node.name == "_[_]":
        return _is_entries(node.parts[0])
    return node.kind == "name" and node.name in names


def _look_at_pattern(node: SyntaxNode) -> Iterator[Mistake]:
    """A pattern is the operator's: one that comes from the call would let the call choose what it costs."""
    if node.name != "matches":
        return
    pattern = node.parts[-1]
    if pattern.kind != "const":
        yield Mistake(pattern.at, "the pattern of matches has to be written out")
    elif len(pattern.value) > MAX_PATTERN:
        yield Mistake(pattern.at, f"the pattern is longer than {MAX_PATTERN} characters")
    else:
        found = _try_pattern(pattern.value)
        if found:
            yield Mistake(pattern.at, f"the pattern cannot be used: {found}")


def _try_pattern(pattern: str) -> str:
    env = cel.NewEnv(variables={"pattern": cel.Type.STRING})
    value = env.compile('"".matches(pattern)').eval(data={"pattern": pattern})
    return "" if value.type() == cel.Type.BOOL else str(value.value()).rpartition("expression: ")[2][:200]


def _look_at_words(node: SyntaxNode, entries: frozenset[str]) -> Iterator[Mistake]:
    """A misspelt word in a comparison would never match, and nobody would notice."""
    if node.name in {"_==_", "_!=_"}:
        for one, other in (node.parts, node.parts[::-1]):
            yield from _unknown_words(_words(one, entries), (other,))
    elif node.name == "@in":
        one, many = node.parts
        yield from _unknown_words(_words(one, entries), many.parts if many.kind == "list" else ())
        yield from _unknown_words(_words(many, entries), (one,))


def _words(node: SyntaxNode, entries: frozenset[str]) -> tuple[str, ...]:
    if node.kind == "name" and node.name in FACTS:
        return FACTS[node.name].words
    if node.kind == "select" and _is_entry(node.parts[0], entries):
        return MEMBERS.get(node.name, ())
    return ()


def _unknown_words(words: tuple[str, ...], parts: Iterable[SyntaxNode]) -> Iterator[Mistake]:
    for part in parts if words else ():
        word = part.value
        if part.kind != "const" or not isinstance(word, str) or word in words:
            continue
        if words is CLASSES and (word.startswith("regulated:") or "." in word):
            continue
        yield Mistake(part.at, f'"{word[:64]}" is never in it{meant(word, words)}; there are {", ".join(words)}')


# -- what it reads -----------------------------------------------------------------------------------------------


def _keys(tree: SyntaxNode) -> frozenset[str] | None:
    """The arguments that are read by name, or None as soon as any may be."""
    found: set[str] = set()
    stack = [tree]
    while stack:
        node = stack.pop()
        if node.kind == "name" and node.name == "args":
            return None
        if node.kind in {"select", "has"} and _is_args(node.parts[0]):
            found.add(node.name)
        elif node.kind == "call" and node.name in {"_[_]", "@in"}:
            holder, key = node.parts if node.name == "_[_]" else node.parts[::-1]
            if _is_args(holder) and key.kind == "const" and isinstance(key.value, str):
                found.add(key.value)
            else:
                stack.extend(node.parts)
        else:
            stack.extend(node.parts)
    return frozenset(found)


def _is_args(node: SyntaxNode) -> bool:
    return node.kind == "name" and node.name == "args"


def _depth(node: SyntaxNode) -> int:
    inner = max((_depth(part) for part in node.parts), default=0)
    return inner + (node.kind == "loop")

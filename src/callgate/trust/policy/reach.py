"""Rules that can never matter: a condition that is always the same, or that a stricter rule has already met.

Conditions are compared as lists of parts joined by `&&` and `||`. That is not all that logic could find, but it finds
what people write by mistake, and never takes a rule for dead that is not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cel_expr_python import cel

from callgate.trust.policy.condition import Condition
from callgate.trust.policy.facts import FACTS
from callgate.trust.policy.tree import SyntaxNode

if TYPE_CHECKING:
    from callgate.trust.policy.rules import Rule

_STRICT: Final = {"allow": 0, "warn": 1, "mask": 2, "ask": 3, "block": 4, "quarantine": 4}
# Alternatives beyond this are not compared.
_MANY: Final = 64


class _Atom(NamedTuple):
    """One part of a condition. `words` are the values that `of` may have; None for any other part."""

    of: Hashable
    words: frozenset[Any] | None
    held: bool


_Clause = frozenset[_Atom]


def always(condition: Condition) -> bool | None:
    """Whether a condition is true, or false, whatever the call is; None if that depends."""
    try:
        value = condition.program.eval(data={})
    except RuntimeError:
        return None
    if value.type() == cel.Type.BOOL:
        return bool(value.value())
    clauses = _clauses(condition.tree)
    return False if clauses is not None and all(_contradicts(clause) for clause in clauses) else None


def unreachable(rules: list[Rule], shipped: list[Rule]) -> Iterator[tuple[Rule, str]]:
    """The rules that never decide anything, and why."""
    known = [(rule, _clauses(rule.condition.tree)) for rule in (*rules, *shipped)]
    for at, (rule, clauses) in enumerate(known[: len(rules)]):
        for other_at, (other, others) in enumerate(known):
            if other_at == at or other.on != rule.on or not _before(other, other_at, rule, at):
                continue
            if clauses is not None and others is not None and _implied(clauses, others):
                where = "" if other.source == rule.source else f" of {other.source}"
                line = f" (line {other.line})" if other.line and not other.default else ""
                how = "comes first" if _STRICT[other.effect] == _STRICT[rule.effect] else "is stricter"
                yield rule, f"this rule never decides: {other.name}{where}{line} holds whenever it does, and {how}"
                break


def _before(other: Rule, other_at: int, rule: Rule, at: int) -> bool:
    """Whether the other rule decides where both hold."""
    if other.default and other.name in rule.override:
        return False
    if rule.effect != other.effect and "mask" in (rule.effect, other.effect) and rule.effect != "allow":
        # Secrets are masked besides whatever else is done.
        return False
    stricter = _STRICT[other.effect] - _STRICT[rule.effect]
    return stricter > 0 or (stricter == 0 and other_at < at and not rule.override)


def _implied(clauses: Iterable[_Clause], by: Iterable[_Clause]) -> bool:
    """Whether each of the alternatives is at least as narrow as one of the others."""
    by = list(by)
    return all(any(_narrower(clause, other) for other in by) for clause in clauses)


def _narrower(clause: _Clause, other: _Clause) -> bool:
    return all(any(_says(mine, theirs) for mine in clause) for theirs in other)


def _says(mine: _Atom, theirs: _Atom) -> bool:
    if mine == theirs:
        return True
    if mine.of != theirs.of or mine.words is None or theirs.words is None:
        return False
    if mine.held and theirs.held:
        return mine.words <= theirs.words
    if mine.held:
        return not mine.words & theirs.words
    return not theirs.held and mine.words >= theirs.words


def _contradicts(clause: _Clause) -> bool:
    return any(_excludes(one, other) for one in clause for other in clause)


def _excludes(one: _Atom, other: _Atom) -> bool:
    if one.of != other.of or not one.held:
        return False
    if one.words is None or other.words is None:
        return one.words is other.words and not other.held
    return not one.words & other.words if other.held else one.words <= other.words


def _clauses(node: SyntaxNode, held: bool = True) -> list[_Clause] | None:
    """A condition as alternatives, each of parts that hold together; None if there are too many."""
    if node.kind == "const" and isinstance(node.value, bool):
        return [frozenset()] if node.value is held else []
    if node.kind == "call" and node.name == "!_":
        return _clauses(node.parts[0], not held)
    if node.kind == "call" and node.name in {"_&&_", "_||_"}:
        sides = [_clauses(part, held) for part in node.parts]
        if any(side is None for side in sides):
            return None
        left, right = [side for side in sides if side is not None]
        joined = [one | other for one in left for other in right] if (node.name == "_&&_") is held else [*left, *right]
        return joined if len(joined) <= _MANY else None
    return [frozenset({_atom(node, held)})]


def _atom(node: SyntaxNode, held: bool) -> _Atom:
    if node.kind == "call" and node.name in {"_==_", "_!=_"}:
        for one, other in (node.parts, node.parts[::-1]):
            if _is_single(one) and other.kind == "const" and isinstance(other.value, str | bool):
                return _worded(one, frozenset({other.value}), held is (node.name == "_==_"))
    if node.kind == "call" and node.name == "@in":
        one, many = node.parts
        if _is_single(one) and many.kind == "list" and all(isinstance(part.value, str) for part in many.parts):
            return _Atom(one.shape(), frozenset(part.value for part in many.parts), held)
    if _is_single(node) and FACTS[node.name].kind == "bool":
        return _worded(node, frozenset({True}), held)
    return _Atom(node.shape(), None, held)


def _worded(node: SyntaxNode, words: frozenset[Any], held: bool) -> _Atom:
    # Of a boolean, what does not hold is that the other one does.
    if FACTS[node.name].kind == "bool" and not held:
        return _Atom(node.shape(), frozenset({True, False}) - words, True)  # noqa: FBT003
    return _Atom(node.shape(), words, held)


def _is_single(node: SyntaxNode) -> bool:
    return node.kind == "name" and node.name in FACTS and FACTS[node.name].kind in {"bool", "string"}

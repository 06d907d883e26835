"""The requirement registry: which behaviour has an id, which test observes it, and why some are not there yet.

A test says `@requirement("VA-012")`; tests/requirements.toml lists every id; tests/not_yet.toml gives the reasons for those
without a test. A test that needs a check of the gateway off says `off={"trust": "why"}`. Run as a script, this prints the
coverage by prefix and every check that a test has switched off.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).resolve().parent.parent
REGISTRY: Final = TESTS / "requirements.toml"
NOT_YET: Final = TESTS / "not_yet.toml"

TITLES: Final = {
    "VA": "verified approval",
    "TP": "tool pinning",
    "TA": "trust annotations",
    "WB": "Web Bot Auth gate",
}

_ID: Final = re.compile(r"(?P<prefix>[A-Z]{2})-(?P<number>\d{3})")
_RANGE: Final = re.compile(r"(?P<first>[A-Z]{2}-\d{3})\.\.(?P<last>[A-Z]{2}-\d{3})")
_PREFIX: Final = re.compile(r"(?P<prefix>[A-Z]{2})-\*")


def requirement(*ids: str) -> pytest.MarkDecorator:
    """Marks a test as observing these behaviours. Write the ids out: they are read without running the test."""
    if not ids:
        raise ValueError("name at least one id")
    return pytest.mark.requirement(*ids)


@dataclass(frozen=True)
class Requirement:
    """One behaviour of the registry."""

    id: str
    level: str
    text: str
    verify: str


@dataclass(frozen=True)
class Named:
    """The ids that tests name, each with the places; and what could not be read."""

    places: Mapping[str, tuple[str, ...]]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class SwitchedOff:
    """A check of the gateway that a test does without."""

    check: str
    place: str
    reason: str


@dataclass(frozen=True)
class Excuses:
    """Reasons why there is no test yet: for single ids, which must stay true, and for ranges, which tests may thin out."""

    single: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def read_registry(path: Path = REGISTRY) -> dict[str, Requirement]:
    """Every requirement by its id."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["requirement"]
    found: dict[str, Requirement] = {}
    for entry in entries:
        one = Requirement(entry["id"], entry["level"], entry["text"], entry["verify"])
        if not _ID.fullmatch(one.id) or one.id in found:
            raise ValueError(f"{path.name}: the id {one.id} is malformed or there twice")
        found[one.id] = one
    return found


def read_excuses(known: Mapping[str, Requirement], path: Path = NOT_YET) -> Excuses:
    """The reasons of not_yet.toml, spread over the ids they are for."""
    single: dict[str, str] = {}
    ranges: dict[str, str] = {}
    problems: list[str] = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("not_yet", []):
        reason = str(entry.get("reason", "")).strip()
        if not reason:
            problems.append(f"{path.name}: {entry.get('ids')} has no reason")
        for spec in entry.get("ids", []):
            ids = _spread(spec, known)
            if not ids:
                problems.append(f"{path.name}: {spec} is no id, range or prefix of the registry")
            (single if spec in known else ranges).update(dict.fromkeys(ids, reason))
    return Excuses(single, ranges, tuple(problems))


def read_tests(root: Path = TESTS) -> Named:
    """The ids in every `requirement(...)` under a folder of tests."""
    places: dict[str, list[str]] = {}
    problems: list[str] = []
    for path in sorted(root.rglob("*.py")):
        if path == Path(__file__).resolve():
            continue
        text = path.read_text(encoding="utf-8")
        for call in _calls(ast.parse(text, str(path))) if "requirement" in text else ():
            place = f"{path.relative_to(root).as_posix()}:{call.lineno}"
            for argument in call.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    places.setdefault(argument.value, []).append(place)
                else:
                    problems.append(f"{place}: an id of requirement(...) is not written out")
    return Named({one: tuple(found) for one, found in places.items()}, tuple(problems))


def read_off(root: Path = TESTS) -> list[SwitchedOff]:
    """Every `off={"CHECK": "reason"}` under a folder of tests; table and reason may have a name in the module."""
    found: list[SwitchedOff] = []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "off=" not in text:
            continue
        tree = ast.parse(text, str(path))
        constants = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "off":
                table = constants.get(node.value.id) if isinstance(node.value, ast.Name) else node.value
                place = f"{path.relative_to(root).as_posix()}:{node.value.lineno}"
                found += _switched(table, place, constants)
    return found


def _switched(table: ast.expr | None, place: str, constants: Mapping[str, ast.expr]) -> Iterator[SwitchedOff]:
    """Nothing where a function only hands on what it was given."""
    if not isinstance(table, ast.Dict):
        return
    for key, value in zip(table.keys, table.values, strict=True):
        told = constants.get(value.id) if isinstance(value, ast.Name) else value
        check = key.value if isinstance(key, ast.Constant) else "?"
        yield SwitchedOff(str(check), place, str(told.value) if isinstance(told, ast.Constant) else "")


def review(known: Mapping[str, Requirement], named: Named, excuses: Excuses) -> list[str]:
    """Everything on which the registry, the tests and the reasons do not agree."""
    problems = [*named.problems, *excuses.problems]
    for one, places in named.places.items():
        if one not in known:
            problems.append(f"{places[0]}: {one} is not in the registry")
        if one in excuses.single:
            problems.append(f"not_yet.toml: {one} has a test now ({places[0]}); take its reason away")
    return problems + [
        f"{one} has neither a test nor a reason in not_yet.toml: {known[one].text}"
        for one in known
        if one not in named.places and one not in excuses.single and one not in excuses.ranges
    ]


def coverage(known: Mapping[str, Requirement], named: Named) -> str:
    """A table of how many requirements of each prefix have a test."""
    lines = [f"{'':2}  {'':<18} {'total':>6} {'tested':>7} {'not yet':>8} {'tested %':>9}"]
    prefixes = list(dict.fromkeys(one[:2] for one in known))
    for prefix in [*prefixes, ""]:
        ids = [one for one in known if one.startswith(prefix)]
        tested = sum(one in named.places for one in ids)
        share = 100 * tested / len(ids) if ids else 0.0
        title = TITLES.get(prefix, "") if prefix else "all"
        lines.append(f"{prefix:2}  {title:<18} {len(ids):>6} {tested:>7} {len(ids) - tested:>8} {share:>8.1f}%")
    return "\n".join(lines)


def _spread(spec: object, known: Mapping[str, Requirement]) -> list[str]:
    if not isinstance(spec, str):
        return []
    if spec in known:
        return [spec]
    if match := _PREFIX.fullmatch(spec):
        return [one for one in known if one.startswith(f"{match['prefix']}-")]
    if match := _RANGE.fullmatch(spec):
        first, last = match["first"], match["last"]
        if first in known and last in known and first[:2] == last[:2]:
            return [one for one in known if one[:2] == first[:2] and first <= one <= last]
    return []


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            if name == "requirement":
                yield node


def main() -> int:
    known = read_registry()
    named = read_tests()
    problems = review(known, named, read_excuses(known))
    print(coverage(known, named))
    switched = read_off()
    print(f"\nChecks of the gateway that tests switch off: {len(switched)}")
    for one in switched:
        print(f"  {one.check:<8} {one.place}: {one.reason}")
    for problem in problems:
        print(f"problem: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""The operator's own labels: tables of callgate.toml, and files of annotations in the form that servers use.

A mistake of the operator is told, with its place; nothing of theirs is guessed at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from callgate.errors import ConfigError
from callgate.errors import Problem as Located
from callgate.places import Path as Keys
from callgate.places import json_places
from callgate.trust.labels import Labels, ServerWords
from callgate.trust.resolving import ArgumentRule, Predicate
from callgate.trust.said import Defaults, Said, said_of
from callgate.trust.vocabulary import Vocabulary

MAX_FILE_BYTES: Final = 4 * 2**20
_ADVICE: Final = "Put these right, then run `callgate check`."
_SETS: Final = ("destination", "outcomes", "source", "sensitivity", "accepts")
_FLAGS: Final = ("open_world", "read_only", "destructive")


def said(table: Mapping[str, Any]) -> Said:
    """A table of `[servers.NAME.trust.tools]` or of `rules`, as the configuration checked it."""
    parts: dict[str, Any] = {name: frozenset(table[name]) for name in _SETS if table.get(name)}
    parts |= {name: table[name] for name in _FLAGS if table.get(name) is not None}
    return Said(
        **parts,
        critical=None if table.get("critical") is None else tuple(table["critical"]),
        fields=dict(table["fields"]) if table.get("fields") else None,
        attribution=tuple(table["attribution"]) if table.get("attribution") else None,
    )


def defaults(table: Mapping[str, Any]) -> Defaults:
    """`[trust.defaults]`."""
    sets = {
        name: frozenset(table[name]) for name in ("destination", "outcomes", "source", "sensitivity") if table.get(name)
    }
    return Defaults(**sets, open_world=table.get("open_world"))


def words(
    table: Mapping[str, Any],
    *,
    compile_rule: Callable[[str], Predicate],
    vocabulary: Vocabulary,
) -> ServerWords:
    """`[servers.NAME.trust]` as plain values. `compile_rule` makes a condition of a rule's `when`."""
    tools = {name: said(entry) for name, entry in table.get("tools", {}).items()}
    if table.get("annotations"):
        read = read_annotations(Path(table["annotations"]), table.get("annotations_key"), vocabulary)
        for name, more in read.items():
            # The table is nearer to the operator's hand than the file.
            tools[name] = tools[name].over(more) if name in tools else more
    return ServerWords(
        trusted=bool(table.get("trusted")),
        hints=bool(table.get("hints")),
        tools=tools,
        rules=tuple(
            ArgumentRule(rule["tool"], compile_rule(rule["when"]), said(rule)) for rule in table.get("rules", ())
        ),
    )


def labels(
    trust: Mapping[str, Any],
    servers: Mapping[str, Mapping[str, Any]],
    *,
    compile_rule: Callable[[str], Predicate],
) -> Labels:
    """Labels from `[trust]` and each server's `[servers.NAME.trust]`, both as plain values."""
    vocabulary = Vocabulary(trust.get("labels", ()))
    return Labels(
        {name: words(table, compile_rule=compile_rule, vocabulary=vocabulary) for name, table in servers.items()},
        defaults(trust.get("defaults", {})),
    )


def read_annotations(path: Path, key: str | None = None, vocabulary: Vocabulary | None = None) -> dict[str, Said]:
    """A JSON file `{TOOL: {"annotations": {...}, "x-criticalArgs": [...]}}`, or one part of it by key."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}", advice="Name a JSON file that is there."
        ) from None
    if len(text) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: the file is larger than {MAX_FILE_BYTES} bytes", advice="Is this the right file?")
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{path}: not valid JSON: {error}", advice="Put it right, then run `callgate check`."
        ) from None
    try:
        return annotations_of(data, str(path), key, vocabulary)
    except _Mistaken as mistaken:
        raise mistaken.located(text.decode()) from None


def annotations_of(
    data: object, source: str, key: str | None = None, vocabulary: Vocabulary | None = None
) -> dict[str, Said]:
    """The same of decoded JSON. Every problem in it is told."""
    if key is not None:
        if not isinstance(data, dict) or key not in data:
            there = ", ".join(sorted(data)[:10]) if isinstance(data, dict) else "no table"
            raise _Mistaken(source, [((key,), key, f"there is no such part; the file has {there}")])
        data = data[key]
    within: Keys = () if key is None else (key,)
    if not isinstance(data, dict):
        raise _Mistaken(source, [(within, key or "", "expected a table of tools")])
    taken = vocabulary or Vocabulary()
    found: dict[str, Said] = {}
    problems: list[tuple[Keys, str, str]] = []
    for tool, entry in data.items():
        place = (*within, tool)
        if not isinstance(entry, dict) or not isinstance(entry.get("annotations"), dict):
            problems.append((place, tool, 'expected {"annotations": {...}}' + _part_hint(entry, key)))
            continue
        read = taken.tool(entry)
        problems += [((*place, *_keys(one.path)), f"{tool}.{one.path}", one.text) for one in read.problems]
        found[tool] = said_of(read)
    if problems:
        raise _Mistaken(source, problems)
    return found


def _part_hint(entry: object, key: str | None) -> str:
    nested = isinstance(entry, dict) and any(isinstance(one, dict) and "annotations" in one for one in entry.values())
    return '; the file has several parts: name one with annotations_key = "NAME"' if nested and key is None else ""


def _keys(path: str) -> Keys:
    """`annotations.attribution[1]` as keys; what does not lead anywhere is found at what is around it."""
    return tuple(path.partition("[")[0].split("."))


class _Mistaken(ConfigError):
    """Mistakes in annotations, by the keys that lead to them."""

    def __init__(self, source: str, mistakes: Iterable[tuple[Keys, str, str]]) -> None:
        self._source = source
        self._mistakes = tuple(mistakes)
        told = tuple(Located(source, None, key, text) for _, key, text in self._mistakes)
        super().__init__(problems=told, advice=_ADVICE)

    def located(self, text: str) -> ConfigError:
        """The same with lines and carets."""
        places = json_places(self._source, text)
        told = tuple(places.problem(places.of_key(keys), key, what) for keys, key, what in self._mistakes)
        return ConfigError(problems=told, advice=_ADVICE)

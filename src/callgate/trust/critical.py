"""Which arguments decide who or what a call affects: those that somebody declared, else those that look like it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from callgate.trust.answers import remembered
from callgate.trust.model import ToolLabel
from callgate.trust.word_lists import word_lists

_LISTS: Final = word_lists("argument_words")
_WORDS: Final = _LISTS["critical"]
_SOMEBODY: Final = _LISTS["somebody"]
_ADDRESSES: Final = _LISTS["addresses"]
_SOMEWHERE: Final = _LISTS["somewhere"]
_SETTINGS: Final = _LISTS["settings"]
_OBEYED: Final = _LISTS["obeyed"]
_WHOM: Final = (_SOMEBODY | {"email", "emails", "shipping"}) - _ADDRESSES - {"to", "destination", "dest"}
_CARRIED: Final = _LISTS["carried"]
_MEASURES: Final = _LISTS["measures"]
_FIELDS: Final = _LISTS["fields"]
_SAID: Final = _LISTS["said"]
_PAGING: Final = _LISTS["paging"]
_FORMATS: Final = frozenset(
    ("email", "idn-email", "uri", "uri-reference", "iri", "url", "hostname", "ipv4", "ipv6", "uuid")
)
_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_INDEX: Final = re.compile(r"\[\d+\]")
_DEPTH: Final = 16
PATHS: Final = 200
_FIXED: Final = 1_000
_DESCRIPTION: Final = 2_000
_QUOTED: Final = re.compile(r"""(?<![\w])['"`]([A-Za-z][A-Za-z0-9_-]{1,30})['"`](?![\w])""")
# The name of an act, as a text has it: `replace_content`.
_ACT: Final = re.compile(r"(?<![\w.])[a-z]+(?:_[a-z]+)+(?![\w(])")
_MODES: Final = word_lists("effect_words")["modes"]
# Of a schema, so many parts are looked at.
NODES: Final = 20_000
# The critical paths of a tool whose schema was not read to its end: all there are.
EVERYTHING: Final = ("*",)
_IDENTITY_LIKE: Final = 10_000


def guess(schema: object) -> tuple[str, ...]:
    """The arguments that look critical in a tool's input schema, as paths (`to`, `items[].url`, `options.path`)."""
    if not isinstance(schema, Mapping):
        return ()
    try:
        found = _Schema(schema).within(schema, _DEPTH)
    except TooMuch:
        return EVERYTHING
    return tuple([path.removeprefix(".") for path in found if path])


def fixed_values(schema: object, about: object = None) -> dict[str, frozenset[str]]:
    """The values that a schema itself has for arguments (`enum`, `const`, `default`, examples, and single words that
    its descriptions quote), by their paths; bounded. `about` is the tool's own text, which may name its acts."""
    found: dict[str, set[str]] = {}
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    acts = set(_ACT.findall(about[:_DESCRIPTION])) if isinstance(about, str) else set()
    for name in properties if acts and isinstance(properties, Mapping) else ():
        if not _MODES.isdisjoint(_words(str(name))):
            found[str(name)] = set(acts)
    left: list[tuple[object, str, int]] = [(schema, "", _DEPTH)]
    looked = 0
    while left and looked < NODES:
        part, path, depth = left.pop()
        looked += 1
        if not isinstance(part, Mapping) or depth <= 0:
            continue
        if isinstance(schema, Mapping) and "$ref" in part:
            # What stands beside a reference holds as well.
            part = {**_Schema(schema).resolved(part), **part}
        own = [part[name] for name in ("const", "default") if name in part]
        for several in (part.get("enum"), part.get("examples")):
            own += several[:_FIXED] if isinstance(several, list) else []
        if isinstance(about := part.get("description"), str):
            # "Use 'primary' for the main calendar."
            own += _QUOTED.findall(about[:_DESCRIPTION])
        for value in own:
            for single in value[:_FIXED] if isinstance(value, list) else [value]:
                if isinstance(single, str | int | float) and len(found) <= PATHS:
                    found.setdefault(path, set()).add(str(single))
        properties = part.get("properties")
        if isinstance(properties, Mapping):
            left += [(inner, f"{path}.{name}" if path else str(name), depth - 1) for name, inner in properties.items()]
        left += [(inner, f"{path}[]", depth - 1) for inner in _schemas(part.get("items"))]
        left += [
            (inner, path, depth - 1) for inner in _schemas(part.get("anyOf"), part.get("oneOf"), part.get("allOf"))
        ]
    return {path: frozenset(values) for path, values in found.items() if path}


def covers(paths: Sequence[str], path: str) -> bool:
    """Whether a value's path (`to[0].address`) is one of these, or lies within one (`to`)."""
    if not paths:
        return False
    if path in paths or paths == EVERYTHING:
        return True
    if "[" not in path and "." not in path:
        return False
    spelt = without_places(path)
    bare = spelt.replace("[]", "")
    return any(
        known in (spelt, bare) or spelt.startswith((known + ".", known + "[")) or bare.startswith(known + ".")
        for known in paths
    )


def without_places(path: str) -> str:
    """The path of an argument, whatever its place in a list: `to[0].address` is `to[].address`."""
    return _INDEX.sub("[]", path) if "[" in path else path


def looks_critical(label: ToolLabel, key: str, value: Any) -> bool:
    """Whether a value nobody declared critical should count as such: by the name it stands under, or, with a tool of
    which nobody said what it does, because it is one word and so may name somebody or something."""
    if named_critical(key):
        return True
    if "outcomes" not in label.unknown:
        return False
    if isinstance(value, str):
        return len(value.split(None, 1)) == 1
    return isinstance(value, int) and abs(value) >= _IDENTITY_LIKE


@remembered
def named_critical(name: str) -> bool:
    return not _WORDS.isdisjoint(_words(name))


@remembered
def names_somebody(name: str) -> bool:
    """Whether what stands under a name is whom or where something goes to."""
    return not _SOMEBODY.isdisjoint(_words(name))


@remembered
def is_whom(path: str) -> bool:
    """Whether somebody is reached or paid at what stands at a path: not a link, nor where something is put."""
    words = _words(path)
    return not _WHOM.isdisjoint(words) and _ADDRESSES.isdisjoint(words)


@remembered
def is_somewhere(name: str) -> bool:
    """Whether what stands under a name is who gets to see something, or the place where they do."""
    return not _SOMEWHERE.isdisjoint(_words(name))


@remembered
def is_setting(tool: str) -> bool:
    """Whether a tool is named for what programs go by when they start."""
    return not _SETTINGS.isdisjoint(_words(tool))


@remembered
def is_obeyed(name: str) -> bool:
    """Whether what stands under a name is run, or told to a program that does what it says."""
    return not _OBEYED.isdisjoint(_words(name))


@remembered
def is_address(name: str) -> bool:
    """Whether what stands under a name is where something is on a network."""
    return not _ADDRESSES.isdisjoint(_words(name))


@remembered
def is_carried(path: str) -> bool:
    """Whether what stands at a path goes to the address that its tool reads from."""
    return not _CARRIED.isdisjoint(_words(path))


@remembered
def is_measure(name: str) -> bool:
    """Whether a number under that name says how much."""
    return not _MEASURES.isdisjoint(_words(name))


@remembered
def is_field(name: str) -> bool:
    """Whether the name of a member is made of the usual words for such, so that nobody is meant by it."""
    words = _words(name)
    return bool(words) and all(word in _FIELDS or word in _WORDS for word in words)


@remembered
def is_said(name: str) -> bool:
    """Whether what stands under a name is a text or a detail of it, by the last of its words: `commit_message`."""
    words = _words(name)
    return bool(words) and (words[-1] in _SAID or words[-1] in _FIELDS)


@remembered
def is_paging(name: str) -> bool:
    """Whether a number under that name only says how much is shown, or for how long."""
    return not _PAGING.isdisjoint(_words(name))


def _words(name: str) -> list[str]:
    return [part.lower() for part in _PARTS.findall(name)]


class TooMuch(Exception):
    """A schema that is larger than anybody makes them, or made to look so."""


class _Schema:
    """A document. Each definition in it is looked at once, however often it is referred to."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = NODES
        # What lies within each reference; nothing, as long as it is being looked at: one within itself adds nothing.
        self._known: dict[str, Sequence[str]] = {}

    def within(self, schema: Mapping[str, Any], depth: int) -> Sequence[str]:
        """The critical paths in a part of it, as they go on from there: `.to`, `[].url`."""
        if depth <= 0:
            return ()
        self._left -= 1
        if self._left < 0:
            raise TooMuch
        reference, schema = self._resolved(schema)
        if reference in self._known:
            return self._known[reference]
        if reference:
            self._known[reference] = ()
        found = dict.fromkeys(self._paths(schema, depth))
        if len(found) > PATHS:
            raise TooMuch
        if reference:
            self._known[reference] = tuple(found)
        return tuple(found)

    def _paths(self, schema: Mapping[str, Any], depth: int) -> Iterator[str]:
        properties = schema.get("properties")
        for name, inner in properties.items() if isinstance(properties, Mapping) else ():
            if not isinstance(inner, Mapping):
                continue
            if named_critical(str(name)) or self._has_format(inner):
                yield f".{name}"
            else:
                yield from [f".{name}{path}" for path in self.within(inner, depth - 1)]
        for inner in _schemas(schema.get("items"), schema.get("prefixItems")):
            if self._has_format(inner):
                yield "[]"
            yield from [f"[]{path}" for path in self.within(inner, depth - 1)]
        for inner in _schemas(schema.get("anyOf"), schema.get("oneOf"), schema.get("allOf")):
            if self._has_format(inner):
                yield ""
            yield from self.within(inner, depth - 1)

    def _has_format(self, schema: Mapping[str, Any]) -> bool:
        found = self._resolved(schema)[1].get("format")
        return isinstance(found, str) and found in _FORMATS

    def resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """A schema, or the definition that it refers to."""
        return self._resolved(schema)[1]

    def _resolved(self, schema: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """A schema, or the definition in the same document that it refers to, with the reference."""
        reference = ""
        for _ in range(_DEPTH):
            further = schema.get("$ref")
            if not isinstance(further, str) or not further.startswith("#"):
                break
            found: Any = self._root
            for part in further[2:].split("/", _DEPTH) if further != "#" else ():
                found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
            if not isinstance(found, Mapping):
                break
            reference, schema = further, found
        return reference, schema


def _schemas(*given: object) -> Iterator[Mapping[str, Any]]:
    """The schemas among what stands where one or several should."""
    for one in given:
        for inner in one if isinstance(one, list | tuple) else (one,):
            if isinstance(inner, Mapping):
                yield inner

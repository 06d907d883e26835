"""Reading annotations: those of tools, requests and results, and GitHub's `_meta.ifc`.

Everything here comes from a peer. Nothing raises: what cannot be read is a problem and counts as unknown, which is
the most restrictive there is. A value that nobody knows is kept, so that people see it, and taken for the worst.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from callgate.trust.model import (
    ANNOTATIONS_META,
    DESTINATIONS,
    IFC_META,
    OUTCOMES,
    SOURCES,
    UNTRUSTED,
    Annotations,
    InputMetadata,
    LabelProblem,
    ReturnMetadata,
)

CRITICAL_META: Final = "dev.callgate/criticalArgs"
CRITICAL_EXTRA: Final = "x-criticalArgs"
FIELDS_META: Final = "dev.callgate/fields"

# What a plain `DataClass` may be; the regulated form is an object.
PLAIN_CLASSES: Final = ("none", "user", "pii", "financial", "credentials")
REGULATED: Final = "regulated"
UNKNOWN: Final = "unknown"
# Data that not everybody may read, as `_meta.ifc` says it without saying why.
RESTRICTED: Final = "dev.callgate.restricted"

MAX_ATTRIBUTION: Final = 64
MAX_ATTRIBUTION_CHARS: Final = 512
MAX_SCOPES: Final = 32
MAX_SCOPE_CHARS: Final = 64
MAX_VALUES: Final = 32
MAX_CLASSES: Final = 64
MAX_VALUE_CHARS: Final = 128
MAX_CRITICAL: Final = 64
MAX_FIELDS: Final = 128
MAX_PATH_CHARS: Final = 256
MAX_PROBLEMS: Final = 32

_LABEL: Final = re.compile(r"(?=.{3,128}\Z)[a-z][a-z0-9-]*(\.[a-z0-9][a-z0-9_-]*)+")
# Controls, and what changes how text around it is read.
_UNSEEN: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_SHOWN_CHARS: Final = 48


class Ifc(msgspec.Struct, frozen=True):
    """GitHub's label of a result; None where it says nothing."""

    untrusted: bool | None = None
    restricted: bool | None = None
    problems: tuple[LabelProblem, ...] = ()


def is_organisation_label(text: str) -> bool:
    """Whether this is a label in reverse-DNS form, such as `com.mycorp.project.classified`."""
    return _LABEL.fullmatch(text) is not None


class Vocabulary:
    """The words that annotations may use: those of the trust annotations, and an organisation's own classes."""

    def __init__(self, labels: Collection[str] = ()) -> None:
        self.labels: Final = frozenset(labels) | {RESTRICTED}

    def tool(self, definition: object) -> Annotations:
        """What a tool of a list says of itself: `annotations`, and our own members beside them."""
        if not isinstance(definition, Mapping):
            return Annotations(problems=(LabelProblem("tool", f"expected an object, found {_shown(definition)}"),))
        meta = definition.get("_meta")
        beside: dict[str, Any] = {}
        for holder in (definition, meta if isinstance(meta, Mapping) else {}):
            beside |= {key: holder[key] for key in (CRITICAL_META, CRITICAL_EXTRA, FIELDS_META) if key in holder}
        said = definition.get("annotations")
        if said is None and not beside:
            return Annotations()
        return self.annotations({} if said is None else said, beside=beside)

    def annotations(
        self, data: object, path: str = "annotations", *, beside: Mapping[str, Any] | None = None
    ) -> Annotations:
        """`ToolAnnotations`, of a tool, a request or a result."""
        reading = _Reading(self.labels)
        if not isinstance(data, Mapping):
            reading.problem(path, f"expected an object, found {_shown(data)}")
            return Annotations(open_world=True, problems=reading.told)
        own = dict(beside or {})
        own |= {key: data[key] for key in (CRITICAL_META, CRITICAL_EXTRA, FIELDS_META) if key in data}
        return Annotations(
            read_only=reading.hint(data, "readOnlyHint", path, worst=False),
            destructive=reading.hint(data, "destructiveHint", path, worst=True),
            idempotent=reading.hint(data, "idempotentHint", path, worst=False),
            open_world=reading.hint(data, "openWorldHint", path, worst=True),
            malicious=reading.hint(data, "maliciousActivityHint", path, worst=True),
            attribution=reading.attribution(data, path),
            input=reading.input(data.get("inputMetadata"), f"{path}.inputMetadata"),
            returns=reading.returns(data.get("returnMetadata"), f"{path}.returnMetadata"),
            critical=reading.critical(own, path),
            fields=reading.fields(own, path),
            problems=reading.told,
        )

    def of_meta(self, meta: object, path: str = "_meta") -> Annotations | None:
        """The annotations in a `_meta`; None where it has none."""
        # Asking whether something is any kind of mapping takes a while, and nearly always it is a plain one.
        if type(meta) is not dict and not isinstance(meta, Mapping):
            return None
        if meta.get(ANNOTATIONS_META) is None:
            return None
        return self.annotations(meta[ANNOTATIONS_META], f"{path}.{ANNOTATIONS_META}")

    def ifc_of_meta(self, meta: object, path: str = "_meta") -> Ifc | None:
        """GitHub's label in a `_meta`; None where it has none."""
        if not isinstance(meta, Mapping) or meta.get(IFC_META) is None:
            return None
        return read_ifc(meta[IFC_META], f"{path}.{IFC_META}")


def read_ifc(data: object, path: str = IFC_META) -> Ifc:
    """`{integrity, confidentiality}`: the second a word, or a list of who may read; only `public` is everybody."""
    reading = _Reading(frozenset())
    if not isinstance(data, Mapping):
        reading.problem(path, f"expected an object, found {_shown(data)}")
        return Ifc(untrusted=True, restricted=True, problems=reading.told)
    integrity, readers = data.get("integrity"), data.get("confidentiality")
    if integrity is not None and integrity not in ("trusted", "untrusted"):
        reading.problem(f"{path}.integrity", f"expected trusted or untrusted, found {_shown(integrity)}")
    words = readers if isinstance(readers, list) else [readers]
    if readers is not None and not all(isinstance(word, str) for word in words[:MAX_VALUES]):
        reading.problem(f"{path}.confidentiality", f"expected a word or a list of readers, found {_shown(readers)}")
    return Ifc(
        untrusted=None if integrity is None else integrity != "trusted",
        restricted=None if readers is None else "public" not in words[:MAX_VALUES],
        problems=reading.told,
    )


class _Reading:
    """One object being read, and the problems met on the way."""

    def __init__(self, labels: frozenset[str]) -> None:
        self._labels = labels
        self._problems: list[LabelProblem] = []

    @property
    def told(self) -> tuple[LabelProblem, ...]:
        return tuple(self._problems)

    def problem(self, path: str, text: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(LabelProblem(path, text))

    def hint(self, data: Mapping[str, Any], name: str, path: str, *, worst: bool) -> bool | None:
        value = data.get(name)
        if value is None or isinstance(value, bool):
            return value
        self.problem(f"{path}.{name}", f"expected true or false, found {_shown(value)}")
        return worst

    def attribution(self, data: Mapping[str, Any], path: str) -> tuple[str, ...]:
        value, path = data.get("attribution"), f"{path}.attribution"
        if value is None:
            return ()
        if not isinstance(value, list):
            self.problem(path, f"expected a list of strings, found {_shown(value)}")
            return ()
        if len(value) > MAX_ATTRIBUTION:
            self.problem(path, f"more than {MAX_ATTRIBUTION} sources; the rest is left out")
        kept: dict[str, None] = {}
        for index, one in enumerate(value[:MAX_ATTRIBUTION]):
            if isinstance(one, str) and 0 < len(one) <= MAX_ATTRIBUTION_CHARS and not _UNSEEN.search(one):
                kept[one] = None
            else:
                self.problem(
                    f"{path}[{index}]",
                    f"expected a URI of up to {MAX_ATTRIBUTION_CHARS} characters, found {_shown(one)}",
                )
        return tuple(kept)

    def input(self, data: object, path: str) -> InputMetadata | None:
        if not isinstance(data, Mapping) or not self._complete(data, ("destination", "sensitivity", "outcomes"), path):
            self._nothing(data, path)
            return None
        destination = self._words(data["destination"], DESTINATIONS, f"{path}.destination")
        sensitivity = self._classes(data["sensitivity"], f"{path}.sensitivity")
        outcomes = self._words(data["outcomes"], OUTCOMES, f"{path}.outcomes")
        if destination is None or sensitivity is None or outcomes is None:
            return None
        return InputMetadata(destination, sensitivity, outcomes)

    def returns(self, data: object, path: str) -> ReturnMetadata | None:
        if not isinstance(data, Mapping) or not self._complete(data, ("source", "sensitivity"), path):
            self._nothing(data, path)
            return None
        source = self._words(data["source"], SOURCES, f"{path}.source")
        sensitivity = self._classes(data["sensitivity"], f"{path}.sensitivity")
        return None if source is None or sensitivity is None else ReturnMetadata(source, sensitivity)

    def critical(self, data: Mapping[str, Any], path: str) -> tuple[str, ...] | None:
        name = CRITICAL_META if CRITICAL_META in data else CRITICAL_EXTRA
        value = data.get(name)
        if value is None:
            return None
        names = value if isinstance(value, list) else [None]
        if len(names) > MAX_CRITICAL or not all(isinstance(one, str) and _is_path(one) for one in names):
            self.problem(f"{path}.{name}", f"expected up to {MAX_CRITICAL} names of arguments, found {_shown(value)}")
            return None
        return tuple(dict.fromkeys(names))

    def fields(self, data: Mapping[str, Any], path: str) -> dict[str, str]:
        value, path = data.get(FIELDS_META), f"{path}.{FIELDS_META}"
        if value is None:
            return {}
        if not isinstance(value, Mapping) or len(value) > MAX_FIELDS:
            self.problem(path, f"expected a table of up to {MAX_FIELDS} fields, found {_shown(value)}")
            return {}
        kept: dict[str, str] = {}
        for name, source in value.items():
            if not isinstance(name, str) or not _is_path(name):
                self.problem(path, f"expected a path in a result, found {_shown(name)}")
            elif source in SOURCES:
                kept[name] = source
            else:
                self.problem(f"{path}.{name}", f"expected {_choice(SOURCES)}, found {_shown(source)}")
                kept[name] = UNTRUSTED
        return kept

    def _nothing(self, data: object, path: str) -> None:
        if data is not None and not isinstance(data, Mapping):
            self.problem(path, f"expected an object, found {_shown(data)}")

    def _complete(self, data: Mapping[str, Any], members: tuple[str, ...], path: str) -> bool:
        missing = [name for name in members if name not in data]
        extra = [name for name in data if name not in members]
        if missing:
            self.problem(path, f"{' and '.join(missing)} missing; the whole is taken as unknown")
        if extra:
            self.problem(path, f"nobody knows the member {_shown(extra[0])}; the whole is taken as unknown")
        return not missing and not extra

    def _words(self, value: object, known: tuple[str, ...], path: str) -> frozenset[str] | None:
        given = value if isinstance(value, list) else [value]
        words = [word for word in given[: MAX_VALUES + 1] if isinstance(word, str)]
        if not words or len(words) > MAX_VALUES or len(words) != len(given):
            self.problem(path, f"expected {_choice(known)} or a list of these, found {_shown(value)}")
            return None
        for word in words:
            if word not in known:
                self.problem(path, f"expected {_choice(known)}, found {_shown(word)}; the worst is assumed")
        return frozenset(word[:MAX_VALUE_CHARS] for word in words)

    def _classes(self, value: object, path: str) -> frozenset[str] | None:
        given = value if isinstance(value, list) else [value]
        if not given or len(given) > MAX_VALUES:
            self.problem(path, f"expected a class or a list of up to {MAX_VALUES}, found {_shown(value)}")
            return None
        found: list[str] = []
        for one in given:
            if isinstance(one, str):
                found += self._class(one, path)
            elif (scopes := self._scopes(one, path)) is not None:
                found += scopes
            else:
                return None
            if len(found) > MAX_CLASSES:
                self.problem(path, f"more than {MAX_CLASSES} classes and scopes")
                return None
        return frozenset(found)

    def _class(self, word: str, path: str) -> set[str]:
        if word in PLAIN_CLASSES or word in self._labels:
            return {word}
        self.problem(path, f"no class that is known here: {_shown(word)}; the worst is assumed")
        return {word[:MAX_VALUE_CHARS], UNKNOWN}

    def _scopes(self, value: object, path: str) -> set[str] | None:
        scopes = _only_member(_only_member(value, REGULATED), "scopes")
        if not isinstance(scopes, list) or len(scopes) > MAX_SCOPES:
            self.problem(path, f'expected a class or {{"regulated": {{"scopes": [...]}}}}, found {_shown(value)}')
            return None
        if not all(isinstance(one, str) and 0 < len(one) <= MAX_SCOPE_CHARS and _is_seen(one) for one in scopes):
            self.problem(path, f"expected scopes of up to {MAX_SCOPE_CHARS} characters, found {_shown(scopes)}")
            return None
        # An organisation's own class has no other place in the wire's form.
        return {one if one in self._labels else f"{REGULATED}:{one}" for one in scopes} or {REGULATED}


def _only_member(value: object, name: str) -> object:
    if isinstance(value, Mapping) and len(value) == 1:
        found: object = value.get(name)
        return found
    return None


def _is_seen(text: str) -> bool:
    return not _UNSEEN.search(text.replace(" ", ""))


def _is_path(text: str) -> bool:
    return 0 < len(text) <= MAX_PATH_CHARS and _is_seen(text)


def _choice(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _shown(value: object) -> str:
    """A peer's value in a message: its beginning, nothing that a terminal would obey."""
    if isinstance(value, str):
        cut = value[:_SHOWN_CHARS]
        return ascii(cut) + ("..." if len(value) > len(cut) else "")
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return "a number"
    return "an object" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else "something else"

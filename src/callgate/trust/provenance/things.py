"""Things with an id that a session has met: by which names they go, and who answers for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from callgate.trust.provenance import normalise
from callgate.trust.provenance.records import ResultObject, spoken_by

VOUCHED, ASKED_FOR = 1, 2
_LETTERS: Final = re.compile(r"[\W_]+")
# A link or a path: one word with a slash in it.
_ADDRESS: Final = re.compile(r"\s*[^\s/\\]*[/\\]\S*\s*")


class KnownThing(msgspec.Struct):
    """A thing with an id: the phrases it is called by, whether a trusted result had it, whether it was asked for."""

    names: tuple[tuple[int, ...], ...]
    flags: int
    step: int

    @property
    def vouched(self) -> bool:
        return bool(self.flags & VOUCHED)

    @property
    def asked_for(self) -> bool:
        return bool(self.flags & ASKED_FOR)


class Things(dict[int, KnownThing]):
    """From the digest of a thing's server, kind and id to what is known of it."""

    def take(self, packed: Sequence[int], step: int) -> None:
        """Take in what a step left of things."""
        at = 0
        while at + 1 < len(packed):
            key, head = packed[at], packed[at + 1]
            end = at + 2 + (head >> 8)
            names, start = [], at + 2
            while start < end:
                names.append(tuple(packed[start + 1 : start + 1 + packed[start]]))
                start += 1 + packed[start]
            known = self.get(key)
            if known is None:
                self[key] = KnownThing(tuple(names), head & 0xFF, step)
            else:
                self[key] = KnownThing((*known.names, *names)[-16:], (known.flags | head) & 0xFF, step)
            at = end


def flattened(text: str) -> str:
    """A text as words with one blank between them."""
    return _LETTERS.sub(" ", normalise.fold(text)).strip()


def matches(record: ResultObject, queries: Sequence[tuple[str, str]]) -> bool:
    """Whether one of the phrases that a call asked for is in a thing: not in a field that says where the thing is. Such
    a field has the argument's own name, as `calendar` has where `calendarId` was given, or holds a link or a path."""
    for argument, query in queries:
        about = spoken_by(argument)
        fields = [
            value
            for field, value in record.value.items()
            if isinstance(value, str)
            and _ADDRESS.fullmatch(value) is None
            and (not about or about.isdisjoint(spoken_by(field)))
        ]
        if f" {query} " in f" {flattened(' '.join(fields))} ":
            return True
    return False


def is_in(record: ResultObject, query: str) -> bool:
    """Whether a phrase is all that one of a thing's fields says: then it names where the thing is, or its state."""
    return any(flattened(value) == query for value in record.value.values() if isinstance(value, str))

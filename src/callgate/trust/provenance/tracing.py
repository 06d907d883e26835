"""Where each value among a call's arguments was met before."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from callgate.trust.critical import covers, looks_critical
from callgate.trust.model import FOUND, Found, Provenance, ToolLabel, Traced, ValueKind
from callgate.trust.provenance import normalise, packing
from callgate.trust.provenance.harvest import PROSE_WORDS, leaves
from callgate.trust.provenance.memory import Known, Memory
from callgate.trust.provenance.records import is_id, spoken_of, written_id
from callgate.trust.provenance.zones import SPAN

_SHOWN: Final = 80
_VALUES: Final = 1_000
_LINKS: Final = 100
_TEXT_CHARS: Final = 64 * 1024
_RANK: Final = {found: rank for rank, found in enumerate(FOUND)}
# A value is the user's when it was met there.
OWN_WORDS: Final = frozenset(("endorsed", "prompt", "clean", "trusted", "linked"))
_SHORT_NUMBER: Final = re.compile(r"\d{1,6}")
_MOMENTS: Final = (normalise.DATE, normalise.TIME)
_NUMERIC: Final = frozenset("0123456789$€£¥+-'#.\x01\x02")


def trace(
    memory: Memory, label: ToolLabel, arguments: Mapping[str, Any], critical: Sequence[str] | None = None
) -> Provenance:
    """What a call's arguments are made of. `critical` are paths, those of the label where none are given."""
    paths = label.critical if critical is None else critical
    values: list[Traced] = []
    links: list[Traced] = []
    own = False
    for path, key, value in leaves(arguments):
        if len(values) >= _VALUES:
            # Nobody looks at what comes after so many; it must not be where an order hides.
            values.append(Traced(path, "identity", "untrusted", critical=True, shown="more values than are traced"))
            break
        matters = covers(paths, path) or (not label.critical_declared and looks_critical(label, key, value))
        if type(value) is str and len(value) <= _TEXT_CHARS and not memory.overflowed and _is_new(memory, value):
            traced, text, cut = Traced(path, "text", "nowhere", matters, _shown(value)), value, False
        else:
            one = _Value(memory, label, path, key, value, critical=matters)
            if one.empty:
                continue
            traced, text, cut = one.traced(), one.text, one.cut
        values.append(traced)
        own = own or (traced.found in OWN_WORDS and traced.kind not in ("time", "quantity"))
        if traced.kind == "text" and traced.found not in OWN_WORDS:
            links += _foreign_links(memory, path, text)
            if cut and memory.strange:
                # What comes after is not looked at, so it may be anything.
                links.append(Traced(path, "link", "untrusted", critical=False, shown="a longer text than is traced"))
    guarded = tuple(sorted(carries(memory, arguments))) if memory.details else ()
    return Provenance(tuple(values), tuple(links[:_LINKS]), own, memory.prompt_known, guarded)


def carries(memory: Memory, arguments: Mapping[str, Any]) -> frozenset[str]:
    """The classes of guarded data (`financial`, `regulated`, `credentials`) of which the arguments hold a detail: an
    account or card number, a code, a key that a result so labelled had, and that is not in the user's own words."""
    if not memory.details:
        return frozenset()
    return memory.carries(
        value if isinstance(value, str) else normalise.number(value) for _, _, value in leaves(arguments)
    )


def to_endorse(
    memory: Memory, label: ToolLabel, arguments: Mapping[str, Any], provenance: Provenance
) -> tuple[str, ...]:
    """What a person who approves a call endorses with it: its critical values and its foreign links, as digests."""
    found = {value.path for value in provenance.values if value.critical and value.found not in OWN_WORDS}
    digests = [
        _Value(memory, label, path, key, value, critical=True).mark()
        for path, key, value in leaves(arguments)
        if path in found
    ]
    texts = {link.path for link in provenance.foreign_links}
    for path, _, value in leaves(arguments):
        if path in texts and isinstance(value, str):
            digests += [memory.fingerprints.named("link", normalise.fold(link)) for link in normalise.links(value)]
    return tuple(dict.fromkeys(digests))


def _is_new(memory: Memory, text: str) -> bool:
    """Whether a long text begins as nothing does that is remembered: then it was met nowhere, whatever follows."""
    opening = normalise.opening(text) if not memory.endorsed else ()
    if not opening:
        return False
    digests = memory.fingerprints
    if memory.strange.issuperset(packing.numbers(b"".join(map(digests.pieces.__getitem__, opening)))):
        return False
    words = packing.numbers(b"".join(map(digests.atoms.__getitem__, opening)))
    return not (memory.own.issuperset(words) or memory.vouches(words[:SPAN]))


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


class _Value:
    """One value: what it is, its words and its pieces."""

    __slots__ = (
        "critical",
        "cut",
        "empty",
        "key",
        "kind",
        "label",
        "memory",
        "number",
        "path",
        "spelt",
        "text",
        "words",
    )

    def __init__(self, memory: Memory, label: ToolLabel, path: str, key: str, value: Any, *, critical: bool) -> None:
        self.memory, self.label, self.path, self.key, self.critical = memory, label, path, key, critical
        self.number = not isinstance(value, str)
        self.text = normalise.number(value) if isinstance(value, int | float) else str(value)
        self.cut = len(self.text) > _TEXT_CHARS
        if self.cut:
            self.text = self.text[:_TEXT_CHARS]
        self.spelt = normalise.sequence(self.text)
        self.empty = not self.spelt and (not self.text or self.text.isspace())
        self.words = packing.numbers(b"".join(map(memory.fingerprints.atoms.__getitem__, self.spelt)))
        self.kind: ValueKind = self._kind()

    def traced(self) -> Traced:
        found = self._found()
        if found in ("own", "nowhere") and (self.memory.overflowed or self.cut) and self.critical:
            found = "untrusted"
        steps: tuple[int, ...] = ()
        if found == "untrusted" and self.critical:
            steps = self.memory.strange.steps(self._pieces())
        return Traced(self.path, self.kind, found, self.critical, _shown(self.text), steps)

    def _pieces(self) -> Sequence[int]:
        text = self.text
        if text.isascii() and "%" not in text and "\\" not in text:
            return packing.numbers(b"".join(map(self.memory.fingerprints.pieces.__getitem__, self.spelt)))
        return self.memory.pieces(text)

    def mark(self) -> str:
        """The digest that an endorsement of this value has. Ids say nothing without the kind of thing they name."""
        spelt = " ".join([atom for word in self.spelt for atom in normalise.atoms(word)])
        if self.kind == "identity" and _SHORT_NUMBER.fullmatch(spelt):
            return self.memory.fingerprints.named("id", *sorted(spoken_of(self.key, self.label.tool)), spelt)
        return self.memory.fingerprints.named("value", spelt)

    def _kind(self) -> ValueKind:
        if self.number:
            return "identity" if is_id(self.key) else "quantity"
        text = self.text
        if len(self.spelt) > PROSE_WORDS or "\n" in text:
            return "text"
        if self.spelt and self.spelt[0][0] in _NUMERIC:
            parts = [atom for word in self.spelt for atom in normalise.atoms(word)]
            if parts and all(part[0] in _MOMENTS for part in parts):
                return "time"
            if len(parts) == 1 and len(parts[0]) < 8 and normalise.is_number(parts[0]) and not is_id(self.key):
                return "quantity"
        if "@" in text and normalise.ADDRESS.fullmatch(text):
            return "identity"
        if (
            len(self.spelt) == 1
            and "." in text
            and (text.startswith(("http://", "https://", "www.")) or (self.critical and normalise.HOST.fullmatch(text)))
        ):
            return "link"
        return "identity" if self.critical else "text"

    def _found(self) -> Found:
        memory = self.memory
        if memory.endorsed and self.mark() in memory.endorsed:
            return "endorsed"
        if self.kind == "time":
            return self._time()
        if memory.prompt.says(self.words):
            return "prompt"
        if memory.clean.says(self.words):
            return "clean"
        thing = self._thing()
        if thing is not None:
            if thing.vouched:
                return "trusted"
            if thing.asked_for or any(map(memory.users, thing.names)):
                return "linked"
        elif memory.vouching.says(self.words) and not self._bare_id():
            return "trusted"
        return self._doubtful(thing)

    def _doubtful(self, thing: Known | None) -> Found:
        memory = self.memory
        pieces = self._pieces()
        if pieces and memory.strange.issuperset(pieces):
            return "untrusted"
        if thing is not None or (self.kind != "identity" and memory.own.issuperset(self.words)):
            return "own"
        if self.critical and self.kind in ("identity", "link"):
            if memory.own.issuperset(self.words) and not _SHORT_NUMBER.fullmatch(self.text):
                # Somebody's result had it where a server puts its own ids, and it is used for something else.
                return "untrusted"
            if self._put_together():
                return "untrusted"
        return "nowhere"

    def _time(self) -> Found:
        """Date and time of day are looked up each for itself; the worse of the two counts."""
        worst: Found = "endorsed"
        for word in self.spelt:
            for atom in normalise.atoms(word):
                found = self._moment(atom)
                worst = found if _RANK[found] > _RANK[worst] else worst
        return worst

    def _moment(self, atom: str) -> Found:
        memory = self.memory
        spelt = memory.fingerprints.digest(atom)
        # Who says "May 26th" means the next one.
        yearless = memory.fingerprints.digest(atom[0] + atom[5:]) if atom[0] == normalise.DATE else spelt
        if spelt in memory.prompt or yearless in memory.prompt:
            return "prompt"
        if spelt in memory.clean or yearless in memory.clean:
            return "clean"
        if spelt in memory.vouching:
            return "trusted"
        if spelt in memory.strange or yearless in memory.strange:
            return "untrusted"
        return "own" if spelt in memory.own else "nowhere"

    def _thing(self) -> Known | None:
        """The thing that this value is the id of, of a kind that the argument may name."""
        if self.kind != "identity" or not self.memory.records:
            return None
        written = written_id(int(self.text) if self.number and self.text.isdigit() else self.text)
        for kind in spoken_of(self.key, self.label.tool):
            found = self.memory.records.get(self.memory.key(self.label.server, kind, written))
            if found is not None:
                return found
        return None

    def _bare_id(self) -> bool:
        """A short number as an id: another number that is the same says nothing of it."""
        return self.kind == "identity" and _SHORT_NUMBER.fullmatch(self.text) is not None

    def _is_plain(self) -> bool:
        return len(self.spelt) == 1 and self.spelt[0].isascii() and self.spelt[0].isalpha()

    def _put_together(self) -> bool:
        """Whether the value can be joined from what a stranger's texts hold in smaller parts, so that an address in
        groups, halves or single letters is known again."""
        parts = self.spelt if self._is_plain() else normalise.parts(self.text)
        if len(parts) > 1 and self.memory.fingerprints.digest("".join(parts)) in self.memory.strange:
            return True
        return bool(parts) and all(_joined(self.memory, part) for part in parts)


def _joined(memory: Memory, piece: str) -> bool:
    # By way of the pieces, which are kept for the next time.
    digests, strange, number, order = memory.fingerprints.pieces, memory.strange, int.from_bytes, sys.byteorder
    if number(digests[piece], order) in strange:
        return True
    length = len(piece)
    if not 2 <= length <= 64:
        return False
    reached = {0}
    for start in range(length):
        if start in reached:
            for end in range(start + 1, length + 1):
                if number(digests[piece[start:end]], order) in strange:
                    reached.add(end)
            if len(reached) == 1:
                return False
    return length in reached


def _foreign_links(memory: Memory, path: str, text: str) -> Iterator[Traced]:
    """Links and addresses in a text that only a stranger's texts had."""
    for link in dict.fromkeys(normalise.links(text)):
        if memory.is_strange(link) and memory.fingerprints.named("link", normalise.fold(link)) not in memory.endorsed:
            kind: ValueKind = "identity" if "@" in link else "link"
            steps = memory.strange.steps(memory.pieces(link))
            yield Traced(path, kind, "untrusted", critical=False, shown=link[:_SHOWN], steps=steps)

"""The texts that a session has read, for the person who is asked about a call: which result a value comes from, and the
words around it there.

Nothing is decided by them. They are kept as long as the digests of their step, compressed and sealed with a key that is
not in the store, and opened when there is a question.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from callgate.trust.model import Provenance, ToolLabel, Traced
from callgate.trust.quarantine import Seals, Unopened

# Of one result, and of a session: steps, and bytes as they are kept.
_CHARS: Final = 128 * 1024
_STEPS: Final = 200
_BYTES: Final = 4 * 1024 * 1024
# Around a value.
_AROUND: Final = 90
_TITLE: Final = 60
_MASKED: Final = "[masked]"
# A word that tells something where the value as a whole is not found.
_WORD: Final = re.compile(r"[^\W_]{4,}")
_WORDS: Final = 16
_APART: Final = re.compile(r"[\W_]+")
_LETTERS: Final = 4
# Where a link can end, of which those in `https://` say nothing.
_ENDS: Final = re.compile(r"[/?&=#]")
_SCHEME: Final = 2
# Characters in which a value is looked for that is spelled in another way, and how many such values are.
_SEARCHED: Final = 1024 * 1024
_LOCATED: Final = 24
_SENTENCE: Final = re.compile(r"[.!?](?=[\s\"\\])|\\?[\r\n]+|\\n")
# What people call a text by, in JSON, in a mail's head, in HTML and in Markdown.
_TITLES: Final = re.compile(
    r'"?\b(?:subject|title|headline)\b"?\s*[:=]\s*"?([^"\r\n\\]{2,200})|<title>\s*([^<\r\n]{2,200})|^#\s+([^\r\n]{2,200})',
    re.IGNORECASE | re.MULTILINE,
)


class Reading(msgspec.Struct, frozen=True, gc=False):
    """One result that a session has read; `at` in milliseconds."""

    at: int
    server: str
    tool: str


class Excerpt(NamedTuple):
    """The words around a value: before it, as it is written there, and after it."""

    title: str
    before: str
    value: str
    after: str


class Readings:
    """Those of one session."""

    def __init__(self, seals: Callable[[], Seals] | None = None) -> None:
        """Without `seals`, no text is kept."""
        self._seals = seals
        self._kept: OrderedDict[int, tuple[Reading, bytes]] = OrderedDict()
        self._bytes = 0

    def sealed(
        self, tool: ToolLabel, texts: Sequence[str], structured: Any = None, secrets: Iterable[str] = ()
    ) -> bytes:
        """A result's texts as they are kept, or its structured part where it has none, without the secrets."""
        if self._seals is None:
            return b""
        text = "\n".join(texts) if texts or structured is None else _written(structured)
        for secret in secrets:
            text = text.replace(secret, _MASKED)
        text = text[:_CHARS]
        if not text.strip():
            return b""
        return self._seals().seal(zlib.compress(text.encode("utf-8", "replace"), 1), _name(tool.server, tool.tool))

    def add(self, step: int, reading: Reading, sealed: bytes) -> None:
        before = self._kept.get(step)
        self._kept[step] = reading, sealed
        self._bytes += len(sealed) - (0 if before is None else len(before[1]))
        while len(self._kept) > _STEPS or self._bytes > _BYTES:
            _, (_, gone) = self._kept.popitem(last=False)
            self._bytes -= len(gone)

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = 0

    def found(self, steps: Sequence[int], value: str) -> tuple[Reading, Excerpt | None] | None:
        """The result among some steps that has a value, with the words around it where they are known."""
        known = [self._kept[step] for step in steps if step in self._kept]
        opened: list[tuple[Reading, str]] = []
        chars = 0
        for reading, sealed in known:
            opened.append((reading, self._opened(reading, sealed)))
            chars += len(opened[-1][1])
            if chars > _SEARCHED:
                break
        for place in (whole, _part):
            for reading, text in opened:
                if excerpt := around(text, value, place):
                    return reading, excerpt
        return (known[0][0], None) if len(known) == 1 else None

    def located(self, provenance: Provenance) -> Provenance:
        """The same, with the step of each stranger's value that is spelled in another way there; of the first ones, as
        no more are shown."""
        values, links = provenance.values, provenance.foreign_links
        unknown = [one for one in (*values, *links) if one.found == "untrusted" and not one.steps]
        unknown.sort(key=lambda one: not one.critical)
        if not self._kept or not unknown:
            return provenance
        opened: list[tuple[int, str, str]] = []
        chars = 0
        for step in reversed(self._kept):
            text = self._opened(*self._kept[step])
            opened.append((step, text.casefold(), _APART.sub("", text.casefold())))
            chars += len(text)
            if chars > _SEARCHED:
                break
        found = {(one.path, one.shown): _steps(one, opened) for one in unknown[:_LOCATED]}
        return replace(
            provenance,
            values=tuple(_with_steps(one, found) for one in values),
            foreign_links=tuple(_with_steps(one, found) for one in links),
        )

    def _opened(self, reading: Reading, sealed: bytes) -> str:
        if self._seals is None or not sealed:
            return ""
        try:
            packed = self._seals().open_text(sealed, _name(reading.server, reading.tool))
            return zlib.decompressobj().decompress(packed, 4 * _CHARS).decode("utf-8", "replace")
        except (Unopened, zlib.error):
            return ""


def _written(structured: Any) -> str:
    try:
        return json.dumps(structured, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""


def _name(server: str, tool: str) -> str:
    return f"text\x00{server}\x00{tool}"


def around(text: str, value: str, place: Callable[[str, str], tuple[int, int] | None]) -> Excerpt | None:
    """The sentence that has a value, as far as it is short; None where it is not there in any spelling known here."""
    found = place(text, _bare(value))
    if found is None:
        return None
    start, end = found
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    cut = [found.end() for found in _SENTENCE.finditer(before)]
    if cut:
        before = before[cut[-1] :]
    elif start > _AROUND:
        before = "…" + before.partition(" ")[2]
    if stop := _SENTENCE.search(after):
        after = after[: stop.end() if stop[0] in ".!?" else stop.start()]
    elif len(text) > end + _AROUND:
        after = after.rpartition(" ")[0] + "…"
    return Excerpt(_title(text, start), before.lstrip(), text[start:end], after.rstrip())


def _with_steps(value: Traced, found: Mapping[tuple[str, str], tuple[int, ...]]) -> Traced:
    steps = () if value.steps or value.found != "untrusted" else found.get((value.path, value.shown), ())
    return replace(value, steps=steps) if steps else value


def _steps(value: Traced, opened: Sequence[tuple[int, str, str]]) -> tuple[int, ...]:
    """The steps whose texts have a value, or the same letters and digits; each text is given folded, in two ways."""
    folded = _bare(value.shown).casefold()
    letters = _APART.sub("", folded)
    return tuple(
        step
        for step, text, together in reversed(opened)
        if folded and (folded in text or (len(letters) >= _LETTERS and letters in together))
    )


def _bare(shown: str) -> str:
    """A value as far as it is shown."""
    return shown.strip().removesuffix("…").strip()


def whole(text: str, value: str) -> tuple[int, int] | None:
    """Where a text has a value, or the same letters and digits, however they are set apart."""
    if not text or not value:
        return None
    found = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE)
    if found is not None:
        return found.span()
    letters = _APART.sub("", value.casefold())
    if len(letters) < _LETTERS or letters not in _APART.sub("", text.casefold()):
        return None
    places = list(compress(range(len(text)), [char.isalnum() for char in text]))
    # Letters that fold to two would shift what follows.
    folded = "".join(one if len(one := text[place].casefold()) == 1 else text[place] for place in places)
    at = folded.find(letters)
    return (places[at], places[at + len(letters) - 1] + 1) if at >= 0 else None


def _part(text: str, value: str) -> tuple[int, int] | None:
    """Where a text has the beginning of a link, or a word that is most of a value."""
    ends = [end.end() for end in _ENDS.finditer(value)] if "://" in value else []
    for end in reversed(ends[_SCHEME:][-_WORDS:]):
        if (start := text.lower().find(value[:end].lower())) >= 0:
            return start, start + end
    letters = len(_APART.sub("", value))
    for word in sorted(_WORD.findall(value)[:_WORDS], key=len, reverse=True):
        if 2 * len(word) > letters and (found := re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)):
            return found.span()
    return None


def _title(text: str, start: int) -> str:
    """What the part of a text that has a place is called: the last title before it."""
    last = ""
    for found in _TITLES.finditer(text[max(0, start - 20_000) : start]):
        last = next(filter(None, found.groups()))
    last = " ".join(last.split())
    return last if len(last) <= _TITLE else last[: _TITLE - 1] + "…"

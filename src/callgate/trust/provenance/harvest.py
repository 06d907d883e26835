"""A result taken apart: what its server filled in itself, what vouches, and what a stranger may have written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import msgspec

from callgate.trust.answers import remembered
from callgate.trust.critical import is_measure, names_somebody
from callgate.trust.model import SOURCES, UNTRUSTED
from callgate.trust.provenance import normalise
from callgate.trust.provenance.names import is_account
from callgate.trust.provenance.records import (
    ResultObject,
    has_people,
    headed,
    ids_of,
    is_id,
    listed_ids,
    names_of,
    table,
    written_id,
)

# Fields that a server fills in itself.
_OWN: Final = re.compile(
    r"_?(?:id|uuid|guid|key)_?|.*_(?:id|uuid|time|at|on|date)|.*I[dD]|(?:.*[a-z])?(?:Time|At|Date)"
    r"|created.*|updated.*|modified.*|last_?modified|timestamp|date|time|size|count|total|version|etag"
)
_SERVER_MADE: Final = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}|\d{1,20}\.\d{1,20}|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d[0-9:.Z+-]*)?"
)
# How accounts are written, in either case; and what has a host in it.
_NUMBERED: Final = re.compile(r"[A-Za-z]{2}\d{2}(?=(?:[A-Za-z]*\d){8})[A-Za-z0-9]{11,30}")
# What nobody but a server calls a thing: one word with a digit in it. No host, address, telephone number or account is.
_IDENTIFIER: Final = re.compile(r"#?(?=.*\d)(?=.*[A-Za-z_]|\d+\.\d+$)[A-Za-z0-9](?:[\w-]|\.(?=\d)){1,63}")
_SEPARATORS: Final = str.maketrans("", "", "-_.")
# A word or two of letters.
_WORD: Final = re.compile(r"[^\W\d]{2,24}(?:[ -][^\W\d]{2,24})?")
_ELSEWHERE: Final = re.compile(r"@|://|\.[^\W\d_]{2,}/|\s")
_SOMEBODYS: Final = 10_000
# A tuple is made once; a union is made anew each time it is written.
NESTED: Final = (dict, list, tuple)
_LISTS: Final = (list, tuple)
_NUMBERS: Final = (int, float)
_SINGLE_TYPES: Final = (str, int, float)
_ECHOES: Final = 64
# What a value may stand between where it is one of its own.
_BEFORE: Final = re.compile(r"[\s\"'`<>()\[\]{},;|=]")
_ENDING: Final = re.compile(r"[.,:;!?]*")
_AFTER: Final = re.compile(r"[\s\"'`<>()\[\]{}|]")
_PLACES: Final = 2_000
_ECHOED: Final = (4, 16_384)
_SINGLE: Final = frozenset((str, int, float, bool, type(None)))
_STRUCTURED: Final = ("{", "[", '"')
# A number in JSON of which not every digit is kept.
_INEXACT: Final = re.compile(r"[:,\[]\s*-?(?:\d{16,}\.|\d+\.\d{10,}|\d+(?:\.\d+)?[eE])")
# Digits, and what such a number has besides: a search in a text of which only that is left is much faster.
_NUMERIC: Final = bytes(
    48 if 48 <= code <= 57 else code if code == 46 else 101 if code in b"eE" else 32 for code in range(256)
)
_LONG: Final = (b"0e", b"0" * 16 + b".", b"." + b"0" * 10)
_encode: Final = msgspec.json.Encoder().encode
# Longer than that, or on several lines, somebody wrote it: it is told, not filled in.
PROSE_WORDS: Final = 8
_ROWS: Final = 200
_SURELY_SHORT: Final = 2 * PROSE_WORDS


class Harvest:
    """What one result holds, by who may have written it."""

    __slots__ = (
        "_depth", "_leaves", "_lines", "_rules", "_tables", "_trusted",
        "fields", "named", "own", "people", "records", "rows", "strange", "vouching",
    )  # fmt: skip

    def __init__(
        self,
        *,
        trusted: bool,
        lines: bool,
        fields: Mapping[str, str],
        leaves: int,
        depth: int,
        tables: bool = False,
    ) -> None:
        self.strange: list[str] = []
        self.vouching: list[str] = []
        self.own: list[str] = []
        self.records: list[ResultObject] = []
        # What names somebody in a field of its own.
        self.people: list[Mapping[str, Any]] = []
        # What things are called, in a field of their own.
        self.named: list[str] = []
        # Each entry of a list, or what is no list, with all that lies within it.
        self.rows: list[Mapping[str, Any]] = []
        # What stands in fields by itself, with the names of the fields: the words that a server has for something.
        self.fields: list[tuple[str, str]] = []
        self._trusted = trusted
        # Whether a plain text may be a table: not where somebody else can have written all of it.
        self._tables = tables
        # Whether each short line of a plain text vouches: not where others than the user can write into it.
        self._lines = lines
        self._rules = [(_pattern(path), source) for path, source in fields.items()] if fields else []
        self._leaves = leaves
        self._depth = depth

    def structured(self, value: Any) -> None:
        """Take in `structuredContent`."""
        self._walk(value, "", "", self._depth)
        self.rows += rows_of(value)

    def texts(self, texts: Sequence[str], structured: Any) -> None:
        """Take in text content, save what only repeats the structured content, as the protocol asks servers to."""
        if structured is None and not self._trusted:
            for text in texts:
                if not text.startswith(_STRUCTURED):
                    self._plain(text)
                    continue
                decoded = _decoded(text)
                if isinstance(decoded, NESTED) and not _loses(text, decoded):
                    # Most servers send their structure as text, and nothing else.
                    self._walk(decoded, "", "", self._depth)
                    self.rows += rows_of(decoded)
                else:
                    self._told(text, decoded if "\\" in text else None)
            return
        for text in texts:
            decoded = _decoded(text)
            if structured is not None and _repeats(text, decoded, structured):
                continue
            if not self._trusted:
                self._told(text, decoded)
            elif decoded is not None:
                self._walk(decoded, "", "", self._depth)
                self.rows += rows_of(decoded)
            elif self._rules and text.lstrip().startswith(_STRUCTURED):
                self._fields(text)
            else:
                for line in text.splitlines() if self._lines else (text,):
                    self._text(line)

    def _fields(self, text: str) -> None:
        """JSON that only a lenient reader takes, if any: whoever writes one of its fields can put half a character
        there. Where nobody can tell where a field ends, all of it may be a stranger's."""
        decoded = _leniently(text)
        if decoded is None:
            self.strange.append(text)
        else:
            self._walk(decoded, "", "", self._depth)

    def _told(self, text: str, decoded: Any) -> None:
        """A stranger's text. Of JSON with escapes, what its strings say counts."""
        if decoded is None or "\\" not in text:
            self._plain(text)
            return
        self.strange += strings(decoded)
        if _loses(text, decoded):
            self.strange.append(text)

    def _plain(self, text: str) -> None:
        """A stranger's text, of which lines may be the server's: those that hold nothing but an id."""
        if self._tables and "\n" in text and (rows := table(text)):
            self._tables = False
            self._walk(rows, "", "", self._depth)
            self.rows += rows
            self._tables = True
            return
        if "\n" in text:
            heads = headed(text)
            text, found = listed_ids(text, heads)
            self.records += found
            self.people += heads
            self.rows += heads
        self.strange.append(text)

    def _walk(self, value: Any, key: str, path: str, depth: int) -> None:
        if isinstance(value, bool):
            return
        if isinstance(value, _SINGLE_TYPES):
            self._leaf(key, value, path)
        elif not isinstance(value, NESTED) or self._stops(value, depth):
            return
        elif isinstance(value, dict):
            self._members(value, key, path, depth)
        else:
            below = path + "[]" if self._rules else ""
            for item in value:
                self._walk(item, key, below, depth - 1)

    def _members(self, value: dict[str, Any], key: str, path: str, depth: int) -> None:
        rules = self._rules
        for name, item in value.items():
            below = (f"{path}.{name}" if path else name) if rules else ""
            if type(item) is str:
                self._leaf(name, item, below)
            elif item is not None:
                self._walk(item, name, below, depth - 1)
        # Names may be data: `{"ann@example.com": …}`.
        if self._trusted:
            for name in value:
                self._text(name)
        else:
            self.strange.extend(value)
        named = names_of(value)
        if has_people(value) or named:
            self.people.append(value)
        self.named += named
        for field, own in ids_of(value):
            self.records.append(ResultObject(field, own, key, named, value))

    def _stops(self, value: Any, depth: int) -> bool:
        """Too deep or too many: what is left is one text of a stranger's, nothing in it vouches."""
        self._leaves -= len(value)
        if depth > 0 and self._leaves >= 0:
            return False
        try:
            self.strange += strings(value)
        except RecursionError:
            raise TooLarge from None
        return True

    def _leaf(self, key: str, value: str | float, path: str) -> None:
        if self._rules and (source := self._said(path)) is not None:
            self._ruled(value if isinstance(value, str) else normalise.number(value), source)
        elif isinstance(value, str):
            if self._trusted:
                self._text(value)
            elif self._is_made_by_server(key, value):
                self.own.append(value)
                if not is_id(key):
                    # Whoever wrote the rest may have written this too.
                    self._plain(value)
                    self.records.append(ResultObject(key, written_id(value), "", (), {}))
            else:
                self._plain(value)
                if _WORD.fullmatch(value) and not names_somebody(key) and not has_people({key.lower(): value}):
                    self.fields.append((key, value))
        else:
            self._number(key, value)

    def _is_made_by_server(self, key: str, value: str) -> bool:
        """Whether a field holds what its server made: by the name of the field, or by what stands there alone."""
        if _NUMBERED.fullmatch(value.translate(_SEPARATORS)):
            return False
        if is_own(key) and _SERVER_MADE.fullmatch(value):
            return True
        return (
            _IDENTIFIER.fullmatch(value) is not None
            and (not is_account(value.casefold()) or "-" in value or "_" in value)
            and not names_somebody(key)
            and not has_people({key.lower(): value})
        )

    def _number(self, key: str, value: float) -> None:
        written = normalise.number(value)
        if self._trusted:
            self.vouching.append(written)
            return
        self.own.append(written)
        # One that may be somebody's number, and stands where a stranger's may.
        if abs(value) >= _SOMEBODYS and isinstance(value, int) and not is_own(key) and not is_measure(key):
            self.strange.append(written)

    def _said(self, path: str) -> str | None:
        return next((source for pattern, source in self._rules if pattern.fullmatch(path)), None)

    def _ruled(self, value: str, source: str) -> None:
        if source == UNTRUSTED or source not in SOURCES:
            self.strange.append(value)
        elif self._trusted or source != "system":
            self._text(value)
        else:
            self.own.append(value)

    def _text(self, text: str) -> None:
        if (
            len(text) > _SURELY_SHORT
            and ("\n" in text or len(text) > 1000 or len(text.split(None, PROSE_WORDS)) > PROSE_WORDS)
        ) or "\n" in text:
            self.strange.append(text)
        else:
            self.vouching.append(text)


def rows_of(value: Any, depth: int = 4) -> list[Mapping[str, Any]]:
    """The entries of the lists in a value; of what has none, the value itself."""
    if isinstance(value, dict):
        inner = [row for item in value.values() if isinstance(item, NESTED) for row in rows_of(item, depth - 1)]
        return inner if depth > 0 and any(isinstance(item, list) for item in value.values()) and inner else [value]
    if isinstance(value, list):
        return [item for item in value[:_ROWS] if isinstance(item, dict)]
    return []


class TooLarge(Exception):
    """A result that cannot be remembered whole."""


@lru_cache(1024)
def _pattern(path: str) -> re.Pattern[str]:
    """A path of a field rule: `items[].body`, `*.id`, `**.id` (at any depth, at none too)."""
    parts = re.split(r"(\*\*\.?|\*|\[\])", path)
    meaning = {"**.": r"(?:.*[.\]])?", "**": ".*", "*": r"[^.\[]*", "[]": r"\[\]"}
    return re.compile("".join(meaning.get(part, re.escape(part)) for part in parts))


def _decoded(text: str) -> Any:
    if not text.startswith(_STRUCTURED):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        # The last for half a character, which is no JSON.
        return None


def _leniently(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _loses(text: str, decoded: Any) -> bool:
    """Whether a text may say more than what was decoded from it: a key came twice, or a number was cut short.

    Two quotes stand around each string, and those inside of one have a backslash each: a key that was lost leaves two.
    """
    if "\\u0022" in text or _cuts_numbers(text):
        return True
    try:
        return text.count('"') != _encode(decoded).count(b'"')
    except (ValueError, RecursionError):
        return True


def _cuts_numbers(text: str) -> bool:
    numeric = text.encode("utf-8", "surrogatepass").translate(_NUMERIC)
    return any(numeric.find(sign) >= 0 for sign in _LONG) and _INEXACT.search(text) is not None


def _repeats(text: str, decoded: Any, structured: Any) -> bool:
    """Whether a text is the structured content once more: all of it, its `result`, or one item of that."""
    told = text if decoded is None else decoded
    shown = structured.get("result", structured) if isinstance(structured, dict) else structured
    same = told in (structured, shown) or (isinstance(shown, list) and told in shown)
    return same and (decoded is None or not _loses(text, decoded))


def strings(value: Any) -> list[str]:
    """Every string and number in a value, names included, in no order that means anything."""
    found: list[str] = []
    open_: list[Any] = [value]
    while open_:
        one = open_.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, dict):
            found += one
            open_ += one.values()
        elif isinstance(one, _LISTS):
            open_ += one
        elif isinstance(one, _NUMBERS) and not isinstance(one, bool):
            found.append(normalise.number(one))
    return found


@remembered
def is_own(field: str) -> bool:
    """Whether a server fills in a field of that name itself, and nobody is paid or written to by what stands there."""
    return _OWN.fullmatch(field) is not None and not names_somebody(field)


def is_written_as_account(word: str) -> bool:
    """Whether a word has the form of an IBAN, whatever its digits add up to."""
    return _NUMBERED.fullmatch(word) is not None


def is_server_made(written: str) -> bool:
    """Whether an id looks like one that a server makes: no address, link or account is."""
    return _ELSEWHERE.search(written) is None and _NUMBERED.fullmatch(written) is None


def within(texts: Sequence[str], chars: int) -> Sequence[str]:
    """As many of some texts as have room."""
    if sum(map(len, texts)) <= chars:
        return texts
    for count, text in enumerate(texts):
        chars -= len(text)
        if chars < 0:
            return texts[:count]
    return texts


def echoes(arguments: Mapping[str, Any]) -> list[str]:
    """The values of a call that a result may give back: not so short that they may be part of anything."""
    found = [value for value in arguments.values() if type(value) is str]
    if len(found) < len(arguments):
        if _SINGLE.issuperset(map(type, arguments.values())) and all(map(str.isidentifier, arguments)):
            # What `leaves` gives of them, without the paths.
            single = [value for value in arguments.values() if value is not None and type(value) is not bool]
        else:
            single = [value for _, _, value in islice(leaves(arguments), _ECHOES)]
        found = [value if isinstance(value, str) else repr(value) for value in single]
    shortest, longest = _ECHOED
    return [text for text in found[:_ECHOES] if shortest <= len(text) <= longest]


class Echoes:
    """Takes values out of texts. The places that are looked at are bounded over all of them, and so is what one look
    takes, whoever wrote text and value; what is left over stays where it is."""

    def __init__(self, places: int = _PLACES) -> None:
        self._left = places

    def without(self, text: str, value: str) -> str:
        """A text with a blank in the place of a value, wherever that stands alone."""
        if text == value and self._left > 0:
            self._left -= 1
            return " "
        at = text.find(value)
        kept, start, length = [], 0, len(value)
        while at >= 0 and self._left > 0:
            self._left -= 1
            end = at + length
            if at and _BEFORE.match(text, at - 1) is None:
                at = text.find(value, at + 1)
                continue
            ending = _ENDING.match(text, end)
            stop = end if ending is None else ending.end()
            if stop == len(text) or _AFTER.match(text, stop) is not None:
                kept.append(text[start:at])
                start, at = end, text.find(value, end)
            else:
                # As far as these marks go, each place ends as this one does.
                at = text.find(value, max(at, stop - length) + 1)
        return " ".join([*kept, text[start:]]) if kept else text


def leaves(value: Any, path: str = "", key: str = "", depth: int = 32) -> Iterator[tuple[str, str, Any]]:
    """Each single value among arguments: its path, the name it stands under, the value. Names that hold values
    themselves are one too. What is nested deeper than anybody nests arguments comes as one text."""
    # Asking whether something is any kind of mapping takes a while, and nearly always it is a plain one.
    if type(value) is dict or isinstance(value, Mapping):
        if depth <= 0:
            yield path, key, repr(value)
            return
        for name, item in value.items():
            below = f"{path}.{name}" if path else name
            if not name.isidentifier():
                yield below, key, name
            if type(item) is str or type(item) is int:
                yield below, name, item
            else:
                yield from leaves(item, below, name, depth - 1)
    elif isinstance(value, _LISTS):
        if depth <= 0:
            yield path, key, repr(value)
            return
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]", key, depth - 1)
    elif value is not None and not isinstance(value, bool):
        yield path, key, value


def keys(value: Any, path: str = "", key: str = "", depth: int = 32) -> Iterator[tuple[str, str, str]]:
    """Each name of a member within the arguments that `leaves` does not give as a value: its path, the name that its
    object stands under, the name. The names of the arguments themselves are the tool's."""
    if depth <= 0:
        return
    if isinstance(value, Mapping):
        for name, item in value.items():
            if path and name.isidentifier():
                yield f"{path}.{name}", key, name
            if isinstance(item, NESTED):
                yield from keys(item, f"{path}.{name}" if path else name, name, depth - 1)
    elif isinstance(value, _LISTS):
        for index, item in enumerate(value):
            if isinstance(item, NESTED):
                yield from keys(item, f"{path}[{index}]", key, depth - 1)

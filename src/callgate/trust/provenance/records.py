"""Things with an id: which thing an id names, and whether the user named that thing."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from callgate.trust.answers import remembered
from callgate.trust.critical import names_somebody
from callgate.trust.proposing import common_words
from callgate.trust.provenance import normalise
from callgate.trust.provenance.fingerprints import Fingerprints
from callgate.trust.word_lists import word_lists

_VERBS: Final = word_lists("argument_words")["tool_verbs"]
_IDS: Final = re.compile(r"_?(?:id|uuid|guid|key)_?|(.+)_(?:id|ids|uuid|guid)_?|(.+[a-z])I[dD]s?")
_BARE: Final = re.compile(r"_?(?:id|uuid|guid|key)_?|ids|number|iid")
# A number that a thing goes by within its project, and an argument that takes one: `issue_number`, `mrIid`.
_COUNTED: Final = ("number", "iid")
_BY_NUMBER: Final = re.compile(r"(.+?)_?(?:[Nn]umber|NUMBER|[Ii]id)")
_NAMES: Final = re.compile(
    r"(?:.*_|.*[a-z])?(?:name|title|subject|label|topic|headline|summary|filename)s?", re.IGNORECASE
)
# Names of arguments and fields that stand for a thing without being called an id.
_PLACES: Final = frozenset(["path", "file", "filename", "file_path", "filepath", "uri", "url", "key", "slug"])
_LONGEST_ID: Final = 256
_OBJECTS: Final = 256
_HEADED: Final = 64 * 1024
# What holds nothing else.
_LEAVES: Final = frozenset((str, int, float, bool, type(None)))


class ResultObject(msgspec.Struct, frozen=True):
    """A thing in a result: under which field its id stood, the id, the name of what the thing was in, and what it is
    called."""

    field: str
    id: str
    collection: str
    names: tuple[str, ...]
    value: Mapping[str, Any]


# A line of a list that is written for people: `ID: 19a4de50917f`, `- Issue number: 12`.
_LINE: Final = re.compile(
    r"^[ \t>*-]{0,8}([A-Za-z][A-Za-z _-]{0,30}):[ \t]{1,4}#?([A-Za-z0-9][A-Za-z0-9_-]{0,63})[ \t]*$", re.MULTILINE
)


def listed_ids(text: str, heads: Sequence[Mapping[str, str]]) -> tuple[str, list[ResultObject]]:
    """The ids in a plain text, each on a line of its own, and the text without them. Whoever writes into the text can
    write such a line too, so only one in a head (`headed`) is known by what else stands there."""
    found: list[ResultObject] = []

    def taken(line: re.Match[str]) -> str:
        field = line[1].strip().lower().replace(" ", "_").replace("-", "_")
        if not is_id(field) or len(found) >= _OBJECTS:
            return line[0]
        written = written_id(line[2])
        about = next((one for one in heads if written_id(one.get(field, "").lstrip("#")) == written), {})
        found.append(ResultObject(field, written, "", (), about))
        return f"{line[1]}:"

    return _LINE.sub(taken, text), found


_FIELD: Final = re.compile(r"([A-Za-z][A-Za-z _-]{0,30}):[ \t]{0,4}(.*)")
_EMPTY_LINE: Final = re.compile(r"\n[ \t]*\n")
_BLOCKS: Final = 500


def headed(text: str) -> list[dict[str, str]]:
    """What the heads of a plain text say: lines such as `Subject: …`, at its beginning, before an empty line. Of a text
    that has nothing but such heads, one behind the other and each with the same first field, all of them. Whoever
    writes what comes after a head cannot change it."""
    text = text[:_HEADED].strip("\n")
    if _FIELD.fullmatch(text.partition("\n")[0].strip()) is None:
        return []
    blocks = [block.strip("\n").split("\n") for block in _EMPTY_LINE.split(text, maxsplit=_BLOCKS)]
    found: list[dict[str, str]] = []
    for block in blocks:
        fields = [match for line in block if (match := _FIELD.fullmatch(line.strip())) is not None]
        named = {match[1].strip().lower().replace(" ", "_").replace("-", "_"): match[2].strip() for match in fields}
        if (
            len(fields) < len(block)
            or len(named) < len(fields)
            or (found and next(iter(named)) != next(iter(found[0])))
        ):
            return found[:1]
        found.append(named)
    return found if len(blocks) > 1 or len(found[0]) > 1 else []


_COLUMNS: Final = re.compile(r"[ \t]{2,}|\t")
_HEADING: Final = re.compile(r"[A-Za-z][\w .#/-]{0,40}")
_PAIR: Final = re.compile(r"(\s*)(- )?([A-Za-z_][\w .-]{0,40}):(?: +(.*))?")
_ROWS: Final = 2_000


def table(text: str) -> list[dict[str, str]]:
    """The rows of a plain text that is a table and nothing else: lines of as many cells as its first line has names,
    set apart by commas or by blanks, or a list of things with a `name: value` on each line."""
    lines = [line for line in text[:_HEADED].split("\n") if line.strip()]
    if not 2 <= len(lines) <= _ROWS:
        return []
    return _of_commas(lines) or _of_columns(lines) or _of_pairs(lines)


def _of_commas(lines: Sequence[str]) -> list[dict[str, str]]:
    if "," not in lines[0]:
        return []
    try:
        rows = list(csv.reader(lines, strict=True))
    except csv.Error:
        return []
    return _headed_rows(rows)


def _of_columns(lines: Sequence[str]) -> list[dict[str, str]]:
    return _headed_rows([_COLUMNS.split(line.strip()) for line in lines])


def _headed_rows(rows: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    heads = [name.strip() for name in rows[0]]
    if len(heads) < 2 or len(set(heads)) < len(heads) or not all(map(_HEADING.fullmatch, heads)):
        return []
    if any(len(row) != len(heads) for row in rows):
        return []
    return [
        {name.lower() if name.isupper() else name: cell.strip() for name, cell in zip(heads, row, strict=True)}
        for row in rows[1:]
    ]


def _of_pairs(lines: Sequence[str]) -> list[dict[str, str]]:
    """A list as YAML has it; one line before it may say what it is."""
    matches = [_PAIR.fullmatch(line) for line in lines]
    matches = matches[1:] if matches[0] is None or not matches[0][2] else matches
    found: list[dict[str, str]] = []
    for match in matches:
        if match is None or (not match[2] and not found):
            return []
        if match[2]:
            found.append({})
        found[-1].setdefault(match[3].strip(), (match[4] or "").strip("'\""))
    return found


_ADDRESS: Final = re.compile(
    r"(?:\"?([^\"<>@,;]{0,80}?)\"?\s*<)?([A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9][A-Za-z0-9.-]{1,253})>?"
)
# How people are called on a platform.
_HANDLE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{2,38}")
_PEOPLE: Final = word_lists("argument_words")["people"]
_TEXTS: Final = word_lists("argument_words")["texts"]
_LETTERS: Final = re.compile(r"[^\W\d_]{3,}")


def has_people(fields: Mapping[str, Any]) -> bool:
    return not _PEOPLE.isdisjoint(fields)


def people(fields: Mapping[str, Any], *, trusted: bool = False) -> Iterator[tuple[str, frozenset[str]]]:
    """The addresses and handles in fields that a server fills in with people, each with the words of that person's
    name. Where a thing has one of them and a name, the name is that person's."""
    for field, value in fields.items():
        if field.lower() not in _PEOPLE:
            continue
        for one in value[:_OBJECTS] if isinstance(value, list) else [value]:
            if not isinstance(one, str) or len(one) > _LONGEST_ID:
                continue
            names = [fields.get(name) for name in ("name", "displayName", "display_name")] if len(fields) <= 6 else []
            beside = [name for name in names if isinstance(name, str) and len(name) <= _LONGEST_ID]
            if _HANDLE.fullmatch(one):
                yield one.casefold(), telling(" ".join([one, *beside]))
            for match in _ADDRESS.finditer(one):
                called = " ".join([match[1] or "", match[2].partition("@")[0], *beside])
                yield match[2].casefold(), telling(called)
    yield from _of_contact(fields, trusted=trusted)


# What somebody is called, and not what something is called that somebody has to do with.
_OWN_NAME: Final = re.compile(r"(?:display|full|real|user|contact)?_?name", re.IGNORECASE)
_CONTACT_LEAVES: Final = 16
_CONTACT_NAME: Final = 60


def _of_contact(fields: Mapping[str, Any], *, trusted: bool) -> Iterator[tuple[str, frozenset[str]]]:
    """The same of an entry of an address book: a name, where its owner is reached, and no text."""
    name = next((fields[one] for one in fields if _OWN_NAME.fullmatch(one) and isinstance(fields[one], str)), "")
    if not name or len(name) > _CONTACT_NAME:
        return
    found: list[str] = []
    open_: list[tuple[str, Any]] = list(fields.items())
    for _ in range(_CONTACT_LEAVES):
        if not open_:
            break
        field, value = open_.pop(0)
        if isinstance(value, Mapping):
            open_ += value.items()
        elif isinstance(value, list):
            open_ += [(field, one) for one in value[:_CONTACT_LEAVES]]
        elif isinstance(value, str):
            if len(value) > 2 * _CONTACT_NAME or "\n" in value:
                return
            if " " not in value and ("@" in value or (trusted and names_somebody(field))):
                found.append(value.casefold())
    if not open_:
        yield from [(one, telling(name)) for one in found]


def telling(text: str) -> frozenset[str]:
    """The words of a name that tell it from others."""
    return frozenset(_LETTERS.findall(normalise.fold(text))) - common_words()


def stem(word: str) -> str:
    """The beginning of a word, which stays the same in whatever form it is used."""
    return word[:5] if len(word) > 5 else word.removesuffix("s") if len(word) > 3 else word


_SHORT_CHARS: Final = 80
_ROW_LEAVES: Final = 60
_ID_LIKE: Final = re.compile(r"(?=.*\d)[a-z0-9#][\w.#-]{1,63}")


def is_id_like(value: str) -> bool:
    return _ID_LIKE.fullmatch(value) is not None


def described_row(row: Mapping[str, Any]) -> tuple[frozenset[str], list[str]]:
    """The words of the short texts in a row, and its short values: not whom or where something goes to, which nobody
    is to be taken for because of a word beside it."""
    words: set[str] = set()
    values: list[str] = []
    open_: list[tuple[str, Any]] = list(row.items())
    looked = 0
    while open_ and looked < _ROW_LEAVES:
        field, value = open_.pop(0)
        looked += 1
        if isinstance(value, Mapping):
            open_ += value.items()
        elif isinstance(value, list):
            open_ += [(field, one) for one in value[:_ROW_LEAVES]]
        elif isinstance(value, str) and len(value) <= _SHORT_CHARS and "\n" not in value and value.strip():
            folded = normalise.fold(value).strip()
            words |= telling(value) | parts_of_id(folded)
            if is_filled_in(field, value):
                values.append(folded)
        elif isinstance(value, int | float) and not isinstance(value, bool) and is_filled_in(field, ""):
            values.append(normalise.number(value))
    return frozenset(words), [value for value in values if len(value) > 1]


def is_filled_in(field: str, value: str) -> bool:
    """Whether what stands in a field may be known by the words beside it: it is no text, and neither whom nor where
    something goes to."""
    told = field.lower() in _TEXTS or names_somebody(field) or has_people({field.lower(): value})
    return not (told or "@" in value or "/" in value)


_NUMBERED: Final = re.compile(r"[\w#](?:[\w#.,-]*\w)?")
_DIGITS: Final = re.compile(r"\d+")
_SHORTEST_NUMBER: Final = 3
_SHAPES: Final = 200


def shape_of(text: str) -> str:
    """How an id or an amount is written, whatever its digits: `mt-9` for MT-310, `9.9` for 12.50; empty for what is
    neither. A plain number is one by how many digits it has."""
    if len(text) > _SHORT_CHARS:
        return ""
    folded = normalise.fold(text).strip()
    if _NUMBERED.fullmatch(folded) is None:
        return ""
    shape = _DIGITS.sub("9", folded.lstrip("#").replace(",", "."))
    if shape == "9":
        return "9" * len(folded.lstrip("#")) if len(folded.lstrip("#")) >= _SHORTEST_NUMBER else ""
    return shape if "9" in shape else ""


def shapes(text: str) -> frozenset[str]:
    """The shapes of the ids and amounts in a text."""
    found = [shape for one in _NUMBERED.findall(text) if any(map(str.isdigit, one)) and (shape := shape_of(one))]
    return frozenset(found[:_SHAPES])


_PARTS_OF_ID: Final = re.compile(r"[^\W\d_]{3,}|\d{2,}")


def parts_of_id(written: str) -> frozenset[str]:
    """The words and numbers in an id by which people may call it: `211` of `KIT-211`, `olek` of `u-olek`."""
    return frozenset(_PARTS_OF_ID.findall(written)) - common_words()


def ids_of(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The field that holds a thing's own id, and the id; then the number that people call it by."""
    ids = [field for field in value if is_id(field)]
    for field in sorted(ids, key=_about):
        if found := written_id(value[field]):
            yield field, found
            break
    for field in _COUNTED:
        if type(value.get(field)) is int:
            yield field, written_id(value[field])


def is_by_number(argument: str, tool: str) -> bool:
    """Whether an argument takes the number of a thing that its tool is about: `issue_number` of `close_issue`."""
    found = _BY_NUMBER.fullmatch(argument)
    return found is not None and not nouns(found[1]).isdisjoint(nouns(tool))


def is_short_number(written: str) -> bool:
    """Whether an id is a number so short that it may be another thing's as well, or stand in any text."""
    return len(written) <= 6 and written.isdigit()


def written_id(value: Any) -> str:
    if isinstance(value, str):
        return value.casefold() if len(value) <= _LONGEST_ID else ""
    return normalise.number(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def names_of(value: Mapping[str, Any]) -> tuple[str, ...]:
    """What a thing is called: its short texts under names such as `title`."""
    inner = [item for part in value.values() if isinstance(part, Mapping) for item in part.items()]
    return tuple(
        [
            item
            for field, item in (*value.items(), *inner)
            if isinstance(item, str) and 4 <= len(item) <= 120 and _is_name(field)
        ]
    )


@remembered
def _is_name(field: str) -> bool:
    return _NAMES.fullmatch(field) is not None


@remembered
def _about(field: str) -> bool:
    """Whether an id says by its name what it is the id of: then it may be another thing's."""
    return _BARE.fullmatch(field) is None


@remembered
def is_id(argument: str) -> bool:
    return _IDS.fullmatch(argument) is not None


@remembered
def _stands_for_a_thing(argument: str) -> bool:
    return is_id(argument) or argument.casefold() in _PLACES


@remembered
def nouns(name: str) -> frozenset[str]:
    """What a tool's or argument's name speaks of: `search_files_by_filename` of `file` and `filename`."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return frozenset(_singular(part.lower()) for part in parts if len(part) > 2 and part.lower() not in _VERBS)


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def spoken_of(argument: str, tool: str) -> frozenset[str]:
    """The kinds of thing that an argument may name: `file_id` a file, `id` what its tool is about."""
    return spoken_by(argument) or nouns(tool)


@remembered
def spoken_by(argument: str) -> frozenset[str]:
    """The same where the argument says it by itself."""
    match = _IDS.fullmatch(argument)
    return nouns(next((group for group in match.groups() if group), "")) if match else nouns(argument)


def kinds(record: ResultObject, tool: str) -> frozenset[str]:
    """The kinds of thing that a record may be: what its id, its collection or its tool is called after."""
    if _about(record.field):
        return spoken_of(record.field, tool)
    return nouns(tool) | nouns(record.collection)


def objects(
    fingerprints: Fingerprints,
    server: str,
    tool: str,
    structured: Any,
    arguments: Mapping[str, Any],
    *,
    ids: Sequence[str] = (),
) -> tuple[str, ...]:
    """Digests of the things that a call addresses by its arguments or has in its result: a thing that was written with
    a stranger's words in it is known by them again, in any session. `ids` may name things of the tool's own kind."""
    found: dict[str, None] = {}

    def note(kind: str, written: str) -> None:
        if written and len(found) < _OBJECTS:
            found[fingerprints.named(server, kind, written)] = None

    for name, value in arguments.items():
        if not _stands_for_a_thing(name):
            continue
        for item in value if isinstance(value, list) else [value]:
            for kind in sorted(spoken_of(name, tool)):
                note(kind, written_id(item))
    for record in _records(structured, "", 8) if structured else ():
        for kind in sorted(kinds(record, tool)):
            note(kind, record.id)
    if ids:
        own = sorted(nouns(tool))
        for one in ids:
            for kind in own:
                note(kind, written_id(one))
    return tuple(found)


def _records(value: Any, key: str, depth: int) -> Iterator[ResultObject]:
    if depth <= 0:
        return
    if isinstance(value, Mapping):
        for field, own in ids_of(value):
            yield ResultObject(field, own, key, (), value)
        for name, item in value.items():
            if name.casefold() in _PLACES and (written := written_id(item)):
                yield ResultObject(name, written, key, (), value)
            if type(item) not in _LEAVES:
                yield from _records(item, name, depth - 1)
    elif isinstance(value, list):
        for item in value[:_OBJECTS]:
            if type(item) not in _LEAVES:
                yield from _records(item, key, depth - 1)

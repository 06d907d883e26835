"""Whether the text of a result is made to steer the model that reads it, or holds secrets nobody expects there.

The rules are those that inspect tool descriptions, as far as they hold for prose, and a few shapes that only results
have. Results are prose: they order, ask and threaten, for people write so to people. What they do not do is speak to a
model, in its user's or system's name, or imitate the frame of its conversation. Nearly every result is honest, so the
first pass is a dozen searches for fixed words; only the surroundings of what they find are read closely. A finding is
a suspicion: it warns, it does not decide.
"""

from __future__ import annotations

import base64
import binascii
import functools
import html
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from callgate.inspection.data_files import load, pattern
from callgate.inspection.engine import InspectionRule, all_rules
from callgate.inspection.model import NO_CONTEXT, ToolDefinition
from callgate.inspection.text import is_tag, is_variation, special_characters, unaccented
from callgate.inspection.tool_texts import ToolTexts

# A text up to this is looked at whole; of a longer one the head, the tail and windows spread evenly between them.
WHOLE: Final = 256 * 1024
_END: Final = 64 * 1024
_WINDOWS: Final = 16
_WINDOW: Final = 8 * 1024
# Around a word that was found.
_BEFORE: Final = 60
_AFTER: Final = 80
# What the rules read around a place that is worth it, and how many such places of one text.
_CLOSE_BEFORE: Final = 260
_CLOSE_AFTER: Final = 340
_PLACES: Final = 32
# Of one word; more of them are looked at evenly spread.
_HITS: Final = 1_024


class TriggerEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A trigger as the data file has it: patterns by their names, words parted by blanks."""

    word: str
    as_written: list[str] = []
    nearby: str = ""
    conclusive: str = ""
    closer: str = ""
    onward: str = ""
    weak: bool = False


class ScannerFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`scanner.toml`."""

    foreign: list[tuple[str, str, str]]
    kinds: dict[str, str]
    rules: dict[str, str]
    tokens: dict[str, str]
    triggers: list[TriggerEntry]


class Trigger(NamedTuple):
    """A word to look for, and the patterns around it that are conclusive or make the place worth reading closely."""

    word: str
    nearby: tuple[str, ...]
    conclusive: re.Pattern[str] | None
    closer: re.Pattern[str] | None
    onward: re.Pattern[str] | None
    weak: bool


_pattern: Final = functools.cache(functools.partial(pattern, "results"))
_FILE: Final = load("scanner", ScannerFile)
KINDS: Final[Mapping[str, str]] = _FILE.kinds
# Secrets are no sign of malice: who passes results on masks them.
_SECRET_KINDS: Final = frozenset({"key", "token", "password"})
_STEERS: Final = frozenset({"instructions", "addressed", "frame", "authority", "secrecy", "exfiltration", "many"})


def _trigger(entry: TriggerEntry, word: str) -> Trigger:
    return Trigger(
        word,
        nearby=tuple(entry.nearby.split()) or ("",),
        conclusive=_pattern(entry.conclusive) if entry.conclusive else None,
        closer=_pattern(entry.closer) if entry.closer else None,
        onward=_pattern(entry.onward) if entry.onward else None,
        weak=entry.weak,
    )


_TRIGGERS: Final = tuple(_trigger(entry, entry.word) for entry in _FILE.triggers)
_WRITTEN: Final = {word: _trigger(entry, word) for entry in _FILE.triggers for word in entry.as_written}
_FOREIGN: Final = tuple((word, re.compile(found), kind) for word, found, kind in _FILE.foreign)
# Patterns that are conclusive wherever they stand.
_CONCLUSIVE: Final = tuple(map(_pattern, ("spoken_to", "as_the_user", "task", "system")))
# One fixed character at the front makes a search that passes over the rest of a text at full speed.
_AI: Final = re.compile(r"A(?=I\b)")
_LLM: Final = re.compile(r"L(?=LM)")
_KEY_FILE: Final = _pattern("key_file")
_COMMAND: Final = _pattern("command")
_FRAME: Final = _pattern("frame")
_BRACKET: Final = _pattern("bracket")
_PRIVATE_KEY: Final = _pattern("private_key")
_TOKEN: Final = _pattern("token")
_JWT: Final = re.compile(r"eyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{16,2000}+")
_PASSWORD: Final = _pattern("password")
_NAMED: Final = _pattern("named")
_STAND_IN: Final = _pattern("stand_in")
_ASCII: Final = bytes(range(128))
_RUN: Final = b"a" * 18
_SHAPE: Final = bytes(97 if chr(code).isalnum() and code < 128 else 32 for code in range(256))
_JOINED: Final = bytes(97 if _SHAPE[code] == 97 or code in b"+/_-" else 32 for code in range(256))
_FAR: Final = 4_096
_KEY_BEGINS: Final = "-----BEGIN "
_LONGEST_KEY: Final = 16_384
_GIVEN: Final = frozenset(":=")
# Behind each other, with at most a few letters between: an escape here and there is a letter of somebody's language.
_ESCAPE: Final = re.compile(r"\\(?=[ux][0-9a-fA-F]{2})")
_ESCAPED: Final = re.compile(r"\\{1,4}(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_ESCAPES: Final = re.compile(r"(?:\\{1,4}(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})[^\\]{0,12}){8,340}")
_SOME: Final = 8
_CONCEALED: Final = re.compile(r"\x1b\[(?:\d{1,2};){0,3}8m")
_SPLIT: Final = re.compile(r"[a-zA-Z][\u200b-\u200f\u2060-\u2064\ufeff]{1,8}(?=[a-zA-Z])")
_ROW: Final = re.compile(r"[\u200b-\u200f\u2060-\u2064\ufeff]{6}")
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3}")
_FEW: Final = 3
# Places that are worth a close look: those that honest texts hardly have, and the others.
_Places: TypeAlias = tuple[list[int], list[int]]


def _plain_letters() -> Mapping[str, str]:
    """Letters with marks, wide, mathematical and enclosed ones, as the plain letters they are read as."""
    ranges = ((0xC0, 0x250), (0x1E00, 0x1F00), (0xFF01, 0xFF5F), (0x1D400, 0x1D800), (0x24B6, 0x24EA))
    found = {chr(code): unaccented(chr(code)) for first, last in ranges for code in range(first, last)}
    plain = {char: read for char, read in found.items() if read.isascii() and read != char}
    return plain | dict(zip("’‘“”\u00a0\u202f\u2009", "''\"\"   ", strict=True))


def _look_alikes() -> Mapping[str, str]:
    """Letters of other scripts that look like Latin ones, small and capital: they only hold in text that is Latin."""
    small = special_characters().look_alikes
    return {**small, **{char.upper(): plain for char, plain in small.items() if len(char.upper()) == 1}}


class ResultScanner:
    """Looks through the texts of results. Holds nothing of them, so one is enough for all sessions."""

    def __init__(self) -> None:
        self._rules: tuple[tuple[InspectionRule, str], ...] = tuple(
            (rule, _FILE.rules[rule.id]) for rule in all_rules() if rule.id in _FILE.rules
        )
        self._plain_letters = _plain_letters()
        self._look_alikes = _look_alikes()

    def scan(self, texts: Sequence[str]) -> tuple[str, ...]:
        """One sentence for each kind of thing that was found; empty for an honest text."""
        # Read together: what is split over two items reads as one to a model.
        found = self._found(texts)
        return tuple(sentence for kind, sentence in KINDS.items() if kind in found) if found else ()

    def steering(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The same without keys, tokens and passwords."""
        found = self._found(texts) - _SECRET_KINDS
        return tuple(sentence for kind, sentence in KINDS.items() if kind in found) if found else ()

    def secret(self, text: str) -> bool:
        """Whether a text holds something of the shape of a key, token or password."""
        return next(_all_secrets(_spread(text) if len(text) > WHOLE else text), None) is not None

    def secrets(self, texts: Iterable[str]) -> dict[str, str]:
        """Each key, token and password in some texts, with the words for what it is."""
        return {value: what for text in texts for value, what in _all_secrets(text)}

    def _found(self, texts: Sequence[str]) -> set[str]:
        text = texts[0] if len(texts) == 1 else "\n".join(texts)
        return self._kinds(_spread(text) if len(text) > WHOLE else text)

    def _kinds(self, text: str) -> set[str]:
        found: set[str] = set()
        if "\\" in text:
            self._escaped(text, found)
            # Most results are JSON in a text: its line breaks part words and keys as ours do.
            text = text.replace("\\n", "\n").replace('\\"', '"')
        read = text if text.isascii() else self._unseen(text, found)
        self._steering(read, read.lower(), found)
        # One byte for each character, so that places in the one are places in the other.
        shape = text.encode("ascii", "replace").translate(_SHAPE)
        if shape.find(_RUN) >= 0:
            runs = list(_runs(text, shape))
            _secrets(text, runs, found)
            self._encoded("\n".join(_readable(run for _, run in runs)), found)
        if "%" in text or "&" in text:
            self._quoted(text, found)
        if "\x1b" in text and _CONCEALED.search(text):
            found.add("hidden")
        return found

    def _steering(self, read: str, plain: str, found: set[str]) -> None:
        """Words that are spoken to a model, and the frame of its conversation; `plain` is `read` in lower case."""
        places: _Places = ([], [])
        for trigger in _TRIGGERS:
            if trigger.word in plain:
                _around(plain, trigger, plain, found, places)
        if "A" in read and _AI.search(read):
            _around(read, _WRITTEN["AI"], plain, found, places)
        if "L" in read and _LLM.search(read):
            _around(read, _WRITTEN["LLM"], plain, found, places)
        if "~" in plain:
            places[0].extend(one.start() for one in _KEY_FILE.finditer(plain))
        if "<" in plain and _FRAME.search(plain):
            found.add("frame")
        if "[" in plain and _BRACKET.search(plain):
            found.add("frame")
        if "password" in plain:
            _passwords(read, plain, found)
        if places[0] or places[1]:
            self._closely(plain, places, found)

    def _closely(self, plain: str, places: _Places, found: set[str]) -> None:
        """The rules over what stands around these places."""
        strong, weak = _apart(places[0]), _apart(places[1])
        if len(strong) > _PLACES:
            # What is beyond may be the one that matters, and nobody honest writes so much of it.
            found.add("many")
        room = max(_PLACES - len(strong), _PLACES // 4)
        for place in [*strong[:_PLACES], *weak[:: len(weak) // room + 1]]:
            near = plain[max(0, place - _CLOSE_BEFORE) : place + _CLOSE_AFTER]
            if "addressed" not in found and any(shape.search(near) for shape in _CONCLUSIVE):
                found.add("addressed")
            # Rules leave a text's first word alone: in a description it says what the tool does.
            prose = ToolTexts(ToolDefinition(rest={"result": f"Result. {near}"}), NO_CONTEXT)
            for rule, kind in self._rules:
                if kind not in found and next(rule.check(prose), None) is not None:
                    found.add(kind)

    def _unseen(self, text: str, found: set[str]) -> str:
        """The text as it reads; what it hides is found on the way."""
        others = text.encode("utf-8", "replace").translate(None, _ASCII).decode("utf-8", "replace")
        there = set(others)
        if not there.isdisjoint("\u202d\u202e") or _tags(text, there) or _varied(text, there):
            found.add("hidden")
        invisible = special_characters().invisible
        if not there.isdisjoint(invisible):
            if _ROW.search(text) or len(_SPLIT.findall(text)) >= _FEW:
                found.add("hidden")
            for char in there & invisible:
                text = text.replace(char, "")
        for char in there & self._plain_letters.keys():
            text = text.replace(char, self._plain_letters[char])
        if not text.isascii():
            _foreign(text.lower(), found)
        if len(others) * 2 < len(text):
            for char in there & self._look_alikes.keys():
                text = text.replace(char, self._look_alikes[char])
        return text

    def _encoded(self, decoded: str, found: set[str]) -> None:
        """A text that showed only when something was undone: an order in it is one that nobody was to see."""
        if not decoded:
            return
        inside: set[str] = set()
        read = decoded if decoded.isascii() else self._unseen(decoded, inside)
        plain = read.lower()
        self._steering(read, plain, inside)
        if (inside & _STEERS) - found or _COMMAND.search(plain):
            found.add("encoded")

    def _escaped(self, text: str, found: set[str]) -> None:
        if _ESCAPE.search(text):
            self._encoded("\n".join(_unescaped(one[0]) for one in _ESCAPES.finditer(text)), found)

    def _quoted(self, text: str, found: set[str]) -> None:
        """Percent signs and entities; a whole page has some, so what stands between them is read along."""
        undone = text
        if text.count("%") > _SOME:
            undone = urllib.parse.unquote(undone, errors="replace")
        if "&#" in text:
            undone = html.unescape(undone)
        if undone != text:
            self._encoded(undone, found)


def _around(searched: str, trigger: Trigger, plain: str, found: set[str], places: _Places) -> None:
    """What stands around each place of a word: conclusive by itself, or worth reading closely."""
    for at in _hits(searched, trigger.word):
        if trigger.onward is not None:
            if trigger.onward.match(plain, at):
                places[trigger.weak].append(at)
            continue
        near = plain[max(0, at - _BEFORE) : at + _AFTER]
        if not any(word in near for word in trigger.nearby):
            continue
        if trigger.conclusive is not None and "addressed" not in found and trigger.conclusive.search(near):
            found.add("addressed")
        if trigger.closer is not None and trigger.closer.search(near):
            places[trigger.weak].append(at)


def _foreign(plain: str, found: set[str]) -> None:
    for needle, shape, kind in _FOREIGN:
        if needle in plain and any(shape.match(plain, at) for at in _hits(plain, needle)):
            found.add(kind)


def _apart(places: list[int]) -> list[int]:
    """Of places in a text, those that are not read along with the one before."""
    kept: list[int] = []
    for place in sorted(places):
        if not kept or place >= kept[-1] + _CLOSE_AFTER - _AFTER:
            kept.append(place)
    return kept


def _hits(text: str, needle: str) -> Iterator[int]:
    step = text.count(needle) // _HITS + 1
    at = text.find(needle)
    number = 0
    while at >= 0:
        if number % step == 0:
            yield at
        number += 1
        at = text.find(needle, at + len(needle))


def _spread(text: str) -> str:
    middle = len(text) - 2 * _END - _WINDOW
    windows = [text[at : at + _WINDOW] for at in (_END + middle * n // (_WINDOWS - 1) for n in range(_WINDOWS))]
    return "\n".join([text[:_END], *windows, text[-_END:]])


def _tags(text: str, there: set[str]) -> bool:
    """Tag characters that are not part of a flag: those follow a black flag and are five at most."""
    if not any(is_tag(char) for char in there):
        return False
    without = re.sub("\U0001f3f4[\U000e0061-\U000e007a]{4,5}\U000e007f", "", text)
    return any(is_tag(char) for char in set(without))


def _varied(text: str, there: set[str]) -> bool:
    """Variation selectors in a row: there is nothing to vary."""
    return sum(map(is_variation, there)) > 1 and _SELECTORS.search(text) is not None


def _runs(text: str, shape: bytes) -> Iterator[tuple[int, str]]:
    """Long runs of what keys, tokens and encoded bytes are made of, each with its place."""
    joined = text.encode("ascii", "replace").translate(_JOINED)
    at = shape.find(_RUN)
    while at >= 0:
        # From its beginning to its end: base64 decodes to something else from the middle.
        start, end = joined.rfind(b" ", 0, at) + 1, joined.find(b" ", at)
        yield start, text[start : end if end >= 0 else None]
        at = shape.find(_RUN, end) if end >= 0 else end


def _readable(runs: Iterable[str]) -> Iterator[str]:
    """What runs of letters and digits decode to, where that is text."""
    for run in runs:
        body = run.rstrip("=").replace("-", "+").replace("_", "/")
        for decode in (_from_hex, _from_base64):
            try:
                decoded = decode(body).decode()
            except ValueError:
                continue
            if decoded.replace("\n", " ").replace("\t", " ").isprintable():
                yield decoded


def _from_hex(body: str) -> bytes:
    return binascii.unhexlify(body)


def _from_base64(body: str) -> bytes:
    return base64.b64decode(body[: len(body) - (len(body) % 4 == 1)] + "=" * (-len(body) % 4))


def _secrets(text: str, runs: list[tuple[int, str]], found: set[str]) -> None:
    if next(_private_keys(text), None) is not None:
        found.add("key")
    if next(_tokens(text, runs), None) is not None:
        found.add("token")


def _all_secrets(text: str) -> Iterator[tuple[str, str]]:
    """Each secret in a text as it is written there, and the words for what it is."""
    if _KEY_BEGINS in text:
        for key in _private_keys(text):
            yield key, "a private key"
    if "\\" in text:
        # JSON in a text. What follows is made of signs that are never escaped.
        text = text.replace("\\n", "\n").replace('\\"', '"')
    # `find`, because `in` asks first whether the bytes are a number.
    shape = b"" if len(text) < len(_RUN) else text.encode("ascii", "replace").translate(_SHAPE)
    if shape.find(_RUN) >= 0:
        yield from _tokens(text, _runs(text, shape))
    elif "sk_" in text or "rk_" in text:
        # Some of these have no long run in them.
        for token in _TOKEN.finditer(text):
            if _is_real(token["sure"]):
                yield token[0], _token_name(token[0])
    if ":" in text or "=" in text:
        yield from _assigned(text)


def _assigned(text: str) -> Iterator[tuple[str, str]]:
    """What is known to be a secret by the name before it."""
    plain = text.lower()
    if len(plain) != len(text):
        # Some letters become two.
        plain = "".join([char.lower() if char.isascii() else char for char in text])
    for needle, shape, is_one, what in _ASSIGNED:
        at = plain.find(needle)
        while at >= 0:
            found = shape.match(text, at)
            if found is not None and is_one(found["value"]):
                yield found["value"], what
            at = plain.find(needle, at + len(needle))


def _private_keys(text: str) -> Iterator[str]:
    """Private keys, to where they end."""
    at = text.find(_KEY_BEGINS)
    while at >= 0:
        following = text.find(_KEY_BEGINS, at + 1)
        found = _PRIVATE_KEY.match(text, at)
        if found is not None:
            within = following if following >= 0 else len(text)
            last = text.find("-----END ", found.end(), min(within, found.end() + _LONGEST_KEY))
            end = found.end() if last < 0 else max(text.find("-----", last + 9), last) + 5
            yield text[at:end]
        at = following


def _tokens(text: str, runs: Iterable[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    for at, run in runs:
        if run.startswith("eyJ"):
            token = _JWT.match(text, at)
            if token is not None and _is_real(token[0]):
                yield token[0], "a JSON Web Token"
            continue
        named = True
        for token in _TOKEN.finditer(run, 0, _FAR):
            named = False
            if _is_real(token["sure"]):
                yield token[0], _token_name(token[0])
        if named and _named(text, at, run):
            yield run, "a key or token"


def _named(text: str, at: int, run: str) -> bool:
    """Whether a run is called a key or token right before it."""
    given = not _GIVEN.isdisjoint(text[max(0, at - 3) : at])
    return given and _NAMED.search(text, max(0, at - _BEFORE), at) is not None and _is_password(run)


def _passwords(read: str, plain: str, found: set[str]) -> None:
    for at in _hits(plain, "password"):
        assigned = _PASSWORD.match(read, at)
        if assigned is not None and _is_password(assigned["value"]):
            found.add("password")
            return


def _unescaped(escapes: str) -> str:
    return _ESCAPED.sub(lambda one: chr(int(one[1] or one[2], 16)), escapes)


def _token_name(token: str) -> str:
    """The words for a token, by how it begins."""
    return next((name for start, name in reversed(_FILE.tokens.items()) if token.startswith(start)), "a token")


def _is_real(found: str) -> bool:
    """Not what stands for a secret in a manual: many different characters, digits among them, no such word."""
    return (
        len(set(found)) > 7
        and any(char.isdigit() for char in found)
        and any(char.isalpha() for char in found)
        and _STAND_IN.search(found) is None
    )


def _is_password(value: str) -> bool:
    """Something that only a password looks like: letters, digits and marks mixed, and no name, path or address."""
    if not _is_real(value) or set("/.\\:@=") & set(value):
        return False
    if not value.isalnum() and not value.isidentifier():
        return True
    return value.lower() != value and value.upper() != value and any(char.isdigit() for char in value[1:-1])


# How a name is found that a secret follows, what follows it, whether that is one, and the words for it.
_ASSIGNED: Final[tuple[tuple[str, re.Pattern[str], Callable[[str], bool], str], ...]] = (
    ("passw", _PASSWORD, _is_password, "a password"),
    ("passphrase", _PASSWORD, _is_password, "a password"),
    ("secret", _pattern("aws_secret"), _is_real, "an AWS secret key"),
)

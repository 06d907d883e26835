"""Whether the text of a result is made to steer the model that reads it, or holds secrets nobody expects there.

The rules are those that inspect tool descriptions, as far as they hold for prose, and a few shapes that only results
have (`signs`). Nearly every result is honest, so the first pass is a dozen searches for fixed words; only the
surroundings of what they find are read closely. A finding is a suspicion: it warns, it does not decide.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from callgate.pinning.inspection import signs
from callgate.pinning.inspection.confusables import is_tag, is_variation
from callgate.pinning.inspection.reading import Reading
from callgate.pinning.inspection.rule import Rule, all_rules
from callgate.pinning.inspection.signs import Sign
from callgate.pinning.inspection.subject import NOBODY_ELSE, Inspected

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

KINDS: Final = {
    "instructions": "It tells the model to set aside its instructions or to follow others.",
    "addressed": "It speaks to the model, in the name of its user or of the system.",
    "frame": "It imitates the marks of a system message or of a turn of the conversation.",
    "authority": "It claims an authority over the model.",
    "secrecy": "It wants something kept from the person.",
    "exfiltration": "It asks for secrets or for the conversation to be sent somewhere.",
    "hidden": "It holds text that a person cannot see and a model reads.",
    "encoded": "It holds an instruction in a spelling that has to be decoded first.",
    "many": "It has more places that read like orders to a model than can be looked at.",
    "key": "It holds a private key.",
    "token": "It holds what looks like an access token.",
    "password": "It holds what looks like a password.",
}
# Secrets are no sign of malice: who passes results on masks them.
_SECRET_KINDS: Final = frozenset({"key", "token", "password"})
# Of the rules for descriptions, those that honest prose seldom breaks.
_OF_RULE: Final = {
    "instructions.override": "instructions",
    "instructions.new-orders": "instructions",
    "authority.claimed": "authority",
    "authority.model-addressed": "authority",
    "secrecy.from-user": "secrecy",
    "secrecy.unnoticed": "secrecy",
    "secrecy.cover-story": "secrecy",
    "exfiltration.conversation": "exfiltration",
    "exfiltration.secrets": "exfiltration",
    "secrets.key-file": "exfiltration",
}
_STEERS: Final = frozenset({"instructions", "addressed", "frame", "authority", "secrecy", "exfiltration", "many"})
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
_FEW: Final = 3
# Places that are worth a close look: those that honest texts hardly have, and the others.
_Places: TypeAlias = tuple[list[int], list[int]]


class Scanner:
    """Looks through the texts of results. Holds nothing of them, so one is enough for all sessions."""

    def __init__(self) -> None:
        self._rules: tuple[tuple[Rule, str], ...] = tuple(
            (rule, _OF_RULE[rule.id]) for rule in all_rules() if rule.id in _OF_RULE
        )

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
        for sign in signs.SIGNS:
            if sign.needle in plain:
                _around(plain, sign, plain, found, places)
        if "A" in read and signs.AI_WRITTEN.search(read):
            _around(read, signs.AI, plain, found, places)
        if "L" in read and signs.LLM_WRITTEN.search(read):
            _around(read, signs.LLM, plain, found, places)
        if "~" in plain:
            places[0].extend(one.start() for one in signs.KEY_FILE.finditer(plain))
        if "<" in plain and signs.FRAME.search(plain):
            found.add("frame")
        if "[" in plain and signs.BRACKET.search(plain):
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
            if "addressed" not in found and any(shape.search(near) for shape in signs.TELLING):
                found.add("addressed")
            # Rules leave a text's first word alone: in a description it says what the tool does.
            reading = Reading(Inspected(rest={"result": f"Result. {near}"}), NOBODY_ELSE)
            for rule, kind in self._rules:
                if kind not in found and next(rule.check(reading), None) is not None:
                    found.add(kind)

    def _unseen(self, text: str, found: set[str]) -> str:
        """The text as it reads; what it hides is found on the way."""
        others = text.encode("utf-8", "replace").translate(None, _ASCII).decode("utf-8", "replace")
        there = set(others)
        if not there.isdisjoint("\u202d\u202e") or _tags(text, there) or _varied(text, there):
            found.add("hidden")
        if not there.isdisjoint(signs.UNSEEN):
            if _ROW.search(text) or len(_SPLIT.findall(text)) >= _FEW:
                found.add("hidden")
            for char in there & signs.UNSEEN:
                text = text.replace(char, "")
        for char in there & signs.FOLDED.keys():
            text = text.replace(char, signs.FOLDED[char])
        if not text.isascii():
            _foreign(text.lower(), found)
        if len(others) * 2 < len(text):
            for char in there & signs.ALIKE.keys():
                text = text.replace(char, signs.ALIKE[char])
        return text

    def _encoded(self, decoded: str, found: set[str]) -> None:
        """A text that showed only when something was undone: an order in it is one that nobody was to see."""
        if not decoded:
            return
        inside: set[str] = set()
        read = decoded if decoded.isascii() else self._unseen(decoded, inside)
        plain = read.lower()
        self._steering(read, plain, inside)
        if (inside & _STEERS) - found or signs.COMMAND.search(plain):
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


def _around(searched: str, sign: Sign, plain: str, found: set[str], places: _Places) -> None:
    """What stands around each place of a word: telling by itself, or worth reading closely."""
    for at in _hits(searched, sign.needle):
        if sign.onward is not None:
            if sign.onward.match(plain, at):
                places[sign.weak].append(at)
            continue
        near = plain[max(0, at - _BEFORE) : at + _AFTER]
        if not any(word in near for word in sign.beside):
            continue
        if sign.telling is not None and "addressed" not in found and sign.telling.search(near):
            found.add("addressed")
        if sign.worth is not None and sign.worth.search(near):
            places[sign.weak].append(at)


def _foreign(plain: str, found: set[str]) -> None:
    for needle, pattern, kind in signs.FOREIGN:
        if needle in plain and any(pattern.match(plain, at) for at in _hits(plain, needle)):
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


_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3}")


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
    elif "sk_" in text:
        # Some of these have no long run in them.
        for token in signs.TOKEN.finditer(text):
            if signs.is_real(token["sure"]):
                yield token[0], signs.what(token[0])
    if ":" in text or "=" in text:
        yield from _assigned(text)


def _assigned(text: str) -> Iterator[tuple[str, str]]:
    """What is known to be a secret by the name before it."""
    plain = text.lower()
    if len(plain) != len(text):
        # Some letters become two.
        plain = "".join([char.lower() if char.isascii() else char for char in text])
    for needle, pattern, is_one, what in signs.ASSIGNED:
        at = plain.find(needle)
        while at >= 0:
            found = pattern.match(text, at)
            if found is not None and is_one(found["value"]):
                yield found["value"], what
            at = plain.find(needle, at + len(needle))


def _private_keys(text: str) -> Iterator[str]:
    """Private keys, to where they end."""
    at = text.find(_KEY_BEGINS)
    while at >= 0:
        following = text.find(_KEY_BEGINS, at + 1)
        found = signs.PRIVATE_KEY.match(text, at)
        if found is not None:
            within = following if following >= 0 else len(text)
            last = text.find("-----END ", found.end(), min(within, found.end() + _LONGEST_KEY))
            end = found.end() if last < 0 else max(text.find("-----", last + 9), last) + 5
            yield text[at:end]
        at = following


def _tokens(text: str, runs: Iterable[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    for at, run in runs:
        if run.startswith("eyJ"):
            token = signs.JWT.match(text, at)
            if token is not None and signs.is_real(token[0]):
                yield token[0], "a JSON Web Token"
            continue
        named = True
        for token in signs.TOKEN.finditer(run, 0, _FAR):
            named = False
            if signs.is_real(token["sure"]):
                yield token[0], signs.what(token[0])
        if named and _named(text, at, run):
            yield run, "a key or token"


def _named(text: str, at: int, run: str) -> bool:
    """Whether a run is called a key or token right before it."""
    given = not _GIVEN.isdisjoint(text[max(0, at - 3) : at])
    return given and signs.NAMED.search(text, max(0, at - _BEFORE), at) is not None and signs.is_password(run)


def _passwords(read: str, plain: str, found: set[str]) -> None:
    for at in _hits(plain, "password"):
        assigned = signs.PASSWORD.match(read, at)
        if assigned is not None and signs.is_password(assigned["value"]):
            found.add("password")
            return


def _unescaped(escapes: str) -> str:
    return _ESCAPED.sub(lambda one: chr(int(one[1] or one[2], 16)), escapes)

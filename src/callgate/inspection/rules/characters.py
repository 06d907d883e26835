"""Texts that a person reads otherwise than a model: unseen characters, encoded instructions, markup."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from callgate.inspection.data_files import pattern
from callgate.inspection.engine import Hit, all_rules, family, rule
from callgate.inspection.model import NO_CONTEXT, ToolDefinition
from callgate.inspection.rules.instructions import SHELL
from callgate.inspection.text import is_tag, is_variation, quoted, script, special_characters
from callgate.inspection.tool_texts import Text, ToolTexts, names

# Characters that a person does not see, or sees as others, and a model reads.

_SPECIAL: Final = special_characters()
_BLACK_FLAG: Final = "\U0001f3f4"
_FLAGS: Final = tuple(
    "".join(chr(0xE0000 + ord(char)) for char in place) + "\U000e007f" for place in ("gbeng", "gbsct", "gbwls")
)
_ISOLATED: Final = pattern("hidden", "isolated")
_JOINERS: Final = "\u200c\u200d"
_WORD: Final = re.compile(r"[^\W\d_]{2,64}")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
_ESCAPE: Final = re.compile(r"[\x1b\x9b](?:\[[0-9;?]{0,20}[a-zA-Z]|\][0-9]{1,4};|[@-_])?")
# Written out, an escape sequence does nothing until something decodes it; one that conceals is written for that.
_SPELT: Final = re.compile(r"\\(?:x1b|033|u001b|e)\[(?:[0-9]{1,3};){0,4}(?:8|30|37)m[^\\\n]{3,400}")


def _others(tool: ToolTexts) -> Iterator[Text]:
    """Texts that can hide something at all."""
    return (text for text in tool.texts if not text.raw.isascii())


@rule("unicode.tag-block")
def tag_block(tool: ToolTexts) -> Iterator[Hit]:
    for text in _others(tool):
        tags = [at for at, char in enumerate(text.raw) if is_tag(char) and not _in_a_flag(text.raw, at)]
        if tags:
            spelt = quoted("".join(chr(ord(text.raw[at]) - 0xE0000) for at in tags[:80]))
            yield Hit(text.where, f"{len(tags)} invisible tag characters spell {spelt}.", (tags[0], tags[-1] + 1))


def _in_a_flag(raw: str, at: int) -> bool:
    """Part of one of the three subdivision flags that Unicode recommends; rows of made-up ones spell sentences."""
    start = raw.rfind(_BLACK_FLAG, max(0, at - 6), at)
    return start >= 0 and raw.startswith(_FLAGS, start + 1)


@rule("unicode.bidi")
def bidi(tool: ToolTexts) -> Iterator[Hit]:
    for text in _others(tool):
        read = _ISOLATED.sub(lambda found: " " * len(found[0]), text.raw)
        places = [at for at, char in enumerate(read) if char in _SPECIAL.bidi]
        if places:
            name = unicodedata.name(text.raw[places[0]]).lower()
            yield Hit(text.where, f"It changes the direction of writing ({name}).", (places[0], places[-1] + 1))


@rule("unicode.invisible")
def invisible(tool: ToolTexts) -> Iterator[Hit]:
    for text in _others(tool):
        places = [at for at, char in enumerate(text.raw) if char in _SPECIAL.invisible and not _joins(text.raw, at)]
        if places:
            what = f"It holds characters that take no room: {len(places)}, the first U+{ord(text.raw[places[0]]):04X}."
            yield Hit(text.where, what, (places[0], places[-1] + 1))


def _joins(raw: str, at: int) -> bool:
    """A joiner between letters of a script that needs it, or between emoji."""
    if raw[at] not in _JOINERS or at == 0 or at + 1 >= len(raw):
        return False
    return all(_joinable(raw[side]) for side in (at - 1, at + 1))


def _joinable(char: str) -> bool:
    return ord(char) >= 0x590 and (unicodedata.category(char) in {"So", "Sk", "Lo", "Mn", "Mc", "Sm"})


@rule("unicode.variation-selectors")
def variation_selectors(tool: ToolTexts) -> Iterator[Hit]:
    for text in _others(tool):
        places = [at for at, char in enumerate(text.raw) if is_variation(char)]
        stray = [at for at in places if at == 0 or is_variation(text.raw[at - 1]) or text.raw[at - 1].isascii()]
        keycaps = [at for at in stray if text.raw[at - 1 : at] in set("0123456789#*") and text.raw[at] == "\ufe0f"]
        if len(stray) - len(keycaps) > 1:
            what = f"{len(places)} variation selectors stand where there is nothing to vary."
            yield Hit(text.where, what, (places[0], places[-1] + 1))


@rule("unicode.mixed-scripts")
def mixed_scripts(tool: ToolTexts) -> Iterator[Hit]:
    for text in _others(tool):
        for found in _WORD.finditer(text.raw):
            word = found[0]
            if word.isascii():
                continue
            alike = [
                char for char in word if script(char) not in {"", "latin"} and char.lower() in _SPECIAL.look_alikes
            ]
            if alike and any(char.isascii() for char in word) and len(word) - len(alike) > 0 and _imitates(word):
                span = found.start(), found.end()
                yield Hit(text.where, f"{text.quote(span)} mixes letters of several alphabets that look alike.", span)


def _imitates(word: str) -> bool:
    """Not a letter of physics before a word or a unit, as in Δt or μm."""
    first = script(word[0])
    rest = {script(char) for char in word[1:]}
    return not (first == "greek" and rest == {"latin"})


@rule("unicode.fancy-letters")
def fancy_letters(tool: ToolTexts) -> Iterator[Hit]:
    for text in _others(tool):
        places = [at for at, char in enumerate(text.raw) if _fancy(char)]
        if len(places) > 4:
            span = places[0], places[-1] + 1
            yield Hit(text.where, f"{len(places)} letters of it are of an alphabet for show: {text.quote(span)}.", span)


def _fancy(char: str) -> bool:
    return "\U0001d400" <= char <= "\U0001d7ff" or "\U0001f130" <= char <= "\U0001f189" or "\u24b6" <= char <= "\u24e9"


@rule("unicode.private-use")
def private_use(tool: ToolTexts) -> Iterator[Hit]:
    for text in _others(tool):
        places = [at for at, char in enumerate(text.raw) if unicodedata.category(char) in {"Co", "Cn", "Cs"}]
        if places:
            first = f"U+{ord(text.raw[places[0]]):04X}"
            what = f"It holds characters without a meaning of their own: {len(places)}, the first {first}."
            yield Hit(text.where, what, (places[0], places[-1] + 1))


@rule("unicode.terminal-escape")
def terminal_escape(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.texts:
        found = _ESCAPE.search(text.raw) or _SPELT.search(text.raw)
        if found:
            yield Hit(text.where, f"It has an escape sequence for terminals: {text.quote(found.span())}.", found.span())


@rule("unicode.control")
def control(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.texts:
        found = _CONTROLS.search(text.raw)
        if found:
            yield Hit(text.where, f"It has the control character U+{ord(found[0]):04X}.", found.span())


# Instructions in a spelling that a person does not read, and a model does.

_BASE64: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,4096}={0,2}")
_HEX: Final = re.compile(r"(?:(?:0x|\\x|\b)?[0-9a-fA-F]{2}[ ,:]?){12,2048}")
_PERCENT: Final = re.compile(r"(?:%[0-9a-fA-F]{2}|[\w.-]){8,2000}")
_ESCAPES: Final = re.compile(r"(?:\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}){4,1024}")
_SPACED: Final = re.compile(r"(?<!\w)(?:[^\W\d_][ .\-_*|/]{1,3}){7,400}[^\W\d_](?!\w)")
_ESCAPED: Final = re.compile(r"\\[ux]([0-9a-fA-F]{2,4})")
_GAP: Final = re.compile(r"[ .\-_*|/]")
_WIDE_GAP: Final = re.compile(r"[ .\-_*|/]{2,3}")
_LETTERS: Final = re.compile(r"[A-Za-z]{2,32}")
_HEX_DIGITS: Final = re.compile(r"[0-9a-fA-F]{2}")
_LEET: Final = str.maketrans("013457@$!", "oieastasi")
_LEET_WORD: Final = re.compile(r"\b(?=[a-z]{0,20}[013457@$])[a-z013457@$!]{4,24}\b")
_HINTS: Final = re.compile(r"rot-?13|caesar|reverse|backwards|decode|cipher|rückwärts")
_COMMAND: Final = pattern("encoded", "command")
_SHORTEST: Final = 7
# So many pieces are tried one by one, to show the one that matters.
_TRIED: Final = 16
_FEWEST_WORDS: Final = 2


def _decoded(text: Text) -> Iterator[tuple[tuple[int, int], str]]:
    """Every part of a text that another spelling may be hidden in, with what it spells."""
    raw = text.raw
    for found in _BASE64.finditer(raw):
        yield found.span(), _from_base64(found[0])
    for found in _HEX.finditer(raw):
        digits = "".join(_HEX_DIGITS.findall(found[0].replace("0x", "").replace("\\x", "")))
        yield found.span(), _readable(binascii.unhexlify(digits))
    if "%" in raw:
        for found in _PERCENT.finditer(raw):
            if found[0].count("%") > 4:
                yield found.span(), urllib.parse.unquote(found[0], errors="replace")
    if "&#" in raw or "&Tab" in raw:
        yield (0, len(raw)), html.unescape(raw)
    for found in _ESCAPES.finditer(raw):
        yield found.span(), _ESCAPED.sub(lambda one: chr(int(one[1], 16)), found[0])
    for found in _SPACED.finditer(raw):
        yield found.span(), _closed_up(found[0])
    folded = text.folded.text
    if len(_LEET_WORD.findall(folded)) > 1:
        yield (0, len(raw)), folded.translate(_LEET)
    if _HINTS.search(folded) or "\u202e" in raw:
        yield (0, len(raw)), codecs.encode(folded, "rot13")
        yield (0, len(raw)), folded[::-1]


def _from_base64(found: str) -> str:
    body = found.rstrip("=").replace("-", "+").replace("_", "/")
    body = body[: len(body) - (len(body) % 4 == 1)]
    try:
        return _readable(base64.b64decode(body + "=" * (-len(body) % 4)))
    except (binascii.Error, ValueError):
        return ""


def _readable(data: bytes) -> str:
    """The text, if it is one: bytes that happen to decode are not."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    printable = sum(char.isprintable() or char in "\n\t" for char in text)
    return text if text and printable >= 0.95 * len(text) else ""


def _closed_up(found: str) -> str:
    """Letters with something between each: a wider gap parts words, else there are no words to tell apart."""
    return _GAP.sub("", _WIDE_GAP.sub("\n", found)).replace("\n", " ")


def _instructs(decoded: str, *, piece: bool = False) -> str:
    """The rule that a decoded text breaks; a piece that was encoded for itself needs less than a text as a whole."""
    tool = ToolTexts(ToolDefinition(description=f". {decoded}"), NO_CONTEXT)
    if SHELL.search(decoded.lower()) or _COMMAND.search(decoded.lower()) or tool.prose[0].words.at("KEY_FILE"):
        return "a command line or a key file"
    # Nobody encodes what is to be done with a secret for the sake of an example.
    if piece and tool.prose[0].words.together(12, ("SECRET", "SETTINGS_FILE"), ("READ", "SEND", "PASS", "USE")):
        return "an order about secrets"
    for one in all_rules():
        if family(one.id) in names("worded") - {"combined"} and next(one.check(tool), None) is not None:
            return one.id
    return ""


@rule("encoded.instructions")
def instructions(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.texts:
        parts = [(span, decoded) for span, decoded in _decoded(text) if len(decoded) > _SHORTEST]
        whole = [part for part in parts if part[0] == (0, len(text.raw))]
        pieces = [part for part in parts if part not in whole]
        # Pieces are read together: one reading however many there are.
        if pieces and _instructs("\n\n".join(decoded for _, decoded in pieces), piece=True):
            yield _spelt(text, next((one for one in pieces[:_TRIED] if _instructs(one[1], piece=True)), pieces[0]))
        elif any(_instructs(decoded) for _, decoded in whole) and not _as_it_is(text):
            yield _spelt(text, next(one for one in whole if _instructs(one[1])))


def _as_it_is(text: Text) -> str:
    """What it instructs without any decoding, in its own letters or in small ones."""
    return _instructs(text.raw) or _instructs(text.folded.text)


def _spelt(text: Text, part: tuple[tuple[int, int], str]) -> Hit:
    span, decoded = part
    return Hit(text.where, f"{text.quote(span)} decodes to {quoted(decoded.strip())}.", span)


@rule("mention.encoded-text")
def words(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.texts:
        for found in _BASE64.finditer(text.raw):
            decoded = _from_base64(found[0])
            if len(_LETTERS.findall(decoded)) > _FEWEST_WORDS and " " in decoded:
                yield Hit(text.where, f"{text.quote(found.span())} decodes to {quoted(decoded)}.", found.span())


# Markup that imitates the frame around a model's conversation, or hides text from whoever sees it rendered.

_TURNS: Final = pattern("markup", "turns")
_BLOCK: Final = pattern("markup", "block")
_BRACKET: Final = pattern("markup", "bracket")
_ROLE_LINE: Final = pattern("markup", "role_line")
_COMMENT: Final = pattern("markup", "comment")
_UNSEEN: Final = pattern("markup", "unseen")
_EDGE: Final = pattern("markup", "edge")
_FRAMES: Final = pattern("markup", "frames")
_USER_MESSAGE: Final = pattern("markup", "user_message")
_OPENING: Final = 120
# The first mark after the word, and those of the same sample.
_EXAMPLE: Final = re.compile(r"\be\.g|\bexamples?\b|\bsuch as\b|\blike\b")
_NEAR: Final = 160
_A_TURN: Final = "It has a mark that parts turns of a conversation: {}."
_TWO_WORDS: Final = re.compile(r"[^<\w]{0,40}[^\W_]{1,40}[^<\w]{1,10}\w")
Speaks: TypeAlias = Callable[[re.Match[str]], bool]
_BLANK: Final = re.compile(r"\n(?:[^\S\n]{0,40}\n){14}|[^\S\n]{80}(?=[^\s])")


def _with_words(found: re.Match[str]) -> bool:
    """Words follow the tag: an element of some XML that a tool speaks of has none."""
    return bool(_TWO_WORDS.match(found.string, found.end()))


def _first(
    tool: ToolTexts, pattern: re.Pattern[str], what: str, *, need: str = "<[{#:(-\n", speaks: Speaks | None = None
) -> Iterator[Hit]:
    for text in tool.prose:
        if not any(char in text.raw for char in need):
            continue
        found = next((one for one in pattern.finditer(text.folded.text) if speaks is None or speaks(one)), None)
        if found:
            span = text.folded.span(found.start(), found.end())
            yield Hit(text.where, what.replace("{}", text.quote(span)), span)


@rule("markup.chat-frame")
def chat_frame(tool: ToolTexts) -> Iterator[Hit]:
    yield from _first(tool, _TURNS, _A_TURN, speaks=None if not _about_frames(tool) else _not_an_example)


@rule("markup.chat-frame-shown")
def chat_frame_shown(tool: ToolTexts) -> Iterator[Hit]:
    if _about_frames(tool):
        yield from _first(tool, _TURNS, _A_TURN, speaks=lambda found: not _not_an_example(found))


def _not_an_example(found: re.Match[str]) -> bool:
    return not _EXAMPLE.search(found.string, max(0, found.start() - _NEAR), found.start())


def _about_frames(tool: ToolTexts) -> bool:
    """Whether the tool's opening says that such marks are its business."""
    return any(text.kind == "description" and _FRAMES.search(text.raw[:_OPENING]) for text in tool.texts)


@rule("markup.fake-block")
def fake_block(tool: ToolTexts) -> Iterator[Hit]:
    yield from _first(tool, _BLOCK, "It has a block that passes for the system's: {}.", need="<", speaks=_with_words)
    yield from _first(tool, _BRACKET, "It has a mark that passes for the system's: {}.", need="[{(")
    yield from _first(tool, _ROLE_LINE, "It has a line that begins like a turn of a conversation: {}.", need=":#`")


@rule("markup.user-message")
def user_message(tool: ToolTexts) -> Iterator[Hit]:
    yield from _first(tool, _USER_MESSAGE, "It passes for a message of the user: {}.", need="imMI")


@rule("markup.comment")
def comment(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        if "<!--" not in text.raw and "[//]" not in text.raw:
            continue
        for found in _COMMENT.finditer(text.folded.text):
            inside = next((part for part in found.groups() if part is not None), "")
            # Mail programs take conditions in comments.
            if len(inside.split()) > 3 and not inside.startswith(("[if ", "[endif")):
                span = text.folded.span(found.start(), found.end())
                yield Hit(text.where, f"It has a comment with words for the model: {text.quote(span)}.", span)


@rule("markup.unseen")
def unseen(tool: ToolTexts) -> Iterator[Hit]:
    yield from _first(tool, _UNSEEN, "It has a style that makes text invisible: {}.", need=":<=")
    yield from _first(tool, _BLANK, "It pushes text out of sight with blank space.", need=" \n")


@rule("markup.boundary")
def boundary(tool: ToolTexts) -> Iterator[Hit]:
    yield from _first(tool, _EDGE, "It pretends that the description ends here: {}.", need="fF/")

"""What a person reads before signing: everything that is hashed, nothing that could pretend to be something else."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from callgate.canonical import canonical
from callgate.errors import Reason, Refused

Describe: TypeAlias = Callable[[dict[str, Any]], str]

_PLAIN: Final = re.compile(r"[\x20-\x5b\x5d-\x7e]*\Z")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
# Control, format (bidi, zero width, tags), surrogate, private use, unassigned, line and paragraph separators; and marks
# that enclose what stands before them.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Me"})
# Drawn as nothing or as a blank although they count as letters, marks or symbols; and strokes through other letters.
_BLANK: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    "\U0001107f\U00013441\U00013442\U00016fe4\U0001d159\u0334\u0335\u0336\u0337\u0338"
)
# Marks that sit on any letter. Piled up they cover the lines around them; alone they change a quotation mark, and after
# an escape its last letter.
_PILE: Final = re.compile(
    r"(\\u[0-9a-f]{4}|\\u\{[0-9a-f]+\}|\\.|[^\W\d_]?)"
    "([\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+)"
)
_MARKS: Final = 3
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_TEXT_CHARS: Final = 20_000
_TITLE_CHARS: Final = 200
_TIMES: Final = 8
_REMEMBERED: Final = 20_000
# A description of more values than this has them listed below it, whatever it shows.
_FEW: Final = 64


class _Spelling(dict[int, str]):
    """What `str.translate` looks characters up in; it learns each that it meets."""

    def __init__(self, *, lines: bool) -> None:
        super().__init__({ord("\n"): "\n"} if lines else {})

    def __missing__(self, code: int) -> str:
        shown = _shown(chr(code))
        if len(self) < _REMEMBERED:
            self[code] = shown
        return shown


_IN_A_LINE: Final = _Spelling(lines=False)
_IN_LINES: Final = _Spelling(lines=True)


def escape(text: str, *, keep_lines: bool = False) -> str:
    """The text with what is invisible or misleading spelt out as `\\u202e`; a backslash is doubled, so it is exact."""
    if _PLAIN.match(text):
        return text
    return _PILE.sub(_unpiled, text.translate(_IN_LINES if keep_lines else _IN_A_LINE))


def escape_rest(text: str) -> str:
    """A text with lines and escapes of its own: what is still invisible is spelt out, backslashes stay single."""
    return "\\".join(escape(part, keep_lines=True) for part in text.split("\\"))


def _shown(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if code < 0x7F and code >= 0x20:
        return char
    kind = unicodedata.category(char)
    variation = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF
    return _spelt(char) if kind in _HIDDEN or char in _BLANK or variation or kind == "Zs" else char


def _spelt(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\u{{{code:x}}}"


def _unpiled(match: re.Match[str]) -> str:
    before, marks = match.groups()
    return match[0] if len(before) == 1 and len(marks) <= _MARKS else before + "".join(map(_spelt, marks))


def escaped(value: Any) -> Any:
    """The same value with every text and key in it escaped."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, dict):
        return {escape(key): escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [escaped(item) for item in value]
    return value


def display_text(
    tool: str, arguments: Mapping[str, Any], *, title: str | None = None, describe: Describe | None = None
) -> str:
    """SEP-2672 §4.4.3: the author's description, and all arguments unless the description shows each of them."""
    try:
        most = _TEXT_CHARS + _TIMES * len(canonical(arguments))
        if describe is None:
            return f"{_head(tool, title)}\n{argument_lines(arguments, most)}"
        text = _described(describe, dict(arguments), most)
        if _shows_all(text, arguments):
            return text
        return f"{text}\n\n{argument_lines(arguments, most)}"
    except RecursionError:
        raise Refused(Reason.TOO_DEEP, code=Reason.INVALID_PARAMS.code) from None


def _head(tool: str, title: str | None) -> str:
    name = escape(tool)
    return name if not title or title == tool else f"{escape(title[:_TITLE_CHARS])} ({name})"


def argument_lines(arguments: Mapping[str, Any], most: int) -> str:
    """Every argument, one a line, nested ones indented; refused where that fills more than `most` characters."""
    lines: list[str] = []
    for line in _lines(arguments, "  "):
        lines.append(line)
        most -= len(line) + 1
        if most < 0:
            raise Refused(
                Reason.ARGUMENTS_INVALID,
                "written out for a person to read, the arguments are too long",
                advice="Send fewer values at once, or nest them less deeply.",
            )
    return "\n".join(lines) or "  (no arguments)"


def _described(describe: Describe, arguments: dict[str, Any], most: int) -> str:
    try:
        # The author's function sees escaped text: a newline in an argument cannot begin a line of the description.
        text = describe(escaped(arguments))
    except Exception as error:  # the author's code: whatever it raises, nobody can be asked about this call
        raise Refused(Reason.CHECK_FAILED, "the tool's description of this call cannot be made") from error
    if not isinstance(text, str) or not text.strip() or len(text) > most:
        raise Refused(Reason.CHECK_FAILED, "the tool's description of this call is not a text of sensible length")
    # Escaped once already where it came from an argument: only what the author added is left to escape.
    return escape_rest(text)


def _lines(value: Any, indent: str) -> Iterator[str]:
    items = value.items() if isinstance(value, Mapping) else ((f"[{at}]", item) for at, item in enumerate(value))
    for key, item in items:
        name = key if not isinstance(value, Mapping) or _KEY.match(key) else f'"{_quoted(key)}"'
        if isinstance(item, (dict, list)) and item:
            yield f"{indent}{name}:"
            yield from _lines(item, indent + "  ")
        else:
            yield f"{indent}{name}: {_leaf(item)}"


def _leaf(item: Any) -> str:
    return f'"{_quoted(item)}"' if isinstance(item, str) else canonical(item).decode()


def _quoted(text: str) -> str:
    return escape(text).replace('"', '\\"')


def _shows_all(text: str, arguments: Mapping[str, Any]) -> bool:
    """Whether each value has a place of its own in the text: one that stands there once does not show two."""
    words: list[str] = []
    for leaf in _leaves(arguments) if arguments else ():
        word = _word(leaf)
        if not word or len(words) == _FEW:
            return False
        words.append(word)
    # Longest first, so that the 5 in "5 Main Street" is not taken for an amount.
    for word in sorted(words, key=len, reverse=True):
        text, found = re.subn(rf"(?<![\w.+-]){re.escape(word)}(?![\w+-]|\.\w)", "\0", text, count=1)
        if not found:
            return False
    return True


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)) and value:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    else:
        yield value


def _word(leaf: Any) -> str:
    """What a description has to say to show this value; a bare yes, no or nothing never counts."""
    if isinstance(leaf, str):
        return escape(leaf).strip() and escape(leaf)
    return canonical(leaf).decode() if isinstance(leaf, (int, float)) and not isinstance(leaf, bool) else ""

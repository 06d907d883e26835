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
# Control, format (bidi, zero width, tags), surrogate, private use, unassigned, line and paragraph separators.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Drawn as nothing or as a blank although they count as letters, marks or symbols.
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159")
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_TEXT_CHARS: Final = 20_000


def escape(text: str, *, keep_lines: bool = False) -> str:
    """The text with what is invisible or misleading spelt out as `\\u202e`; a backslash is doubled, so it is exact."""
    if _PLAIN.match(text):
        return text
    return "".join(char if keep_lines and char == "\n" else _shown(char) for char in text)


def _shown(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if code < 0x7F and code >= 0x20:
        return char
    kind = unicodedata.category(char)
    variation = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF
    if kind in _HIDDEN or char in _BLANK or variation or (kind == "Zs" and char != " "):
        return f"\\u{code:04x}" if code < 0x10000 else f"\\u{{{code:x}}}"
    return char


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
    if describe is None:
        name = escape(tool)
        head = name if not title or title == tool else f"{escape(title)} ({name})"
        return f"{head}\n{argument_lines(arguments)}"
    text = _described(describe, dict(arguments))
    if all(_is_shown(leaf, text) for leaf in _leaves(arguments)):
        return text
    return f"{text}\n\n{argument_lines(arguments)}"


def argument_lines(arguments: Mapping[str, Any]) -> str:
    """Every argument, one a line, nested ones indented."""
    return "\n".join(_lines(arguments, "  ")) or "  (no arguments)"


def _described(describe: Describe, arguments: dict[str, Any]) -> str:
    # The author's function sees escaped text: a newline in an argument cannot begin a line of the description.
    text = describe(escaped(arguments))
    if not isinstance(text, str) or not text.strip() or len(text) > _TEXT_CHARS + 8 * len(canonical(arguments)):
        raise Refused(Reason.CHECK_FAILED, "the tool's description of this call is not a text of sensible length")
    # Escaped once already where it came from an argument: only what the author added is left to escape.
    return "".join(char if char in "\n\\" else _shown(char) for char in text)


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


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)) and value:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    elif not isinstance(value, Mapping) or value:
        yield value


def _is_shown(leaf: Any, text: str) -> bool:
    """Whether this value stands in the text as a word of its own; a bare yes, no or nothing never counts."""
    if isinstance(leaf, str):
        word = escape(leaf)
    elif isinstance(leaf, (int, float)) and not isinstance(leaf, bool):
        word = canonical(leaf).decode()
    else:
        return isinstance(leaf, Mapping)
    return bool(word.strip()) and re.search(rf"(?<![\w.+-]){re.escape(word)}(?![\w+-]|\.\w)", text) is not None

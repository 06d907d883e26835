"""What is displayed can be read back: no two calls look the same, and no character hides or pretends."""

import json
import re
import unicodedata

from hypothesis import assume, example, given
from hypothesis import strategies as st

from callgate.approval.display import display_text, escape
from callgate.canonical import canonical
from support.registry import requirement

HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

# Letters that meet in earnest, and those that an attacker would choose.
TRICKY = '\\"\n\r\t\0\x1b\x85:[]{}(),.-_ au0n\u0301\u0336\u200b\u202e\u2028\u3164\ufe0f\U000e0041\U0001f600\u00a0\u05d0'
texts = st.text(max_size=12) | st.text(alphabet=TRICKY, max_size=12)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
objects = st.dictionaries(texts, values, max_size=5)

_LINE = re.compile(
    r'(?P<indent> *)(?P<name>\[\d+\]|[A-Za-z_][A-Za-z0-9_.-]*|"(?:[^"\\]|\\.)*"):(?: (?P<leaf>.*))?', re.DOTALL
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]+)\}|u([0-9a-f]{4})|(.))", re.DOTALL)


def unescape(text):
    def one(match):
        long, short, letter = match.groups()
        return chr(int(long or short, 16)) if long or short else {"n": "\n", "r": "\r", "t": "\t"}.get(letter, letter)

    return _ESCAPE.sub(one, text)


def read_back(text):
    """The arguments, from nothing but what the person sees."""
    _, *lines = text.split("\n")
    if lines == ["  (no arguments)"]:
        return {}
    rows = [_LINE.fullmatch(line) for line in lines]
    assert all(rows), text
    value, end = _container(rows, 0, 2)
    assert end == len(rows)
    return value


def _container(rows, at, indent):
    items = []
    while at < len(rows) and len(rows[at]["indent"]) == indent:
        name, leaf = rows[at]["name"], rows[at]["leaf"]
        at += 1
        if leaf is None:
            item, at = _container(rows, at, indent + 2)
        elif leaf.startswith('"'):
            item = unescape(leaf[1:-1])
        else:
            # A double that is whole is written as an integer is.
            item = json.loads(leaf, parse_int=float)
        items.append((name, item))
    if items[0][0].startswith("["):
        assert [name for name, _ in items] == [f"[{number}]" for number in range(len(items))]
        return [item for _, item in items], at
    keys = [unescape(name[1:-1]) if name.startswith('"') else name for name, _ in items]
    return dict(zip(keys, (item for _, item in items), strict=True)), at


@given(objects)
@example({"a": {"[0]": []}, "b": [[], {}, "[]", "{}", "null", None, "1", 1]})
@example({"a": 'x"\n  b: "y', "": {"": ""}, " ": " ", "a: 1": {"b": 2}})
@example({"k": "\\u202e", "l": "\u202e", "m": '\\"', "n": '"'})
@requirement("VA-063")
def test_the_arguments_can_be_read_back_from_the_text(arguments):
    """So that two different calls never look the same: the text alone gives the very bytes that are hashed."""
    assert canonical(read_back(display_text("tool", arguments))) == canonical(arguments)


@given(st.text(max_size=20) | st.text(alphabet=TRICKY, max_size=20), objects, st.text(max_size=8))
@requirement("VA-064")
def test_no_character_hides_or_pretends(tool, arguments, title):
    for text in (
        display_text(tool, arguments, title=title),
        display_text(tool, arguments, describe=lambda given: f"{title}x{json.dumps(given, ensure_ascii=False)}"),
    ):
        kinds = {unicodedata.category(char) for char in text if char != "\n"}
        assert not kinds & HIDDEN
        assert not any(unicodedata.category(char) == "Zs" and char != " " for char in text)


@given(st.text())
def test_escaping_is_exact(text):
    assert unescape(escape(text)) == text


@given(st.characters())
def test_each_character_alone_is_visible_or_spelt_out(char):
    shown = escape(f"x{char}")
    assert shown == f"x{char}" or re.fullmatch(r"x\\(u[0-9a-f]{4}|u\{[0-9a-f]{5,6}\}|[nrt\\])", shown)
    if unicodedata.category(char) in HIDDEN:
        assert char not in shown


words = st.text(alphabet="ab 1.-", min_size=1, max_size=6).filter(str.strip) | st.integers(0, 99)


@given(st.lists(words, min_size=1, max_size=6), st.data())
@requirement("VA-063")
def test_a_description_without_one_of_the_values_is_followed_by_all(found, data):
    left_out = data.draw(st.integers(0, len(found) - 1))
    arguments = {f"k{at}": value for at, value in enumerate(found)}

    def describe(given):
        return "§".join(str(value) for at, value in enumerate(given.values()) if at != left_out) or "§"

    text = display_text("t", arguments, describe=describe)
    listing = display_text("t", arguments).partition("\n")[2]
    assert text == f"{describe(arguments)}\n\n{listing}"


@given(objects)
def test_a_description_that_stands_alone_shows_every_value(arguments):
    assume(arguments)
    text = display_text("t", arguments, describe=lambda given: json.dumps(given, ensure_ascii=False))
    listing = display_text("t", arguments).partition("\n")[2]
    if not text.endswith(listing):
        for leaf in leaves_of(arguments):
            assert (escape(leaf) if isinstance(leaf, str) else canonical(leaf).decode()) in text


def leaves_of(value):
    if isinstance(value, (dict, list)) and value:
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves_of(item)
    else:
        yield value

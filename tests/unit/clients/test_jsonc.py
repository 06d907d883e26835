import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.clients import jsonc
from callgate.clients.jsonc import JsonNode, NotJson, decode, scan
from callgate.errors import ConfigError
from support.table import rows


def value(node: JsonNode):
    """What a tree says, for comparing with another reader."""
    match node.kind:
        case "object":
            return {member.key: value(member.value) for member in node.members}
        case "array":
            return [value(item) for item in node.items]
        case "string":
            return node.string
    return ...


def plain(found):
    if isinstance(found, dict):
        return {key: plain(inner) for key, inner in found.items()}
    if isinstance(found, list):
        return [plain(inner) for inner in found]
    return found if isinstance(found, str) else ...


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(ANYTHING, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_what_json_reads_is_read_the_same(found, indent, ascii_only):
    text = json.dumps(found, indent=indent, ensure_ascii=ascii_only)
    tree = scan(text)
    assert value(tree) == plain(found)
    assert (tree.start, tree.end) == (0, len(text))


@given(st.text(alphabet='{}[]",:/*\\ \n\r\tau01.-eé\ufeff', max_size=40))
def test_no_text_breaks_the_scanner_and_none_that_json_takes_is_refused(text):
    try:
        expected = json.loads(text, object_pairs_hook=_once)
    except ValueError:
        expected = ...
    try:
        found = value(scan(text))
    except NotJson as error:
        found = error
    if expected is not ...:
        assert found == plain(expected), text
    elif isinstance(found, NotJson):
        assert 1 <= found.line <= text.count("\n") + 1


def _once(pairs):
    if len(dict(pairs)) != len(pairs):
        raise ValueError("twice")
    return dict(pairs)


def test_comments_trailing_commas_and_a_mark_at_the_beginning():
    text = '\ufeff// one\r\n{ /* two ** // */ "a": ["http://x", 1,], // "b": 2\r\n "c": {"d": null,},}\r\n// end'
    tree = scan(text)
    assert value(tree) == {"a": ["http://x", ...], "c": {"d": ...}}
    assert text[tree.comma] == ","
    assert text[tree.get("a").value.comma] == ","
    assert scan('{"a": [1]}').get("a").value.comma is None


@rows(
    ("text", "line", "column", "what"),
    [
        ("", 1, 1, "empty"),
        ("// only a comment", 1, 18, "empty"),
        ('{"a": 1', 1, 1, "never closed"),
        ('{\n  "a": [1,\n', 2, 8, "never closed"),
        ('{"a" 1}', 1, 6, "colon"),
        ('{"a": 1 "b": 2}', 1, 9, "comma"),
        ("[1 2]", 1, 4, "comma"),
        ("{,}", 1, 2, "key"),
        ("[,]", 1, 2, "missing"),
        ("[1,,]", 1, 4, "missing"),
        ("{a: 1}", 1, 2, "key"),
        ("{'a': 1}", 1, 2, "key"),
        ('{\r\n\t"a": True}', 2, 7, "not a JSON value"),
        ('{"a": }', 1, 7, "missing"),
        ('{"a": 01}', 1, 7, "not a JSON value"),
        ('{"a": "b\nc"}', 1, 7, "never closed"),
        ('{"a": "\\x"}', 1, 7, "never closed"),
        ('{"a": 1, "\\u0061": 2}', 1, 10, "second time"),
        ("{} {}", 1, 4, "more behind"),
        ("{} /* open", 1, 4, "comment"),
        ("[NaN]", 1, 2, "not a JSON value"),
    ],
)
def test_what_is_broken_is_told_with_its_place(text, line, column, what):
    with pytest.raises(NotJson) as caught:
        scan(text, "mcp.json")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert what in caught.value.what
    assert caught.value.message.startswith(f"mcp.json:{line}:{column}: ")
    assert "Nothing in this file was changed" in caught.value.advice


def test_too_deep_too_many_and_too_large_is_refused(monkeypatch):
    scan("[" * 100 + "]" * 100)
    with pytest.raises(NotJson, match="nested deeper"):
        scan("[" * 100_000)
    monkeypatch.setattr(jsonc, "MAX_VALUES", 10)
    with pytest.raises(NotJson, match="more than 10 values"):
        scan("[" + "1," * 10 + "]")
    monkeypatch.setattr(jsonc, "MAX_BYTES", 10)
    with pytest.raises(ConfigError, match="larger than 10 bytes"):
        decode(b" " * 11, "x")


def test_what_is_not_utf8_is_told_with_its_place():
    with pytest.raises(NotJson) as caught:
        decode(b'{\n "a": "\xff"}', "mcp.json")
    assert (caught.value.line, caught.value.column) == (2, 8)


def test_long_runs_do_not_keep_the_scanner_busy():
    """Each of these takes for ever if something is read again and again."""
    for text in ("/*" + "*" * 200_000, '"' + "\\\\" * 100_000, "/" * 200_000, "-" * 200_000, "[" + "//\n" * 100_000):
        with pytest.raises(NotJson):
            scan(text)

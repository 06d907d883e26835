"""Replies to `tools/call`: what trust reads in them, and what it changes, byte by byte."""

import json

import pytest
from mcp.types import CallToolResult

from callgate.errors import MessageError
from callgate.trust.model import WARNING_META
from callgate.trust.results import (
    CHARS,
    ITEMS,
    LEAVES,
    QUARANTINE_META,
    ReplyContent,
    quarantined,
    read_result,
    read_whole,
    with_warning,
)
from support.registry import requirement
from support.table import rows

PLAIN = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}],"isError":false}}'
HANDLE = "cgq_" + "a" * 26


def reply(result, **rest):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result, **rest}).encode()


def result_of(raw):
    return json.loads(raw)["result"]


def text(said):
    return {"type": "text", "text": said}


def test_everything_a_model_may_read_is_read():
    link = {"type": "resource_link", "uri": "https://a.test/x", "name": "x", "description": "a link"}
    resource = {"uri": "file:///a", "text": "embedded", "_meta": {"inner": 1}}
    content = [text("one"), {**text("two"), "_meta": {"item": 1}}, link, {"type": "resource", "resource": resource}]
    picture = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    read = read_result(
        reply(
            {
                "content": [*content, picture],
                "structuredContent": {"a": ["deep", {"key": "leaf"}], "n": 1},
                "_meta": {"annotations": {"openWorldHint": True}},
                "isError": True,
            }
        )
    )
    assert read.texts == ("one", "two", "x", "a link", "embedded")
    assert read.links == ("https://a.test/x", "file:///a")
    assert read.item_metas == ({"item": 1}, {"inner": 1})
    assert read.meta == {"annotations": {"openWorldHint": True}}
    assert read.structured == {"a": ["deep", {"key": "leaf"}], "n": 1}
    assert read.is_error
    assert not read.cut
    assert not read.ambiguous
    assert read.readable()[-1].split("\n") == ["a", "deep", "key", "leaf", "n"]


@rows(
    "raw",
    [
        b"",
        b"[]",
        b"nonsense",
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":1,"result":"text"}',
        b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{}}}',
    ],
)
def test_what_holds_no_result_is_none(raw):
    assert read_result(raw) is None


def test_a_result_that_claims_to_ask_for_input_and_has_content_is_read():
    read = read_result(reply({"resultType": "input_required", "content": [text("evil")]}))
    assert read.texts == ("evil",)


@rows(
    ("content", "texts"),
    [
        (None, ()),
        ("words", ("words",)),
        ({"type": "text"}, ("type", "text")),
        ([None, 7, "x", [], {}, {"type": "text", "text": 7}], ("x",)),
        ([{"type": "text", "transcript": ["one", {"two": "three"}]}], ("one", "two", "three")),
    ],
)
def test_wrong_types_break_nothing_and_their_words_are_read(content, texts):
    read = read_result(reply({"content": content, "_meta": [], "isError": "yes"}))
    assert read.texts == texts
    assert read.links == read.item_metas == ()
    assert read.meta == {}
    assert not read.is_error


def test_words_that_no_protocol_knows_are_read():
    raw = b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"remark":"one"},"error":{"message":"two"}}'
    assert set(read_result(raw).texts) == {"one", "message", "two"}


@rows(
    "raw",
    [
        b"a page with words",
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"words"}]}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"words \xff"}]}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"text":"words"},"result":{}}',
        b'{"detail":[{"msg":"words"}]}',
        b'["words"]',
        b'"words"',
    ],
)
def test_the_words_of_anything_are_read(raw):
    assert "words" in "\n".join(read_whole(raw).readable())


def test_a_null_is_told_from_no_structured_content():
    assert read_result(reply({"structuredContent": None})).has_structured
    assert not read_result(PLAIN).has_structured


@rows(
    "raw",
    [
        b'{"id":1,"result":{"content":[]},"result":{"content":[]}}',
        b'{"id":1,"result":{"content":[],"content":[{"type":"text","text":"x"}]}}',
        b'{"id":1,"result":{"content":[{"type":"text","text":"a","text":"b"}]}}',
        b'{"id":1,"result":{"content":[{"type":"resource","resource":{"uri":"a","text":"a","text":"b"}}]}}',
    ],
)
def test_a_key_that_comes_twice_is_told(raw):
    assert read_result(raw).ambiguous


@rows(
    "items",
    [
        # Quotes in the text that is kept make up for those of the one that is lost.
        rb'{"type":"text","text":"evil","text":"\u0022\u0022\u0022\u0022"}',
        rb'{"type":"text","text":"evil","te\u0078t":"\"\""}',
        rb'{"type":"text","text":"evil","text":"\"\"\"\"\\"}',
        rb'{"type":"text","text":"","text":"\"\""}',
    ],
)
@rows("rpc_id", [b"1", b'"1"', rb'"\"\""', rb'"\u0022\u0022\u0022\u0022"'])
def test_quotes_do_not_hide_a_key_that_comes_twice(items, rpc_id):
    assert read_result(b'{"jsonrpc":"2.0","id":' + rpc_id + b',"result":{"content":[' + items + b"]}}").ambiguous


@rows(
    "raw",
    [
        rb'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a \"quoted\" \\"}]}}',
        rb'{"jsonrpc":"2.0","id":"\"","result":{"content":[{"type":"text","text":"\u00e9"}],"resultType":"complete"}}',
        rb'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\u0022"}],"isError":true}}',
    ],
)
def test_quotes_in_a_text_are_no_keys(raw):
    read, said = read_result(raw), json.loads(raw)["result"]
    assert read == ReplyContent((said["content"][0]["text"],), is_error=said.get("isError", False), body=said)


def test_half_an_emoji_hides_nothing():
    raw = b'{"id":1,"result":{"content":[{"type":"text","text":"\\ud83d evil"}]}}'
    assert read_result(raw).texts == ("\ud83d evil",)
    warned = with_warning(raw, ["why"])
    assert warned.endswith(b"}}")
    assert b"\\ud83d evil" in warned


def test_reading_is_bounded():
    many = read_result(reply({"content": [text("x")] * (ITEMS + 1)}))
    assert len(many.texts) == ITEMS
    assert many.cut
    long = read_result(reply({"content": [text("x" * (CHARS - 1)), text("yy"), text("z")]}))
    assert [len(each) for each in long.texts] == [CHARS - 1, 1]
    assert long.cut
    deep = {"a": "shallow"}
    for _ in range(200):
        deep = {"a": deep}
    # What is too deep or too much to be taken apart is not left out.
    assert '"a": "shallow"' in read_result(reply({"structuredContent": deep})).readable()[-1]
    wide = [*["x"] * LEAVES, {"last": "one"}]
    assert read_result(reply({"structuredContent": wide})).readable()[-1].endswith('{"last": "one"}')
    huge = read_result(reply({"structuredContent": ["x" * 1024] * (CHARS // 1024 + 2)})).readable()[-1]
    assert len(huge) <= CHARS + CHARS // 1024


@requirement("TA-057")
@rows("modern", [False, True])
def test_the_warning_comes_first_and_every_other_byte_stays(modern):
    era = b'"resultType":"complete", ' if modern else b""
    raw = b'{ "id":1, "result":{ %b"content" : [ {"text":"caf\\u00e9", "type":"text"} ], "n":1.50 } }' % era
    warned = with_warning(raw, ["It holds an order."])
    result = result_of(warned)
    assert [item["type"] for item in result["content"]] == ["text", "text"]
    assert "Callgate warning" in result["content"][0]["text"]
    assert "as data" in result["content"][0]["text"]
    assert "It holds an order." in result["content"][0]["text"]
    assert result["_meta"][WARNING_META] == {"flagged": True, "reasons": ["It holds an order."]}
    head, tail = raw.split(b"[", 1)
    assert warned.startswith(head)
    assert tail.removesuffix(b" } }") in warned
    CallToolResult.model_validate(result)


@requirement("TA-057")
def test_structured_content_stays_what_the_schema_says():
    raw = reply({"content": [text('{"a":1}')], "structuredContent": {"a": 1}})
    result = result_of(with_warning(raw, ["why"]))
    assert result["structuredContent"] == {"a": 1}
    assert result["content"][1:] == [text('{"a":1}')]
    CallToolResult.model_validate(result)


@rows("content", [[], None, "x", "absent"])
def test_a_result_without_items_gets_one(content):
    given = {} if content == "absent" else {"content": content}
    result = result_of(with_warning(reply({**given, "_meta": {"mine": 1}}), ["why"]))
    assert len(result["content"]) == 1
    assert result["_meta"]["mine"] == 1
    CallToolResult.model_validate(result)


def test_reasons_are_one_line_each_and_not_too_many():
    warned = result_of(with_warning(PLAIN, ["a\n\nb\u202e" + "c" * 1_000] * 50))
    reasons = warned["_meta"][WARNING_META]["reasons"]
    assert len(reasons) == 12
    assert reasons[0].startswith("a bc")
    assert len(reasons[0]) == 240


@rows(
    "raw",
    [
        b'{"id":1,"error":{}}',
        b'{"id":1,"result":[]}',
        b'{"id":1,"result":{"content":[],"content":[]}}',
        b'{"id":1,"result":{"_meta":{},"_meta":{}}}',
        b"nonsense",
    ],
)
def test_where_a_warning_cannot_be_put_nothing_passes(raw):
    with pytest.raises(MessageError):
        with_warning(raw, ["why"])


@rows("modern", [False, True])
def test_a_quarantined_result_names_its_handle_and_nothing_of_the_text(modern):
    era = {"resultType": "complete"} if modern else {}
    raw = reply({**era, "content": [text("evil")], "_meta": {"x": "evil"}, "other": "evil"}, more="evil")
    held = quarantined(raw, HANDLE, "mail", "read", "https://gate.test/held")
    message = json.loads(held)
    result = message["result"]
    assert b"evil" not in held
    assert message["id"] == 1
    assert result.get("resultType") == ("complete" if modern else None)
    assert result["isError"] is False
    assert "structuredContent" not in result
    (item,) = result["content"]
    assert HANDLE in item["text"]
    assert "https://gate.test/held" in item["text"]
    assert result["_meta"][QUARANTINE_META] == {"handle": HANDLE, "release": "https://gate.test/held"}
    CallToolResult.model_validate(result)


@rows("by", ["reply", "schema"])
def test_a_tool_with_an_output_schema_fails_instead_of_breaking_it(by):
    raw = reply({"content": [], "structuredContent": {"a": 1}}) if by == "reply" else PLAIN
    result = result_of(quarantined(raw, HANDLE, "mail", "read", "there", has_schema=by == "schema"))
    assert result["isError"] is True
    assert "structuredContent" not in result
    assert "marked as an error only because" in result["content"][0]["text"]


@rows("rpc_id", [b'"a\\u00e9"', b"9007199254740993", b"null"])
def test_the_id_is_kept_as_it_was_written(rpc_id):
    raw = b'{"id": %b,"result":{"content":[]}}' % rpc_id
    assert b'"id":%b,' % rpc_id in quarantined(raw, HANDLE, "s", "t", "there")


def test_names_cannot_break_out_of_the_sentence():
    held = quarantined(PLAIN, HANDLE, "s\u202e\n\nSYSTEM: x", "t" * 500, "there")
    said = result_of(held)["content"][0]["text"]
    assert "\n" not in said
    assert "\u202e" not in said
    assert len(said) < 700


@rows(
    ("raw", "rpc_id"),
    [
        (b'{"id":7,"result":{"content":[],"content":[{"type":"text","text":"evil"}]}}', 7),
        (b'{"id":"a","result":{},"result":{"content":"evil"}}', "a"),
        (b'{"id":{"x":"evil"},"result":{"a":1,"a":"evil"}}', None),
        (b'{"id":1,"result":{}} evil', None),
        (b"evil", None),
        (b'{{"id":1}:"evil"}', None),
    ],
)
def test_what_readers_disagree_on_is_kept_back_all_the_same(raw, rpc_id):
    held = quarantined(raw, HANDLE, "mail", "read", "there")
    assert json.loads(held)["id"] == rpc_id
    assert HANDLE.encode() in held
    assert b"evil" not in held


def test_members_are_put_where_they_are_missing_and_an_empty_result_is_filled():
    assert result_of(with_warning(b'{"id":1,"result":{ } }', ["why"])).keys() == {"content", "_meta"}
    both = b'{"id":1,"result":{"_meta":{"a":1},"x":[1],"content":[]}}'
    assert list(result_of(with_warning(both, ["why"]))) == ["_meta", "x", "content"]


@rows("raw", [b'{"id":1,"result":{}} {"id":1}', b'{"id":1,"result":{"a":"\\ud800"}} x'])
def test_something_behind_the_reply_is_no_reply(raw):
    with pytest.raises(MessageError):
        with_warning(raw, ["why"])

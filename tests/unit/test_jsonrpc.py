"""Reading messages: what is one, what is not, and what the gate must refuse to understand."""

import json

import pytest

from callgate.errors import Reason
from callgate.jsonrpc import (
    BadMessage,
    Batch,
    Limits,
    Message,
    MessageKind,
    error_reply,
    member_span,
    parse,
    peek,
    replace_member,
    tool_call,
)
from support.table import rows

LIMITS = Limits(bytes=100_000, depth=20, batch=5)
CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}'


def read(raw: bytes) -> None:
    message = parse(raw, LIMITS)
    if isinstance(message, Message) and message.method == "tools/call":
        tool_call(message)


def refused(raw: bytes) -> BadMessage:
    with pytest.raises(BadMessage) as caught:
        read(raw)
    return caught.value


class TestKinds:
    def test_request(self):
        message = parse(CALL, LIMITS)
        assert isinstance(message, Message)
        assert (message.kind, message.id, message.method, message.raw) == (MessageKind.REQUEST, 7, "tools/call", CALL)
        call = tool_call(message)
        assert (call.name, call.arguments, call.canonical) == ("echo", {"text": "hi"}, b'{"text":"hi"}')

    def test_notification(self):
        message = parse(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', LIMITS)
        assert isinstance(message, Message)
        assert message.kind is MessageKind.NOTIFICATION

    @rows("raw", [b'{"jsonrpc":"2.0","id":"a","result":{}}', b'{"id":1,"jsonrpc":"2.0","error":{}}'])
    def test_response(self, raw):
        message = parse(raw, LIMITS)
        assert isinstance(message, Message)
        assert message.kind is MessageKind.RESPONSE

    def test_batch(self):
        batch = parse(b'[ {"jsonrpc":"2.0","method":"a"}, {"jsonrpc":"2.0","id":1,"method":"b"} ]', LIMITS)
        assert isinstance(batch, Batch)
        assert [m.method for m in batch.messages] == ["a", "b"]
        assert batch.raw.startswith(b"[ {")

    def test_white_space_and_escapes_do_not_change_what_is_read(self):
        raw = json.dumps(json.loads(CALL), indent=2).replace("echo", "\\u0065cho").encode()
        message = parse(raw, LIMITS)
        assert isinstance(message, Message)
        assert tool_call(message).name == "echo"
        assert message.raw == raw

    def test_arguments_may_be_absent_or_null(self):
        for text in (b'"params":{"name":"x"}', b'"params":{"name":"x","arguments":null}'):
            message = parse(b'{"jsonrpc":"2.0","id":1,"method":"tools/call",' + text + b"}", LIMITS)
            assert isinstance(message, Message)
            assert tool_call(message).canonical == b"{}"


class TestRefusals:
    @rows(
        ("raw", "reason", "code"),
        [
            (b"", Reason.PARSE_ERROR, -32700),
            (b"{", Reason.PARSE_ERROR, -32700),
            (b"nonsense", Reason.PARSE_ERROR, -32700),
            (b'{"jsonrpc":"2.0","method":"a"} x', Reason.PARSE_ERROR, -32700),
            (b"\xef\xbb\xbf" + CALL, Reason.PARSE_ERROR, -32700),
            (CALL.decode().encode("utf-16"), Reason.PARSE_ERROR, -32700),
            (b'{"jsonrpc":"2.0","id":1,"method":"a\xff"}', Reason.PARSE_ERROR, -32700),
            (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', Reason.PARSE_ERROR, -32700),
            (b"1", Reason.INVALID_REQUEST, -32600),
            (b"[]", Reason.INVALID_REQUEST, -32600),
            (b"[1]", Reason.INVALID_REQUEST, -32600),
            (b'{"id":1,"method":"a"}', Reason.INVALID_REQUEST, -32600),
            (b'{"jsonrpc":"1.0","id":1,"method":"a"}', Reason.INVALID_REQUEST, -32600),
            (b'{"jsonrpc":"2.0","id":1}', Reason.INVALID_REQUEST, -32600),
            (b'{"jsonrpc":"2.0","id":1,"result":1,"error":{}}', Reason.INVALID_REQUEST, -32600),
            (b'{"jsonrpc":"2.0","id":1,"method":"a","result":1}', Reason.INVALID_REQUEST, -32600),
            (b'{"jsonrpc":"2.0","id":null,"method":"a"}', Reason.INVALID_REQUEST, -32600),
            (b'{"jsonrpc":"2.0","id":true,"method":"a"}', Reason.INVALID_REQUEST, -32600),
            (b'{"jsonrpc":"2.0","id":1.5,"method":"a"}', Reason.INVALID_REQUEST, -32600),
            (b'{"jsonrpc":"2.0","id":1,"method":""}', Reason.INVALID_REQUEST, -32600),
            (b'{"jsonrpc":"2.0","id":1,"method":5}', Reason.INVALID_REQUEST, -32600),
            (b'{"jsonrpc":"2.0","id":1,"method":"a","params":"x"}', Reason.INVALID_REQUEST, -32600),
            (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', Reason.INVALID_PARAMS, -32602),
            (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}', Reason.INVALID_PARAMS, -32602),
            (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', Reason.INVALID_PARAMS, -32602),
            (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}', Reason.INVALID_PARAMS, -32602),
        ],
    )
    def test_code_and_reason(self, raw, reason, code):
        error = refused(raw)
        assert (error.reason, error.code) == (reason, code)

    def test_arguments_of_another_type(self):
        for value in (b"[]", b'"x"', b"1", b"true"):
            error = refused(CALL.replace(b'{"text":"hi"}', value))
            assert (error.reason, error.code, error.rpc_id) == (Reason.INVALID_PARAMS, -32602, 7)

    def test_size(self):
        error = refused(b'{"jsonrpc":"2.0","id":1,"method":"' + b"a" * 100_000 + b'"}')
        assert (error.reason, error.status) == (Reason.MESSAGE_TOO_LARGE, 413)

    def test_batch_size(self):
        error = refused(b"[" + b",".join([b'{"jsonrpc":"2.0","method":"a"}'] * 6) + b"]")
        assert (error.reason, error.status) == (Reason.BATCH_TOO_LARGE, 413)

    @rows("depth", [21, 5_000, 40_000])
    def test_depth(self, depth):
        nested = b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":' + b"[" * depth + b"]" * depth + b"}}"
        assert refused(nested).reason is Reason.TOO_DEEP

    def test_depth_at_the_limit_passes(self):
        depth = LIMITS.depth - 2
        nested = b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":' + b"[" * depth + b"]" * depth + b"}}"
        assert isinstance(parse(nested, LIMITS), Message)

    def test_wide_is_not_deep(self):
        assert isinstance(
            parse(b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":[' + b"[]," * 500 + b"[]]}}", LIMITS), Message
        )

    def test_a_batch_is_refused_for_one_bad_element(self):
        error = refused(b'[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b","method":"c"}]')
        assert error.reason is Reason.DUPLICATE_KEY


class TestWhatNeedsNoUnderstanding:
    def test_nested_duplicates_pass_in_other_methods(self):
        raw = b'{"jsonrpc":"2.0","id":1,"method":"custom","params":{"a":1,"a":2}}'
        message = parse(raw, LIMITS)
        assert isinstance(message, Message)
        assert message.raw == raw

    def test_big_integers_pass_in_other_methods(self):
        raw = b'{"jsonrpc":"2.0","id":1,"method":"custom","params":{"a":123456789012345678901234567890}}'
        assert isinstance(parse(raw, LIMITS), Message)


class TestSplicing:
    RAW = b' {"a" : [1, {"id":5}] , "id" : 3 ,"params":{"_meta" : { "x":"}\\"", "progressToken":"q"} } }'

    def test_only_the_value_changes(self):
        assert replace_member(self.RAW, ("id",), b'"new"') == self.RAW.replace(b": 3 ", b': "new" ')
        assert replace_member(self.RAW, ("params", "_meta", "progressToken"), b"77") == self.RAW.replace(b'"q"', b"77")

    def test_absent_members_change_nothing(self):
        for path in (("nope",), ("params", "nope"), ("id", "x"), ("params", "_meta", "x", "y")):
            assert replace_member(self.RAW, path, b"1") == self.RAW

    def test_span(self):
        span = member_span(self.RAW, ("a",))
        assert span is not None
        assert self.RAW[slice(*span)] == b'[1, {"id":5}]'

    def test_half_an_emoji_elsewhere_does_not_matter(self):
        raw = rb' { "a" : "\ud83d" , "id" : 3 , "result" : {"\udfff":[], "x":"@"} } '.replace(b"@", b"\xc3\xbc")
        assert replace_member(raw, ("id",), b'"new"') == raw.replace(b": 3 ", b': "new" ')
        assert replace_member(raw, ("result", "x"), b"1") == raw.replace(b'"\xc3\xbc"', b"1")
        assert replace_member(raw, ("nope",), b"1") == raw
        assert replace_member(rb'{"x":"\ud83d"}', ("id",), b"1") == rb'{"x":"\ud83d"}'

    @rows(
        "raw",
        [rb'{"id":1,"x":"\ud83d"', rb'{"x":"\ud83d","id":1,"id":2}', b'{"id":1 "x":"\\ud83d"}', b'{"id":1,"x":\xff}'],
    )
    def test_what_nobody_can_read_is_not_left_as_it_is(self, raw):
        with pytest.raises(BadMessage):
            replace_member(raw, ("id",), b"7")

    def test_a_duplicate_on_the_way_is_refused(self):
        with pytest.raises(BadMessage):
            replace_member(b'{"params":{"x":1,"x":2,"id":3}}', ("params", "id"), b"4")


class TestPeek:
    def test_outcomes(self):
        result = peek(b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}')
        assert result is not None
        assert (result.id, result.outcome, result.is_reply) == (1, "result", True)
        failed = peek(b'{"jsonrpc":"2.0","id":"x","result":{"isError":true}}')
        assert failed is not None
        assert (failed.id, failed.outcome) == ("x", "tool_error")
        error = peek(b'{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"no"}}')
        assert error is not None
        assert (error.outcome, error.code) == ("error", -5)
        notice = peek(b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}')
        assert notice is not None
        assert not notice.is_reply

    @rows("raw", [b"", b"[]", b"garbage", b"\xff", b'"x"'])
    def test_garbage_is_none(self, raw):
        assert peek(raw) is None


def test_error_reply_carries_reason_advice_and_id():
    error = refused(b"[]")
    reply = json.loads(error_reply("abc", error, call="c1"))
    assert reply["id"] == "abc"
    assert reply["error"]["code"] == -32600
    assert reply["error"]["data"]["reason"] == "invalid_request"
    assert reply["error"]["data"]["advice"]
    assert reply["error"]["data"]["call"] == "c1"

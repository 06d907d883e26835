"""The attacker sends half a surrogate pair: readers replace it, drop it or keep it, each making another text of it."""

import pytest

from support.hostile import whole

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"open","arguments":%b}}'


@pytest.mark.parametrize(
    "arguments",
    [
        b'{"path":"a\\ud800b"}',
        b'{"path":"\\udc00\\ud800"}',
        b'{"a\\udfff":1}',
        b'{"deep":[{"x":"\\uDBFF"}]}',
    ],
)
def test_in_arguments(target, arguments):
    assert target.reasons(CALL % arguments) == (400, -32602, "lone_surrogate")


def test_raw_in_utf_8(target):
    assert target.reasons(CALL % b'{"path":"\xed\xa0\x80"}') == (400, -32700, "parse_error")


def test_in_the_name_of_the_tool(target):
    target.refused(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm\\ud800","arguments":{}}}')


def test_a_whole_pair_is_no_attack(target):
    arguments = b'{"path":"\\ud83d\\ude00"}'
    body = CALL % arguments
    _, bodies = target.raw(whole(body))
    assert bodies == [body]

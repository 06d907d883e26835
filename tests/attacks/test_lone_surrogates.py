"""The attacker sends half a surrogate pair: readers replace it, drop it or keep it, each making another text of it."""

from support.gateway import wrap_argv
from support.hostile import whole
from support.raw import piped, raw_stdio_argv
from support.table import rows

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"open","arguments":%b}}'


@rows(
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


@rows(
    ("body", "code"),
    [
        (rb'{"jsonrpc":"2.0","id":"\ud800","method":"tools/call","params":{"name":"x","arguments":{}}}', -32602),
        (rb'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x","arguments":{}},"\ud800":1}', -32602),
        (rb'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x","_meta":{"\ud800":1}}}', -32602),
        (rb'{"jsonrpc":"2.0","id":2,"method":"custom\ud800","params":{}}', -32600),
        (rb'{"jsonrpc":"2.0","id":2,"method":"custom","params":{"x":"\udfff"}}', -32600),
        (rb'{"jsonrpc":"2.0","id":2,"result":{"x":"\udfff"}}', -32600),
        (rb'[{"jsonrpc":"2.0","id":2,"method":"ping","\ud800":1}]', -32600),
    ],
    ids=["id", "outer key", "meta", "method", "params", "response", "batch"],
)
def test_anywhere_else(target, body, code):
    """Where the gate cannot rewrite an id, a shared server would take one client's request for another's."""
    assert target.reasons(body) == (400, code, "lone_surrogate")


def test_a_wrapped_server_goes_on_after_it(tmp_path):
    """An id that cannot be answered must not stop what comes after it."""
    bad = rb'{"jsonrpc":"2.0","id":"\ud800","method":"tools/call","params":{}}'
    answers = [b'{"jsonrpc":"2.0","id":1,"result":{}}', b'{"jsonrpc":"2.0","id":2,"result":{}}']
    with piped(wrap_argv(tmp_path, "x", raw_stdio_argv(tmp_path, answers))) as wrap:
        ping = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'
        wrap.stdin.write(ping % 1 + bad + b"\n" + ping % 2)
        wrap.stdin.flush()
        lines = sorted(wrap.stdout.readline() for _ in range(3))
    assert [answer + b"\n" for answer in answers] == [line for line in lines if b"result" in line]
    assert any(b'"lone_surrogate"' in line for line in lines)


def test_a_whole_pair_is_no_attack(target):
    arguments = b'{"path":"\\ud83d\\ude00"}'
    body = CALL % arguments
    _, bodies = target.raw(whole(body))
    assert bodies == [body]

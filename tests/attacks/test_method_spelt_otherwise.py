"""The attacker spells `tools/call` so that the gate sees another method and a careless server sees a call."""

import json

from support.table import rows


@rows(
    "method",
    ["Tools/Call", "TOOLS/CALL", "tools/call ", " tools/call", "tools/call\t", "tools/call\0", "tools/call\0x", "tool\u017f/call",
     "\u00a0tools/call", "ping\0", "a\nb", "\u202etools/call"],
)  # fmt: skip
def test_a_method_that_is_almost_a_call(target, method):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "rm", "arguments": {}}})
    assert target.reasons(body.encode()) == (400, -32600, "ambiguous_method")


@rows("key", ["method\0", "method ", "\tmethod", "METHOD", "params\0x"])
def test_a_key_that_is_almost_the_methods(target, key):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", key: "tools/call"})
    assert target.reasons(body.encode()) == (400, -32600, "ambiguous_key")


def test_methods_of_other_names_pass(target):
    for method in ("dev.example/Tools/Call", "gr\u00fc\u00dfe/\U0001f44b", "tools/callback"):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}, ensure_ascii=False).encode()
        before = len(target.upstream.requests)
        target.raw(
            b"POST /servers/one/mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n" % len(body) + body
        )
        assert target.upstream.requests[before].body == body

"""The attacker names a key twice: the gate would check the first call, the server run the second."""

from support.table import rows

INVALID_REQUEST, INVALID_PARAMS = -32600, -32602

OUTER = {
    "method": b'{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{"name":"rm"}}',
    "method_hidden": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"},"method":"ping"}',
    "params": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ls"},"params":{"name":"rm"}}',
    "id": b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"rm"}}',
    "escaped": b'{"jsonrpc":"2.0","id":1,"method":"ping","meth\\u006fd":"tools/call","params":{"name":"rm"}}',
}
INNER = {
    "name": b'{"name":"ls","name":"rm","arguments":{}}',
    "name_escaped": b'{"name":"ls","n\\u0061me":"rm","arguments":{}}',
    "arguments": b'{"name":"ls","arguments":{"path":"/tmp"},"arguments":{"path":"/"}}',
    "in_arguments": b'{"name":"ls","arguments":{"path":"/tmp","path":"/"}}',
    "deep_in_arguments": b'{"name":"ls","arguments":{"a":[{"b":{"path":"/tmp","p\\u0061th":"/"}}]}}',
    "meta": b'{"name":"ls","arguments":{},"_meta":{"a":1},"_meta":{"a":2}}',
    "in_meta": b'{"name":"ls","arguments":{},"_meta":{"a":1,"a":2}}',
}


@rows("which", OUTER)
def test_twice_in_the_message(target, which):
    assert target.reasons(OUTER[which]) == (400, INVALID_REQUEST, "duplicate_key")


@rows("which", INNER)
def test_twice_in_the_call(target, which):
    body = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":%b}' % INNER[which]
    assert target.reasons(body) == (400, INVALID_PARAMS, "duplicate_key")


@rows("which", INNER)
def test_twice_in_a_call_of_a_batch(target, which):
    good = b'{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"ls"}}'
    body = b'[%b,{"jsonrpc":"2.0","id":7,"method":"tools/call","params":%b}]' % (good, INNER[which])
    assert target.reasons(body)[2] == "duplicate_key"

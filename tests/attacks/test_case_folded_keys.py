"""The attacker spells a key so that only readers who ignore case, as Go's do, take it for the protocol's own."""

import pytest

TOP = ["Method", "METHOD", "metHod", "Params", "pArams", "JSONRPC", "Id", "paramſ", "reſult", "RESULT"]
CALL = [
    "Name",
    "NAME",
    "Arguments",
    "argumentſ",
    "taſk",
    "tas\N{KELVIN SIGN}",
    "_META",
    "InputResponses",
    "requeststate",
]


def with_key(key, value):
    return '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ls","arguments":{}},"%s":%s}' % (key, value)


@pytest.mark.parametrize("key", TOP)
def test_a_second_spelling_in_the_message(target, key):
    assert target.reasons(with_key(key, '"tools/call"').encode()) == (400, -32600, "ambiguous_key")


@pytest.mark.parametrize("key", ["Method", "meTHod"])
def test_only_the_second_spelling(target, key):
    body = '{"jsonrpc":"2.0","id":1,"method":"ping","%s":"tools/call","params":{"name":"rm"}}' % key
    assert target.reasons(body.encode())[2] == "ambiguous_key"
    assert target.refused(body.replace('"method":"ping",', "").encode()).status == 400


@pytest.mark.parametrize("key", CALL)
def test_a_second_spelling_in_the_call(target, key):
    body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ls","%s":{"path":"/"}}}' % key
    assert target.reasons(body.encode()) == (400, -32602, "ambiguous_key")
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in key)
    body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ls","%s":{"path":"/"}}}' % escaped
    assert target.reasons(body.encode()) == (400, -32602, "ambiguous_key")


@pytest.mark.parametrize("key", CALL)
def test_a_second_spelling_in_a_call_of_a_batch(target, key):
    body = '[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ls","%s":{"path":"/"}}}]' % key
    target.refused(body.encode())

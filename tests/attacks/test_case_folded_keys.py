"""The attacker spells a key so that only readers who ignore case, as Go's do, take it for the protocol's own."""

from support.table import rows

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

IN_MESSAGE = '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"name":"rm","arguments":{}},"KEY":"tools/call"}'
IN_CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ls","KEY":{"path":"/"}}}'


def with_key(template, key):
    return template.replace("KEY", key).encode()


@rows("key", TOP)
def test_a_second_spelling_in_the_message(target, key):
    assert target.reasons(with_key(IN_MESSAGE, key)) == (400, -32600, "ambiguous_key")


@rows("key", ["Method", "meTHod"])
def test_only_the_second_spelling(target, key):
    assert target.refused(with_key(IN_MESSAGE.replace('"method":"ping",', ""), key)).status == 400


@rows("key", CALL)
def test_a_second_spelling_in_the_call(target, key):
    assert target.reasons(with_key(IN_CALL, key)) == (400, -32602, "ambiguous_key")


@rows("key", CALL)
def test_a_second_spelling_that_is_escaped(target, key):
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in key)
    assert target.reasons(with_key(IN_CALL, escaped)) == (400, -32602, "ambiguous_key")


@rows("key", CALL)
def test_a_second_spelling_in_a_call_of_a_batch(target, key):
    target.refused(with_key(f"[{IN_CALL}]", key))

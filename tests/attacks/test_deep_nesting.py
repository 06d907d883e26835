"""The attacker nests so deeply that a reader runs out of stack, or of time."""

from support.table import rows

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":%b}}}'


@rows("depth", [101, 1_000, 100_000, 1_000_000])
@rows("pair", [(b"[", b"]"), (b'{"a":', b"}")])
def test_too_deep_is_refused(target, depth, pair):
    middle = pair[0] * depth + b"1" + pair[1] * depth
    got = target.refused(CALL % middle)
    assert (got.status, got.reason) == (400, "too_deep")


@rows("depth", [100_000, 1_000_000])
def test_too_deep_and_never_closed(target, depth):
    assert target.refused(b"[" * depth).status == 400
    assert target.refused(b'{"a":' * depth).status == 400


def test_too_deep_in_a_message_that_is_only_relayed(target):
    assert (
        target.reasons(b'{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"a":%b}}' % (b"[" * 200 + b"]" * 200))[2]
        == "too_deep"
    )

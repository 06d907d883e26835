"""The attacker sends numbers that two readers take for two values: what is checked would not be what is run."""

from support.hostile import whole
from support.table import rows

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"amount":%b}}}'
NUMBERS = {
    "not_a_number": b"NaN",
    "infinity": b"Infinity",
    "minus_infinity": b"-Infinity",
    "first_unsafe": b"9007199254740992",
    "first_unsafe_below": b"-9007199254740992",
    "wraps_to_one": b"18446744073709551617",
    "overflows": b"1e400",
    "nested": b'[{"deep":[9007199254740993]}]',
}


@rows("which", NUMBERS)
def test_such_a_number_is_refused(target, which):
    assert target.reasons(CALL % NUMBERS[which]) == (400, -32602, "number_out_of_range")


@rows("number", [b"9007199254740991", b"-9007199254740991", b"1.5", b"1e3", b"-0.0"])
def test_every_other_number_arrives_as_it_was_spelt(target, number):
    _, bodies = target.raw(whole(CALL % number))
    assert bodies == [CALL % number]


@rows("digits", [5_000, 1_000_000])
def test_a_number_of_many_digits_is_refused_without_being_computed(target, digits):
    assert target.refused(CALL % (b"9" * digits)).status == 400
    assert target.refused(CALL % (b"0." + b"9" * digits + b"e" + b"9" * 400)).status == 400


@rows("token", [b"01", b"1.", b".5", b"+1", b"0x10", b"1_000", b"nan", b"inf", b"\xd9\xa1"])
def test_what_only_some_readers_take_for_a_number(target, token):
    assert target.reasons(CALL % token) == (400, -32700, "parse_error")

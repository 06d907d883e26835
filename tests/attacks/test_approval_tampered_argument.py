"""Approve one call, send another: any argument that is not the signed one is noticed, at any depth."""

import copy

from support.approval_peer import ERAS, refusal, text_of
from support.registry import requirement
from support.table import rows

TRANSFER = {
    "to": {"name": "Carol", "account": "DE89 3704"},
    "amount": 100,
    "rate": 0.5,
    "tags": ["rent", "may"],
    "urgent": False,
    "note": None,
}


def changes(value):
    """Every way to change one thing in a value: another leaf, a member more, a member less."""
    if isinstance(value, dict):
        yield value | {"more": 1}
        for name, inner in value.items():
            yield {key: value[key] for key in value if key != name}
            yield from (value | {name: other} for other in changes(inner))
    elif isinstance(value, list):
        yield [*value, 1]
        yield value[::-1]
        for at, inner in enumerate(value):
            yield value[:at] + value[at + 1 :]
            yield from ([*value[:at], other, *value[at + 1 :]] for other in changes(inner))
    elif isinstance(value, bool) or value is None:
        yield not value
        yield 0
    elif isinstance(value, (int, float)):
        yield from (value + 1, -value, str(value))
    else:
        yield from (value + " ", value.upper() + "x", value[:-1])


@rows("era", ERAS)
@requirement("VA-125", "VA-128", "VA-074")
def test_no_other_argument_is_let_through_and_the_signed_one_still_is(library, era):
    person = library.join(f"tampered-{era}", era)
    challenge = person.challenge("keep", {"value": TRANSFER})
    before = len(library.executed)
    tried = 0
    for value in changes(copy.deepcopy(TRANSFER)):
        answer = person.call("keep", {"value": value}, person.signs(challenge))
        assert refusal(answer) == (-32001, "argument_hash_mismatch"), value
        tried += 1
    assert tried > 30
    assert library.executed[before:] == []
    text_of(person.call("keep", {"value": TRANSFER}, person.signs(challenge)))
    assert library.executed[before:] == [("keep", TRANSFER)]

"""Make a person's approval worthless: have them approve, or burn it, with a call that could never work."""

from callgate.protocol import CHALLENGE_CREATE
from support.approval_peer import ERAS, refusal, text_of
from support.registry import requirement
from support.table import rows

GOOD = {"symbol": "X", "quantity": 1, "side": "buy"}
BAD = [
    {},
    {"symbol": "X"},
    GOOD | {"quantity": "many"},
    GOOD | {"quantity": 1.5},
    GOOD | {"quantity": None},
    GOOD | {"symbol": ["X"]},
    GOOD | {"symbol": {"a": 1}},
]


@rows("era", ERAS)
@requirement("VA-053", "VA-126", "VA-128")
def test_nobody_is_bothered_with_it_and_nothing_is_burnt(library, era):
    person = library.join(f"schema-{era}", era)
    stored = library.shelf.rows("challenge")
    for arguments in BAD:
        answer = person.peer.ask(CHALLENGE_CREATE, {"toolName": "place_trade", "arguments": arguments})
        assert refusal(answer) == (-32602, "arguments_invalid"), arguments
    assert library.shelf.rows("challenge") == stored
    challenge = person.challenge("place_trade", GOOD)
    before = len(library.executed)
    for arguments in BAD:
        answer = person.call("place_trade", arguments, person.signs(challenge))
        assert refusal(answer) == (-32001, "argument_hash_mismatch"), arguments
        # Without evidence it is not even looked at.
        assert refusal(person.call("place_trade", arguments)) == (-32001, "missing_evidence")
    assert library.executed[before:] == []
    assert text_of(person.call("place_trade", GOOD, person.signs(challenge))) == "buy 1 X"

"""Get a passkey onto somebody's account while a question to them is open, and answer it with that one."""

from support.approval_peer import ERAS, refusal, signed, text_of
from support.registry import requirement
from support.table import rows

A = {"resourceId": "a"}


@rows("era", ERAS)
@requirement("VA-112", "VA-147")
def test_only_those_that_were_asked_may_answer(library, era):
    alice = library.join(f"later-{era}", era)
    challenge = alice.challenge("delete_resource", A)
    late = alice.peer.enrol(library.ticket(alice.name))
    response = late.get(challenge["requestOptions"] | {"allowCredentials": []})
    evidence = {"method": "webauthn", "challengeId": challenge["challengeId"], "response": response}
    before = len(library.executed)
    assert refusal(alice.call("delete_resource", A, evidence)) == (-32001, "unknown_credential")
    assert library.executed[before:] == []
    assert text_of(alice.call("delete_resource", A, alice.signs(challenge))) == "deleted a"
    # For the next question it counts.
    challenge = alice.challenge("delete_resource", A)
    assert text_of(alice.call("delete_resource", A, signed(challenge, late))) == "deleted a"

"""Bob steals a challenge that Alice has signed, and sends it in his own session, where it would act for him."""

from support.approval_peer import ERAS, refusal, text_of
from support.registry import requirement
from support.table import rows

A = {"resourceId": "a"}


@rows("era", ERAS)
@requirement("VA-060", "VA-105")
def test_a_challenge_is_known_to_its_own_person_alone(library, era):
    alice = library.join(f"session-owner-{era}", era)
    bob = library.join(f"session-thief-{era}", era)
    evidence = alice.signs(alice.challenge("delete_resource", A))
    before = len(library.executed)
    assert refusal(bob.call("delete_resource", A, evidence)) == (-32001, "challenge_unknown")
    # Whatever else is wrong with it, there is nothing more to learn of it.
    assert refusal(bob.call("wipe", None, evidence)) == (-32001, "challenge_unknown")
    assert library.executed[before:] == []
    assert text_of(alice.call("delete_resource", A, evidence)) == "deleted a"
    assert refusal(bob.call("delete_resource", A, evidence)) == (-32001, "challenge_unknown")

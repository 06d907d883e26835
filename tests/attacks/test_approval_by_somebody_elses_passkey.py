"""Bob signs, with a good passkey of his own, what Alice was asked for."""

from support.approval_peer import ERAS, refusal, text_of
from support.registry import requirement
from support.table import rows

A = {"resourceId": "a"}


@rows("era", ERAS)
@requirement("VA-111", "VA-147", "VA-060")
def test_another_persons_passkey_is_unknown_here(library, era):
    alice = library.join(f"owner-{era}", era)
    bob = library.join(f"other-{era}", era)
    challenge = alice.challenge("delete_resource", A)
    listed = {one["id"] for one in challenge["requestOptions"]["allowCredentials"]}
    own = bob.key.get(challenge["requestOptions"] | {"allowCredentials": []})
    assert own["id"] not in listed
    before = len(library.executed)
    evidence = {"method": "webauthn", "challengeId": challenge["challengeId"], "response": own}
    assert refusal(alice.call("delete_resource", A, evidence)) == (-32001, "unknown_credential")
    # Passed off under the id of hers, it is a forgery.
    evidence = evidence | {"response": own | {"id": min(listed), "rawId": min(listed)}}
    assert refusal(alice.call("delete_resource", A, evidence)) == (-32001, "signature_verification_failed")
    assert library.executed[before:] == []
    assert text_of(alice.call("delete_resource", A, alice.signs(challenge))) == "deleted a"

"""A stolen security key: touched, but nobody entered its PIN (the UV flag is clear)."""

from support.approval_peer import ERAS, refusal, text_of
from support.registry import requirement
from support.table import rows

A = {"resourceId": "a"}


@rows("era", ERAS)
@rows("bend", [{"uv": False}])
@requirement("VA-121", "VA-128", "VA-074")
def test_it_is_no_approval(library, era, bend):
    alice = library.join(f"unverified-{era}", era)
    challenge = alice.challenge("delete_resource", A)
    before = len(library.executed)
    answer = alice.call("delete_resource", A, alice.signs(challenge, **bend))
    assert refusal(answer) == (-32001, "signature_verification_failed")
    assert library.executed[before:] == []
    assert text_of(alice.call("delete_resource", A, alice.signs(challenge))) == "deleted a"

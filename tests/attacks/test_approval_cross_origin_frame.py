"""The signing page inside a frame of another site, which can lay anything over it."""

from support.approval_peer import ERAS, refusal, text_of
from support.registry import requirement
from support.table import rows

A = {"resourceId": "a"}


@rows("era", ERAS)
@rows(
    "bend",
    [
        {"cross_origin": True},
        {"top_origin": "https://evil.example"},
        {"cross_origin": True, "top_origin": "https://evil.example"},
        {"cross_origin": True, "top_origin": "http://localhost"},
    ],
)
@requirement("VA-118", "VA-128", "VA-074")
def test_it_is_no_approval(library, era, bend):
    alice = library.join(f"frame-{era}", era)
    challenge = alice.challenge("delete_resource", A)
    before = len(library.executed)
    answer = alice.call("delete_resource", A, alice.signs(challenge, **bend))
    assert refusal(answer) == (-32001, "signature_verification_failed")
    assert library.executed[before:] == []
    assert text_of(alice.call("delete_resource", A, alice.signs(challenge))) == "deleted a"

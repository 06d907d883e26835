"""Both at once: the reason has to be the signature, or a stranger could learn the counter of a key they do not have."""

from support.approval_peer import ERAS, refusal, text_of
from support.registry import requirement
from support.table import rows

A = {"resourceId": "a"}


@rows("era", ERAS)
@requirement("VA-122", "VA-101")
def test_the_signature_is_the_reason(library, era):
    alice = library.join(f"both-{era}", era)
    assert text_of(alice.approves("delete_resource", A, counter=50)) == "deleted a"
    for counter in (0, 49, 50, 51, 4_000_000_000):
        answer = alice.approves("delete_resource", A, counter=counter, tamper_signature=True)
        assert refusal(answer) == (-32001, "signature_verification_failed"), counter
    # The counter was not moved by any of them.
    assert text_of(alice.approves("delete_resource", A, counter=51)) == "deleted a"

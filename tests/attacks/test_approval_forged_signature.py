"""Sign with another key, change what was signed, or make a signature up."""

import pytest

from callgate.approval.action import from_base64url, to_base64url
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.approval_peer import ERAS, refusal, text_of
from support.registry import requirement
from support.table import rows

A = {"resourceId": "a"}
FAILED = (-32001, "signature_verification_failed")


@pytest.fixture(scope="module", params=ERAS)
def alice(library, request):
    return library.join(f"forged-{request.param}", request.param)


@pytest.fixture
def challenge(library, alice):
    """Whatever is tried, no tool runs, and the person's own signature is still good afterwards."""
    before = len(library.executed)
    challenge = alice.challenge("delete_resource", A)
    yield challenge
    assert library.executed[before:] == []
    assert text_of(alice.call("delete_resource", A, alice.signs(challenge))) == "deleted a"


@requirement("VA-114", "VA-128")
def test_a_key_of_the_forgers_own_under_the_persons_credential(alice, challenge):
    forger = SoftwareAuthenticator()
    forger.create(
        {
            "rp": {"id": "localhost"},
            "user": {"id": to_base64url(alice.key.passkeys[0].handle)},
            "challenge": "AAAA",
            "pubKeyCredParams": [{"type": "public-key", "alg": -7}],
        },
        credential_id=to_base64url(alice.key.passkeys[0].id),
    )
    response = forger.get(challenge["requestOptions"], counter=1000)
    evidence = {"method": "webauthn", "challengeId": challenge["challengeId"], "response": response}
    assert refusal(alice.call("delete_resource", A, evidence)) == FAILED


@requirement("VA-114", "VA-149")
@rows("field", ["signature", "authenticatorData", "clientDataJSON"])
def test_any_bit_of_what_was_signed(alice, challenge, field):
    good = alice.signs(challenge)
    raw = from_base64url(good["response"]["response"][field])
    for at in (0, len(raw) // 2, len(raw) - 1):
        flipped = bytearray(raw)
        flipped[at] ^= 1
        inner = good["response"]["response"] | {field: to_base64url(bytes(flipped))}
        evidence = good | {"response": good["response"] | {"response": inner}}
        assert refusal(alice.call("delete_resource", A, evidence)) == FAILED, at


@requirement("VA-114")
@rows("signature", [b"\0" * 64, b"\x30\x06\x02\x01\0\x02\x01\0", b"\x30\x06\x02\x01\x01\x02\x01\x01", b"\xff" * 4096])
def test_a_signature_of_nothing(alice, challenge, signature):
    good = alice.signs(challenge)
    inner = good["response"]["response"] | {"signature": to_base64url(signature)}
    evidence = good | {"response": good["response"] | {"response": inner}}
    assert refusal(alice.call("delete_resource", A, evidence)) == FAILED


@requirement("VA-116")
def test_a_signature_over_an_earlier_challenge(alice, challenge):
    earlier = alice.challenge("delete_resource", A)
    evidence = alice.signs(earlier) | {"challengeId": challenge["challengeId"]}
    assert refusal(alice.call("delete_resource", A, evidence)) == FAILED


@requirement("VA-115")
def test_a_registration_passed_off_as_an_approval(alice, challenge):
    assert refusal(alice.call("delete_resource", A, alice.signs(challenge, type="webauthn.create"))) == FAILED

"""The software authenticator against an independent verifier."""

import json
from base64 import urlsafe_b64decode

import pytest
from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers.cose import COSEAlgorithmIdentifier
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import PublicKeyCredentialDescriptor

from callgate.approval.action import to_base64url
from callgate.sdk.authenticators import NoPasskey
from callgate.sdk.authenticators.software import ALGORITHMS, SoftwareAuthenticator
from support.table import rows

ORIGIN = "http://localhost"


def creation_options(**more):
    options = generate_registration_options(
        rp_id="localhost",
        rp_name="Here",
        user_name="ann",
        user_id=b"ann's handle",
        supported_pub_key_algs=[COSEAlgorithmIdentifier(number) for number in ALGORITHMS.values()],
        **more,
    )
    return options, json.loads(options_to_json(options))


def request_options(*ids):
    allow = [PublicKeyCredentialDescriptor(id=one) for one in ids]
    options = generate_authentication_options(rp_id="localhost", allow_credentials=allow)
    return options, json.loads(options_to_json(options))


def enrolled(software, **bend):
    options, said = creation_options()
    answer = software.create(said, **bend)
    return verify_registration_response(
        credential=answer,
        expected_challenge=options.challenge,
        expected_rp_id="localhost",
        expected_origin=ORIGIN,
        require_user_verification=True,
        supported_pub_key_algs=[COSEAlgorithmIdentifier(number) for number in ALGORITHMS.values()],
    )


def check(registration, options, answer, **more):
    return verify_authentication_response(
        credential=answer,
        expected_challenge=options.challenge,
        expected_rp_id="localhost",
        expected_origin=ORIGIN,
        credential_public_key=registration.credential_public_key,
        credential_current_sign_count=registration.sign_count,
        require_user_verification=True,
        **more,
    )


@rows("attestation", ["none", "packed"])
@rows("algorithm", ["ES256", "EdDSA", "RS256"])
def test_another_implementation_takes_what_it_creates_and_signs(algorithm, attestation):
    software = SoftwareAuthenticator(algorithm=algorithm)
    registration = enrolled(software, attestation=attestation)
    assert registration.fmt == attestation
    options, said = request_options(registration.credential_id)
    answer = software.get(said)
    verified = check(registration, options, answer)
    assert verified.new_sign_count == registration.sign_count + 1
    assert urlsafe_b64decode(answer["response"]["userHandle"] + "==") == b"ann's handle"


def test_nothing_is_padded():
    software = SoftwareAuthenticator()
    created = software.create(creation_options()[1])
    signed = software.get(request_options()[1])
    assert "=" not in json.dumps([created, signed])


def test_the_passkey_that_is_asked_for_signs():
    software = SoftwareAuthenticator()
    first, second = enrolled(software), enrolled(software)
    for registration in (second, first):
        options, said = request_options(registration.credential_id)
        assert check(registration, options, software.get(said)).credential_id == registration.credential_id


def test_without_a_list_any_passkey_of_the_domain_signs():
    software = SoftwareAuthenticator()
    registration = enrolled(software)
    options, said = request_options()
    check(registration, options, software.get(said))
    with pytest.raises(NoPasskey, match="none of the passkeys"):
        software.get(said | {"rpId": "elsewhere.example"})


def test_a_passkey_that_is_not_there_cannot_sign():
    software = SoftwareAuthenticator()
    enrolled(software)
    with pytest.raises(NoPasskey):
        software.get(request_options(b"another passkey")[1])


def test_an_enrolled_authenticator_is_not_enrolled_again_unless_bent():
    software = SoftwareAuthenticator()
    registration = enrolled(software)
    _, said = creation_options(exclude_credentials=[PublicKeyCredentialDescriptor(id=registration.credential_id)])
    with pytest.raises(NoPasskey, match="enrolled already"):
        software.create(said)
    assert software.create(said, ignore_exclude=True)["id"] not in ("", said["excludeCredentials"][0]["id"])


def test_a_server_without_its_algorithm_gets_no_passkey():
    _, said = creation_options()
    said["pubKeyCredParams"] = [{"type": "public-key", "alg": -7}]
    with pytest.raises(NoPasskey, match="EdDSA"):
        SoftwareAuthenticator(algorithm="EdDSA").create(said)


def test_a_counter_that_does_not_count_stays_zero():
    software = SoftwareAuthenticator(counting=False)
    registration = enrolled(software)
    options, said = request_options()
    assert check(registration, options, software.get(said)).new_sign_count == registration.sign_count == 0


def test_backup_flags_are_told():
    software = SoftwareAuthenticator(backup_eligible=True, backed_up=True, transports=("internal", "hybrid"))
    registration = enrolled(software)
    assert registration.credential_backed_up
    assert registration.credential_device_type == "multi_device"


@rows(
    "bend",
    [
        {"origin": "https://evil.example"},
        {"type": "webauthn.create"},
        {"rp_id": "evil.example"},
        {"uv": False},
        {"up": False},
        {"counter": 1},
        {"challenge": b"another challenge"},
        {"tamper_signature": True},
    ],
    ids=lambda bend: next(iter(bend)),
)
@rows("algorithm", ["ES256", "EdDSA", "RS256"])
def test_a_bent_answer_is_refused_elsewhere_too(algorithm, bend):
    software = SoftwareAuthenticator(algorithm=algorithm)
    registration = enrolled(software)
    options, said = request_options()
    answer = software.get(said, **bend)
    with pytest.raises(WebAuthnException):
        check(registration, options, answer)


def test_it_can_say_that_it_was_framed():
    software = SoftwareAuthenticator()
    enrolled(software)
    answer = software.get(request_options()[1], cross_origin=True, top_origin="https://evil.example")
    said = json.loads(urlsafe_b64decode(answer["response"]["clientDataJSON"] + "=="))
    assert said["crossOrigin"] is True
    assert said["topOrigin"] == "https://evil.example"


def test_it_can_claim_another_passkey_and_sign_with_one_that_is_not_allowed():
    software = SoftwareAuthenticator()
    registration = enrolled(software)
    options, said = request_options(b"another passkey")
    assert software.get(said, credential_id="Zm9yZWlnbg")["id"] == "Zm9yZWlnbg"
    answer = software.get(said, credential_id=to_base64url(registration.credential_id), user_handle=None)
    assert "userHandle" not in answer["response"]
    check(registration, options, answer)

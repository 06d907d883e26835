"""Whatever a stranger sends, approval answers with a refusal of its own: nothing else ever comes out."""

import asyncio
import json
from functools import cache

import cbor2
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from webauthn.helpers.known_root_certs import apple_webauthn_root_ca

from callgate.approval import ApprovalPolicy, UnreadableAnnotation, read_annotation
from callgate.approval.action import from_base64url, to_base64url
from callgate.approval.evidence import Evidence, read_evidence
from callgate.approval.model import Attestation
from callgate.approval.schema import check_arguments
from callgate.approval.webauthn import (
    MalformedResponse,
    NotVerified,
    Registered,
    RegistrationResponse,
    check_registration,
    read_registration,
)
from callgate.errors import APPROVAL, Reason, Refused
from callgate.protocol import META
from support.ceremonies import PARTY, Scene, authenticator, evidence
from support.registry import requirement

CHALLENGE = bytes(range(32))
ROOT = apple_webauthn_root_ca
FORMATS = ["none", "packed", "fido-u2f", "tpm", "apple", "android-key", "android-safetynet"]
POLICIES = [Attestation(), Attestation("direct", (ROOT,)), Attestation(aaguids=frozenset({"x"}))]

scalars = st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.floats() | st.text(max_size=8)
WORDS = "method webauthn challengeId response id rawId type public-key clientDataJSON e30 authenticatorData signature"
known = st.sampled_from([*WORDS.split(), "userHandle", "attestationObject", "transports", "usb", "AAAA"])
anything = st.recursive(
    scalars | known,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(known | st.text(max_size=6), inner, max_size=5),
    max_leaves=15,
)


def refusal(call, *given):
    """What was refused; None if nothing was. Whatever else is raised fails the test."""
    try:
        call(*given)
    except Refused as refused:
        event(refused.reason)
        return refused
    return None


@cache
def certificate():
    return x509.load_pem_x509_certificate(ROOT).public_bytes(Encoding.DER)


@cache
def registrations():
    """Answers that hold, of each kind that a software authenticator makes."""
    options = {
        "rp": {"id": "localhost"},
        "user": {"id": "AAAA"},
        "challenge": to_base64url(CHALLENGE),
        "pubKeyCredParams": [{"alg": number} for number in (-7, -8, -257)],
    }
    return [
        authenticator(algorithm=algorithm).create(options, attestation=attestation)
        for algorithm in ("ES256", "EdDSA", "RS256")
        for attestation in ("none", "packed")
    ]


def members(strategies):
    return st.fixed_dictionaries({}, optional=strategies)


def or_anything(usual):
    return st.one_of(usual, usual, usual, anything)


evidences = anything | members(
    {
        "method": or_anything(st.just("webauthn")),
        "challengeId": or_anything(st.text(max_size=300)),
        "response": or_anything(
            members(
                {
                    "id": or_anything(st.text(max_size=10)),
                    "rawId": or_anything(st.text(max_size=10)),
                    "type": or_anything(st.just("public-key")),
                    "response": or_anything(
                        members(
                            {
                                name: or_anything(st.binary(max_size=50).map(to_base64url) | st.text(max_size=5))
                                for name in ("clientDataJSON", "authenticatorData", "signature", "userHandle")
                            }
                        )
                    ),
                }
            )
        ),
    }
)


@given(evidences)
@requirement("VA-103")
def test_evidence_is_read_or_refused(given):
    refused = refusal(read_evidence, given)
    if refused is None:
        assert isinstance(read_evidence(given), Evidence)
    else:
        assert refused.reason in (Reason.MISSING_EVIDENCE, Reason.UNSUPPORTED_METHOD, Reason.CHALLENGE_UNKNOWN)
        assert refused.code == APPROVAL


@given(evidences, st.booleans())
@requirement("VA-073")
def test_a_call_with_any_evidence_is_refused_by_a_listed_reason(given, known_challenge):
    async def call():
        scene, key = Scene(), authenticator()
        await scene.enrol(key)
        issued = await scene.issue()
        sent = given
        if known_challenge and isinstance(given, dict):
            # Everything right but what was drawn.
            sent = evidence(issued, key) | {name: value for name, value in given.items() if name != "method"}
        await scene.call(sent)

    refused = refusal(lambda: asyncio.run(call()))
    if refused is None:
        # Only where nothing that counts was drawn.
        assert known_challenge
        assert not {"challengeId", "response"} & set(given)
    else:
        assert refused.code == APPROVAL


numbers = st.sampled_from([-7, -8, -257, -35, 1, 2, 3, 0, -1, -2, -3])
concise = st.recursive(
    scalars | st.binary(max_size=40) | st.integers(-(2**70), 2**70) | st.builds(certificate),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(numbers | st.text(max_size=4), inner, max_size=4)
        | st.builds(cbor2.CBORTag, st.sampled_from([0, 1, 2, 4, 5, 25, 28, 30, 35, 36, 37, 258, 260, 55799]), inner)
    ),
    max_leaves=10,
)
FIELDS = {
    "sig": st.binary(min_size=1, max_size=80),
    "alg": numbers,
    "x5c": st.lists(st.builds(certificate) | st.binary(max_size=20), min_size=1, max_size=2),
    "ver": st.sampled_from(["2.0", "1.2"]),
    "certInfo": st.binary(min_size=1, max_size=120),
    "pubArea": st.binary(min_size=1, max_size=120),
    "response": st.binary(max_size=50).map(lambda raw: b".".join([raw] * 3)),
}


def one_in(draw, count):
    return draw(st.integers(1, count)) == 1


@st.composite
def statements(draw):
    """Every member that some format reads, most of them of the right kind."""
    made = {name: draw(concise if one_in(draw, 8) else usual) for name, usual in FIELDS.items()}
    return {name: value for name, value in made.items() if not one_in(draw, 12)}


@st.composite
def attestation_objects(draw):
    answer = draw(st.sampled_from(registrations()))
    raw = from_base64url(answer["response"]["attestationObject"])
    kind = draw(st.sampled_from(["parts", "parts", "parts", "bytes", "other"]))
    if kind == "other":
        return answer, dumps(draw(concise))
    if kind == "parts":
        made = cbor2.loads(raw)
        if not one_in(draw, 4):
            made["fmt"] = draw(scalars) if one_in(draw, 15) else draw(st.sampled_from(FORMATS))
            made["attStmt"] = draw(concise) if one_in(draw, 15) else draw(statements())
        if one_in(draw, 4):
            made["authData"] = draw(authenticator_data(made["authData"]))
        return answer, dumps({name: value for name, value in made.items() if not one_in(draw, 20)})
    for place, more in draw(st.lists(st.tuples(st.integers(0, 9_999), st.binary(max_size=3)), min_size=1, max_size=2)):
        at = place % max(1, len(raw))
        raw = raw[:at] + more + raw[at + 1 :]
    return answer, raw


@st.composite
def authenticator_data(draw, data):
    key = dumps(draw(st.dictionaries(numbers, st.binary(max_size=33) | numbers, max_size=6)))
    kind = draw(st.sampled_from(["other key", "longer", "flags", "bytes", "anything"]))
    if kind == "other key":
        return data[:-77] + key
    if kind == "flags":
        return data[:32] + bytes([draw(st.integers(0, 255))]) + data[33:]
    if kind == "longer":
        return data + key
    return draw(st.binary(max_size=90) if kind == "bytes" else concise)


def dumps(value):
    try:
        return cbor2.dumps(value)
    except (cbor2.CBORError, ValueError, OverflowError, TypeError):
        return b"\xf6"


@given(attestation_objects(), st.sampled_from(POLICIES))
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@requirement("VA-039")
def test_a_registration_is_verified_or_not(case, policy):
    answer, raw = case
    bent = answer | {"response": answer["response"] | {"attestationObject": to_base64url(raw)}}
    try:
        read = read_registration(bent)
        assert isinstance(read, RegistrationResponse)
        found = check_registration(read, CHALLENGE, PARTY, policy)
    except (MalformedResponse, NotVerified) as error:
        event(str(error))
    else:
        event("holds")
        assert isinstance(found, Registered)
        # What holds is one of the passkeys that were made, and under these policies none has proved who made it.
        assert found.id == answer["id"]
        assert policy == Attestation()


@given(
    anything
    | members(
        {
            "id": or_anything(st.just("AAAA")),
            "rawId": or_anything(st.just("AAAA")),
            "type": or_anything(st.just("public-key")),
            "response": or_anything(
                members(
                    {
                        "clientDataJSON": anything
                        | anything.map(lambda value: to_base64url(json.dumps(value).encode())),
                        "attestationObject": anything | concise.map(lambda value: to_base64url(dumps(value))),
                        "transports": anything,
                    }
                )
            ),
        }
    )
)
@requirement("VA-039")
def test_an_enrolment_ends_with_a_listed_reason(answer):
    async def finish():
        scene = Scene()
        await scene.options()
        await scene.approvals.finish_enrolment(answer)

    refused = refusal(lambda: asyncio.run(finish()))
    assert refused is not None
    assert refused.reason is Reason.VERIFICATION_FAILED


@given(anything)
def test_a_mark_is_read_or_closes_the_tool(mark):
    try:
        found = read_annotation({"name": "t", "_meta": {META: mark}})
    except UnreadableAnnotation:
        return
    assert isinstance(found, ApprovalPolicy)
    assert mark["required"] == "verified"


keywords = st.sampled_from(
    [
        "type",
        "properties",
        "required",
        "enum",
        "items",
        "$ref",
        "#",
        "object",
        "pattern",
        "(a+)+$",
        "minimum",
        "allOf",
        "not",
    ]
)
schemas = st.recursive(
    scalars | keywords,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keywords, inner, max_size=4),
    max_leaves=12,
)


@given(schemas, st.dictionaries(st.text(max_size=4), anything, max_size=3))
def test_any_schema_takes_or_refuses(schema, arguments):
    refused = refusal(check_arguments, schema, arguments)
    assert refused is None or refused.reason is Reason.ARGUMENTS_INVALID

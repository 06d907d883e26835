"""The answer to an enrolment (SEP-2672 §4.4.2): verified in all its parts, whatever the attestation."""

import cbor2
import pytest

from callgate.approval.action import from_base64url, to_base64url
from callgate.errors import APPROVAL, Reason, Refused
from support.ceremonies import Scene, authenticator, evidence
from support.registry import requirement
from support.table import rows


async def refusal(awaited):
    with pytest.raises(Refused) as refused:
        await awaited
    return refused.value


async def kept(scene):
    """Everything on the shelf that an enrolment could touch."""
    return await scene.shelf.credentials(revoked=True), scene.shelf.rows("registration"), len(scene.shelf.witnesses)


BENDS = [
    pytest.param({"uv": False}, id="not-verified", marks=requirement("VA-038")),
    pytest.param({"up": False}, id="not-present", marks=requirement("VA-041")),
    pytest.param({"origin": "https://evil.example"}, id="origin", marks=requirement("VA-041")),
    pytest.param({"rp_id": "evil.example"}, id="rp-id", marks=requirement("VA-041")),
    pytest.param({"type": "webauthn.get"}, id="type", marks=requirement("VA-041")),
    pytest.param({"cross_origin": True}, id="cross-origin", marks=requirement("VA-041")),
    pytest.param({"top_origin": "https://evil.example"}, id="top-origin", marks=requirement("VA-041")),
    pytest.param({"backed_up": True}, id="backed-up-without-eligible", marks=requirement("VA-041")),
]


@rows("bend", BENDS)
async def test_a_registration_that_does_not_hold_is_refused(bend):
    scene = Scene()
    options = await scene.options()
    before = await kept(scene)
    refused = await refusal(scene.approvals.finish_enrolment(authenticator().create(options, **bend)))
    assert (refused.reason, refused.code) == (Reason.VERIFICATION_FAILED, APPROVAL)
    assert refused.message == Reason.VERIFICATION_FAILED.meaning
    assert await kept(scene) == before


def reframed(answer, change):
    """The answer with another attestation object."""
    made = cbor2.loads(from_base64url(answer["response"]["attestationObject"]))
    changed = change(made)
    raw = changed if isinstance(changed, bytes) else cbor2.dumps(changed)
    return answer | {"response": answer["response"] | {"attestationObject": to_base64url(raw)}}


BROKEN = [
    pytest.param(lambda made: cbor2.dumps(made)[:-9], id="truncated", marks=requirement("VA-039")),
    pytest.param(lambda made: b"", id="empty", marks=requirement("VA-039")),
    pytest.param(lambda made: [made], id="a-list", marks=requirement("VA-039")),
    pytest.param(lambda made: b"\x81" * 5_000, id="nested", marks=requirement("VA-039")),
    pytest.param(lambda made: made | {"fmt": 5}, id="format-of-another-kind", marks=requirement("VA-039")),
    pytest.param(lambda made: made | {"fmt": "unheard-of"}, id="unknown-format", marks=requirement("VA-040")),
    pytest.param(lambda made: {"fmt": "none", "attStmt": {}}, id="no-data", marks=requirement("VA-039")),
    pytest.param(
        lambda made: {"fmt": "none", "authData": made["authData"]}, id="no-statement", marks=requirement("VA-040")
    ),
    pytest.param(lambda made: made | {"attStmt": {"x": 1}}, id="none-with-a-statement", marks=requirement("VA-040")),
    pytest.param(
        lambda made: made | {"attStmt": {"sig": b"x"}}, id="none-with-a-signature", marks=requirement("VA-040")
    ),
    pytest.param(lambda made: made | {"attStmt": []}, id="none-with-a-list", marks=requirement("VA-040")),
    pytest.param(
        lambda made: made | {"authData": made["authData"] + b"\0"}, id="bytes-after", marks=requirement("VA-039")
    ),
    pytest.param(
        lambda made: made | {"authData": made["authData"][:37]}, id="no-credential", marks=requirement("VA-039")
    ),
    pytest.param(
        lambda made: made | {"authData": made["authData"][:-20]}, id="half-a-key", marks=requirement("VA-039")
    ),
    pytest.param(lambda made: made | {"authData": "text"}, id="data-of-another-kind", marks=requirement("VA-039")),
    pytest.param(
        lambda made: made | {"authData": made["authData"][:-77] + cbor2.dumps({1: 2, 3: -7, -1: 1, -2: b"", -3: b""})},
        id="empty-key",
        marks=requirement("VA-039"),
    ),
    pytest.param(
        lambda made: (
            made
            | {"authData": made["authData"][:-77] + cbor2.dumps({1: 2, 3: -7, -1: 1, -2: bytes(32), -3: bytes(32)})}
        ),
        id="key-off-the-curve",
        marks=requirement("VA-039"),
    ),
    pytest.param(lambda made: made | {"authData": made["authData"][:-77] + b"\x04"}, id="key-is-a-number"),
]


@rows("change", BROKEN)
async def test_a_broken_registration_is_refused(change):
    scene = Scene()
    answer = authenticator().create(await scene.options())
    before = await kept(scene)
    refused = await refusal(scene.approvals.finish_enrolment(reframed(answer, change)))
    assert (refused.reason, refused.code) == (Reason.VERIFICATION_FAILED, APPROVAL)
    assert await kept(scene) == before
    await scene.approvals.finish_enrolment(answer)


@rows(
    "answer",
    [None, 5, "x", [], {}, {"response": None}, {"response": {}}, {"response": {"clientDataJSON": "e30"}}],
    ids=repr,
)
@requirement("VA-039")
async def test_an_answer_of_another_shape_is_refused(answer):
    scene = Scene()
    await scene.options()
    assert (await refusal(scene.approvals.finish_enrolment(answer))).reason is Reason.VERIFICATION_FAILED


@rows(
    "change",
    [
        {"id": to_base64url(bytes(32))},
        {"rawId": to_base64url(bytes(32))},
        {"id": to_base64url(bytes(32)), "rawId": to_base64url(bytes(32))},
        {"id": None},
        {"id": 5, "rawId": 5},
        {"type": "password"},
        {"type": None},
    ],
    ids=str,
)
async def test_the_answer_has_to_name_the_credential_that_was_made(change):
    scene = Scene()
    answer = authenticator().create(await scene.options())
    refused = await refusal(scene.approvals.finish_enrolment(answer | change))
    assert refused.reason is Reason.VERIFICATION_FAILED
    assert await scene.shelf.credentials(revoked=True) == []


@requirement("VA-040")
async def test_a_passkey_may_vouch_for_itself_and_a_flipped_byte_shows():
    scene, key = Scene(), authenticator()
    options = await scene.options()
    bad = key.create(options, attestation="packed", tamper_signature=True)
    assert (await refusal(scene.approvals.finish_enrolment(bad))).reason is Reason.VERIFICATION_FAILED
    good = key.create(options, attestation="packed", ignore_exclude=True)
    for place in (0, 33, 40, 60, -1):

        def flip(made, place=place):
            data = bytearray(made["authData"])
            data[place] ^= 0x20
            return made | {"authData": bytes(data)}

        assert (
            await refusal(scene.approvals.finish_enrolment(reframed(good, flip)))
        ).reason is Reason.VERIFICATION_FAILED
    enrolled = await scene.approvals.finish_enrolment(good)
    assert enrolled.credential.attestation == "packed"


@rows("algorithm", ["ES256", "EdDSA", "RS256"])
@rows("attestation", ["none", "packed"])
async def test_keys_of_each_algorithm_enrol(algorithm, attestation):
    scene, key = Scene(), authenticator(algorithm=algorithm)
    answer = key.create(await scene.options(), attestation=attestation)
    await scene.approvals.finish_enrolment(answer)
    await scene.call(evidence(await scene.issue(), key))

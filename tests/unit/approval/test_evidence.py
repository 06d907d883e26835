"""Steps 1 to 3 of SEP-2672 §4.8: evidence is there, has its shape, and is of a kind that somebody can judge."""

import msgspec
import pytest

from callgate.approval.action import to_base64url
from callgate.approval.evidence import METHODS, read_evidence
from callgate.approval.model import ApprovalPolicy
from callgate.approval.webauthn import MalformedResponse, NotVerified, SignedAssertion
from callgate.errors import APPROVAL, Reason, Refused
from support.ceremonies import GATED, Scene, authenticator, evidence
from support.registry import requirement
from support.table import rows

INNER = {"clientDataJSON": "e30", "authenticatorData": "AA", "signature": "AA", "userHandle": "AA"}
RESPONSE = {"id": "AAAA", "rawId": "AAAA", "type": "public-key", "response": INNER}
GOOD = {"method": "webauthn", "challengeId": "x", "response": RESPONSE}

ANY = [None, True, 0, 1.5, "", "text", [], {}, [1], {"a": 1}]


def refusal(given):
    with pytest.raises(Refused) as refused:
        read_evidence(given)
    return refused.value


def without(holder, name):
    return {key: value for key, value in holder.items() if key != name}


def test_evidence_of_the_right_shape_is_read():
    found = read_evidence(GOOD)
    assert (found.name, found.challenge_id, found.proof.id) == ("webauthn", "x", "AAAA")


@rows("given", ANY, ids=repr)
@requirement("VA-103")
def test_evidence_of_any_other_kind_is_missing(given):
    assert (refusal(given).reason, refusal(given).code) == (Reason.MISSING_EVIDENCE, APPROVAL)


@rows("name", ["method", "challengeId", "response"])
@rows("value", [*ANY, ...], ids=repr)
@requirement("VA-103")
def test_a_member_of_another_kind_is_missing_evidence(name, value):
    given = without(GOOD, name) if value is ... else GOOD | {name: value}
    if name == "method" and isinstance(value, str):
        assert refusal(given).reason is Reason.UNSUPPORTED_METHOD
    elif name == "challengeId" and value == "":
        assert refusal(given).reason is Reason.CHALLENGE_UNKNOWN
    elif not (name == "challengeId" and isinstance(value, str)):
        assert refusal(given).reason is Reason.MISSING_EVIDENCE


@rows("name", ["id", "rawId", "type", "response"])
@rows("value", [*ANY, ..., "x" * 5_000, "ä"], ids=lambda value: repr(value)[:12])
@requirement("VA-103")
def test_a_response_of_another_shape_is_missing_evidence(name, value):
    response = without(RESPONSE, name) if value is ... else RESPONSE | {name: value}
    if name in ("id", "rawId") and value == "text":
        assert read_evidence(GOOD | {"response": response})
    else:
        assert refusal(GOOD | {"response": response}).reason is Reason.MISSING_EVIDENCE


@rows("name", ["clientDataJSON", "authenticatorData", "signature", "userHandle"])
@rows(
    "value",
    [*ANY, ..., "A", "a b", "+/", "AA=A", "====", "AAAA====", "ä", "\ud800", "A" * 16_385],
    ids=lambda v: repr(v)[:12],
)
@requirement("VA-103")
def test_a_field_that_is_no_base64url_is_missing_evidence(name, value):
    inner = without(INNER, name) if value is ... else INNER | {name: value}
    given = GOOD | {"response": RESPONSE | {"response": inner}}
    if value == "text" or (name == "userHandle" and (value is ... or value is None or value == "")):
        assert read_evidence(given)
    else:
        assert refusal(given).reason is Reason.MISSING_EVIDENCE


def test_the_message_says_what_is_wrong_and_repeats_nothing_of_it():
    for name in ("id", "rawId", "type", "response"):
        for value in (["<script>"], "<script>" * 10_000, {"<script>": 1}):
            said = refusal(GOOD | {"response": RESPONSE | {name: value}}).message
            assert name in said
            assert "script" not in said
            assert len(said) < 200


@rows("method", ["push", "totp", "WebAuthn", "webauthn ", "web\0authn"])
@requirement("VA-104")
def test_a_method_that_nobody_can_judge_is_unsupported(method):
    assert refusal(GOOD | {"method": method, "response": {}}).reason is Reason.UNSUPPORTED_METHOD


@rows("challenge_id", ["", "x" * 257])
def test_a_challenge_id_that_nobody_issued_is_unknown(challenge_id):
    assert refusal(GOOD | {"challengeId": challenge_id}).reason is Reason.CHALLENGE_UNKNOWN


@rows(
    ("said", "kept"),
    [
        ("platform", "platform"),
        ("cross-platform", "cross-platform"),
        ("cross-Platform", None),
        ("x" * 99, None),
        ([], None),
    ],
)
def test_an_attachment_that_is_not_known_counts_as_none(said, kept):
    found = read_evidence(GOOD | {"response": RESPONSE | {"authenticatorAttachment": said}})
    assert found.proof.attachment == kept


class Seal(msgspec.Struct, frozen=True):
    id: str
    word: str


class Spoken:
    """A method of another kind: whoever knows the word approves."""

    keys = "webauthn"

    def read(self, response):
        try:
            return msgspec.convert(response, Seal)
        except msgspec.ValidationError as error:
            raise MalformedResponse(str(error)) from None

    def check(self, proof, challenge, credential, party):
        if proof.word != to_base64url(challenge.action_hash):
            raise NotVerified("another word")
        return SignedAssertion(counter=0, backup_eligible=False, backed_up=False, origin=party.id)

    def facts(self, proof, signed, challenge, credential):
        return {"word": proof.word}


@requirement("VA-068")
async def test_another_method_is_plugged_in_under_its_name_and_the_envelope_stays():
    scene = Scene(methods=METHODS | {"spoken": Spoken()})
    takes_both = msgspec.structs.replace(GATED, policy=ApprovalPolicy(methods=("webauthn", "spoken")))
    key = authenticator(counting=False)
    held = await scene.enrol(key)
    issued = await scene.issue(takes_both)

    def spoken(word):
        return {"method": "spoken", "challengeId": issued.challenge.id, "response": {"id": held.id, "word": word}}

    with pytest.raises(Refused) as refused:
        await scene.call(spoken("wrong"), takes_both)
    assert refused.value.reason is Reason.SIGNATURE_VERIFICATION_FAILED
    with pytest.raises(Refused) as refused:
        await scene.call({"method": "spoken", "challengeId": issued.challenge.id, "response": {}}, takes_both)
    assert refused.value.reason is Reason.MISSING_EVIDENCE
    verified = await scene.call(spoken(to_base64url(issued.challenge.action_hash)), takes_both)
    assert (verified.facts["method"], verified.facts["word"]) == ("spoken", to_base64url(issued.challenge.action_hash))
    with pytest.raises(Refused) as refused:
        await scene.call(spoken(to_base64url(issued.challenge.action_hash)), takes_both)
    assert refused.value.reason is Reason.CHALLENGE_CONSUMED
    # The first method is taken beside it, and the second only where it was plugged in and the tool takes it.
    await scene.call(evidence(await scene.issue(takes_both), key), takes_both)
    with pytest.raises(Refused) as refused:
        await scene.call(spoken("x"))
    assert refused.value.reason is Reason.UNSUPPORTED_METHOD
    with pytest.raises(Refused) as refused:
        await Scene().verify(spoken("x"))
    assert refused.value.reason is Reason.UNSUPPORTED_METHOD

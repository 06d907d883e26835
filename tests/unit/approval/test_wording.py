from callgate.approval.people import localised
from callgate.errors import APPROVAL, Reason, Refused
from support.registry import requirement
from support.table import rows

SIXTEEN = {
    "missing_evidence",
    "unsupported_method",
    "challenge_unknown",
    "challenge_consumed",
    "challenge_expired",
    "challenge_wrong_tool",
    "unknown_credential",
    "authenticator_class_mismatch",
    "signature_verification_failed",
    "signature_counter_regression",
    "argument_hash_mismatch",
    "tool_not_approved_required",
    "no_eligible_credential",
    "credential_already_enrolled",
    "no_pending_enrollment",
    "verification_failed",
}


@requirement("VA-138", "VA-139")
def test_the_reasons_of_the_approval_domain_are_the_sixteen_of_the_specification():
    assert {reason.value for reason in Reason if reason.code == APPROVAL} == SIXTEEN
    assert APPROVAL == -32001


@rows("reason", sorted(SIXTEEN))
@requirement("VA-159", "VA-160")
def test_a_message_is_translated_and_nothing_else(reason):
    english = Refused(Reason(reason), data={"at": 5}, advice="do this")
    german = localised(english, "de")
    assert german.message != english.message
    assert (german.reason, german.code, german.status) == (english.reason, english.code, english.status)
    assert (german.data, german.advice) == ({"at": 5}, "do this")
    assert localised(english, "en") is english


def test_what_has_no_translation_stays():
    limit = Refused(Reason.APPROVAL_LIMIT)
    assert localised(limit, "de") is limit

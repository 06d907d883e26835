"""New passkeys (SEP-2672 §4.4.1 and §4.4.2): only with a ticket, verified before anything is kept, each once."""

import json
from datetime import datetime

import pytest
from webauthn.helpers import parse_registration_options_json

from callgate.approval import ApprovalBounds, ApprovalSettings
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


@requirement("VA-030", "VA-032", "VA-035")
async def test_the_options_are_those_a_browser_takes():
    scene = Scene()
    ticket = await scene.approvals.ticket("ann", by="operator")
    begun = await scene.approvals.begin_enrolment(ticket)
    assert list(begun) == ["options"]
    options = begun["options"]
    user = await scene.shelf.user("ann")
    assert options == {
        "rp": {"id": "localhost", "name": "Callgate"},
        "user": {"id": to_base64url(user.handle), "name": "ann", "displayName": "ann"},
        "challenge": options["challenge"],
        "pubKeyCredParams": [{"type": "public-key", "alg": number} for number in (-7, -8, -257)],
        "timeout": 300_000,
        "attestation": "none",
        "excludeCredentials": [],
        "authenticatorSelection": {"residentKey": "preferred", "userVerification": "required"},
    }
    assert len(from_base64url(options["challenge"])) == 32
    # Somebody else's reader of the same JSON form.
    read = parse_registration_options_json(json.dumps(options))
    assert (read.rp.id, read.user.name, read.timeout) == ("localhost", "ann", 300_000)


@requirement("VA-034", "VA-043")
async def test_passkeys_that_are_there_are_excluded_with_their_transports():
    scene = Scene()
    first = await scene.enrol(authenticator(transports=("usb", "nfc")))
    second = await scene.enrol(authenticator(transports=("internal",)))
    await scene.enrol(authenticator(), "bob")
    excluded = (await scene.options())["excludeCredentials"]
    assert sorted(excluded, key=lambda one: one["id"]) == sorted(
        [
            {"type": "public-key", "id": first.id, "transports": ["usb", "nfc"]},
            {"type": "public-key", "id": second.id, "transports": ["internal"]},
        ],
        key=lambda one: one["id"],
    )
    listed = (await scene.issue()).result["requestOptions"]["allowCredentials"]
    assert listed == [{"type": "public-key", "id": first.id, "transports": ["usb", "nfc"]}]


@requirement("VA-031")
async def test_no_challenge_is_given_out_twice():
    scene = Scene(ApprovalSettings(bounds=ApprovalBounds(registrations_per_user=2000, credentials_per_user=2000)))
    challenges = {(await scene.options())["challenge"] for _ in range(1000)}
    assert len(challenges) == 1000


@requirement("VA-036")
async def test_the_answer_of_a_successful_finish():
    scene, key = Scene(), authenticator()
    enrolled = await scene.approvals.finish_enrolment(key.create(await scene.options()), name="My key")
    result = enrolled.result
    assert set(result) == {"success", "credentialId", "createdAt"}
    assert result["success"] is True
    assert result["credentialId"] == to_base64url(key.passkeys[0].id) == enrolled.credential.id
    assert datetime.fromisoformat(result["createdAt"]).timestamp() * 1000 == scene.clock.at
    assert (enrolled.credential.name, enrolled.user.name, enrolled.codes) == ("My key", "ann", ())


async def test_everything_that_assertions_need_is_kept():
    scene, key = Scene(), authenticator(transports=("nfc", "usb"), backup_eligible=True, aaguid=bytes(range(16)))
    enrolled = await scene.enrol(key)
    held = await scene.shelf.credential(enrolled.id)
    assert held == enrolled
    assert (held.user, held.handle, held.counter) == ("ann", (await scene.shelf.user("ann")).handle, 1)
    assert (held.transports, held.aaguid) == (("nfc", "usb"), "00010203-0405-0607-0809-0a0b0c0d0e0f")
    assert (held.backup_eligible, held.backed_up, held.attestation) == (True, False, "none")
    await scene.call(evidence(await scene.issue(), key))


@rows(
    ("reported", "stored"),
    [
        (["usb", "usb", "nfc"], ("usb", "nfc")),
        (["cable", "hybrid"], ("hybrid",)),
        (["usb", 5, None, "telepathy", ["nfc"]], ("usb",)),
        (["telepathy"] * 20 + ["usb"], ()),
        ("usb", ()),
        (None, ()),
        ([], ()),
    ],
    ids=str,
)
@requirement("VA-043")
async def test_the_transports_are_those_of_the_answer_as_far_as_they_are_known(reported, stored):
    scene = Scene()
    answer = authenticator().create(await scene.options())
    answer["response"]["transports"] = reported
    assert (await scene.approvals.finish_enrolment(answer)).credential.transports == stored


@rows("ticket", [None, "", "made-up", "x" * 1000, "\0", "\ud800"])
@requirement("VA-025")
async def test_without_a_ticket_nobody_enrols(ticket):
    scene = Scene()
    await scene.approvals.add_user("ann", by="operator")
    for first_use in (None, "ann"):
        refused = await refusal(scene.approvals.begin_enrolment(ticket, first_use=first_use))
        assert (refused.reason, refused.code) == (Reason.ENROLMENT_NOT_AUTHORISED, -32602)
    assert scene.shelf.rows("registration") == []


@requirement("VA-026")
async def test_a_ticket_is_for_one_enrolment():
    scene = Scene()
    ticket = await scene.approvals.ticket("ann", by="operator")
    assert (await scene.approvals.look_at_ticket(ticket)).user == "ann"
    await scene.approvals.begin_enrolment(ticket)
    assert await scene.approvals.look_at_ticket(ticket) is None
    refused = await refusal(scene.approvals.begin_enrolment(ticket))
    assert refused.reason is Reason.ENROLMENT_NOT_AUTHORISED


async def test_a_ticket_runs_out():
    scene = Scene()
    hour, second = [await scene.approvals.ticket("ann", by="operator", seconds=time) for time in (None, 1)]
    scene.clock.tick(1000)
    assert (await refusal(scene.approvals.begin_enrolment(second))).reason is Reason.ENROLMENT_NOT_AUTHORISED
    scene.clock.tick(3_600_000 - 1001)
    assert await scene.approvals.look_at_ticket(hour)
    scene.clock.tick(1)
    assert await scene.approvals.look_at_ticket(hour) is None
    assert (await refusal(scene.approvals.begin_enrolment(hour))).reason is Reason.ENROLMENT_NOT_AUTHORISED


async def test_a_ticket_is_kept_as_a_hash():
    scene = Scene()
    ticket = await scene.approvals.ticket("ann", by="operator")
    assert ticket not in repr(vars(scene.shelf))
    assert scene.log == [
        ("user.add", "operator", {"user": "ann", "role": "operator"}),
        ("ticket.issue", "operator", {"user": "ann", "purpose": "enrol"}),
    ]


@requirement("VA-029")
async def test_first_use_needs_no_ticket_until_there_is_a_passkey():
    scene, key = Scene(ApprovalSettings(first_use=True)), authenticator()
    begun = await scene.approvals.begin_enrolment(None, first_use="ann")
    # Two may begin before either is finished: the first to finish is the one.
    rival = await scene.approvals.begin_enrolment(None, first_use="ann")
    await scene.approvals.finish_enrolment(key.create(begun["options"]))
    refused = await refusal(scene.approvals.finish_enrolment(authenticator().create(rival["options"])))
    assert refused.reason is Reason.NO_PENDING_ENROLLMENT
    refused = await refusal(scene.approvals.begin_enrolment(None, first_use="ann"))
    assert refused.reason is Reason.ENROLMENT_NOT_AUTHORISED
    # A passkey that was withdrawn does not bring the first use back.
    (held,) = await scene.shelf.credentials("ann")
    await scene.approvals.revoke(held.id, by="operator")
    refused = await refusal(scene.approvals.begin_enrolment(None, first_use="ann"))
    assert refused.reason is Reason.ENROLMENT_NOT_AUTHORISED


@rows(("milliseconds", "passes"), [(299_000, True), (299_999, True), (300_000, False), (301_000, False)])
@requirement("VA-033", "VA-046")
async def test_a_registration_lasts_five_minutes(milliseconds, passes):
    scene = Scene()
    answer = authenticator().create(await scene.options())
    scene.clock.tick(milliseconds)
    if passes:
        await scene.approvals.finish_enrolment(answer)
    else:
        refused = await refusal(scene.approvals.finish_enrolment(answer))
        assert (refused.reason, refused.code) == (Reason.NO_PENDING_ENROLLMENT, APPROVAL)
        assert await scene.shelf.credentials(revoked=True) == []


@requirement("VA-033")
async def test_the_lifetime_of_a_registration_can_be_set():
    scene = Scene(ApprovalSettings(registration_ms=10_000))
    options = await scene.options()
    assert options["timeout"] == 10_000
    answer = authenticator().create(options)
    scene.clock.tick(10_000)
    assert (await refusal(scene.approvals.finish_enrolment(answer))).reason is Reason.NO_PENDING_ENROLLMENT


@requirement("VA-047")
async def test_a_registration_is_finished_once():
    scene = Scene()
    options = await scene.options()
    await scene.approvals.finish_enrolment(authenticator().create(options))
    before = await kept(scene)
    for bend in ({}, {"uv": False}):
        refused = await refusal(scene.approvals.finish_enrolment(authenticator().create(options, **bend)))
        assert (refused.reason, refused.code) == (Reason.NO_PENDING_ENROLLMENT, APPROVAL)
    assert await kept(scene) == before


@requirement("VA-037")
async def test_an_answer_to_a_question_that_nobody_asked_is_refused():
    scene = Scene()
    options = await scene.options()
    own = authenticator().create(options, challenge=bytes(32))
    refused = await refusal(scene.approvals.finish_enrolment(own))
    assert (refused.reason, refused.code) == (Reason.VERIFICATION_FAILED, APPROVAL)
    # The one that was asked stays open.
    await scene.approvals.finish_enrolment(authenticator().create(options))


async def test_without_any_enrolment_under_way_nothing_is_pending():
    scene, elsewhere = Scene(), Scene()
    answer = authenticator().create(await elsewhere.options())
    refused = await refusal(scene.approvals.finish_enrolment(answer))
    assert (refused.reason, refused.code) == (Reason.NO_PENDING_ENROLLMENT, APPROVAL)
    options = await scene.options()
    scene.clock.tick(300_000)
    refused = await refusal(scene.approvals.finish_enrolment(authenticator().create(options, challenge=bytes(32))))
    assert refused.reason is Reason.NO_PENDING_ENROLLMENT


@requirement("VA-044")
@rows("user", ["ann", "bob"])
@rows("revoked", [False, True])
async def test_a_credential_that_is_enrolled_is_refused_whoever_brings_it(user, revoked):
    scene = Scene()
    held = await scene.enrol(authenticator())
    if revoked:
        await scene.approvals.revoke(held.id, by="operator")
    options = await scene.options(user)
    again = authenticator().create(options, credential_id=held.id, ignore_exclude=True)
    before = await kept(scene)
    refused = await refusal(scene.approvals.finish_enrolment(again))
    assert (refused.reason, refused.code) == (Reason.CREDENTIAL_ALREADY_ENROLLED, APPROVAL)
    assert await kept(scene) == before


@requirement("VA-045")
async def test_a_duplicate_is_verified_before_it_is_called_one():
    scene = Scene()
    held = await scene.enrol(authenticator())
    options = await scene.options()
    again = authenticator().create(options, credential_id=held.id, ignore_exclude=True, uv=False)
    assert (await refusal(scene.approvals.finish_enrolment(again))).reason is Reason.VERIFICATION_FAILED
    assert await scene.shelf.credential(held.id) == held


async def test_a_credential_id_that_is_too_long_is_refused():
    scene = Scene()
    options = await scene.options()
    long = authenticator().create(options, credential_id=to_base64url(bytes(1024)))
    assert (await refusal(scene.approvals.finish_enrolment(long))).reason is Reason.VERIFICATION_FAILED
    await scene.approvals.finish_enrolment(authenticator().create(options, credential_id=to_base64url(bytes(1023))))


async def test_enrolments_of_one_person_are_bounded():
    scene = Scene(ApprovalSettings(bounds=ApprovalBounds(registrations_per_user=2, credentials_per_user=3)))
    for _ in range(2):
        await scene.options()
    third = await scene.approvals.ticket("ann", by="operator")
    assert (await refusal(scene.approvals.begin_enrolment(third))).reason is Reason.APPROVAL_LIMIT
    await scene.options("bob")
    scene.clock.tick(300_000)
    # The ticket was not lost.
    await scene.approvals.finish_enrolment(
        authenticator().create((await scene.approvals.begin_enrolment(third))["options"])
    )
    for _ in range(2):
        await scene.enrol(authenticator())
    assert (await refusal(scene.options())).reason is Reason.APPROVAL_LIMIT


@rows("name", ["", " ann", "-ann", "a b", "a\0b", "x" * 65, "ann\n", "änn", "a/b"])
async def test_names_of_people_are_plain(name):
    scene = Scene()
    assert (await refusal(scene.approvals.add_user(name, by="operator"))).reason is Reason.INVALID_PARAMS
    assert (await refusal(scene.approvals.ticket(name, by="operator"))).reason is Reason.INVALID_PARAMS
    assert await scene.shelf.users() == []


async def test_a_person_is_added_once():
    scene = Scene()
    first = await scene.approvals.add_user("ann@example.com", "Ann \u202e Lee\n", by="operator")
    assert first.display_name == "Ann  Lee"
    assert (await refusal(scene.approvals.add_user("ann@example.com", by="x"))).reason is Reason.USER_EXISTS
    await scene.approvals.ticket("ann@example.com", by="operator")
    assert await scene.shelf.users() == [first]


@rows(("given", "shown"), [("", "Passkey"), ("\u202e\n", "Passkey"), (" My key ", "My key"), ("x" * 99, "x" * 64)])
async def test_names_of_passkeys_are_fit_to_be_shown(given, shown):
    scene = Scene()
    enrolled = await scene.approvals.finish_enrolment(authenticator().create(await scene.options()), name=given)
    assert enrolled.credential.name == shown
    await scene.approvals.rename(enrolled.credential.id, "Other", by="ann")
    await scene.approvals.rename(enrolled.credential.id, given, by="ann")
    assert (await scene.shelf.credential(enrolled.credential.id)).name == shown
    assert scene.log[-1][0] == "credential.rename"


async def test_what_is_not_there_cannot_be_renamed_or_withdrawn():
    scene = Scene()
    assert (await refusal(scene.approvals.rename("none", "x", by="ann"))).reason is Reason.UNKNOWN_CREDENTIAL
    assert (await refusal(scene.approvals.revoke("none", by="ann"))).reason is Reason.UNKNOWN_CREDENTIAL


@requirement("VA-179")
async def test_a_lost_passkey_is_withdrawn_and_a_ticket_enrols_the_next():
    scene, lost, new = Scene(), authenticator(), authenticator()
    held = await scene.enrol(lost)
    waiting = await scene.issue()
    await scene.approvals.revoke(held.id, by="operator")
    assert scene.log[-1] == ("credential.revoke", "operator", {"credential": held.id})
    refused = await refusal(scene.call(evidence(waiting, lost)))
    assert refused.reason is Reason.UNKNOWN_CREDENTIAL
    assert (await refusal(scene.issue())).reason is Reason.NO_ELIGIBLE_CREDENTIAL
    assert (await refusal(scene.approvals.revoke(held.id, by="operator"))).reason is Reason.UNKNOWN_CREDENTIAL
    await scene.enrol(new)
    await scene.call(evidence(await scene.issue(), new))


async def test_a_passkey_withdrawn_between_verification_and_use_lets_nothing_through():
    scene, key = Scene(), authenticator()
    held = await scene.enrol(key)
    verified = await scene.verify(evidence(await scene.issue(), key))
    await scene.approvals.revoke(held.id, by="operator")
    assert (await refusal(scene.shelf.use(verified.use))).reason is Reason.UNKNOWN_CREDENTIAL


@requirement("VA-160")
async def test_enrolment_refuses_in_other_languages_with_the_same_reasons():
    told = {}
    for locale in ("en", "de"):
        scene = Scene(ApprovalSettings(locale=locale))
        options = await scene.options()
        wrong = await refusal(scene.approvals.finish_enrolment(authenticator().create(options, uv=False)))
        await scene.approvals.finish_enrolment(authenticator().create(options))
        late = await refusal(scene.approvals.finish_enrolment(authenticator().create(options)))
        (held,) = await scene.shelf.credentials("ann")
        again = authenticator().create(await scene.options(), credential_id=held.id, ignore_exclude=True)
        twice = await refusal(scene.approvals.finish_enrolment(again))
        told[locale] = [wrong, late, twice]
    for english, german in zip(told["en"], told["de"], strict=True):
        assert english.message != german.message
        assert (english.reason, english.code) == (german.reason, german.code)

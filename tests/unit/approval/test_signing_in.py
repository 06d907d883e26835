"""The console's session, and a passkey that vouches for a further device: each by a challenge of its own kind."""

from hashlib import sha256

import msgspec
import pytest

from callgate.approval import ApprovalPolicy, Gated
from callgate.approval.action import action_hash
from callgate.errors import Reason, Refused
from support.ceremonies import GATED, Scene, authenticator, evidence
from support.registry import requirement
from support.table import rows


async def refusal(awaited):
    with pytest.raises(Refused) as refused:
        await awaited
    return refused.value


async def people():
    scene, anns, bobs = Scene(), authenticator(), authenticator()
    await scene.enrol(anns)
    await scene.enrol(bobs, "bob")
    return scene, anns, bobs


async def signed_in(scene, key, user=None):
    return await scene.approvals.finish_sign_in(evidence(await scene.approvals.begin_sign_in(user), key))


@rows("named", [True, False])
async def test_a_passkey_opens_a_session(named):
    scene, key = Scene(), authenticator(transports=("internal",))
    held = await scene.enrol(key)
    issued = await scene.approvals.begin_sign_in("ann" if named else None)
    allowed = issued.result["requestOptions"]["allowCredentials"]
    assert [one["id"] for one in allowed] == ([held.id] if named else [])
    session, secret = await scene.approvals.finish_sign_in(evidence(issued, key))
    assert (session.user, session.credential) == ("ann", held.id)
    assert session.expires_at == scene.clock.at + 28_800_000
    assert await scene.approvals.session(secret) == session
    assert secret not in repr(vars(scene.shelf))
    await scene.approvals.sign_out(secret)
    assert await scene.approvals.session(secret) is None


async def test_a_session_ends_by_itself_and_with_its_passkey():
    scene, anns, _ = await people()
    session, secret = await signed_in(scene, anns)
    scene.clock.tick(28_800_000 - 1)
    assert await scene.approvals.session(secret)
    scene.clock.tick(1)
    assert await scene.approvals.session(secret) is None
    session, secret = await signed_in(scene, anns)
    await scene.approvals.revoke(session.credential, by="operator")
    assert await scene.approvals.session(secret) is None


@rows("secret", ["", "x", "x" * 1000, "\0", "\ud800"])
async def test_a_secret_that_was_never_given_out_is_no_session(secret):
    scene, anns, _ = await people()
    await signed_in(scene, anns)
    assert await scene.approvals.session(secret) is None
    await scene.approvals.sign_out(secret)


async def test_a_sign_in_counts_once():
    scene, anns, _ = await people()
    given = evidence(await scene.approvals.begin_sign_in("ann"), anns)
    await scene.approvals.finish_sign_in(given)
    assert (await refusal(scene.approvals.finish_sign_in(given))).reason is Reason.SIGN_IN_FAILED


@rows(
    "bend",
    [
        {"uv": False},
        {"origin": "https://evil.example"},
        {"cross_origin": True},
        {"tamper_signature": True},
        {"counter": 0},
    ],
    ids=str,
)
async def test_a_sign_in_is_verified_as_an_approval_is(bend):
    scene, anns, _ = await people()
    given = evidence(await scene.approvals.begin_sign_in("ann"), anns, **bend)
    assert (await refusal(scene.approvals.finish_sign_in(given))).reason is Reason.SIGN_IN_FAILED
    assert scene.shelf.rows("console_session") == []


async def test_without_a_name_the_passkey_has_to_say_whose_it_is():
    scene, anns, bobs = await people()
    for handle in (None, bobs.passkeys[0].handle):
        given = evidence(await scene.approvals.begin_sign_in(), anns, user_handle=handle)
        assert (await refusal(scene.approvals.finish_sign_in(given))).reason is Reason.SIGN_IN_FAILED
    named = evidence(await scene.approvals.begin_sign_in("ann"), anns, user_handle=None)
    assert await scene.approvals.finish_sign_in(named)


async def test_a_sign_in_for_one_person_is_not_anothers():
    scene, _, bobs = await people()
    given = evidence(await scene.approvals.begin_sign_in("ann"), bobs, credential_id=_id(bobs))
    assert (await refusal(scene.approvals.finish_sign_in(given))).reason is Reason.SIGN_IN_FAILED


@rows("name", ["nobody", "a\0nn", "\ud800", "x" * 5000])
async def test_a_name_that_nobody_has_gets_a_challenge_that_tells_nothing(name):
    scene, _, _ = await people()
    issued = await scene.approvals.begin_sign_in(name)
    again = await scene.approvals.begin_sign_in(name)
    known = await scene.approvals.begin_sign_in("ann")
    (made_up,) = issued.result["requestOptions"]["allowCredentials"]
    assert again.result["requestOptions"]["allowCredentials"] == [made_up]
    assert shape(issued.result) == shape(known.result)
    assert await scene.shelf.credential(made_up["id"]) is None
    assert name not in repr(issued.result)
    assert issued.challenge.user == known.challenge.user == ""


def shape(value):
    """Names and types, without what differs from one challenge to the next."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    return [shape(value[0])] if isinstance(value, list) else type(value)


async def test_made_up_passkeys_differ_by_name_and_by_process():
    (scene, anns, _), (other, _, _) = await people(), await people()
    await scene.approvals.add_user("carl", by="operator")
    found = [
        issued.result["requestOptions"]["allowCredentials"][0]["id"]
        for issued in (
            await scene.approvals.begin_sign_in("nobody"),
            await scene.approvals.begin_sign_in("somebody"),
            await other.approvals.begin_sign_in("nobody"),
            # known, and without a passkey yet
            await scene.approvals.begin_sign_in("carl"),
        )
    ]
    assert len(set(found)) == 4
    given = evidence(await scene.approvals.begin_sign_in("nobody"), anns, credential_id=_id(anns))
    assert (await refusal(scene.approvals.finish_sign_in(given))).reason is Reason.SIGN_IN_FAILED


async def test_a_sign_in_lasts_two_minutes():
    scene, anns, _ = await people()
    given = evidence(await scene.approvals.begin_sign_in("ann"), anns)
    late = evidence(await scene.approvals.begin_sign_in("ann"), anns)
    # Not to the last millisecond: while the store works, time goes on.
    scene.clock.tick(100_000)
    await scene.approvals.finish_sign_in(given)
    scene.clock.tick(20_000)
    assert (await refusal(scene.approvals.finish_sign_in(late))).reason is Reason.SIGN_IN_FAILED


@requirement("VA-028")
async def test_a_passkey_vouches_for_a_further_device_of_the_same_person():
    scene, anns, _ = await people()
    assert (await refusal(scene.approvals.begin_enrolment(None))).reason is Reason.ENROLMENT_NOT_AUTHORISED
    issued = await scene.approvals.begin_device("ann")
    assert issued.result["displayText"] == "Add another passkey for ann"
    given = evidence(issued, anns)
    ticket = await scene.approvals.finish_device("ann", given)
    looked = await scene.approvals.look_at_ticket(ticket)
    assert (looked.user, looked.purpose, looked.by) == ("ann", "device", "ann")
    options = (await scene.approvals.begin_enrolment(ticket))["options"]
    await scene.approvals.finish_enrolment(authenticator().create(options))
    assert len(await scene.shelf.credentials("ann")) == 2
    assert (await refusal(scene.approvals.finish_device("ann", given))).reason is Reason.CHALLENGE_CONSUMED


@requirement("VA-028")
async def test_without_that_signature_there_is_no_ticket():
    scene, anns, bobs = await people()
    before = scene.shelf.rows("ticket")
    issued = await scene.approvals.begin_device("ann")
    tries = [
        ("ann", None, Reason.MISSING_EVIDENCE),
        ("ann", evidence(issued, anns, tamper_signature=True), Reason.SIGNATURE_VERIFICATION_FAILED),
        ("ann", evidence(issued, anns, uv=False), Reason.SIGNATURE_VERIFICATION_FAILED),
        ("ann", evidence(issued, bobs, credential_id=_id(bobs)), Reason.UNKNOWN_CREDENTIAL),
        ("bob", evidence(issued, anns), Reason.UNKNOWN_CREDENTIAL),
    ]
    for user, given, reason in tries:
        assert (await refusal(scene.approvals.finish_device(user, given))).reason is reason
    assert scene.shelf.rows("ticket") == before
    assert (await refusal(scene.approvals.begin_device("nobody"))).reason is Reason.NO_ELIGIBLE_CREDENTIAL


async def two_of_anns():
    """One at hand, and one in a drawer."""
    scene, ring = Scene(), authenticator()
    return scene, ring, await scene.enrol(ring), await scene.enrol(authenticator())


async def test_a_passkey_signs_for_the_end_of_another_and_of_itself():
    scene, ring, ring_held, drawer_held = await two_of_anns()
    await scene.approvals.rename(drawer_held.id, "In the drawer", by="ann")
    issued = await scene.approvals.begin_revocation("ann", drawer_held.id)
    assert issued.result["displayText"] == f"Revoke the passkey “In the drawer” ({drawer_held.id[:8]}…) of ann"
    assert {one["id"] for one in issued.result["requestOptions"]["allowCredentials"]} == {ring_held.id, drawer_held.id}
    given = evidence(issued, ring, credential_id=ring_held.id)
    await scene.approvals.finish_revocation("ann", drawer_held.id, given)
    assert [one.id for one in await scene.shelf.credentials("ann")] == [ring_held.id]
    detail = {"credential": drawer_held.id, "signed_with": ring_held.id}
    assert scene.log[-1] == ("credential.revoke", "ann", detail)
    again = await refusal(scene.approvals.finish_revocation("ann", drawer_held.id, given))
    assert again.reason is Reason.UNKNOWN_CREDENTIAL
    given = evidence(await scene.approvals.begin_revocation("ann", ring_held.id), ring)
    await scene.approvals.finish_revocation("ann", ring_held.id, given)
    assert await scene.shelf.credentials("ann") == []


async def test_without_a_signature_over_exactly_that_no_passkey_ends():
    scene, ring, ring_held, drawer_held = await two_of_anns()
    bobs = authenticator()
    bobs_held = await scene.enrol(bobs, "bob")
    issued = await scene.approvals.begin_revocation("ann", drawer_held.id)
    given = evidence(issued, ring, credential_id=ring_held.id)
    tries = [
        ("ann", drawer_held, None, Reason.MISSING_EVIDENCE),
        ("ann", ring_held, given, Reason.ARGUMENT_HASH_MISMATCH),
        ("ann", bobs_held, given, Reason.UNKNOWN_CREDENTIAL),
        ("bob", bobs_held, given, Reason.ARGUMENT_HASH_MISMATCH),
        ("bob", drawer_held, given, Reason.UNKNOWN_CREDENTIAL),
        ("ann", drawer_held, evidence(issued, bobs, credential_id=_id(bobs)), Reason.UNKNOWN_CREDENTIAL),
        ("ann", drawer_held, evidence(issued, ring, uv=False), Reason.SIGNATURE_VERIFICATION_FAILED),
    ]
    for user, held, signed, reason in tries:
        refused = await refusal(scene.approvals.finish_revocation(user, held.id, signed))
        assert refused.reason is reason
    for user, held in (("ann", bobs_held.id), ("bob", drawer_held.id), ("nobody", drawer_held.id), ("ann", "none")):
        assert (await refusal(scene.approvals.begin_revocation(user, held))).reason is Reason.UNKNOWN_CREDENTIAL
    assert len(await scene.shelf.credentials()) == 3
    await scene.approvals.finish_revocation("ann", drawer_held.id, given)


async def test_what_was_signed_in_the_console_goes_on_record_with_the_passkey():
    scene, ring, held, _ = await two_of_anns()
    body = b'{"body":{"note":"over"},"path":"/switch/off"}'
    issued = await scene.approvals.begin_act("ann", "switch/off", body, "Let calls through again")
    given = evidence(issued, ring, credential_id=held.id)
    for act, other in (("switch/on", body), ("switch/off", body + b" ")):
        assert (await refusal(scene.approvals.finish_act("ann", act, other, given))).reason in {
            Reason.ARGUMENT_HASH_MISMATCH,
            Reason.CHALLENGE_UNKNOWN,
        }
    before = len(scene.log)
    assert await scene.approvals.finish_act("ann", "switch/off", body, given) == held.id
    detail = {"act": "switch/off", "body": sha256(body).hexdigest(), "credential": held.id}
    assert scene.log[before:] == [("console.signed", "ann", detail)]
    assert (await refusal(scene.approvals.finish_act("ann", "switch/off", body, given))).reason is (
        Reason.CHALLENGE_CONSUMED
    )
    assert len(scene.log) == before + 1


def _id(who):
    return who.get({"challenge": "AA", "rpId": "localhost"})["id"]


CALL = msgspec.structs.replace(GATED, policy=ApprovalPolicy("platform"), input_schema=None)


async def for_a_call(scene):
    return await scene.issue(CALL, {})


async def for_signing_in(scene):
    return await scene.approvals.begin_sign_in("ann")


async def for_a_device(scene):
    return await scene.approvals.begin_device("ann")


async def for_revoking(scene):
    return await scene.approvals.begin_revocation("ann", await a_passkey(scene))


async def for_a_page(scene):
    return await scene.approvals.page_challenge(await waiting(scene))


async def a_passkey(scene):
    return (await scene.shelf.credentials("ann"))[0].id


async def waiting(scene):
    return await scene.approvals.ask(CALL, {}, b"{}", "ann", caller="agent", agent={})


async def as_a_call(scene, given):
    await scene.call(given, CALL, {})


async def as_the_signing_in_tool(scene, given):
    """Even a tool that is named as the console's own challenges are, with the same hash."""
    await scene.call(given, Gated("callgate", "localhost", "console/sign-in", ApprovalPolicy("platform")), {})


async def as_signing_in(scene, given):
    await scene.approvals.finish_sign_in(given)


async def as_a_device(scene, given):
    await scene.approvals.finish_device("ann", given)


async def as_revoking(scene, given):
    await scene.approvals.finish_revocation("ann", await a_passkey(scene), given)


async def as_a_page(scene, given):
    await scene.approvals.approve((await waiting(scene)).id, given, by="ann")


KINDS = {
    for_a_call: as_a_call,
    for_signing_in: as_signing_in,
    for_a_device: as_a_device,
    for_revoking: as_revoking,
    for_a_page: as_a_page,
}


@rows("made", KINDS, ids=lambda made: made.__name__)
@rows("used", [*KINDS.values(), as_the_signing_in_tool], ids=lambda used: used.__name__)
async def test_a_challenge_serves_what_it_was_made_for_and_nothing_else(made, used):
    scene, key = Scene(), authenticator()
    await scene.enrol(key)
    given = evidence(await made(scene), key)
    if KINDS[made] is used:
        await used(scene, given)
        return
    with pytest.raises(Refused) as refused:
        await used(scene, given)
    between_calls = made is for_a_call and used is as_the_signing_in_tool
    expected = Reason.CHALLENGE_WRONG_TOOL if between_calls else Reason.CHALLENGE_UNKNOWN
    assert refused.value.reason is (Reason.SIGN_IN_FAILED if used is as_signing_in else expected)
    assert (await scene.shelf.challenge(given["challengeId"])).consumed_at is None
    assert scene.shelf.rows("console_session") == []
    assert len(await scene.shelf.credentials("ann")) == 1


async def test_the_hash_of_a_sign_in_is_that_of_no_call():
    scene, _, _ = await people()
    issued = await scene.approvals.begin_sign_in("ann")
    assert issued.challenge.action_hash == action_hash("console/sign-in", b"{}", "localhost")

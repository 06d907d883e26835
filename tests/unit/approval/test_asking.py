"""The approval page: a call waits, its person signs or refuses, and one call of the same caller passes."""

import msgspec
import pytest

from callgate.approval import ApprovalBounds, ApprovalPolicy, ApprovalSettings
from callgate.canonical import canonical
from callgate.errors import Reason, Refused, Spent
from support.ceremonies import ARGUMENTS, GATED, Scene, authenticator, evidence
from support.table import rows

CANONICAL = canonical(ARGUMENTS)


async def refusal(awaited):
    with pytest.raises(Refused) as refused:
        await awaited
    return refused.value


@pytest.fixture
async def scene():
    return await set_up()


async def set_up():
    made = Scene()
    made.key, made.bobs = authenticator(), authenticator()
    made.key_id = (await made.enrol(made.key)).id
    made.bobs_id = (await made.enrol(made.bobs, "bob")).id
    return made


async def ask(scene, arguments=ARGUMENTS, *, caller="agent", user="ann", gated=GATED, **more):
    given = canonical(arguments)
    return await scene.approvals.ask(gated, arguments, given, user, caller=caller, agent={"name": "An agent"}, **more)


async def approve(scene, request, key=None, **bend):
    issued = await scene.approvals.page_challenge(request)
    return await scene.approvals.approve(request.id, evidence(issued, key or scene.key, **bend), by="ann")


async def test_a_request_says_what_is_asked_and_by_whom(scene):
    request = await ask(scene, why="policy asks")
    assert (request.user, request.server, request.tool, request.caller) == ("ann", "store", "delete_resource", "agent")
    assert (request.agent, request.canonical, request.why) == ({"name": "An agent"}, CANONICAL, "policy asks")
    assert request.display_text == 'delete_resource\n  resourceId: "abc123"'
    assert (request.state, request.expires_at) == ("waiting", scene.clock.at + 600_000)
    assert await scene.approvals.request(request.id) == request
    assert scene.log[-1][:2] == ("approval.ask", "agent")


async def test_an_approval_lets_one_call_through(scene):
    request = await ask(scene)
    assert await scene.approvals.grant(GATED, CANONICAL, caller="agent") is None
    approved = await approve(scene, request)
    assert (approved.state, approved.decided_by, approved.decided_at) == ("approved", "ann", scene.clock.at)
    assert (approved.evidence["request"], approved.evidence["credential"]) == (request.id, scene.key_id)
    assert scene.log[-1] == (
        "approval.approve",
        "ann",
        {"request": request.id, "user": "ann", "credential": scene.key_id},
    )
    grant = await scene.approvals.grant(GATED, CANONICAL, caller="agent")
    assert grant == approved
    await scene.shelf.use(scene.approvals.grant_use(grant, "call 1"))
    assert (await scene.approvals.request(request.id)).state == "used"
    assert await scene.approvals.grant(GATED, CANONICAL, caller="agent") is None
    with pytest.raises(Spent):
        await scene.shelf.use(scene.approvals.grant_use(grant, "call 2"))


@rows(
    "other",
    [
        {"caller": "another agent"},
        {"canonical": canonical({"resourceId": "abc124"})},
        {"gated": msgspec.structs.replace(GATED, tool="place_trade")},
        {"gated": msgspec.structs.replace(GATED, server="other")},
        {"gated": msgspec.structs.replace(GATED, server_id="urn:other")},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_an_approval_is_for_this_call_of_this_caller(other):
    scene = await set_up()
    await approve(scene, await ask(scene))
    asked = {"gated": GATED, "canonical": CANONICAL, "caller": "agent"} | other
    assert await scene.approvals.grant(asked["gated"], asked["canonical"], caller=asked["caller"]) is None


async def test_an_approval_runs_out_with_its_request(scene):
    request = await ask(scene)
    approved = await approve(scene, request)
    scene.clock.tick(599_999)
    assert await scene.approvals.grant(GATED, CANONICAL, caller="agent")
    scene.clock.tick(1)
    assert await scene.approvals.grant(GATED, CANONICAL, caller="agent") is None
    with pytest.raises(Spent) as spent:
        await scene.shelf.use(scene.approvals.grant_use(approved, "call"))
    assert spent.value.reason is Reason.APPROVAL_EXPIRED


async def test_the_same_call_again_finds_its_request(scene):
    request = await ask(scene)
    assert await ask(scene) == request
    assert (await ask(scene, caller="other")).id != request.id
    approved = await approve(scene, request)
    assert await ask(scene) == approved
    await scene.shelf.use(scene.approvals.grant_use(approved, "call"))
    assert (await ask(scene)).id != request.id


async def test_a_refusal_reaches_the_caller_and_ends_it(scene):
    request = await ask(scene)
    issued = await scene.approvals.page_challenge(request)
    refused = await scene.approvals.refuse(request.id, by="ann", note="not today\x1b[31m\u202e\n" + "x" * 1000)
    assert (refused.state, refused.decided_by) == ("refused", "ann")
    assert refused.note.startswith("not today [31m \nxxx")
    assert len(refused.note) <= 500
    late = await refusal(scene.approvals.approve(request.id, evidence(issued, scene.key), by="ann"))
    assert late.reason is Reason.APPROVAL_DECIDED
    assert (await refusal(scene.approvals.page_challenge(refused))).reason is Reason.APPROVAL_DECIDED
    assert (await refusal(scene.approvals.refuse(request.id, by="ann", note=""))).reason is Reason.APPROVAL_DECIDED
    assert await scene.approvals.grant(GATED, CANONICAL, caller="agent") is None
    assert (await ask(scene)).id != request.id


async def test_what_was_approved_cannot_be_refused_or_approved_again(scene):
    request = await ask(scene)
    issued = [await scene.approvals.page_challenge(request) for _ in range(2)]
    await scene.approvals.approve(request.id, evidence(issued[0], scene.key), by="ann")
    second = scene.approvals.approve(request.id, evidence(issued[1], scene.key), by="ann")
    assert (await refusal(second)).reason is Reason.APPROVAL_DECIDED
    assert (await refusal(scene.approvals.refuse(request.id, by="ann", note=""))).reason is Reason.APPROVAL_DECIDED
    assert (await scene.approvals.request(request.id)).state == "approved"


async def test_a_request_that_ran_out_cannot_be_decided(scene):
    request = await ask(scene)
    scene.clock.tick(599_000)
    issued = await scene.approvals.page_challenge(request)
    # The challenge ends with the request, not later.
    assert issued.challenge.expires_at == request.expires_at
    scene.clock.tick(1000)
    assert scene.approvals.expired(request)
    assert (await refusal(scene.approvals.page_challenge(request))).reason is Reason.APPROVAL_EXPIRED
    late = await refusal(scene.approvals.approve(request.id, evidence(issued, scene.key), by="ann"))
    assert late.reason is Reason.CHALLENGE_EXPIRED
    assert (await refusal(scene.approvals.refuse(request.id, by="ann", note=""))).reason is Reason.APPROVAL_EXPIRED


@rows(
    ("bend", "reason"),
    [
        ({"uv": False}, Reason.SIGNATURE_VERIFICATION_FAILED),
        ({"origin": "https://evil.example"}, Reason.SIGNATURE_VERIFICATION_FAILED),
        ({"tamper_signature": True}, Reason.SIGNATURE_VERIFICATION_FAILED),
        ({"counter": 1}, Reason.SIGNATURE_COUNTER_REGRESSION),
    ],
    ids=str,
)
async def test_the_pages_signature_is_verified_as_evidence_is(bend, reason):
    scene = await set_up()
    request = await ask(scene)
    assert (await refusal(approve(scene, request, **bend))).reason is reason
    assert (await scene.approvals.request(request.id)).state == "waiting"
    await approve(scene, request)


async def test_another_person_cannot_approve_it(scene):
    request = await ask(scene)
    issued = await scene.approvals.page_challenge(request)
    assert [one["id"] for one in issued.result["requestOptions"]["allowCredentials"]] == [scene.key_id]
    theirs = evidence(issued, scene.bobs, credential_id=scene.bobs_id)
    assert (await refusal(scene.approvals.approve(request.id, theirs, by="bob"))).reason is Reason.UNKNOWN_CREDENTIAL
    # Nor with a challenge for a request of their own.
    own = await ask(scene, user="bob", caller="bob's agent")
    theirs = evidence(await scene.approvals.page_challenge(own), scene.bobs)
    assert (await refusal(scene.approvals.approve(request.id, theirs, by="bob"))).reason is Reason.CHALLENGE_UNKNOWN
    assert (await scene.approvals.request(request.id)).state == "waiting"


async def test_the_challenge_of_one_request_is_none_of_another(scene):
    first, second = await ask(scene), await ask(scene, {"resourceId": "other"})
    given = evidence(await scene.approvals.page_challenge(first), scene.key)
    assert (await refusal(scene.approvals.approve(second.id, given, by="ann"))).reason is Reason.CHALLENGE_UNKNOWN
    assert (await refusal(scene.approvals.approve("none", given, by="ann"))).reason is Reason.CHALLENGE_UNKNOWN
    await scene.approvals.approve(first.id, given, by="ann")


async def test_a_challenge_of_the_page_is_no_evidence_and_evidence_opens_no_page(scene):
    request = await ask(scene)
    page = evidence(await scene.approvals.page_challenge(request), scene.key)
    assert (await refusal(scene.call(page))).reason is Reason.CHALLENGE_UNKNOWN
    direct = evidence(await scene.issue(), scene.key)
    assert (await refusal(scene.approvals.approve(request.id, direct, by="ann"))).reason is Reason.CHALLENGE_UNKNOWN
    await scene.call(direct)
    # It is the counter that the first has fallen behind with now, nothing else.
    late = await refusal(scene.approvals.approve(request.id, page, by="ann"))
    assert late.reason is Reason.SIGNATURE_COUNTER_REGRESSION


async def test_a_session_alone_approves_nothing(scene):
    session, secret = await scene.approvals.finish_sign_in(
        evidence(await scene.approvals.begin_sign_in("ann"), scene.key)
    )
    request = await ask(scene)
    for given in (None, {}, {"session": secret}, {"method": "session", "challengeId": "x", "response": {}}):
        with pytest.raises(Refused):
            await scene.approvals.approve(request.id, given, by=session.user)
    assert (await scene.approvals.request(request.id)).state == "waiting"


async def test_who_has_no_passkey_is_not_asked(scene):
    laptop = authenticator(transports=("internal",))
    await scene.enrol(laptop, "eve")
    assert (await refusal(ask(scene, user="eve"))).reason is Reason.NO_ELIGIBLE_CREDENTIAL
    assert (await refusal(ask(scene, user="nobody"))).reason is Reason.NO_ELIGIBLE_CREDENTIAL
    here = msgspec.structs.replace(GATED, policy=ApprovalPolicy("platform"))
    await approve(scene, await ask(scene, user="eve", gated=here), laptop)


async def test_arguments_are_checked_before_anybody_is_bothered(scene):
    assert (await refusal(ask(scene, {"resourceId": ""}))).reason is Reason.ARGUMENTS_INVALID
    assert await scene.shelf.requests("ann") == []


async def test_requests_that_wait_are_bounded():
    scene = Scene(ApprovalSettings(bounds=ApprovalBounds(requests_per_user=2)))
    await scene.enrol(authenticator())
    await scene.enrol(authenticator(), "bob")
    for name in ("a", "b"):
        await ask(scene, {"resourceId": name})
    assert (await refusal(ask(scene, {"resourceId": "c"}))).reason is Reason.APPROVAL_LIMIT
    await ask(scene, {"resourceId": "c"}, user="bob")
    await ask(scene, {"resourceId": "a"})
    scene.clock.tick(600_000)
    await ask(scene, {"resourceId": "c"})


async def test_what_agents_have_opened_does_not_keep_a_person_from_the_page():
    scene, key = Scene(ApprovalSettings(bounds=ApprovalBounds(per_user=1, in_all=1))), authenticator()
    await scene.enrol(key)
    await scene.issue()
    assert (await refusal(scene.issue())).reason is Reason.APPROVAL_LIMIT
    await approve(scene, await ask(scene), key)
    await scene.approvals.finish_sign_in(evidence(await scene.approvals.begin_sign_in("ann"), key))

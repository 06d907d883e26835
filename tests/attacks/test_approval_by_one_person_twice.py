"""A call needs two people of a group, and one of them tries to be both: with two passkeys, under a name that was taken
away and given again, in another's name; or does not count any more: revoked, demoted, removed, out of the group."""

import pytest

from callgate.approval import ApprovalPolicy, Gated
from callgate.approval.model import GrantUse
from callgate.canonical import canonical
from callgate.errors import Refused, Spent
from callgate.gate import Quorum
from support.console import AGENT, ARGUMENTS, VERSION
from support.registry import requirement

TWO = ApprovalPolicy("cross-platform", quorums=(Quorum(2, ("ops",)),))
ENDS = ("revoked", "removed", "demoted", "out of the group")


@pytest.fixture
def console(console_of_each_store):
    return console_of_each_store


def gated(policy=TWO):
    return Gated("files", "urn:test:files", "delete_resource", policy, version=VERSION)


async def ask(console, policy=TWO):
    approvals = console.approvals
    return await approvals.ask(
        gated(policy), ARGUMENTS, canonical(ARGUMENTS), policy.people, caller="caller", agent=AGENT
    )


async def sign(console, asked, person):
    """As the page does it."""
    issued = await console.post(f"/approve/{asked.id}/options", {}, person)
    if issued.status != 200:
        return issued
    return await answer(console, asked, person, issued.json, person)


async def answer(console, asked, person, issued, signer):
    response = signer.key.get(dict(issued["requestOptions"], allowCredentials=[]))
    body = {"challengeId": issued["challengeId"], "response": response}
    return await console.post(f"/approve/{asked.id}/approve", body, person)


async def granted(console):
    return await console.approvals.grant(gated(), canonical(ARGUMENTS), caller="caller")


async def end(console, how, person, operator):
    """An operator takes away what the person had, over the page."""
    if how == "revoked":
        return await console.act(f"/people/{person.user}/revoke", {"passkey": person.credential.id}, operator)
    if how == "removed":
        held = len(await console.approvals.shelf.credentials(person.user))
        return await console.act(f"/people/{person.user}/remove", {"passkeys": held}, operator)
    if how == "demoted":
        return await console.act(f"/people/{person.user}/role", {"role": "viewer", "before": "approver"}, operator)
    return await console.act(f"/people/{person.user}/groups", {"group": "ops", "member": False}, operator)


@pytest.fixture
async def ops(console):
    """Three people of the group, and an operator who is not in it."""
    people = [await console.sign_in(name, role="approver") for name in ("anna", "ben", "cleo")]
    for person in people:
        await console.approvals.join_group("ops", person.user, by="test")
    return [*people, await console.sign_in("otto")]


@requirement("VA-182")
async def test_two_passkeys_of_one_person(console, ops):
    anna, ben, *_ = ops
    second = await console.sign_in("anna")
    asked = await ask(console)
    # A challenge that was open before the first signature is no second one.
    early = await console.post(f"/approve/{asked.id}/options", {}, second)
    assert (await sign(console, asked, anna)).json == {"state": "waiting"}
    late = await sign(console, asked, second)
    assert (late.status, late.reason) == (409, "approval_signed")
    late = await answer(console, asked, second, early.json, second)
    assert (late.status, late.reason) == (409, "approval_signed")
    assert await granted(console) is None
    assert (await sign(console, asked, ben)).json == {"state": "approved"}
    assert (await granted(console)).evidence["signatures"][1]["user"] == "ben"


async def test_somebody_elses_challenge(console, ops):
    """Anna has signed; now she answers the challenge of Ben's page, and Ben's browser sends what she signed."""
    anna, ben, *_ = ops
    asked = await ask(console)
    await sign(console, asked, anna)
    second = await console.sign_in("anna")
    issued = (await console.post(f"/approve/{asked.id}/options", {}, ben)).json
    for sender, reason in ((second, "challenge_unknown"), (ben, "unknown_credential")):
        refused = await answer(console, asked, sender, issued, second)
        assert refused.reason == reason
    assert await granted(console) is None


@pytest.mark.parametrize("how", ENDS)
async def test_the_first_signer_is_gone_when_the_second_signs(console, ops, how):
    anna, ben, cleo, otto = ops
    asked = await ask(console)
    await sign(console, asked, anna)
    assert (await end(console, how, anna, otto)).status == 200
    assert (await sign(console, asked, ben)).json == {"state": "waiting"}
    assert await granted(console) is None
    # Two who count let it through.
    assert (await sign(console, asked, cleo)).json == {"state": "approved"}
    signed = (await granted(console)).evidence["signatures"]
    assert [one["user"] for one in signed] == ["ben", "cleo"]


@pytest.mark.parametrize("how", ENDS)
async def test_a_signer_is_gone_when_the_call_comes(console, ops, how):
    anna, ben, _, otto = ops
    asked = await ask(console)
    await sign(console, asked, anna)
    await sign(console, asked, ben)
    assert (await end(console, how, anna, otto)).status == 200
    assert await granted(console) is None
    with pytest.raises(Spent):
        await console.approvals.shelf.use(GrantUse(asked.id, "call", console.approvals.now()))


@pytest.mark.parametrize("how", ["removed", "out of the group", "demoted"])
async def test_who_comes_back_has_to_sign_again(console, ops, how):
    """The same name again is not the same person, and a signature does not wait for its person to return."""
    anna, ben, _, otto = ops
    asked = await ask(console)
    await sign(console, asked, anna)
    await end(console, how, anna, otto)
    if how == "removed":
        await console.sign_in("anna", role="approver")
    if how == "demoted":
        await console.approvals.set_role("anna", "approver", by="test")
    else:
        await console.approvals.join_group("ops", "anna", by="test")
    assert (await sign(console, asked, ben)).json == {"state": "waiting"}
    assert await granted(console) is None


async def test_a_person_of_no_group(console, ops):
    """Not even an operator, who may do everything else."""
    anna, _, _, otto = ops
    asked = await ask(console)
    assert (await console.get(f"/approve/{asked.id}", otto)).status == 404
    for path in ("options", "approve", "refuse"):
        body = {"note": ""} if path == "refuse" else {}
        assert (await console.post(f"/approve/{asked.id}/{path}", body, otto)).status in (400, 404), path
    assert asked.id not in (await console.get("/approvals", otto)).text
    assert asked.id in (await console.get("/approvals", anna)).text
    with pytest.raises(Refused) as caught:
        await console.approvals.page_challenge(asked, "otto")
    assert caught.value.reason.value == "not_asked"


async def test_who_left_the_group_with_the_page_open(console, ops):
    anna, ben, _, otto = ops
    asked = await ask(console)
    issued = (await console.post(f"/approve/{asked.id}/options", {}, anna)).json
    response = anna.key.get(issued["requestOptions"])
    evidence = {"method": "webauthn", "challengeId": issued["challengeId"], "response": response}
    await end(console, "out of the group", anna, otto)
    # The store has the last word, whatever the page has checked.
    with pytest.raises(Refused) as caught:
        await console.approvals.approve(asked.id, evidence, by="anna")
    assert caught.value.reason.value == "not_asked"
    assert (await sign(console, asked, ben)).json == {"state": "waiting"}


async def test_no_after_a_yes_ends_it(console, ops):
    """One who has signed may change their mind, and one refusal counts more than any signature."""
    anna, ben, *_ = ops
    asked = await ask(console)
    await sign(console, asked, anna)
    refused = await console.post(f"/approve/{asked.id}/refuse", {"note": "wrong account"}, anna)
    assert refused.json == {"state": "refused"}
    late = await sign(console, asked, ben)
    assert (late.status, late.reason) == (409, "approval_decided")
    assert await granted(console) is None


async def test_two_demands_are_both_met(console, ops):
    """Two of ops and one of legal: a person of both groups counts for each, and two of ops alone are not enough."""
    anna, ben, cleo, _ = ops
    policy = TWO.demanding([Quorum(1, ("legal",))])
    assert policy.people == "1 of legal and 2 of ops"
    await console.approvals.join_group("legal", "cleo", by="test")
    asked = await ask(console, policy)
    for person, state in ((anna, "waiting"), (ben, "waiting"), (cleo, "approved")):
        assert (await sign(console, asked, person)).json == {"state": state}

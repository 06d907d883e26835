"""A lost passkey is revoked, or its person may do less; what it signed before is still on its way: a link for a further
passkey, an enrolment that has begun, an approval that no call has used."""

import pytest
from sqlalchemy import text

from callgate.approval import ApprovalPolicy, Gated
from callgate.approval.model import GrantUse
from callgate.approval.people import ticket_hash
from callgate.canonical import canonical
from callgate.errors import Refused, Spent
from callgate.gate import Quorum
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.console import ARGUMENTS
from support.persons import MARK, approval_site, enrolled
from support.registry import requirement
from support.sessions import Guest
from support.states import reason
from support.stores import ready

GONE = {"revoked", "removed", "demoted"}


@pytest.fixture
def console(console_of_each_store):
    return console_of_each_store


async def device_link(console, person):
    """The ticket for a further passkey, signed with the one that the person holds."""
    answer = await console.post("/device", await console.signed_for("/device/options", person), person)
    assert answer.status == 200
    return answer.json["ticket"]


async def begin(console, ticket):
    return await console.post("/enrol/begin", {"ticket": ticket})


async def finish(console, begun):
    key = SoftwareAuthenticator(console.origin, transports=("usb",))
    return await console.post("/enrol/finish", {"response": key.create(begun.json["options"]), "name": "thief's"})


async def end(console, how, person, operator):
    """Another operator takes away what the person had, over the page."""
    if how == "revoked":
        return await console.act(f"/people/{person.user}/revoke", {"passkey": person.credential.id}, operator)
    if how == "removed":
        return await console.act(f"/people/{person.user}/remove", {"passkeys": 1}, operator)
    return await console.act(f"/people/{person.user}/role", {"role": "viewer", "before": "operator"}, operator)


@pytest.fixture
async def both(console):
    return await console.sign_in("anna"), await console.sign_in("otto")


@pytest.mark.parametrize("how", sorted(GONE))
@requirement("VA-147")
async def test_a_link_for_a_further_passkey(console, both, how):
    person, operator = both
    ticket = await device_link(console, person)
    assert (await end(console, how, person, operator)).status == 200
    answer = await begin(console, ticket)
    assert (answer.status, answer.reason) == (403, "enrolment_not_authorised")


@pytest.mark.parametrize("how", sorted(GONE))
async def test_an_enrolment_that_has_begun(console, both, how):
    person, operator = both
    begun = await begin(console, await device_link(console, person))
    assert (await end(console, how, person, operator)).status == 200
    answer = await finish(console, begun)
    assert (answer.status, answer.reason) == (403, "no_pending_enrollment")
    held = await console.approvals.shelf.credentials(person.user, revoked=True)
    assert {one.id for one in held} <= {person.credential.id}


@pytest.mark.parametrize("how", sorted(GONE))
async def test_an_invitation_that_it_signed(console, both, how):
    """A stranger whom the thief invited, as operator even."""
    person, operator = both
    invited = await console.act("/people/invite", {"name": "mallory", "role": "operator", "displayName": ""}, person)
    other = await console.act("/people/invite", {"name": "nora", "role": "viewer", "displayName": ""}, operator)
    begun = await begin(console, other.json["ticket"])
    assert (await end(console, how, person, operator)).status == 200
    answer = await begin(console, invited.json["ticket"])
    assert (answer.status, answer.reason) == (403, "enrolment_not_authorised")
    # What somebody else signed for goes on.
    assert (await finish(console, begun)).status == 200


@pytest.mark.parametrize("how", sorted(GONE))
async def test_an_approval_that_no_call_has_used(console, both, how):
    person, operator = both
    asked = await console.ask(user=person.user)
    body = await console.signed_for(f"/approve/{asked.id}/options", person)
    assert (await console.post(f"/approve/{asked.id}/approve", body, person)).status == 200
    assert (await end(console, how, person, operator)).status == 200
    gated = Gated(asked.server, "urn:test:files", asked.tool, asked.policy, version=asked.version)
    assert await console.approvals.grant(gated, canonical(ARGUMENTS), caller="caller") is None
    with pytest.raises(Spent):
        await console.approvals.shelf.use(GrantUse(asked.id, "call", console.approvals.now()))


@pytest.mark.parametrize("how", sorted(GONE))
async def test_all_of_it_is_gone_with_the_passkey(console, both, how):
    """Not only refused when it comes: nothing of it is left to come back with the role or the name."""
    person, operator = both
    ticket = await device_link(console, person)
    await begin(console, await device_link(console, person))
    assert (await end(console, how, person, operator)).status == 200
    shelf = console.approvals.shelf
    assert await shelf.ticket(ticket_hash(ticket)) is None
    assert await shelf.open_registrations(console.approvals.now()) == 0


@pytest.mark.parametrize("several", [False, True])
async def test_each_is_checked_again_where_it_is_used(console, both, several):
    """The store alone says that the passkey is revoked: whatever it left is there, and allows nothing."""
    person, _ = both
    approvals, policy = console.approvals, ApprovalPolicy(quorums=(Quorum(1, ("ops",)),) if several else ())
    await approvals.join_group("ops", "anna", by="test")
    gated = Gated("files", "urn:test:files", "delete_resource", policy)
    who = policy.people or "anna"
    asked = await approvals.ask(gated, ARGUMENTS, canonical(ARGUMENTS), who, caller="caller", agent={})
    body = await console.signed_for(f"/approve/{asked.id}/options", person)
    assert (await console.post(f"/approve/{asked.id}/approve", body, person)).json == {"state": "approved"}
    link, begun = await device_link(console, person), await begin(console, await device_link(console, person))
    with approvals.shelf._store.writing() as conn:
        conn.execute(text("UPDATE passkey SET revoked_at = 1 WHERE person = 'anna'"))
    with pytest.raises(Spent) as caught:
        await approvals.shelf.use(GrantUse(asked.id, "call", approvals.now()))
    assert caught.value.reason.value == "unknown_credential"
    assert (await begin(console, link)).reason == "enrolment_not_authorised"
    assert (await finish(console, begun)).reason == "no_pending_enrollment"


async def test_links_of_others_and_of_the_operator_stay(console, both):
    """A person whose passkey is lost and revoked comes back with the operator's link, made before or after."""
    person, operator = both
    second = await console.sign_in("anna")
    theirs = await device_link(console, second)
    given = await console.approvals.ticket("anna", by="operator")
    assert (await end(console, "revoked", person, operator)).status == 200
    for ticket in (theirs, given):
        assert (await finish(console, await begin(console, ticket))).status == 200


async def test_signed_just_before_it_was_revoked(console, both):
    """The signature is used up, then the passkey is revoked, and only then the ticket is written."""
    person, _ = both
    add = console.approvals.shelf.add_ticket

    async def revoked_first(ticket, witness=None):
        await console.approvals.revoke(person.credential.id, by="operator")
        await add(ticket, witness)

    console.approvals.shelf.add_ticket = revoked_first
    with pytest.raises(Refused) as caught:
        await console.approvals.finish_device(
            person.user, {"method": "webauthn", **await console.signed_for("/device/options", person)}
        )
    assert caught.value.reason.value == "unknown_credential"


async def test_a_link_that_went_to_somebody_else_is_cancelled(console, both):
    """By the person it is for, with a signature; by nobody else but an operator."""
    person, _ = both
    viewer = await console.sign_in("vera", role="viewer")
    begun = await begin(console, await device_link(console, person))
    ticket = await device_link(console, person)
    found = await console.approvals.shelf.tickets(console.approvals.now())
    [link] = [one.hash.hex() for one in found if one.used_at is None]
    assert link in (await console.get("/me", person)).text
    assert link in (await console.get("/people/anna", person)).text
    assert (await console.act("/links/cancel", {"link": link}, viewer)).status == 403
    assert (await console.post("/links/cancel", {"link": link}, person)).status == 400
    assert (await console.act("/links/cancel", {"link": link}, person)).status == 200
    assert (await begin(console, ticket)).reason == "enrolment_not_authorised"
    assert (await console.act("/links/cancel", {"link": link}, person)).reason == "page_outdated"
    # It was that link only.
    assert (await finish(console, begun)).status == 200


@pytest.fixture(params=["sqlite", "postgresql"])
def site(request, tmp_path):
    approval = {"park_seconds": 0, "user": "ann"}
    with ready(request.param, tmp_path) as url, approval_site(tmp_path, store={"url": url}, approval=approval) as made:
        yield made


async def test_at_a_gateway_an_approval_and_evidence_that_no_call_has_used(site):
    """What was signed for a call counts no more when the call comes: not the page's approval, not a client's evidence."""
    approvals = site.person.approvals
    await approvals.add_user("otto", by="test", role="operator")
    guest = Guest(site.gateway.url("web"), {})
    signing = Guest(site.gateway.url("web"), {"extensions": {MARK: {}}})

    def with_evidence(person, arguments):
        asked = signing.answer("approval/challenge/create", {"toolName": "wipe", "arguments": arguments})
        meta = {"_meta": {MARK: person.evidence(asked["result"])}}
        return {"name": "wipe", "arguments": arguments} | meta

    for how in ("demoted", "revoked", "removed"):
        person = await enrolled(site.store, "ann")
        # An honest one passes, in both ways.
        assert "content" in signing.answer("tools/call", with_evidence(person, {"id": f"{how} before"}))["result"]
        reached = len(site.vault("web").calls)
        assert reason(guest.call("wipe", id=how)) == "missing_evidence"
        await person.approve(await person.waiting_for(how))
        late = with_evidence(person, {"id": f"{how} evidence"})
        if how == "demoted":
            await approvals.set_role("ann", "viewer", by="test")
        elif how == "removed":
            await approvals.shelf.remove_user("ann")
        else:
            for one in await approvals.shelf.credentials("ann"):
                await approvals.revoke(one.id, by="test")
        answers = [signing.answer("tools/call", late), guest.call("wipe", id=how)]
        if how == "demoted":
            # Nor does it come back with the role.
            await approvals.set_role("ann", "approver", by="test")
            answers += [signing.answer("tools/call", late), guest.call("wipe", id=how)]
        assert all("error" in one for one in answers), (how, answers)
        assert len(site.vault("web").calls) == reached


async def test_a_link_that_somebody_else_has_opened_already(console, both):
    """The enrolment that was begun with it is shown, and is cancelled with it."""
    person, _ = both
    begun = await begin(console, await device_link(console, person))
    [link] = [one.hash.hex() for one in await console.approvals.shelf.tickets(console.approvals.now())]
    assert link in (await console.get("/me", person)).text
    assert "begun" in (await console.get("/people/anna", person)).text
    assert (await console.act("/links/cancel", {"link": link}, person)).status == 200
    answer = await finish(console, begun)
    assert (answer.status, answer.reason) == (403, "no_pending_enrollment")
    # One that has come to its end is no open link any more.
    assert (await finish(console, await begin(console, await device_link(console, person)))).status == 200
    assert await console.approvals.shelf.tickets(console.approvals.now()) == []

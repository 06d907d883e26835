"""Somebody who may only look approves all the same: on the page, with evidence of their own, or from a page that was
open while they still might.
"""

import pytest

from callgate.approval import ApprovalPolicy, Gated
from callgate.canonical import canonical
from callgate.errors import Refused
from support.console import ARGUMENTS

GATED = Gated("files", "urn:test:files", "delete_resource", ApprovalPolicy("cross-platform"))


async def approver(console):
    """Somebody who may approve for now, beside the operator that there has to be."""
    await console.sign_in("olga")
    return await console.sign_in("vera", role="approver")


async def reason_of(work):
    with pytest.raises(Refused) as refused:
        await work
    return refused.value.reason.value


def challenge(console, user):
    return console.approvals.challenge(GATED, ARGUMENTS, canonical(ARGUMENTS), user)


def verify(console, person, issued):
    evidence = {
        "method": "webauthn",
        "challengeId": issued.challenge.id,
        "response": person.key.get(issued.result["requestOptions"]),
    }
    return console.approvals.verify(GATED, ARGUMENTS, canonical(ARGUMENTS), evidence)


async def test_nobody_is_asked_who_may_only_look(console):
    await console.sign_in("olga")
    await console.sign_in("vera", role="viewer")
    assert await reason_of(console.ask(user="vera")) == "no_eligible_credential"
    assert await reason_of(challenge(console, "vera")) == "no_eligible_credential"


async def test_demoted_while_the_page_is_open(console_of_each_store):
    console = console_of_each_store
    person = await approver(console)
    asked = await console.ask(user="vera")
    signed = await console.signed(asked, person)
    await console.approvals.set_role("vera", "viewer", by="olga")
    for way, body in (("approve", signed), ("options", {}), ("refuse", {"note": "no"})):
        answer = await console.post(f"/approve/{asked.id}/{way}", body, person)
        assert answer.status in (403, 404), (way, answer.text)
    assert await console.approvals.shelf.request(asked.id) is None
    # Back again, what was signed before is worth nothing any more.
    await console.approvals.set_role("vera", "approver", by="olga")
    assert (await console.post(f"/approve/{asked.id}/approve", signed, person)).status == 404


async def test_a_request_that_is_there_all_the_same(console, monkeypatch):
    """Were one left over, the page itself says no, and has no button."""
    person = await approver(console)
    asked = await console.ask(user="vera")
    signed = await console.signed(asked, person)
    await console.approvals.set_role("vera", "viewer", by="olga")
    shelf = console.approvals.shelf

    async def found(_request_id):
        return asked

    monkeypatch.setattr(shelf, "request", found)
    page = (await console.get(f"/approve/{asked.id}", person)).text
    assert "You may look, not decide." in page
    assert 'id="approve"' not in page
    assert 'id="refuse-open"' not in page
    for way, body in (("approve", signed), ("options", {}), ("refuse", {})):
        answer = await console.post(f"/approve/{asked.id}/{way}", body, person)
        assert (answer.status, answer.reason) == (403, "role_needed")


async def test_evidence_that_was_asked_for_before_the_demotion(console_of_each_store):
    console = console_of_each_store
    person = await approver(console)
    issued = await challenge(console, "vera")
    other = await challenge(console, "vera")
    await verify(console, person, other)
    await console.approvals.set_role("vera", "viewer", by="olga")
    assert await reason_of(verify(console, person, issued)) == "challenge_unknown"


async def test_an_approval_that_was_not_used_yet_ends_with_the_role(console_of_each_store):
    console = console_of_each_store
    person = await approver(console)
    asked = await console.ask(user="vera")
    answer = await console.post(f"/approve/{asked.id}/approve", await console.signed(asked, person), person)
    assert answer.json == {"state": "approved"}
    grant = console.approvals.grant_use(await console.stored(asked), "call-1")
    await console.approvals.set_role("vera", "viewer", by="olga")
    with pytest.raises(Refused):
        await console.approvals.shelf.use(grant)

"""Somebody finds a set-up link in an old terminal, and uses it after the first person has enrolled."""

import pytest

from callgate.approval import Approvals
from callgate.errors import Reason, Refused
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.console import PARTY


@pytest.fixture
def approvals(console_of_each_store):
    return Approvals(console_of_each_store.approvals.shelf, PARTY)


async def enrol(approvals, ticket):
    key = SoftwareAuthenticator("http://localhost:1")
    options = (await approvals.begin_enrolment(ticket))["options"]
    return await approvals.finish_enrolment(key.create(options))


async def test_the_older_link_is_worth_nothing(approvals):
    older, newer = [await approvals.ticket("ann", by="operator", purpose="setup") for _ in range(2)]
    await enrol(approvals, newer)
    with pytest.raises(Refused) as refused:
        await approvals.begin_enrolment(older)
    assert refused.value.reason is Reason.ENROLMENT_NOT_AUTHORISED
    assert len(await approvals.shelf.credentials("ann")) == 1


async def test_nor_is_what_was_begun_with_it(approvals):
    older, newer = [await approvals.ticket("ann", by="operator", purpose="setup") for _ in range(2)]
    waiting = SoftwareAuthenticator("http://localhost:1")
    begun = waiting.create((await approvals.begin_enrolment(older))["options"])
    await enrol(approvals, newer)
    with pytest.raises(Refused) as refused:
        await approvals.finish_enrolment(begun)
    assert refused.value.reason is Reason.NO_PENDING_ENROLLMENT
    assert len(await approvals.shelf.credentials("ann")) == 1


async def test_an_operators_ticket_still_adds_a_device(approvals):
    await enrol(approvals, await approvals.ticket("ann", by="operator", purpose="setup"))
    await enrol(approvals, await approvals.ticket("ann", by="operator"))
    assert len(await approvals.shelf.credentials("ann")) == 2

"""An approval is verified in time, then its use waits for the store behind another writer until it has run out."""

import asyncio
import threading
import time
from contextlib import contextmanager

import pytest

from callgate.approval import ApprovalSettings
from callgate.approval.model import GrantUse
from callgate.errors import Refused
from callgate.store import SqlApprovals, Store
from support.approval_peer import refusal, text_of
from support.approval_server import running
from support.approval_store import BOUNDS, NOW, challenge, credential, enrol, registration, request, ticket, use
from support.registry import requirement
from support.stores import opened, ready

A = {"resourceId": "a"}
# Long enough to be signed on a busy machine, short enough to be waited for.
MILLISECONDS = 3000


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    with ready(request.param, tmp_path) as made:
        yield made


@contextmanager
def held(url):
    """Another process writes, and nobody else of verified approval."""
    other = Store.open(url, busy_seconds=30)
    try:
        with other.writing() as conn:
            other.backend.hold_approvals(conn.connection.driver_connection)
            yield
    finally:
        other.close_sync()


@requirement("VA-129")
def test_a_signed_call(url):
    store = Store.open(url, busy_seconds=30)
    shelf, entered = SqlApprovals(store), threading.Event()
    consume = shelf.use

    async def told(what, witness=None):
        entered.set()
        await consume(what, witness)

    shelf.use = told
    try:
        with running(store=shelf, settings=ApprovalSettings(challenge_ms=MILLISECONDS)) as server:
            alice = server.join()
            evidence = alice.signs(alice.challenge("delete_resource", A))
            answers = []
            calling = threading.Thread(target=lambda: answers.append(alice.call("delete_resource", A, evidence)))
            with held(url):
                calling.start()
                assert entered.wait(20)
                issued = asyncio.run(shelf.challenge(evidence["challengeId"]))
                while time.time() * 1000 <= issued.expires_at:
                    time.sleep(0.02)
            calling.join()
            assert refusal(answers[0]) == (-32001, "challenge_expired")
            assert server.executed == []
            assert asyncio.run(shelf.challenge(issued.id)).consumed_at is None
            again = alice.signs(alice.challenge("delete_resource", A))
            assert text_of(alice.call("delete_resource", A, again)) == "deleted a"
    finally:
        store.close_sync()


async def test_links_enrolments_and_approvals(url):
    """Whatever is used up once: all of it runs out while one writer holds the store."""
    soon = NOW + 300
    async with opened(url) as store:
        shelf = SqlApprovals(store)
        await enrol(shelf, credential())
        await shelf.add_ticket(ticket("late", expires_at=soon))
        await shelf.add_ticket(ticket("early"))
        await shelf.begin_registration(
            registration("begun", expires_at=soon), BOUNDS, ticket=ticket("early").hash, now=NOW
        )
        for number in (1, 2, 3):
            await shelf.add_challenge(challenge(number), BOUNDS)
            await shelf.open_request(request(number, caller=f"agent-{number}", expires_at=soon), BOUNDS)
        await shelf.approve_request("request-1", use(1, at=NOW), {}, "ada")
        uses = (
            shelf.begin_registration(registration("new"), BOUNDS, ticket=ticket("late").hash, now=NOW),
            shelf.finish_registration(registration("begun").challenge, credential("late"), [], now=NOW),
            shelf.use(GrantUse("request-1", "call", NOW)),
            shelf.approve_request("request-2", use(2, at=NOW), {}, "ada"),
            shelf.refuse_request("request-3", "ada", "", NOW),
        )
        with held(url):
            began, tasks = time.monotonic(), [asyncio.ensure_future(one) for one in uses]
            while (time.monotonic() - began) * 1000 <= 300:
                await asyncio.sleep(0.02)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [one.reason.value if isinstance(one, Refused) else one for one in ends] == [
        "enrolment_not_authorised",
        "no_pending_enrollment",
        "approval_expired",
        "approval_expired",
        "approval_expired",
    ]

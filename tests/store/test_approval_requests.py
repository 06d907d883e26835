"""Requests on the approval page: opened once, decided once, their grant used once."""

import asyncio
import threading

import pytest

from callgate.approval.model import ApprovalBounds, GrantUse
from callgate.errors import Reason, Refused, Spent
from callgate.store import Store
from support.approval_store import (
    BOUNDS,
    DAY,
    MINUTE,
    NOW,
    SECOND,
    challenge,
    credential,
    enrol,
    request,
    use,
    witness,
)
from support.table import rows

EVIDENCE = {"method": "webauthn", "response": {"id": "key", "flags": [1, None, True], "text": "\x00ü"}}
WANTED = ("agent", "srv", "tool", b"h" * 32)


@pytest.fixture
async def waiting(kept):
    """A request, and a challenge that would approve it."""
    await enrol(kept.shelf, credential())
    await kept.shelf.add_challenge(challenge(request="request-1", expires_at=NOW + 20 * MINUTE), BOUNDS)
    assert await kept.shelf.open_request(request(), BOUNDS) == request()
    return kept


async def approve(kept, number=1, **changes):
    return await kept.shelf.approve_request("request-1", use(number, **changes), EVIDENCE, "ada", witness("approved"))


async def spent(kept, reason, call):
    before, records = await kept.shelf.requests(), kept.witnesses
    with pytest.raises(Spent) as caught:
        await call
    assert caught.value.reason is reason
    assert (await kept.shelf.requests(), kept.witnesses) == (before, records)


# -- opening -------------------------------------------------------------------------------------------------------


async def test_a_request_is_kept_as_given(kept):
    whole = request(caller="a\x00b" * 2000, tool="\x00", why="\x00", version=None, display_text="\x00\u202e", agent={})
    assert await kept.shelf.open_request(whole, BOUNDS, witness("opened")) == whole
    assert await kept.shelf.request("request-1") == whole
    assert await kept.shelf.request("none") is None
    assert kept.witnesses == ["opened"]


async def test_half_characters_in_what_is_known_of_an_agent_do_no_harm(shelf):
    opened = await shelf.open_request(request(agent={"name": "\ud800"}, why="\udfff"), BOUNDS)
    assert opened.id == "request-1"
    assert await shelf.request("request-1") == opened


async def test_the_same_call_has_one_open_request(kept):
    first = await kept.shelf.open_request(request(1), BOUNDS, witness("opened"))
    again = await kept.shelf.open_request(request(2, created_at=NOW + 5, why="other words"), BOUNDS, witness("again"))
    assert again == first == request(1)
    assert await kept.shelf.request("request-2") is None
    assert kept.witnesses == ["opened"]


@rows(
    "difference",
    [
        {"user": "bob"},
        {"caller": "agen"},
        {"server": "other"},
        {"tool": "other"},
        {"action_hash": b"i" * 32},
        {"caller": "agents", "server": "rv"},
    ],
)
async def test_another_call_has_its_own_request(shelf, difference):
    await shelf.open_request(request(1), BOUNDS)
    assert (await shelf.open_request(request(difference, **difference), BOUNDS)).id == f"request-{difference}"


async def test_an_approved_request_is_open_until_it_is_used(waiting):
    shelf = waiting.shelf
    approved = await approve(waiting)
    assert await shelf.open_request(request(2), BOUNDS) == approved
    await shelf.use(GrantUse("request-1", "call", NOW + SECOND))
    assert (await shelf.open_request(request(2), BOUNDS)).id == "request-2"


async def test_a_refused_or_expired_request_is_open_no_more(waiting):
    shelf, ended = waiting.shelf, request().expires_at
    assert (await shelf.open_request(request(2, created_at=ended - 1), BOUNDS)).id == "request-1"
    late = request(3, created_at=ended, expires_at=ended + MINUTE)
    assert (await shelf.open_request(late, BOUNDS)).id == "request-3"
    await shelf.refuse_request("request-3", "ada", "no", ended)
    assert (await shelf.open_request(request(4, created_at=ended, expires_at=ended + 9), BOUNDS)).id == "request-4"


async def test_one_person_has_so_many_waiting_and_no_more(kept):
    shelf, bounds = kept.shelf, ApprovalBounds(requests_per_user=2)
    for number in (1, 2):
        await shelf.open_request(request(number, tool=f"tool-{number}"), bounds)
    third = request(3, tool="tool-3")
    with pytest.raises(Refused) as caught:
        await shelf.open_request(third, bounds, witness("opened"))
    assert caught.value.reason is Reason.APPROVAL_LIMIT
    assert await shelf.request("request-3") is None
    assert kept.witnesses == []
    assert (await shelf.open_request(request(4, user="bob"), bounds)).id == "request-4"
    # The same call again is no further one, and a decided one waits no more.
    assert (await shelf.open_request(request(5, tool="tool-2"), bounds)).id == "request-2"
    await shelf.refuse_request("request-1", "ada", "", NOW)
    assert await shelf.open_request(third, bounds) == third


async def test_of_identical_calls_at_once_one_row_comes(kept):
    opened = await asyncio.gather(
        *(kept.shelf.open_request(request(number), BOUNDS, witness("opened")) for number in range(20))
    )
    assert len({one.id for one in opened}) == 1
    assert len(await kept.shelf.requests()) == 1
    assert kept.witnesses == ["opened"]


# -- deciding ------------------------------------------------------------------------------------------------------


async def test_approving_uses_the_challenge_and_keeps_the_evidence(waiting):
    decided = await approve(waiting, counter=3)
    assert decided == request(
        state="approved", decided_at=NOW + SECOND, decided_by="ada", evidence=EVIDENCE, note=None, call=None
    )
    assert await waiting.shelf.request("request-1") == decided
    used, key = await waiting.shelf.look_up("challenge-1", "key")
    assert (used.consumed_at, key.counter, key.last_used_at) == (NOW + SECOND, 3, NOW + SECOND)
    assert waiting.witnesses == ["approved"]


async def test_refusing_keeps_the_note(waiting):
    decided = await waiting.shelf.refuse_request("request-1", "ada", "not\x00 today", NOW + 7, witness("refused"))
    assert decided == request(state="refused", decided_at=NOW + 7, decided_by="ada", note="not\x00 today")
    assert await waiting.shelf.request("request-1") == decided
    assert (await waiting.shelf.challenge("challenge-1")).consumed_at is None
    assert waiting.witnesses == ["refused"]


@pytest.mark.parametrize("first", ["approved", "refused", "used"])
async def test_a_decision_is_final(waiting, first):
    shelf = waiting.shelf
    if first == "refused":
        await shelf.refuse_request("request-1", "ada", "no", NOW)
    else:
        await approve(waiting)
    if first == "used":
        await shelf.use(GrantUse("request-1", "call", NOW + SECOND))
    await shelf.add_challenge(challenge(2), BOUNDS)
    await spent(waiting, Reason.APPROVAL_DECIDED, approve(waiting, 2))
    # Long after, it is still the decision that is told.
    ended = request().expires_at
    await spent(waiting, Reason.APPROVAL_DECIDED, shelf.refuse_request("request-1", "ada", "", ended, witness("late")))
    assert (await shelf.challenge("challenge-2")).consumed_at is None


async def test_what_ran_out_is_not_decided(waiting):
    shelf, ended = waiting.shelf, request().expires_at
    await spent(waiting, Reason.APPROVAL_EXPIRED, approve(waiting, at=ended))
    await spent(waiting, Reason.APPROVAL_EXPIRED, shelf.refuse_request("request-1", "ada", "", ended, witness("late")))
    await spent(waiting, Reason.APPROVAL_EXPIRED, shelf.refuse_request("none", "ada", "", NOW, witness("none")))
    assert (await shelf.challenge("challenge-1")).consumed_at is None
    # The time of the caller goes on while the store works.
    await approve(waiting, at=ended - MINUTE)


@rows(
    ("reason", "changes"),
    [
        (Reason.CHALLENGE_UNKNOWN, {"number": 9}),
        (Reason.UNKNOWN_CREDENTIAL, {"credential": "none"}),
    ],
)
async def test_a_signature_that_does_not_hold_decides_nothing(waiting, reason, changes):
    await spent(waiting, reason, approve(waiting, **changes))
    assert (await waiting.shelf.request("request-1")).state == "waiting"


async def test_a_challenge_approves_one_request(waiting):
    await approve(waiting)
    await waiting.shelf.open_request(request(2, tool="other"), BOUNDS)
    again = waiting.shelf.approve_request("request-2", use(), EVIDENCE, "ada", witness("again"))
    await spent(waiting, Reason.CHALLENGE_CONSUMED, again)


async def test_a_no_after_a_yes_that_no_call_has_used(waiting):
    await approve(waiting)
    no = {"by": "client", "note": "", "at": NOW, "witness": witness("refused")}
    await spent(waiting, Reason.APPROVAL_DECIDED, waiting.shelf.refuse_request("request-1", **no))
    refused = await waiting.shelf.refuse_request("request-1", **no, even_approved=True)
    assert (refused.state, refused.decided_by) == ("refused", "client")
    await spent(waiting, Reason.APPROVAL_EXPIRED, waiting.shelf.use(GrantUse("request-1", "call", NOW)))
    await spent(waiting, Reason.APPROVAL_DECIDED, waiting.shelf.refuse_request("request-1", **no, even_approved=True))


async def test_of_many_decisions_at_once_one_holds(waiting):
    shelf = waiting.shelf
    for number in range(2, 7):
        await shelf.add_challenge(challenge(number), BOUNDS)
    calls = [approve(waiting, number) for number in range(2, 7)]
    calls += [shelf.refuse_request("request-1", "ada", "no", NOW, witness("refused")) for _ in range(5)]
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert [one.reason for one in ends if isinstance(one, Spent)] == [Reason.APPROVAL_DECIDED] * 9
    (held,) = [one for one in ends if not isinstance(one, Spent)]
    assert waiting.witnesses == [held.state]


async def test_other_processes_are_told_of_a_decision(stored):
    await enrol(stored.shelf, credential())
    await stored.shelf.add_challenge(challenge(), BOUNDS)
    other = Store.open(stored.url)
    told = threading.Event()
    stop = other.watch(told.set)

    async def tells(call):
        await asyncio.to_thread(told.wait, 30)
        told.clear()
        await call
        assert await asyncio.to_thread(told.wait, 30)

    await tells(stored.shelf.open_request(request(), BOUNDS))
    await tells(stored.shelf.approve_request("request-1", use(), EVIDENCE, "ada"))
    await tells(stored.shelf.open_request(request(2, tool="other"), BOUNDS))
    await tells(stored.shelf.refuse_request("request-2", "ada", "", NOW))
    stop()
    other.close_sync()


# -- grants --------------------------------------------------------------------------------------------------------


async def test_a_grant_is_found_for_exactly_its_call(waiting):
    shelf = waiting.shelf
    assert await shelf.find_grant(*WANTED, NOW) is None
    approved = await approve(waiting)
    assert await shelf.find_grant(*WANTED, NOW) == approved
    assert await shelf.find_grant(*WANTED, request().expires_at) is None
    for place, other in enumerate(("other", "other", "other", b"i" * 32)):
        assert await shelf.find_grant(*WANTED[:place], other, *WANTED[place + 1 :], NOW) is None


async def test_a_grant_is_used_once_and_names_the_call(waiting):
    shelf = waiting.shelf
    await approve(waiting)
    await shelf.use(GrantUse("request-1", "call-7", NOW + SECOND), witness("let through"))
    found = await shelf.request("request-1")
    assert (found.state, found.call, found.decided_by) == ("used", "call-7", "ada")
    assert waiting.witnesses == ["approved", "let through"]
    assert await shelf.find_grant(*WANTED, NOW) is None
    again = shelf.use(GrantUse("request-1", "call-8", NOW + SECOND), witness("again"))
    await spent(waiting, Reason.APPROVAL_EXPIRED, again)


@pytest.mark.parametrize("wrong", ["waiting", "refused", "expired", "unknown"])
async def test_what_is_not_granted_is_not_used(waiting, wrong):
    shelf = waiting.shelf
    if wrong == "refused":
        await shelf.refuse_request("request-1", "ada", "no", NOW)
    if wrong == "expired":
        await approve(waiting)
    at = request().expires_at if wrong == "expired" else NOW
    grant = GrantUse("none" if wrong == "unknown" else "request-1", "call", at)
    await spent(waiting, Reason.APPROVAL_EXPIRED, shelf.use(grant, witness("let through")))


async def test_a_refusal_that_nobody_waited_for_is_heard_once_by_exactly_its_call(waiting):
    shelf = waiting.shelf
    assert await shelf.hear_refusal(*WANTED, call="call-1", now=NOW) is None
    refused = await shelf.refuse_request("request-1", "ada", "not today", NOW)
    for place, other in enumerate(("other", "other", "other", b"i" * 32)):
        another = (*WANTED[:place], other, *WANTED[place + 1 :])
        assert await shelf.hear_refusal(*another, call="call-1", now=NOW) is None
    assert await shelf.hear_refusal(*WANTED, call="call-1", now=refused.expires_at) is None
    heard = await shelf.hear_refusal(*WANTED, call="call-1", now=NOW)
    assert (heard.id, heard.state, heard.note, heard.call) == ("request-1", "refused", "not today", "call-1")
    assert await shelf.request("request-1") == heard
    assert await shelf.hear_refusal(*WANTED, call="call-2", now=NOW) is None


async def test_the_oldest_grant_comes_first(shelf):
    for number, (name, at) in enumerate((("ada", NOW + 5), ("bob", NOW))):
        await enrol(shelf, credential(f"key-of-{name}", user=name))
        await shelf.add_challenge(challenge(number), BOUNDS)
        await shelf.open_request(request(number, user=name, created_at=at), BOUNDS)
        used = use(number, credential=f"key-of-{name}")
        await shelf.approve_request(f"request-{number}", used, EVIDENCE, name)
    assert (await shelf.find_grant(*WANTED, NOW)).id == "request-1"


# -- listing and forgetting ----------------------------------------------------------------------------------------


async def test_requests_come_newest_first_by_person_and_state(shelf):
    for number in range(4):
        name = "bob" if number == 2 else "ada"
        await shelf.open_request(request(number, user=name, tool=f"tool-{number}", created_at=NOW + number), BOUNDS)
    await shelf.refuse_request("request-1", "ada", "", NOW)

    async def ids(*names, **wanted):
        return [int(one.id[-1]) for one in await shelf.requests(*names, **wanted)]

    assert await ids() == [3, 2, 1, 0]
    assert await ids("ada") == [3, 1, 0]
    assert await ids("ada", states=("waiting",)) == [3, 0]
    assert await ids(states=("refused", "used")) == [1]
    assert await ids(limit=2) == [3, 2]
    assert await ids("nobody") == []


async def test_requests_are_forgotten_a_day_after_they_ran_out(waiting):
    shelf, ended = waiting.shelf, request().expires_at
    await approve(waiting)

    async def at(now):
        await shelf.open_request(request(now, tool=f"{now}", created_at=now, expires_at=now + 1), BOUNDS)
        return await shelf.request("request-1")

    assert (await at(ended + DAY)).state == "approved"
    assert await at(ended + DAY + 1) is None

"""Many processes reach for the same thing at once; exactly one gets it."""

import asyncio
from collections import Counter

from support.registry import requirement
from support.shelves import BOUNDS, challenge, credential, enrol, race, registration, request, ticket, use, user

PROCESSES = 2


async def raced(stored, jobs, processes=PROCESSES):
    """The jobs dealt out to the processes, and how often each end came."""
    shares = [jobs[start::processes] for start in range(processes)]
    return Counter(await asyncio.to_thread(race, stored.url, shares))


@requirement("VA-127")
async def test_two_hundred_uses_of_one_challenge_by_four_processes_make_one_success(stored):
    await enrol(stored.shelf, credential())
    await stored.shelf.add_challenge(challenge(), BOUNDS)
    ends = await raced(stored, [{"do": "use", "counter": 0}] * 200, processes=4)
    assert ends == {"done": 1, "challenge_consumed": 199}
    assert stored.witnesses == ["use 1"]


@requirement("VA-131")
async def test_the_counter_never_goes_down(stored):
    await enrol(stored.shelf, credential(counter=5))
    for number in range(20):
        await stored.shelf.add_challenge(challenge(number), BOUNDS)
    jobs = [{"do": "use", "number": number, "counter": 7 if number % 2 else 6} for number in range(20)]
    ends = await raced(stored, jobs)
    assert (await stored.shelf.credential("key")).counter == 7
    # A six can come before the seven, never after it; only one of each is ever higher than what is stored.
    assert ends["done"] in (1, 2)
    assert ends == {"done": ends["done"], "signature_counter_regression": 20 - ends["done"]}
    assert len(stored.witnesses) == ends["done"]


async def test_batches_that_use_the_same_passkeys_in_other_orders_do_not_wait_for_each_other(stored):
    keys = [f"key-{number}" for number in range(4)]
    for key in keys:
        await enrol(stored.shelf, credential(key))
    jobs = []
    for share in range(PROCESSES):
        for number, key in enumerate(keys if share % 2 else keys[::-1]):
            await stored.shelf.add_challenge(challenge(f"{share}-{number}", user=f"{share}"), BOUNDS)
            jobs.append({"do": "use", "number": f"{share}-{number}", "key": key})
    shares = [jobs[start : start + len(keys)] for start in range(0, len(jobs), len(keys))]
    ends = await asyncio.to_thread(race, stored.url, shares)
    assert ends == ["done"] * len(jobs)


async def test_ten_finishes_of_one_registration_enrol_one_passkey(stored):
    await stored.shelf.add_user(user())
    await stored.shelf.add_ticket(ticket())
    await stored.shelf.begin_registration(registration(), BOUNDS, ticket=ticket().hash, now=registration().created_at)
    ends = await raced(stored, [{"do": "finish", "number": number} for number in range(10)])
    assert ends == {"done": 1, "no_pending_enrollment": 9}
    (enrolled,) = await stored.shelf.credentials()
    assert stored.witnesses == [f"finish {enrolled.id.removeprefix('key-')}"]
    assert await stored.shelf.recovery_codes("ada") == 1


async def test_a_ticket_replayed_at_once_begins_one_registration(stored):
    await stored.shelf.add_user(user())
    await stored.shelf.add_ticket(ticket())
    ends = await raced(stored, [{"do": "begin", "number": number} for number in range(20)])
    assert ends == {"done": 1, "enrolment_not_authorised": 19}
    assert await stored.shelf.open_registrations(registration().created_at) == 1


async def test_a_recovery_code_used_at_once_gives_one_ticket(stored):
    await enrol(stored.shelf, credential(), [b"code"])
    ends = await raced(stored, [{"do": "recover", "number": number} for number in range(20)])
    assert ends == {"done": 1, "enrolment_not_authorised": 19}
    found = [await stored.shelf.ticket(ticket(f"recovered-{number}").hash) for number in range(20)]
    assert len([one for one in found if one is not None]) == 1
    assert stored.witnesses == ["recovered"]


async def test_identical_calls_at_once_open_one_request(stored):
    ends = await raced(stored, [{"do": "open", "number": number} for number in range(40)])
    (opened,) = ends
    assert [one.id for one in await stored.shelf.requests()] == [opened]
    assert stored.witnesses == ["opened"]


async def test_a_request_decided_at_once_is_decided_once(stored):
    await enrol(stored.shelf, credential())
    await stored.shelf.open_request(request(), BOUNDS)
    jobs = []
    for number in range(10):
        await stored.shelf.add_challenge(challenge(number), BOUNDS)
        jobs += [{"do": "approve", "number": number}, {"do": "refuse"}]
    ends = await raced(stored, jobs)
    assert ends == {"done": 1, "approval_decided": 19}
    state = (await stored.shelf.request("request-1")).state
    assert stored.witnesses == [state]
    consumed = [(await stored.shelf.challenge(f"challenge-{number}")).consumed_at for number in range(10)]
    assert len([at for at in consumed if at is not None]) == (state == "approved")


async def test_a_grant_used_at_once_lets_one_call_through(stored):
    await enrol(stored.shelf, credential())
    await stored.shelf.open_request(request(), BOUNDS)
    await stored.shelf.add_challenge(challenge(), BOUNDS)
    await stored.shelf.approve_request("request-1", use(), {}, "ada")
    ends = await raced(stored, [{"do": "grant"}] * 40)
    assert ends == {"done": 1, "approval_expired": 39}
    assert stored.witnesses == ["grant 1"]


async def test_bounds_hold_over_all_processes(stored):
    bounds = {"per_user": 10, "in_all": 30}
    jobs = [{"do": "add", "number": number, "user": f"user-{number % 5}", "bounds": bounds} for number in range(200)]
    ends = await raced(stored, jobs)
    assert ends == {"done": 30, "approval_limit": 170}


async def test_processes_agree_on_who_they_are(stored):
    ends = await raced(stored, [{"do": "identity", "number": number} for number in range(16)])
    assert len(ends) == 1
    assert list(ends) == [await stored.shelf.identity("late")]

"""Many processes reach for the same thing at once; exactly one gets it."""

import asyncio
import itertools
from collections import Counter

import pytest
from msgspec.structs import replace

from callgate.approval.model import ApprovalBounds, ApprovalPolicy, GrantUse
from callgate.errors import Refused
from callgate.gate import Quorum
from support.approval_store import (
    BOUNDS,
    NOW,
    SECOND,
    challenge,
    credential,
    enrol,
    race,
    registration,
    request,
    ticket,
    use,
    user,
)
from support.registry import requirement

PROCESSES = 2
# For all rounds of a test at once.
ROOM = ApprovalBounds(requests_per_user=1000)
TWO = ApprovalPolicy(quorums=(Quorum(2, ("ops",)),))
rounds = pytest.mark.parametrize(
    "rounds", [12, pytest.param(200, marks=[pytest.mark.verify, pytest.mark.timeout(600)])]
)


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


async def joined(stored, number, who, *keys):
    """A person of the group with these passkeys, each with a challenge for this round's request."""
    for key in keys:
        await enrol(stored.shelf, credential(key, user=who))
        await stored.shelf.add_challenge(challenge(f"{number}-{key}", user=who), BOUNDS)
    await stored.shelf.join_group("ops", who)


async def with_device(stored, number, who, device, voucher):
    """A device of theirs that this passkey vouches for, with a challenge of its own."""
    held = replace(credential(device, user=who), method="device", voucher=voucher)
    await stored.shelf.add_device(held, BOUNDS)
    await stored.shelf.add_challenge(challenge(f"{number}-{device}", user=who), BOUNDS)


async def passes(stored, number):
    """Whether one more call is let through by the approval of this round."""
    try:
        await stored.shelf.use(GrantUse(f"request-{number}", "late", NOW + SECOND))
    except Refused:
        return False
    return True


def sign(who, key):
    return {"do": "sign", "as": who, "key": key}


GRANT = {"do": "grant"}
# What the two processes do in a round at the same moment; A and B are people, a, aa and b their passkeys, and d is a
# device that a vouches for.
SEVERAL = (
    # Two sign, in two processes, and each process sends the call.
    ((sign("A", "a"), GRANT), (sign("B", "b"), GRANT)),
    # One of them says no as well.
    ((sign("A", "a"), GRANT), (sign("B", "b"), {"do": "no", "as": "B"}, GRANT)),
    # One person signs with two passkeys.
    ((sign("A", "a"), GRANT), (sign("A", "aa"), GRANT)),
    # The same signature comes three times.
    ((sign("A", "a"), sign("A", "a")), (sign("A", "a"), GRANT)),
    # A passkey that signs is revoked, or its person may not approve any more.
    ((sign("A", "a"), GRANT, GRANT), (sign("B", "b"), {"do": "revoke", "key": "a"})),
    ((sign("A", "a"), GRANT, GRANT), (sign("B", "b"), {"do": "demote", "as": "A"})),
    # The passkey behind a device that signs is revoked; one person signs with both.
    ((sign("A", "d"), GRANT, GRANT), (sign("B", "b"), {"do": "revoke", "key": "a"})),
    ((sign("A", "d"), GRANT), (sign("A", "a"), GRANT)),
)
ONE_PERSON = (*SEVERAL[2:4], SEVERAL[7])


def dealt(plans):
    """The jobs of each process; whoever has a part has it in one round only."""

    def job(step, number):
        return {name: text if name == "do" else f"{text}-{number}" for name, text in step.items()} | {"number": number}

    return [[job(step, number) for number, plan in plans.items() for step in plan[at]] for at in range(PROCESSES)]


@rounds
@requirement("VA-181", "VA-182")
async def test_two_of_several_people_in_two_processes_let_through_exactly_what_was_signed(stored, rounds):
    plans = {number: SEVERAL[number % len(SEVERAL)] for number in range(rounds)}
    for number in plans:
        await joined(stored, number, f"A-{number}", f"a-{number}", f"aa-{number}")
        await with_device(stored, number, f"A-{number}", f"d-{number}", f"a-{number}")
        await joined(stored, number, f"B-{number}", f"b-{number}")
        await stored.shelf.open_request(request(number, user=TWO.people, policy=TWO, caller=f"agent-{number}"), ROOM)
    shares = dealt(plans)
    ends = await asyncio.to_thread(race, stored.url, shares)
    done = Counter(
        (job["do"], job["number"]) for job, end in zip(itertools.chain(*shares), ends, strict=True) if end == "done"
    )
    order = stored.witnesses
    written = Counter(order)
    for number, plan in plans.items():
        signed, let, no = (done[what, number] for what in ("sign", "grant", "no"))
        told = (plan, signed, let, no, [one for one in order if one.endswith(f" {number}")])
        assert [written[f"{what} {number}"] for what in ("sign", "grant", "no")] == [signed, let, no], told
        late = await passes(stored, number)
        assert let + late <= 1, told
        if no or signed < 2:
            assert (let, late) == (0, False), told
        elif f"revoke {number}" not in written:
            assert let + late == 1, told
        else:
            assert late is False, told
            if let:
                assert order.index(f"grant {number}") < order.index(f"revoke {number}"), told
        if plan in ONE_PERSON:
            assert signed == 1, told


BEGIN, FINISH = {"do": "begin with", "as": "V"}, {"do": "finish with", "as": "V"}
REVOKE, DEMOTE = {"do": "revoke", "key": "v"}, {"do": "demote", "as": "V"}
# What a passkey signed that is taken away: a link, an enrolment, an approval that no call has used.
ENDED = (
    ((BEGIN,), (REVOKE,)),
    ((BEGIN, FINISH), (REVOKE,)),
    ((FINISH,), (REVOKE,)),
    ((sign("V", "v"), GRANT), (REVOKE, GRANT)),
    ((sign("V", "d"), GRANT), (REVOKE, GRANT)),
    ((GRANT,), (REVOKE, GRANT)),
    ((GRANT,), (DEMOTE, GRANT)),
)


@rounds
@requirement("VA-147")
async def test_what_a_passkey_signed_ends_with_it_in_two_processes(stored, rounds):
    shelf = stored.shelf
    plans = {number: ENDED[number % len(ENDED)] for number in range(rounds)}
    for number, plan in plans.items():
        who, key = f"V-{number}", f"v-{number}"
        await enrol(shelf, credential(key, user=who))
        await shelf.add_challenge(challenge(f"{number}-{key}", user=who), BOUNDS)
        await with_device(stored, number, who, f"d-{number}", key)
        await shelf.add_ticket(ticket(str(number), user=who, credential=key))
        await shelf.open_request(request(number, user=who, caller=f"agent-{number}"), BOUNDS)
        if plan[0][0] == FINISH:
            begun = registration(number, user=who)
            await shelf.begin_registration(begun, BOUNDS, ticket=ticket(str(number)).hash, now=NOW)
        if plan[0][0] == GRANT:
            await shelf.approve_request(f"request-{number}", use(f"{number}-{key}", credential=key), {}, who)
    await asyncio.to_thread(race, stored.url, dealt(plans))
    order = stored.witnesses
    for number, plan in plans.items():
        told = (plan, [one for one in order if one.endswith(f" {number}")])
        assert told[1].count(f"grant {number}") <= 1, told
        # Only what was used before.
        assert told[1][-1] == f"revoke {number}", told
        assert not await passes(stored, number), told
        again = {"ticket": ticket(str(number)).hash, "now": NOW}
        with pytest.raises(Refused):
            await shelf.begin_registration(registration("late", user=f"V-{number}"), BOUNDS, **again)
        with pytest.raises(Refused):
            new = credential(f"late-{number}", user=f"V-{number}")
            await shelf.finish_registration(registration(number).challenge, new, [], now=NOW)

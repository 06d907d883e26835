"""Two processes use one grant at once: what passes is exactly what was signed, in calls, in sum, in time, and until it
is revoked."""

import asyncio
import json
from collections import Counter

import pytest

from callgate.approval.delegation import DelegationUse
from callgate.errors import Refused, Spent
from callgate.store.delegation import MOST_OF_ONE
from support.approval_store import DAY, MINUTE, NOW, SECOND, credential, delegate, delegation, enrol, race, user
from support.registry import requirement

PROCESSES = 2
BATCH = 240
UNIT = 10**6
MANY = pytest.mark.parametrize("rounds", [4, pytest.param(200, marks=pytest.mark.verify)])


async def raced(stored, jobs, each):
    """Some whole rounds of `each` jobs at once: more writers than a store serves in its patience would be refused,
    which is another test."""
    ends, size = Counter(), BATCH - BATCH % each
    for first in range(0, len(jobs), size):
        batch = jobs[first : first + size]
        shares = [batch[start::PROCESSES] for start in range(PROCESSES)]
        ends.update(await asyncio.to_thread(race, stored.url, shares))
    return ends


async def begin(stored, rounds, each=MOST_OF_ONE, **changes):
    """People, and a grant for each round, `each` of one person: every grant for an agent of its own, for there are
    bounds."""
    for part in range(-(-rounds // each)):
        await enrol(stored.shelf, credential(f"key-{part}", user=f"person-{part}"))
    for number in range(rounds):
        part = number // each
        await delegate(stored.shelf, delegation(number, person=f"person-{part}", key=f"key-{part}", **changes))


async def after(stored, rounds):
    return [await stored.shelf.delegation(f"grant-{number}") for number in range(rounds)]


@MANY
@requirement("VA-183")
async def test_calls(stored, rounds):
    await begin(stored, rounds, sum_of="", sum_at_most="")
    jobs = [{"do": "delegated", "number": number} for number in range(rounds) for _ in range(8)]
    assert await raced(stored, jobs, 8) == {"done": 3 * rounds, "grant_used_up": 5 * rounds}
    assert [one.calls for one in await after(stored, rounds)] == [3] * rounds
    # Each record says what was left, and no two of a grant say the same.
    left = [f"{json.dumps({'calls': left})} {number}" for number in range(rounds) for left in range(3)]
    assert sorted(stored.witnesses) == sorted(left)


@MANY
async def test_sum(stored, rounds):
    """Each of eight would fit alone; two of 40 are within 100, a third is not, nor is anything of 60."""
    await begin(stored, rounds, calls=100)
    jobs = [{"do": "delegated", "number": number, "amount": 40 * UNIT} for number in range(rounds) for _ in range(8)]
    assert await raced(stored, jobs, 8) == {"done": 2 * rounds, "grant_used_up": 6 * rounds}
    assert [one.amount for one in await after(stored, rounds)] == [80 * UNIT] * rounds


@MANY
async def test_time(stored, rounds):
    """Some of the calls were begun before the end and some at it or after it, or before it began."""
    hour = 60 * MINUTE
    await begin(stored, rounds, calls=100, begins=NOW + 2 * hour, ends=NOW + DAY)
    # The time goes on while a transaction waits, so none is shortly before the beginning or the end.
    times = [NOW, NOW + hour, NOW + 2 * hour, NOW + DAY - hour, NOW + DAY, NOW + 2 * DAY]
    jobs = [{"do": "delegated", "number": number, "at": at} for number in range(rounds) for at in times]
    assert await raced(stored, jobs, 6) == {"done": 2 * rounds, "grant_ended": 4 * rounds}


@MANY
@pytest.mark.parametrize("how", ["revoke_grant", "revoke", "demote"])
async def test_revocation(stored, rounds, how):
    """What is on record before the revocation passed; behind it nothing does."""
    await operator(stored)
    # Grant, passkey and person are each round's own: whichever is taken away ends that round's calls only.
    await begin(stored, rounds, each=1, calls=100, sum_of="", sum_at_most="")
    jobs = []
    for number in range(rounds):
        calls = [{"do": "delegated", "number": number}] * 6
        ending = {"do": how, "number": number, "key": f"key-{number}", "as": f"person-{number}"}
        # Before, between and behind the calls, in either process.
        jobs += [*calls[: number % 7], ending, *calls[number % 7 :]]
    ends = await raced(stored, jobs, 7)
    assert set(ends) == {"done", "grant_ended"}
    assert ends["done"] == len(stored.witnesses)
    for number in range(rounds):
        said = [one for one in stored.witnesses if one.endswith(f" {number}")]
        assert said[-1] == f"revoke {number}", said
        assert (await stored.shelf.delegation(f"grant-{number}")).calls == len(said) - 1


async def operator(stored):
    await stored.shelf.add_user(user("bob"))
    await stored.shelf.set_role("bob", "operator", at=NOW)


@requirement("VA-183")
@pytest.mark.parametrize("how", ["revoked", "removed", "demoted", "key revoked"])
async def test_a_person_who_is_gone(stored, how):
    await enrol(stored.shelf, credential())
    await operator(stored)
    await delegate(stored.shelf, delegation())
    shelf = stored.shelf
    taken = DelegationUse("grant-1", 0, NOW + SECOND)
    await shelf.use(taken)
    if how == "revoked":
        assert await shelf.revoke_delegation("grant-1", NOW + SECOND, "ada")
        assert not await shelf.revoke_delegation("grant-1", NOW + SECOND, "ada")
    elif how == "removed":
        await shelf.remove_user("ada")
        await enrol(shelf, credential("another"))
    elif how == "demoted":
        await shelf.set_role("ada", "viewer", at=NOW)
        await shelf.set_role("ada", "approver", at=NOW)
    else:
        await shelf.revoke_credential("key", NOW + SECOND)
    with pytest.raises(Spent) as caught:
        await shelf.use(taken)
    assert caught.value.reason.value == "grant_ended"
    kept = await shelf.delegation("grant-1")
    assert (kept.calls, kept.revoked_at is None) == (1, False)
    assert await shelf.delegations_of(kept.terms.agent, kept.terms.server_id, NOW) == []


async def test_no_more_than_a_person_can_oversee(stored):
    await enrol(stored.shelf, credential())
    for number in range(MOST_OF_ONE):
        await delegate(stored.shelf, delegation(number))
    with pytest.raises(Refused) as caught:
        await delegate(stored.shelf, delegation("too many"))
    assert caught.value.reason.value == "approval_limit"
    await stored.shelf.revoke_delegation("grant-0", NOW, "ada")
    await delegate(stored.shelf, delegation("one more"))
    await stored.shelf.revoke_delegation("grant-1", NOW, "ada")
    with pytest.raises(Refused) as caught:
        await delegate(stored.shelf, delegation(1))
    assert caught.value.reason.value == "grant_invalid"

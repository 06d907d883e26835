"""Challenges: issued within bounds, used once, with the passkey's counter and the decision's record."""

import asyncio

import pytest
from msgspec.structs import replace
from sqlalchemy import text

from callgate.approval.model import ApprovalBounds
from callgate.errors import Reason, Refused, Spent
from support.approval_store import (
    BOUNDS,
    DAY,
    MINUTE,
    NOW,
    SECOND,
    challenge,
    credential,
    enrol,
    use,
    witness,
)
from support.registry import requirement


@pytest.fixture
async def issued(kept):
    """A passkey whose counter stands at five, and a challenge for it."""
    await enrol(kept.shelf, credential(counter=5))
    await kept.shelf.add_challenge(challenge(), BOUNDS)
    return kept


async def spent(kept, reason, what):
    """The use is refused for this reason, and nothing at all has changed."""
    before = await kept.shelf.look_up(what.challenge, what.credential)
    with pytest.raises(Spent) as caught:
        await kept.shelf.use(what, witness("decision"))
    assert caught.value.reason is reason
    assert await kept.shelf.look_up(what.challenge, what.credential) == before
    assert kept.witnesses == []


async def test_a_challenge_is_kept_as_given(shelf):
    whole = challenge(
        tool="to\x00ol", display_text="\x00", canonical=b"\x00" * 300_000, request="request-1", allowed=()
    )
    await shelf.add_challenge(whole, BOUNDS)
    assert await shelf.challenge(whole.id) == whole
    assert await shelf.challenge("another") is None


async def test_challenge_and_passkey_are_looked_up_together(issued):
    shelf = issued.shelf
    assert await shelf.look_up("challenge-1", "key") == (challenge(), credential(counter=5))
    assert await shelf.look_up("none", "key") == (None, credential(counter=5))
    assert await shelf.look_up("challenge-1", "none") == (challenge(), None)
    assert await shelf.look_up("none", "none") == (None, None)
    await shelf.revoke_credential("key", NOW)
    assert await shelf.look_up("challenge-1", "key") == (challenge(), credential(counter=5, revoked_at=NOW))


@requirement("VA-130")
async def test_use_consumes_moves_the_counter_and_records_together(issued):
    await issued.shelf.use(use(counter=9, backed_up=True), witness("decision"))
    used, key = await issued.shelf.look_up("challenge-1", "key")
    at = NOW + SECOND
    assert used == challenge(consumed_at=at)
    assert key == credential(counter=9, last_used_at=at, backed_up=True)
    assert issued.witnesses == ["decision"]


@requirement("VA-127")
async def test_a_second_use_finds_it_consumed(issued):
    await issued.shelf.use(use(counter=9))
    await spent(issued, Reason.CHALLENGE_CONSUMED, use(counter=10))


async def test_an_unknown_challenge_is_not_used(issued):
    await spent(issued, Reason.CHALLENGE_UNKNOWN, use(2, 9))


@requirement("VA-129")
async def test_expiry_is_looked_at_again_when_the_challenge_is_used(issued):
    for late in (0, 1, MINUTE):
        await spent(issued, Reason.CHALLENGE_EXPIRED, use(counter=9, at=challenge().expires_at + late))
    await issued.shelf.use(use(counter=9, at=challenge().expires_at - 30 * SECOND))


async def test_consumed_is_said_before_expired_and_challenge_before_passkey(issued):
    await issued.shelf.use(use(counter=9))
    await issued.shelf.revoke_credential("key", NOW)
    await spent(issued, Reason.CHALLENGE_CONSUMED, use(counter=1, at=NOW + 9 * MINUTE))
    await spent(issued, Reason.CHALLENGE_UNKNOWN, use(2, 1))


async def test_a_revoked_or_unknown_passkey_uses_nothing(issued):
    await spent(issued, Reason.UNKNOWN_CREDENTIAL, use(counter=9, credential="none"))
    await issued.shelf.revoke_credential("key", NOW)
    await spent(issued, Reason.UNKNOWN_CREDENTIAL, use(counter=9))


@requirement("VA-130", "VA-131")
async def test_a_counter_that_does_not_grow_is_refused_and_never_goes_down(issued):
    for counter in (5, 4, 1, 0):
        await spent(issued, Reason.SIGNATURE_COUNTER_REGRESSION, use(counter=counter))
    await issued.shelf.use(use(counter=6))
    assert (await issued.shelf.credential("key")).counter == 6


async def test_a_passkey_that_does_not_count_is_used_again_and_may_begin_to_count(kept):
    shelf = kept.shelf
    await enrol(shelf, credential(counter=0))
    for number, counter in enumerate((0, 0, 3)):
        await shelf.add_challenge(challenge(number), BOUNDS)
        await shelf.use(use(number, counter))
    assert (await shelf.credential("key")).counter == 3
    await shelf.add_challenge(challenge(9), BOUNDS)
    await spent(kept, Reason.SIGNATURE_COUNTER_REGRESSION, use(9, 0))


async def test_of_many_at_once_one_uses_the_challenge(issued):
    ends = await asyncio.gather(
        *(issued.shelf.use(use(counter=9), witness(f"decision {number}")) for number in range(50)),
        return_exceptions=True,
    )
    reasons = [one.reason for one in ends if isinstance(one, Spent)]
    assert reasons == [Reason.CHALLENGE_CONSUMED] * 49
    assert ends.count(None) == 1
    assert issued.witnesses == [f"decision {ends.index(None)}"]


# -- bounds --------------------------------------------------------------------------------------------------------


async def limited(shelf, new, bounds):
    with pytest.raises(Refused) as caught:
        await shelf.add_challenge(new, bounds)
    assert caught.value.reason is Reason.APPROVAL_LIMIT
    assert await shelf.challenge(new.id) is None


async def test_one_person_has_so_many_open_and_no_more(shelf):
    bounds = ApprovalBounds(per_user=3)
    for number in range(3):
        await shelf.add_challenge(challenge(number), bounds)
    await limited(shelf, challenge(3), bounds)
    await shelf.add_challenge(challenge("bobs", user="bob"), bounds)
    await limited(shelf, challenge(4), bounds)


async def test_bounds_that_differ_from_call_to_call_are_each_kept(shelf):
    for number in range(10):
        await shelf.add_challenge(challenge(number), BOUNDS)
    for most in (3, 6, 10, 2):
        await limited(shelf, challenge(f"beyond {most}"), ApprovalBounds(per_user=most))
    await shelf.add_challenge(challenge("within"), ApprovalBounds(per_user=11))
    await limited(shelf, challenge("beyond"), ApprovalBounds(per_user=11))


async def test_all_together_have_so_many_open_and_no_more(shelf):
    bounds = ApprovalBounds(in_all=30)
    for number in range(30):
        await shelf.add_challenge(challenge(number, user=f"user-{number % 15}"), bounds)
    for number in range(30, 33):
        await limited(shelf, challenge(number, user=f"user-{number}"), bounds)


async def test_what_is_consumed_or_expired_is_open_no_more(issued):
    shelf, bounds = issued.shelf, ApprovalBounds(per_user=2)
    await shelf.add_challenge(challenge(2, expires_at=NOW + 2 * MINUTE), bounds)
    await limited(shelf, challenge(3), bounds)
    await shelf.use(use(1, 9))
    await shelf.add_challenge(challenge(3, expires_at=NOW + 2 * MINUTE), bounds)
    await limited(shelf, challenge(4, created_at=NOW + 2 * MINUTE - 1, expires_at=NOW + DAY), bounds)
    await shelf.add_challenge(challenge(4, created_at=NOW + 2 * MINUTE, expires_at=NOW + DAY), bounds)


async def test_a_bound_is_kept_through_coming_and_going(kept):
    """Counted every time it would be plain; the shelf counts only now and then."""
    shelf, bounds, number = kept.shelf, ApprovalBounds(per_user=4, in_all=7), 0
    await enrol(shelf, credential())
    open_now = []
    for step in range(60):
        name = "ada" if step % 3 else "bob"
        fits = len(open_now) < 7 and sum(1 for _, who in open_now if who == name) < 4
        new = challenge(number := number + 1, user=name)
        if fits:
            await shelf.add_challenge(new, bounds)
            open_now.append((new.id, name))
        else:
            await limited(shelf, new, bounds)
        if step % 5 == 4:
            await shelf.use(use().__class__(open_now.pop(0)[0], "key", 0, NOW + SECOND))


@pytest.mark.verify
async def test_twenty_thousand_pending_challenges_of_many_people_end_at_the_bound(kept):
    shelf = kept.shelf
    # Half of that shows it on PostgreSQL, where each costs a round trip.
    asked = 20_000 if kept.store is None or kept.store.kind == "sqlite" else 10_500

    async def ask(number):
        try:
            await shelf.add_challenge(challenge(number, user=f"user-{number % 900}"), BOUNDS)
        except Refused as refused:
            return refused.reason
        return None

    ends = []
    for start in range(0, asked, 500):
        ends += await asyncio.gather(*(ask(number) for number in range(start, start + 500)))
    assert ends == [None] * 10_000 + [Reason.APPROVAL_LIMIT] * (asked - 10_000)
    # One that is used makes room for one.
    await enrol(shelf, credential())
    await shelf.use(use(0))
    assert [await ask(asked), await ask(asked + 1)] == [None, Reason.APPROVAL_LIMIT]


# -- old ones ------------------------------------------------------------------------------------------------------


@requirement("VA-107")
async def test_a_used_challenge_is_known_as_used_nine_minutes_after_it_expired(issued):
    shelf, ended = issued.shelf, challenge().expires_at
    await shelf.use(use(counter=9))
    later = ended + 9 * MINUTE
    await shelf.add_challenge(challenge("later", created_at=later, expires_at=later + MINUTE), BOUNDS)
    with pytest.raises(Spent) as caught:
        await shelf.use(use(counter=10, at=later))
    assert caught.value.reason is Reason.CHALLENGE_CONSUMED
    assert (await shelf.challenge("challenge-1")).consumed_at == NOW + SECOND


async def test_a_challenge_is_forgotten_more_than_ten_minutes_after_it_expired(issued):
    shelf, ended = issued.shelf, challenge().expires_at

    async def at(now):
        await shelf.add_challenge(challenge(now, created_at=now, expires_at=now + MINUTE), BOUNDS)
        return await shelf.challenge("challenge-1")

    assert await at(ended + 10 * MINUTE) == challenge()
    assert await at(ended + 10 * MINUTE + 1) is None


OLD = "SELECT count(*) FROM challenge WHERE id LIKE 'challenge-%'"


async def test_old_challenges_go_a_number_at_a_time(kept):
    shelf = kept.shelf
    many = ApprovalBounds(per_user=10**6, in_all=10**6)
    await asyncio.gather(*(shelf.add_challenge(challenge(number), many) for number in range(450)))
    later = NOW + 60 * MINUTE

    async def left():
        new = challenge("x", created_at=later, expires_at=later + MINUTE)
        await shelf.add_challenge(replace(new, id=f"at-{asyncio.get_running_loop().time()}"), many)
        if kept.store is not None:
            return await kept.store.read(lambda conn: conn.execute(text(OLD)).scalar_one())
        return len([number for number in range(450) if await shelf.challenge(f"challenge-{number}") is not None])

    counts = [await left() for _ in range(3)]
    assert counts[-1] == 0
    if kept.store is not None:
        assert counts == [250, 50, 0]

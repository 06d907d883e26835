"""Ids from the wire may be anything: NUL, half characters, megabytes. They are not found, and nothing breaks."""

import pytest

from callgate.approval.model import ChallengeUse, GrantUse
from callgate.errors import Reason, Refused, Spent
from support.approval_store import (
    BOUNDS,
    NOW,
    challenge,
    credential,
    enrol,
    registration,
    request,
    session,
    ticket,
    use,
    user,
)
from support.table import rows

HOSTILE = {
    "nothing": "",
    "nul": "challenge-1\x00",
    "half a character": "challenge-1\ud800",
    "other half": "\udfff",
    "megabytes": "A" * 5_000_000,
    "more than an index takes": "ü" * 2000,
    "sql": "' OR 1=1 --",
    "format": "%s %b ? :id",
}
names = rows("hostile", HOSTILE.values(), ids=HOSTILE.keys())


@pytest.fixture
async def filled(kept):
    await enrol(kept.shelf, credential(), [b"code"])
    await kept.shelf.add_challenge(challenge(), BOUNDS)
    await kept.shelf.open_request(request(), BOUNDS)
    await kept.shelf.add_session(session())
    return kept


@names
async def test_nothing_is_found(filled, hostile):
    shelf = filled.shelf
    assert await shelf.user(hostile) is None
    assert await shelf.credential(hostile) is None
    assert list(await shelf.credentials(hostile, revoked=True)) == []
    assert await shelf.challenge(hostile) is None
    assert await shelf.look_up(hostile, "key") == (None, credential())
    assert await shelf.look_up("challenge-1", hostile) == (challenge(), None)
    assert await shelf.look_up(hostile, hostile) == (None, None)
    assert await shelf.request(hostile) is None
    assert list(await shelf.requests(hostile)) == []
    assert await shelf.recovery_codes(hostile) == 0
    assert await shelf.find_grant(hostile, hostile, hostile, b"", NOW) is None


@names
async def test_nothing_is_changed(filled, hostile):
    shelf = filled.shelf
    assert await shelf.remove_user(hostile) is False
    assert await shelf.rename_credential(hostile, "name") is False
    assert await shelf.revoke_credential(hostile, NOW) is False
    for reason, call in (
        (Reason.CHALLENGE_UNKNOWN, shelf.use(ChallengeUse(hostile, "key", 1, NOW))),
        (Reason.UNKNOWN_CREDENTIAL, shelf.use(ChallengeUse("challenge-1", hostile, 1, NOW))),
        (Reason.APPROVAL_EXPIRED, shelf.use(GrantUse(hostile, "call", NOW))),
        (Reason.APPROVAL_EXPIRED, shelf.approve_request(hostile, use(), {}, "ada")),
        (Reason.APPROVAL_EXPIRED, shelf.refuse_request(hostile, "ada", "", NOW)),
    ):
        with pytest.raises(Spent) as caught:
            await call
        assert caught.value.reason is reason
    with pytest.raises(Refused) as caught:
        await shelf.use_recovery_code(hostile, b"code", ticket(user=hostile))
    assert caught.value.reason is Reason.ENROLMENT_NOT_AUTHORISED
    assert await shelf.look_up("challenge-1", "key") == (challenge(), credential())
    assert await shelf.recovery_codes("ada") == 1


@rows("hostile", [b"", b"\x00" * 100, b"\xff" * 5_000_000], ids=["nothing", "nul", "megabytes"])
async def test_secrets_of_any_kind_are_not_found(filled, hostile):
    shelf = filled.shelf
    assert await shelf.ticket(hostile) is None
    assert await shelf.registration(hostile) is None
    assert await shelf.session(hostile, NOW) is None
    await shelf.end_session(hostile)
    for call in (
        shelf.begin_registration(registration(), BOUNDS, ticket=hostile, now=NOW),
        shelf.finish_registration(hostile, credential("new"), [], now=NOW),
        shelf.use_recovery_code("ada", hostile, ticket()),
    ):
        with pytest.raises(Refused) as caught:
            await call
        assert caught.value.reason in (Reason.ENROLMENT_NOT_AUTHORISED, Reason.NO_PENDING_ENROLLMENT)


@pytest.fixture
async def begun(stored):
    await stored.shelf.add_user(user())
    await stored.shelf.begin_registration(registration(), BOUNDS, ticket=None, now=NOW)
    return stored.shelf


@rows("hostile", ["a\x00b", "\ud800", "ü" * 2000], ids=["nul", "half a character", "long"])
async def test_names_that_no_database_takes_are_refused_before_it(begun, hostile):
    shelf = begun
    for call in (
        shelf.add_user(user(hostile)),
        shelf.add_ticket(ticket(by=hostile)),
        shelf.finish_registration(registration().challenge, credential(name=hostile), [], now=NOW),
        shelf.finish_registration(registration().challenge, credential(hostile), [], now=NOW),
        shelf.rename_credential("key", hostile),
        shelf.add_challenge(challenge(user=hostile), BOUNDS),
        shelf.open_request(request(user=hostile), BOUNDS),
    ):
        with pytest.raises(Refused) as caught:
            await call
        assert caught.value.reason is Reason.INVALID_PARAMS

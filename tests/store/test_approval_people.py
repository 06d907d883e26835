"""Users, passkeys, tickets, registrations, recovery codes, sessions: in memory and on both databases."""

import pytest
from msgspec.structs import replace

from callgate.approval.model import ApprovalBounds
from callgate.errors import Reason, Refused
from callgate.store import SqlApprovals, Store
from support.approval_store import (
    BOUNDS,
    DAY,
    MINUTE,
    NOW,
    SECOND,
    challenge,
    credential,
    enrol,
    registration,
    request,
    session,
    ticket,
    use,
    user,
    witness,
)
from support.registry import requirement
from support.stores import opened
from support.table import rows


async def refused(reason, call, *, kind=Refused):
    with pytest.raises(kind) as caught:
        await call
    assert caught.value.reason is reason


# -- users ---------------------------------------------------------------------------------------------------------


async def test_a_user_is_kept_as_given_and_found_by_name(kept):
    await kept.shelf.add_user(user(), witness("added"))
    assert await kept.shelf.user("ada") == user()
    assert await kept.shelf.user("Ada") is None
    assert kept.witnesses == ["added"]


async def test_a_name_is_given_once_and_the_second_try_leaves_no_record(kept):
    await kept.shelf.add_user(user())
    other = replace(user(), display_name="somebody else")
    await refused(Reason.USER_EXISTS, kept.shelf.add_user(other, witness("again")))
    assert await kept.shelf.user("ada") == user()
    assert kept.witnesses == []


async def test_users_come_by_name(shelf):
    for name in ("eve", "Ada", "ada", "Émile", "bob"):
        await shelf.add_user(user(name))
    assert [one.name for one in await shelf.users()] == ["Ada", "ada", "bob", "eve", "Émile"]


async def test_removing_a_user_removes_all_they_have_and_nothing_of_others(kept):
    shelf = kept.shelf
    for name in ("ada", "bob"):
        await enrol(shelf, credential(f"key of {name}", user=name), [b"code"])
        await shelf.add_ticket(ticket(f"ticket of {name}", user=name))
        await shelf.begin_registration(
            registration(name, user=name), BOUNDS, ticket=ticket(f"ticket of {name}").hash, now=NOW
        )
        await shelf.add_challenge(challenge(name, user=name), BOUNDS)
        await shelf.open_request(request(name, user=name, caller=name), BOUNDS)
        await shelf.add_session(session(name, user=name, credential=f"key of {name}"))
    assert await shelf.remove_user("ada", witness("removed")) is True
    for name, there in (("ada", False), ("bob", True)):
        assert (await shelf.user(name) is not None) is there
        assert bool(await shelf.credentials(name)) is there
        assert (await shelf.ticket(ticket(f"ticket of {name}").hash) is not None) is there
        assert (await shelf.registration(f"registration-{name}".encode()) is not None) is there
        assert (await shelf.recovery_codes(name)) == int(there)
        assert (await shelf.challenge(f"challenge-{name}") is not None) is there
        assert (await shelf.request(f"request-{name}") is not None) is there
        assert (await shelf.session(session(name).id, NOW) is not None) is there
    assert kept.witnesses == ["removed"]


async def test_removing_nobody_does_nothing(kept):
    assert await kept.shelf.remove_user("nobody", witness("removed")) is False
    assert kept.witnesses == []


async def test_a_removed_name_starts_afresh(shelf):
    await enrol(shelf, credential(), [b"code"])
    await shelf.remove_user("ada")
    await shelf.add_user(user())
    assert list(await shelf.credentials("ada", revoked=True)) == []
    await shelf.begin_registration(registration(), BOUNDS, ticket=None, now=NOW)
    await shelf.finish_registration(registration().challenge, credential(), [], now=NOW)
    assert await shelf.credential("key") == credential()


async def test_a_challenge_used_by_a_removed_user_stays_used(shelf):
    await enrol(shelf, credential())
    await shelf.add_challenge(challenge(), BOUNDS)
    await shelf.use(use())
    await shelf.remove_user("ada")
    await refused(Reason.CHALLENGE_CONSUMED, shelf.use(use()))


# -- passkeys ------------------------------------------------------------------------------------------------------


@requirement("VA-042")
async def test_a_passkey_is_there_whole_after_a_restart(url):
    transports = (("usb", "hybrid"), (), ("internal", "smart-card", "ünï\x00code"))
    whole = [
        credential(f"key-{at}", counter=2**32 - 1, transports=one, backed_up=True, backup_eligible=False)
        for at, one in enumerate(transports)
    ]
    async with opened(url) as store:
        for one in whole:
            await enrol(SqlApprovals(store), one)
    async with opened(url) as again:
        assert [await SqlApprovals(again).credential(one.id) for one in whole] == whole


async def test_passkeys_come_oldest_first_and_revoked_ones_only_if_asked_for(shelf):
    await enrol(shelf, credential("young", created_at=NOW + 2))
    await enrol(shelf, credential("old", created_at=NOW))
    await enrol(shelf, credential("gone", created_at=NOW + 1))
    await enrol(shelf, credential("bobs", user="bob", created_at=NOW + 3))
    await shelf.revoke_credential("gone", NOW + 9)
    assert [one.id for one in await shelf.credentials()] == ["old", "young", "bobs"]
    assert [one.id for one in await shelf.credentials("ada")] == ["old", "young"]
    assert [one.id for one in await shelf.credentials("ada", revoked=True)] == ["old", "gone", "young"]
    assert list(await shelf.credentials("nobody")) == []


async def test_a_passkey_is_renamed(kept):
    await enrol(kept.shelf, credential())
    assert await kept.shelf.rename_credential("key", "the blue one", witness("renamed")) is True
    assert await kept.shelf.rename_credential("none", "x", witness("renamed nothing")) is False
    assert (await kept.shelf.credential("key")).name == "the blue one"
    assert kept.witnesses == ["renamed"]


async def test_a_passkey_is_revoked_once_and_stays_known(kept):
    await enrol(kept.shelf, credential())
    assert await kept.shelf.revoke_credential("key", NOW + 5, witness("revoked")) is True
    assert await kept.shelf.revoke_credential("key", NOW + 6, witness("again")) is False
    assert await kept.shelf.revoke_credential("none", NOW, witness("none")) is False
    assert (await kept.shelf.credential("key")).revoked_at == NOW + 5
    assert kept.witnesses == ["revoked"]


async def test_a_revoked_passkey_is_not_enrolled_again(kept):
    await enrol(kept.shelf, credential())
    await kept.shelf.revoke_credential("key", NOW)
    await refused(Reason.CREDENTIAL_ALREADY_ENROLLED, enrol(kept.shelf, credential(user="bob")))
    assert (await kept.shelf.credential("key")).user == "ada"


# -- tickets and registrations -------------------------------------------------------------------------------------


async def test_a_ticket_is_kept_as_given(kept):
    await kept.shelf.add_user(user())
    await kept.shelf.add_ticket(ticket(purpose="device", by="ada"), witness("issued"))
    assert await kept.shelf.ticket(ticket().hash) == ticket(purpose="device", by="ada")
    assert await kept.shelf.ticket(b"another") is None
    assert kept.witnesses == ["issued"]


async def test_nobody_has_no_tickets(kept):
    await refused(Reason.USER_UNKNOWN, kept.shelf.add_ticket(ticket(), witness("issued")))
    assert await kept.shelf.ticket(ticket().hash) is None
    assert kept.witnesses == []


async def test_a_ticket_begins_one_registration(shelf):
    await shelf.add_user(user())
    await shelf.add_ticket(ticket())
    await shelf.begin_registration(registration(1), BOUNDS, ticket=ticket().hash, now=NOW + 1)
    assert (await shelf.ticket(ticket().hash)).used_at == NOW + 1
    await refused(
        Reason.ENROLMENT_NOT_AUTHORISED,
        shelf.begin_registration(registration(2), BOUNDS, ticket=ticket().hash, now=NOW + 2),
    )
    assert await shelf.registration(registration(1).challenge) == registration(1)
    assert await shelf.registration(registration(2).challenge) is None


@rows("wrong", ["unknown", "expired", "of another"])
async def test_a_ticket_that_does_not_hold_begins_nothing(shelf, wrong):
    ada, bob = f"ada {wrong}", f"bob {wrong}"
    for name in (ada, bob):
        await shelf.add_user(user(name))
    given = ticket(wrong, user=bob if wrong == "of another" else ada)
    await shelf.add_ticket(given)
    now = given.expires_at if wrong == "expired" else NOW
    secret = b"unknown" if wrong == "unknown" else given.hash
    begun = registration(wrong, user=ada, expires_at=now + MINUTE)
    call = shelf.begin_registration(begun, BOUNDS, ticket=secret, now=now)
    await refused(Reason.ENROLMENT_NOT_AUTHORISED, call)
    assert (await shelf.ticket(given.hash)).used_at is None
    assert await shelf.open_registrations(now) == 0


async def test_without_a_ticket_only_while_there_is_no_passkey(shelf):
    await shelf.add_user(user())
    await shelf.begin_registration(registration(1), BOUNDS, ticket=None, now=NOW)
    await shelf.finish_registration(registration(1).challenge, credential(), [], now=NOW)
    again = (registration(2), BOUNDS)
    await refused(Reason.ENROLMENT_NOT_AUTHORISED, shelf.begin_registration(*again, ticket=None, now=NOW))
    await shelf.revoke_credential("key", NOW)
    await refused(Reason.ENROLMENT_NOT_AUTHORISED, shelf.begin_registration(*again, ticket=None, now=NOW))


async def test_without_a_ticket_nobody_enrols_who_is_not_known(shelf):
    call = shelf.begin_registration(registration(), BOUNDS, ticket=None, now=NOW)
    await refused(Reason.ENROLMENT_NOT_AUTHORISED, call)


async def test_of_two_who_begin_without_a_ticket_one_enrols(shelf):
    await shelf.add_user(user())
    for number in (1, 2):
        await shelf.begin_registration(registration(number), BOUNDS, ticket=None, now=NOW)
    await shelf.finish_registration(registration(2).challenge, credential("second"), [], now=NOW)
    late = shelf.finish_registration(registration(1).challenge, credential("first"), [b"code"], now=NOW)
    await refused(Reason.NO_PENDING_ENROLLMENT, late)
    assert [one.id for one in await shelf.credentials("ada", revoked=True)] == ["second"]
    assert await shelf.recovery_codes("ada") == 0


async def test_registrations_under_way_are_bounded_and_the_ticket_stays(shelf):
    await shelf.add_user(user())
    bounds = ApprovalBounds(registrations_per_user=2)
    for number in range(3):
        await shelf.add_ticket(ticket(f"{number}"))
    for number in range(2):
        await shelf.begin_registration(registration(number), bounds, ticket=ticket(f"{number}").hash, now=NOW)
    third = (registration(2, created_at=NOW, expires_at=NOW + 20 * MINUTE), bounds)
    last = ticket("2").hash
    await refused(Reason.APPROVAL_LIMIT, shelf.begin_registration(*third, ticket=last, now=NOW))
    assert (await shelf.ticket(last)).used_at is None
    assert await shelf.open_registrations(NOW) == 2
    # Those that ran out, and those that were used, are under way no more.
    await shelf.begin_registration(*third, ticket=last, now=NOW + 5 * MINUTE)
    assert await shelf.open_registrations(NOW + 5 * MINUTE) == 1


async def test_passkeys_are_bounded_and_revoked_ones_do_not_count(shelf):
    bounds = ApprovalBounds(credentials_per_user=2)
    await enrol(shelf, credential("one"))
    await enrol(shelf, credential("two"))
    await shelf.add_ticket(ticket())
    begin = (registration(), bounds)
    await refused(Reason.APPROVAL_LIMIT, shelf.begin_registration(*begin, ticket=ticket().hash, now=NOW))
    assert (await shelf.ticket(ticket().hash)).used_at is None
    await shelf.revoke_credential("one", NOW)
    await shelf.begin_registration(*begin, ticket=ticket().hash, now=NOW)


async def test_a_registration_is_finished_once(kept):
    shelf = kept.shelf
    await shelf.add_user(user())
    await shelf.add_ticket(ticket())
    await shelf.begin_registration(registration(), BOUNDS, ticket=ticket().hash, now=NOW)
    begun = registration().challenge
    await shelf.finish_registration(begun, credential(), [b"1", b"2"], now=NOW + 3, witness=witness("enrolled"))
    assert await shelf.registration(begun) == replace(registration(), used_at=NOW + 3)
    assert await shelf.credential("key") == credential()
    assert await shelf.recovery_codes("ada") == 2
    assert await shelf.open_registrations(NOW + 3) == 0
    second = shelf.finish_registration(begun, credential("other"), [], now=NOW + 4, witness=witness("again"))
    await refused(Reason.NO_PENDING_ENROLLMENT, second)
    assert await shelf.credential("other") is None
    assert kept.witnesses == ["enrolled"]


@rows("wrong", ["unknown", "expired", "of another"])
async def test_a_registration_that_does_not_hold_enrols_nothing(kept, wrong):
    shelf, ada = kept.shelf, f"ada {wrong}"
    await shelf.add_user(user(ada))
    begun = registration(wrong, user=ada)
    await shelf.begin_registration(begun, BOUNDS, ticket=None, now=NOW)
    call = shelf.finish_registration(
        b"unknown" if wrong == "unknown" else begun.challenge,
        credential(user="bob" if wrong == "of another" else ada),
        [b"code"],
        now=NOW + 5 * MINUTE if wrong == "expired" else NOW,
        witness=witness("enrolled"),
    )
    await refused(Reason.NO_PENDING_ENROLLMENT, call)
    assert list(await shelf.credentials()) == []
    assert await shelf.recovery_codes(ada) == 0
    assert kept.witnesses == []


async def test_a_passkey_on_file_is_refused_and_nothing_is_used_up(kept):
    shelf = kept.shelf
    await enrol(shelf, credential(), [b"code"])
    await shelf.add_user(user("bob"))
    await shelf.begin_registration(registration(user="bob"), BOUNDS, ticket=None, now=NOW)
    begun = registration().challenge
    call = shelf.finish_registration(begun, credential(user="bob"), [b"x"], now=NOW, witness=witness("stolen"))
    await refused(Reason.CREDENTIAL_ALREADY_ENROLLED, call)
    assert await shelf.credential("key") == credential()
    assert await shelf.registration(begun) == registration(user="bob")
    assert kept.witnesses == []
    await shelf.finish_registration(begun, credential("bobs", user="bob"), [], now=NOW)


# -- recovery codes ------------------------------------------------------------------------------------------------


async def test_a_recovery_code_is_good_for_one_ticket(kept):
    shelf = kept.shelf
    await enrol(shelf, credential(), [b"one", b"two"])
    given = ticket(purpose="recovery")
    await shelf.use_recovery_code("ada", b"one", given, witness("recovered"))
    assert await shelf.ticket(given.hash) == given
    assert await shelf.recovery_codes("ada") == 1
    again = shelf.use_recovery_code("ada", b"one", ticket("again"), witness("again"))
    await refused(Reason.ENROLMENT_NOT_AUTHORISED, again)
    assert await shelf.ticket(ticket("again").hash) is None
    assert kept.witnesses == ["recovered"]


async def test_a_recovery_code_is_its_owners(kept):
    shelf = kept.shelf
    await enrol(shelf, credential(), [b"one"])
    await shelf.add_user(user("bob"))
    for name, code, given in (
        ("bob", b"one", ticket(user="bob")),
        ("ada", b"none", ticket()),
        ("ada", b"one", ticket(user="bob")),
        ("nobody", b"one", ticket(user="nobody")),
    ):
        await refused(Reason.ENROLMENT_NOT_AUTHORISED, shelf.use_recovery_code(name, code, given, witness("no")))
    assert await shelf.recovery_codes("ada") == 1
    assert kept.witnesses == []


async def test_new_codes_replace_all_earlier_ones_and_no_codes_leave_them(shelf):
    await enrol(shelf, credential("one"), [b"old-1", b"old-2"])
    await enrol(shelf, credential("two"))
    assert await shelf.recovery_codes("ada") == 2
    await enrol(shelf, credential("three"), [b"new"])
    assert await shelf.recovery_codes("ada") == 1
    await refused(Reason.ENROLMENT_NOT_AUTHORISED, shelf.use_recovery_code("ada", b"old-1", ticket()))
    await shelf.use_recovery_code("ada", b"new", ticket())


# -- old things ----------------------------------------------------------------------------------------------------


async def test_tickets_are_forgotten_a_day_after_they_were_used_or_ran_out(shelf):
    await shelf.add_user(user())
    await shelf.add_ticket(ticket("used", expires_at=NOW + 30 * DAY))
    await shelf.add_ticket(ticket("late", expires_at=NOW + MINUTE))
    await shelf.add_ticket(ticket("open", expires_at=NOW + 30 * DAY))
    await shelf.begin_registration(registration(), BOUNDS, ticket=ticket("used").hash, now=NOW + MINUTE)

    async def left(at):
        await shelf.add_ticket(ticket(f"at {at}", created_at=at, expires_at=at + MINUTE))
        return [name for name in ("used", "late", "open") if await shelf.ticket(ticket(name).hash) is not None]

    assert await left(NOW + DAY) == ["used", "late", "open"]
    assert await left(NOW + DAY + MINUTE + 1) == ["open"]


async def test_registrations_are_forgotten_ten_minutes_after_they_ran_out(shelf):
    await shelf.add_user(user())
    await shelf.begin_registration(registration(), BOUNDS, ticket=None, now=NOW)
    ended = registration().expires_at
    await shelf.begin_registration(registration(2, expires_at=NOW + DAY), BOUNDS, ticket=None, now=ended + 9 * MINUTE)
    assert await shelf.registration(registration().challenge) == registration()
    await shelf.begin_registration(
        registration(3, expires_at=NOW + DAY), BOUNDS, ticket=None, now=ended + 10 * MINUTE + 1
    )
    assert await shelf.registration(registration().challenge) is None


# -- sessions and identity -----------------------------------------------------------------------------------------


async def test_a_session_lasts_until_it_ends(shelf):
    await enrol(shelf, credential())
    await shelf.add_session(session())
    held = replace(session(), role="approver")
    assert await shelf.session(session().id, NOW) == held
    assert await shelf.session(session().id, session().expires_at - 1) == held
    assert await shelf.session(session().id, session().expires_at) is None
    assert await shelf.session(b"another", NOW) is None
    await shelf.end_session(session().id)
    await shelf.end_session(session().id)
    assert await shelf.session(session().id, NOW) is None


async def test_revoking_a_passkey_ends_the_sessions_it_opened(shelf):
    await enrol(shelf, credential())
    await enrol(shelf, credential("other"))
    await shelf.add_session(session())
    await shelf.add_session(session("second", credential="other"))
    await shelf.revoke_credential("key", NOW)
    assert await shelf.session(session().id, NOW) is None
    assert await shelf.session(session("second").id, NOW) is not None
    # Someone who was just signing in with it has no session either.
    await shelf.add_session(session("late"))
    assert await shelf.session(session("late").id, NOW) is None


async def test_expired_sessions_are_forgotten_when_one_is_added(shelf):
    await enrol(shelf, credential())
    await shelf.add_session(session())
    await shelf.add_session(session("next", created_at=session().expires_at, expires_at=session().expires_at + DAY))
    assert await shelf.session(session().id, NOW) is None
    assert await shelf.session(session("next").id, NOW + SECOND) is not None


async def test_the_deployment_keeps_its_first_identity(kept):
    assert await kept.shelf.identity("first") == "first"
    assert await kept.shelf.identity("second") == "first"
    if kept.url:
        other = Store.open(kept.url)
        assert await SqlApprovals(other).identity("third") == "first"
        await other.close()

"""What people may do, on each kind of store: it holds at once, and somebody always stays who may change it."""

import asyncio

import pytest
from msgspec.structs import replace

from callgate.errors import Reason, Refused
from callgate.store import SqlApprovals, Store
from support.approval_store import BOUNDS, NOW, challenge, credential, enrol, request, session, use, user, witness


async def refused(reason, work):
    with pytest.raises(Refused) as caught:
        await work
    assert caught.value.reason is reason


async def add(shelf, **roles):
    for name, role in roles.items():
        await shelf.add_user(replace(user(name), role=role))


async def roles(shelf):
    return {one.name: one.role for one in await shelf.users()}


async def test_a_role_is_kept_and_told_with_the_session(kept):
    shelf = kept.shelf
    await enrol(shelf, credential())
    await add(shelf, bob="operator")
    await shelf.add_session(session())
    for role in ("viewer", "operator", "approver"):
        assert await shelf.set_role("ada", role, witness(role), at=NOW) is True
        assert (await shelf.user("ada")).role == role
        assert (await shelf.session(session().id, NOW)).role == role
    assert await shelf.set_role("nobody", "viewer", witness("nobody"), at=NOW) is False
    assert kept.witnesses == ["viewer", "operator", "approver"]


async def test_the_last_operator_stays_one(kept):
    shelf = kept.shelf
    await add(shelf, ada="operator", bob="approver")
    for role in ("viewer", "approver"):
        await refused(Reason.LAST_OPERATOR, shelf.set_role("ada", role, witness("no"), at=NOW))
    await refused(Reason.LAST_OPERATOR, shelf.remove_user("ada", witness("no")))
    assert await shelf.set_role("ada", "operator", at=NOW) is True
    assert await shelf.set_role("bob", "operator", at=NOW) is True
    assert await shelf.set_role("ada", "viewer", at=NOW) is True
    assert await shelf.remove_user("ada") is True
    assert await roles(shelf) == {"bob": "operator"}
    assert kept.witnesses == []
    # Nobody else is there to be left without one.
    assert await shelf.remove_user("bob") is True


async def test_who_becomes_a_viewer_has_nothing_open_any_more(shelf):
    await enrol(shelf, credential())
    await enrol(shelf, credential("key of bob", user="bob"))
    await shelf.set_role("bob", "operator", at=NOW)
    for name in ("ada", "bob"):
        await shelf.add_challenge(challenge(name, user=name), BOUNDS)
        await shelf.open_request(request(name, user=name, caller=name), BOUNDS)
    await shelf.set_role("ada", "operator", at=NOW)
    assert await shelf.request("request-ada") is not None
    await shelf.set_role("ada", "viewer", at=NOW)
    for name, there in (("ada", False), ("bob", True)):
        assert (await shelf.challenge(f"challenge-{name}") is not None) is there
        assert (await shelf.request(f"request-{name}") is not None) is there
    with pytest.raises(Refused):
        await shelf.use(use("ada"))


async def test_two_operators_who_demote_each_other_at_once(url):
    """By two gateways on one store: one of them is too late."""
    stores = [Store.open(url, busy_seconds=30) for _ in range(2)]
    try:
        shelves = [SqlApprovals(store) for store in stores]
        await add(shelves[0], ada="operator", bob="operator")
        for _ in range(8):
            ends = await asyncio.gather(
                shelves[0].set_role("ada", "approver", at=NOW), shelves[1].remove_user("bob"), return_exceptions=True
            )
            left = await roles(shelves[0])
            assert "operator" in left.values(), ends
            assert sum(isinstance(end, Refused) for end in ends) == 1
            await shelves[0].set_role("ada", "operator", at=NOW)
            if "bob" not in left:
                await add(shelves[0], bob="operator")
    finally:
        for store in stores:
            await store.close()

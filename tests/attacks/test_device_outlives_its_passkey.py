"""A device is lost, or the passkey that enrolled it, or its person may do less; what the device has answered or is about
to answer is still on its way."""

import asyncio

import pytest

from callgate.approval.model import GrantUse
from callgate.canonical import canonical
from callgate.errors import Refused, Spent
from callgate.gate import Quorum
from support.console import ARGUMENTS
from support.devices import Phone, ask, gated, granted, several
from support.registry import requirement

ENDS = ("the device revoked", "its passkey revoked", "removed", "demoted", "demoted to approver", "by the person")


@pytest.fixture
def console(console_of_each_store):
    return console_of_each_store


@pytest.fixture
async def anna(console):
    return await console.sign_in("anna")


@pytest.fixture
async def phone(console, anna):
    return await Phone.enrolled(console, anna)


async def end(console, how, person, phone):
    """An operator takes it away over the page, or the person themselves."""
    if how == "by the person":
        return await console.revoke(phone.id, person)
    path, otto = f"/people/{person.user}", console.people["otto"]
    if "revoked" in how:
        which = phone.id if how == "the device revoked" else person.credential.id
        return await console.act(f"{path}/revoke", {"passkey": which}, otto)
    if how == "removed":
        held = len(await console.approvals.shelf.credentials(person.user))
        return await console.act(f"{path}/remove", {"passkeys": held}, otto)
    role = "approver" if how.endswith("approver") else "viewer"
    return await console.act(f"{path}/role", {"role": role, "before": "operator"}, otto)


async def each_way(console):
    """A person with a device of their own for each way to end it."""
    await console.sign_in("otto")
    for number, how in enumerate(ENDS):
        person = await console.sign_in(f"person-{number}")
        yield how, person, await Phone.enrolled(console, person)


@requirement("VA-181")
async def test_it_answers_nothing_any_more(console):
    async for how, person, phone in each_way(console):
        # Her other passkey stays: the device is not its.
        await console.sign_in(person.user)
        asked = await ask(console, person.user)
        late = [phone.signed(await phone.call(asked), decision) for decision in ("no", "yes")]
        assert (await end(console, how, person, phone)).status == 200
        for body in late:
            assert (await phone.send("answer", body)).status >= 400, how
        if how not in ("removed", "demoted"):
            assert (await console.stored(asked)).state == "waiting", how
        assert (await phone.ask("waiting")).reason == "unknown_credential", how
        # Nor does it come back with her role.
        if how.startswith("demoted"):
            await console.approvals.set_role(person.user, "operator", by="test")
            assert (await phone.ask("waiting")).reason == "unknown_credential", how


async def test_an_approval_that_no_call_has_used(console):
    async for how, person, phone in each_way(console):
        asked = await ask(console, person.user)
        assert (await phone.answer(asked)).json == {"state": "approved"}
        assert (await end(console, how, person, phone)).status == 200
        assert await granted(console) is None, how
        with pytest.raises(Spent):
            await console.approvals.shelf.use(GrantUse(asked.id, "call", console.approvals.now()))
        # The caller hears of it, and the next one is asked about anew.
        await console.approvals.unheard_refusal(gated(), canonical(ARGUMENTS), caller="caller", call="x")


async def test_one_of_two_who_signed(console):
    ben = await console.sign_in("ben", role="approver")
    async for how, person, phone in each_way(console):
        policy, arguments = several(Quorum(2)), {"resourceId": how}
        asked = await ask(console, policy=policy, arguments=arguments)
        assert (await phone.answer(asked)).json == {"state": "waiting"}
        assert (await end(console, how, person, phone)).status == 200
        body = await console.signed(asked, ben)
        answer = await console.post(f"/approve/{asked.id}/approve", body, ben)
        assert answer.json == {"state": "waiting"}, how


async def test_revoked_while_the_answer_is_on_its_way(console, anna, phone):
    """Verified already, and not yet in the store."""
    asked = await ask(console)
    shelf = console.approvals.shelf
    for name, decision in (("approve_request", "yes"), ("refuse_request", "no")):
        tablet = await Phone.enrolled(console, anna, name)
        body, inner = tablet.signed(await tablet.call(asked), decision), getattr(shelf, name)

        async def revoked_first(*given, inner=inner, tablet=tablet, **named):
            await console.approvals.revoke(tablet.id, by="operator")
            return await inner(*given, **named)

        setattr(shelf, name, revoked_first)
        assert (await tablet.send("answer", body)).reason == "unknown_credential"
        assert (await console.stored(asked)).state == "waiting"
        setattr(shelf, name, inner)
    assert (await phone.answer(asked)).json == {"state": "approved"}


async def test_revoked_while_it_is_enrolled(console, anna):
    """The passkey has signed for the device, and is revoked before the device is written down."""
    phone = await Phone.made(console, "anna")
    shelf, add = console.approvals.shelf, console.approvals.shelf.add_device

    async def revoked_first(*given, **named):
        await console.approvals.revoke(anna.credential.id, by="operator")
        await add(*given, **named)

    shelf.add_device = revoked_first
    assert (await phone.enrol(anna)).reason == "unknown_credential"
    assert await shelf.credentials("anna", revoked=True, method="device") == []


async def test_a_viewer_has_no_device(console):
    vera = await console.sign_in("vera", role="viewer")
    phone = await Phone.made(console, "vera")
    assert (await phone.enrol(vera)).reason == "role_needed"
    assert await console.approvals.shelf.credentials("vera", method="device") == []


async def test_a_device_whose_voucher_is_missing(console, anna, phone):
    """Somebody wrote to the store: a device without a passkey that holds behind it answers nothing."""
    asked = await ask(console)
    call = await phone.call(asked)
    no, yes = phone.signed(call, "no"), phone.signed(call)
    await console.sign_in("anna")
    await console.approvals.shelf._store.run(
        lambda conn: conn.exec_driver_sql(f"UPDATE passkey SET voucher = NULL WHERE id = '{phone.id}'")
    )
    for body in (no, yes):
        assert (await phone.send("answer", body)).reason == "unknown_credential"
    assert (await phone.ask("waiting")).reason == "unknown_credential"
    assert (await console.stored(asked)).state == "waiting"


async def test_two_answers_at_once(console, anna, phone):
    """A yes and a no, or two of each: one counts."""
    tablet = await Phone.enrolled(console, anna, "Tablet")
    for number in range(5):
        asked = await ask(console, arguments={"resourceId": str(number)})
        bodies = [
            one.signed(await one.call(asked), decision)
            for one, decision in ((phone, "yes"), (tablet, "no"), (phone, "yes"), (tablet, "no"))
        ]
        senders = (phone, tablet, phone, tablet)
        sent = await asyncio.gather(*(one.send("answer", body) for one, body in zip(senders, bodies, strict=True)))
        assert sorted(answer.status == 200 for answer in sent) == [False, False, False, True]
        [state] = [answer.json["state"] for answer in sent if answer.status == 200]
        assert (await console.stored(asked)).state == state


async def test_removed_for_whoever_asks_the_service(console, anna, phone):
    asked = await ask(console)
    body = phone.signed(await phone.call(asked))
    await console.sign_in("otto")
    await console.approvals.remove("anna", by="otto")
    with pytest.raises(Refused):
        await console.approvals.answer(asked.id, body["evidence"])

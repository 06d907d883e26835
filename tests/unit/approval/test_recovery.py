"""A lost authenticator: codes that were made at enrolment allow one new enrolment each, and nothing else."""

import pytest

from callgate.approval import ApprovalSettings
from callgate.approval.people import code_hash
from callgate.errors import Reason, Refused
from support.ceremonies import Scene, authenticator, evidence
from support.table import rows


async def refusal(awaited):
    with pytest.raises(Refused) as refused:
        await awaited
    return refused.value


async def enrolled():
    scene, key = Scene(), authenticator()
    found = await scene.approvals.finish_enrolment(key.create(await scene.options()), codes=True)
    return scene, key, found


async def test_codes_are_made_on_our_pages_only_and_kept_as_hashes():
    scene, _, found = await enrolled()
    assert len(set(found.codes)) == 8
    assert all(len(code.replace("-", "")) == 24 for code in found.codes)
    assert await scene.shelf.recovery_codes("ann") == 8
    shelf = repr(vars(scene.shelf))
    assert not any(code in shelf or code.replace("-", "") in shelf for code in found.codes)
    assert code_hash("ann", found.codes[0]) != code_hash("bob", found.codes[0])
    assert {row[1] for row in scene.shelf.rows("recovery_code")} == {code_hash("ann", code) for code in found.codes}
    # What goes over the wire holds none, and neither does the log.
    assert not any(code in repr((found.result, scene.log)) for code in found.codes)


async def test_no_new_codes_while_some_are_left():
    scene, _, found = await enrolled()
    further = await scene.approvals.finish_enrolment(authenticator().create(await scene.options()), codes=True)
    assert further.codes == ()
    for code in found.codes:
        await scene.approvals.recover("ann", code)
    assert await scene.shelf.recovery_codes("ann") == 0
    further = await scene.approvals.finish_enrolment(authenticator().create(await scene.options()), codes=True)
    assert len(further.codes) == 8


async def test_a_code_gives_a_ticket_for_one_enrolment_and_is_used_up():
    scene, _, found = await enrolled()
    ticket = await scene.approvals.recover("ann", found.codes[0])
    assert scene.log[-1] == ("recovery.use", "ann", {"user": "ann"})
    assert scene.shelf.witnesses[-1] == ("recovery.use", "ann")
    looked = await scene.approvals.look_at_ticket(ticket)
    assert (looked.user, looked.purpose) == ("ann", "recovery")
    new = authenticator()
    begun = await scene.approvals.begin_enrolment(ticket)
    await scene.approvals.finish_enrolment(new.create(begun["options"]))
    await scene.call(evidence(await scene.issue(), new))
    for again in (scene.approvals.begin_enrolment(ticket), scene.approvals.recover("ann", found.codes[0])):
        assert (await refusal(again)).reason is Reason.ENROLMENT_NOT_AUTHORISED
    assert await scene.shelf.recovery_codes("ann") == 7


async def test_a_code_opens_nothing_but_an_enrolment():
    scene, _, found = await enrolled()
    issued = await scene.issue()
    code = found.codes[0]
    for given in ({"method": "recovery", "challengeId": issued.challenge.id, "response": {"code": code}}, code):
        with pytest.raises(Refused):
            await scene.call(given)
    assert (await refusal(scene.approvals.begin_enrolment(code))).reason is Reason.ENROLMENT_NOT_AUTHORISED
    assert await scene.approvals.session(code) is None
    with pytest.raises(Refused):
        await scene.approvals.finish_sign_in(code)
    assert await scene.shelf.recovery_codes("ann") == 8


@rows(
    "typed",
    [
        str.lower,
        lambda code: code.replace("-", ""),
        lambda code: f"  {code.replace('-', ' ')} ",
        lambda code: code.replace("O", "0").replace("I", "1"),
    ],
    ids=["small", "no-dashes", "spaces", "zeros-and-ones"],
)
async def test_small_slips_in_typing_are_forgiven(typed):
    scene, _, found = await enrolled()
    assert await scene.approvals.recover("ann", typed(found.codes[3]))


@rows("code", ["", "AAAAAA-AAAAAA-AAAAAA-AAAAAA", "x" * 1000, "\0", "\ud800"])
async def test_a_code_that_was_never_made_is_refused(code):
    scene, _, _ = await enrolled()
    before = len(scene.shelf.rows("ticket"))
    assert (await refusal(scene.approvals.recover("ann", code))).reason is Reason.ENROLMENT_NOT_AUTHORISED
    assert len(scene.shelf.rows("ticket")) == before


@rows("user", ["bob", "nobody", "", "a\0nn", "ann\n"])
async def test_a_code_is_one_persons(user):
    scene, _, found = await enrolled()
    await scene.enrol(authenticator(), "bob")
    refused = await refusal(scene.approvals.recover(user, found.codes[0]))
    assert refused.reason is Reason.ENROLMENT_NOT_AUTHORISED
    assert await scene.approvals.recover("ann", found.codes[0])


async def test_nothing_is_said_of_whether_a_person_is_known():
    scene, _, _ = await enrolled()
    told = [await refusal(scene.approvals.recover(user, "A" * 24)) for user in ("ann", "nobody")]
    assert told[0].message == told[1].message
    assert told[0].advice == told[1].advice


async def test_where_they_are_off_nobody_gets_any():
    scene = Scene(ApprovalSettings(recovery_codes=False))
    found = await scene.approvals.finish_enrolment(authenticator().create(await scene.options()), codes=True)
    assert found.codes == ()
    assert await scene.shelf.recovery_codes("ann") == 0

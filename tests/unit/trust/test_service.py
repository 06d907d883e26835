"""What console and command line do with sessions and held results."""

import json

import pytest
from msgspec.structs import replace

from callgate.errors import Reason, Refused, Spent
from callgate.trust.model import SessionLabel
from callgate.trust.quarantine import Seals
from callgate.trust.service import TEXT_CHARS, TrustService
from support.agent_sessions import HANDLE, KEY, OTHER, POISON, SEALS, furnish, hold, story, trust_over, walk
from support.memory import MemoryTrust, witness
from support.registry import requirement
from support.table import rows


@pytest.fixture
async def shelf():
    return await furnished()


async def furnished():
    made = MemoryTrust()
    await furnish(made)
    return made


async def refused(work):
    with pytest.raises(Refused) as caught:
        await work
    return caught.value


async def test_a_session_is_found_by_the_beginning_of_its_key(shelf):
    trust = trust_over(shelf)
    assert (await trust.find(KEY)).key == (await trust.find(KEY[:6])).key == KEY
    for given in (KEY[:3], "ffff", "", "5d1f\n", "\x00", "x" * 5_000, KEY + "0"):
        assert (await refused(trust.find(given))).reason is Reason.AGENT_SESSION_UNKNOWN
    await walk(shelf, KEY[:8] + "f" * 24)
    error = await refused(trust.find(KEY[:8]))
    assert "several keys" in error.message
    assert (await trust.find(KEY)).key == KEY


async def test_one_of_thousands_is_found(shelf):
    for at in range(2_500):
        await shelf.open(f"{at:032x}", "many", 1_000 + at // 1_500, 0)
    assert (await trust_over(shelf).find(f"{2:032x}"[:31] + "2")).key == f"{2:032x}"
    await shelf.open("beef" + "0" * 28, "first", 1, 0)
    assert (await trust_over(shelf).find("beef")).agent == "first"


@requirement("TA-075")
async def test_declassifying_leaves_a_record_of_who_and_why(shelf):
    trust = trust_over(shelf, witness=witness)
    before = await trust.find(KEY)
    assert before.label.open_world
    assert before.label.malicious
    after = await trust.declassify(KEY[:8], by="anna", note="  read it\x1b[2J all ")
    assert after.label == SessionLabel()
    ((action, by, detail),) = shelf.witnesses
    assert (action, by) == ("trust.declassify", "anna")
    assert detail["note"] == "read it [2J all"
    assert detail["was"]["open_world"]
    assert "financial" in detail["was"]["sensitivity"]
    last = (await trust.view(KEY)).calls[-1]
    assert (last.kind, last.why) == ("act", "read it [2J all")


@rows("note", ["", "   ", "\n\t\x00"])
async def test_nothing_is_declassified_without_a_reason(note):
    shelf = await furnished()
    trust = trust_over(shelf, witness=witness)
    await refused(trust.declassify(KEY, by="anna", note=note))
    assert (await trust.find(KEY)).label.open_world
    assert shelf.witnesses == []


async def test_a_held_result_is_shown_to_a_person(shelf):
    view = await trust_over(shelf).show(HANDLE[:10])
    assert view.texts == (POISON,)
    assert json.loads(view.raw)["result"]["content"][0]["text"] == POISON
    assert (view.closed, view.beyond) == ("", 0)


@rows("state", ["released", "dropped"])
async def test_a_decision_is_recorded_and_made_once(state):
    shelf = await furnished()
    trust = trust_over(shelf, witness=witness)
    held = await trust.settle(HANDLE, state, by="anna", note="seen")
    assert (held.state, held.decided_by) == (state, "anna")
    ((action, by, detail),) = shelf.witnesses
    assert (action, by) == ({"released": "trust.release", "dropped": "trust.drop"}[state], "anna")
    assert (detail["handle"], detail["note"], detail["tool"]) == (HANDLE, "seen", "read_mail")
    with pytest.raises(Spent):
        await trust.settle(HANDLE, "released", by="bert")
    assert len(shelf.witnesses) == 1
    assert await trust.holding() == []


async def test_of_a_dropped_result_nothing_is_left_to_read(shelf):
    trust = trust_over(shelf)
    await trust.settle(HANDLE, "dropped", by="anna")
    view = await trust.show(HANDLE)
    assert (view.texts, view.raw) == ((), "")
    assert "dropped" in view.closed


async def test_a_result_without_its_key_stays_closed(shelf):
    assert "not here" in (await TrustService(shelf).show(HANDLE)).closed
    other = TrustService(shelf, unseal=Seals(bytes(32)).open)
    view = await other.show(HANDLE)
    assert (view.texts, view.raw) == ((), "")
    assert "cannot be opened" in view.closed


async def test_handles_that_are_not_known_are_refused(shelf):
    trust = trust_over(shelf)
    for given in ("", "cgq_", "cgq_abc", "nope", "cgq_" + "b" * 26, "x\n" * 9):
        assert (await refused(trust.show(given))).reason is Reason.QUARANTINE_UNKNOWN
    await hold(shelf, OTHER)
    assert (await trust.find_held("zyxw")).handle == OTHER


async def test_a_huge_reply_is_shown_in_part_and_the_rest_is_counted(shelf):
    await hold(shelf, OTHER, "x" * 300_000)
    view = await trust_over(shelf).show(OTHER)
    assert len(view.raw) == len(view.texts[0]) == TEXT_CHARS
    assert view.beyond > 230_000


@rows("raw", [b"", b"\xff\xfe", b"[1]", b'{"result":7}', b'{"error":{"message":"x"}}', b"[" * 5_000])
async def test_a_reply_of_any_shape_can_be_read(raw):
    shelf = await furnished()
    held = await shelf.held(HANDLE)
    await shelf.hold(replace(held, handle=OTHER, sealed=SEALS.seal(raw, OTHER)), 1 << 60)
    view = await trust_over(shelf).show(OTHER)
    assert view.texts == ()
    assert view.raw == raw.decode("utf-8", "replace")


async def test_the_view_is_of_the_newest_steps(shelf):
    picture = await trust_over(shelf).view(KEY, most=3)
    assert [node.seq for node in picture.calls] == [5, 6, 7]
    assert picture.folded == len(story()) - 3

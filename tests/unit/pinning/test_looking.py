"""What a review remembers is bounded, and every text is inspected once, however much it names."""

import pytest

from callgate import inspection
from callgate.inspection import InspectionContext, ToolDefinition, inspect
from callgate.pinning.model import ListedTool
from callgate.pinning.review import neighbours, sets
from callgate.pinning.review.neighbours import InspectionCache
from support.pins_in_memory import PinsInMemory, entry, raw_of

NAMES = [f"list_{number:03d}" for number in range(80)]
TEXT = f"Tells a fact. Use {', '.join(NAMES)}."


@pytest.fixture
def inspected(monkeypatch):
    """The names of the tools that were inspected, each time."""
    told = []

    def counted(tool, *more):
        told.append(tool.name)
        return inspect(tool, *more)

    monkeypatch.setattr(inspection, "inspect", counted)
    return told


def test_the_findings_that_are_kept_are_counted(monkeypatch):
    monkeypatch.setattr(neighbours, "_KEPT_FINDINGS", 120)
    memory = InspectionCache()
    for number in range(10):
        tool = entry("fact", f"{TEXT} {number}")
        found = memory.findings(ListedTool("fact", raw_of(tool), tool), "evil", {"notes": frozenset(NAMES)}, None, 1.0)
        kept = sum(map(len, memory._findings._values.values()))
        assert len(found) <= kept <= 120


def test_an_inspection_tells_of_as_many_as_is_counted_on():
    sure = sets._SURE_OF_A_SERVER
    for name, names in (("fact", NAMES[:sure]), ("send_email", [f"send_emai{chr(97 + at)}" for at in range(sure)])):
        tool = ToolDefinition.of(entry(name, f"Use {', '.join(names)}."))
        found = inspect(tool, InspectionContext(server="evil", others={"notes": frozenset(names)}))
        assert {one.tool for one in found if one.server} >= set(names) - {name}
    odd = [f"list it {number:03d}" for number in range(sets._SURE_IN_ALL)]
    others = {f"notes{at}": frozenset(odd[at::10]) for at in range(10)}
    found = inspect(
        ToolDefinition.of(entry("fact", f"Use {', '.join(odd)}.")), InspectionContext(server="evil", others=others)
    )
    assert {one.tool for one in found if one.server} == set(odd)


async def test_a_text_that_names_many_is_inspected_once_and_waits_for_all_of_them(inspected):
    room = PinsInMemory()
    await room.meet("notes", *map(entry, NAMES))
    evil, _ = await room.meet("evil", entry("fact", TEXT))
    ids = [server.seen.server_id for server in (await room.pins.review()).servers]
    inspected.clear()
    await room.approve("notes", *NAMES, together=ids)
    await room.approve("evil", "fact", together=ids)
    assert await room.pins.held() == {}
    assert inspected.count("fact") <= 1
    for name in (NAMES[0], NAMES[-1]):
        await room.meet("notes", *(entry(one, "Another." if one == name else "Reads one record.") for one in NAMES))
        await room.approve("notes", name)
        assert "fact" in (await room.pins.held())[evil.server_id]
        (one,) = (await room.pins.review()).sets
        await room.pins.review_set("", one.version, by="ann")
        assert await room.pins.held() == {}
    # The page of a tool that was left off does not tell of it: to approve it there is not enough.
    spoken = {
        name: any(one.rule == "shadowing.spoken-of" for one in (await room.view("notes", name)).findings)
        for name in (NAMES[0], NAMES[-1])
    }
    assert spoken == {NAMES[0]: True, NAMES[-1]: False}
    await room.meet("notes", *(entry(one, "Once more." if one == NAMES[-1] else "Reads.") for one in NAMES))
    await room.approve("notes", NAMES[-1], together=ids)
    assert "may be one of them" in (await room.pins.held())[evil.server_id]["fact"]

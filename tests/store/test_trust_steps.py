"""Steps of a session, what they remember and for how long, and the things that they tainted."""

import pytest

from callgate.errors import Refused
from callgate.trust import keeping
from callgate.trust.model import DataLabel, Traced
from support.table import rows
from support.trust_store import HOUSE, KEY, LATER, NOW, add, step

WHOLE = step(
    rule="stranger-decides",
    why="The recipient was met only in a stranger's text.",
    verdict="ask",
    label=DataLabel(True, True, frozenset({"user"}), frozenset({"pii"}), ("mcp://a/b",), ("odd",)),
    tool_label={"destination": ["public"], "known": True},
    provenance=(Traced("to", "identity", "untrusted", True, "eve@example", (1, 2)),),
    memory=bytes(range(256)),
)


async def test_a_step_comes_back_as_it_was(trust):
    await trust.open(KEY, "stdio", NOW, 0)
    await add(trust, step=WHOLE)
    (found,) = await trust.steps(KEY)
    assert found == step(seq=1, **{name: getattr(WHOLE, name) for name in WHOLE.__struct_fields__ if name != "seq"})


async def test_steps_are_read_from_where_one_stopped(trust):
    await trust.open(KEY, "stdio", NOW, 0)
    for number in range(6):
        await add(trust, step=step(f"tool {number}"))
    await add(trust, "another", step=step("elsewhere"))
    assert [(found.seq, found.tool) for found in await trust.steps(KEY, 4)] == [(5, "tool 4"), (6, "tool 5")]
    # The newest of them, oldest first.
    assert [found.seq for found in await trust.steps(KEY, limit=2)] == [5, 6]
    assert await trust.steps(KEY, 6) == []
    assert await trust.steps(KEY, limit=0) == []


@rows("keep", [0, 1, 3, 40])
async def test_only_the_newest_are_remembered(trust, keep):
    key = f"{keep}"
    await trust.open(key, "stdio", NOW, 0)
    for number in range(75):
        await add(trust, key, step=step(label=HOUSE), keep=keep)
        if number in (0, 2, 40, 74):
            found = await trust.steps(key)
            kept = [one.seq for one in found if one.memory]
            assert kept == [one.seq for one in found][max(0, len(found) - keep) :]
            assert all(one.label == HOUSE for one in found)


async def test_who_wants_less_kept_gets_it_at_once(trust):
    await trust.open(KEY, "stdio", NOW, 0)
    for _ in range(40):
        await add(trust, keep=50)
    await add(trust, keep=2)
    assert [found.seq for found in await trust.steps(KEY) if found.memory] == [40, 41]
    # What is forgotten stays so.
    await add(trust, keep=50)
    assert [found.seq for found in await trust.steps(KEY) if found.memory] == [40, 41, 42]


async def test_a_session_has_a_bounded_number_of_steps(trust, monkeypatch):
    monkeypatch.setattr(keeping, "STEPS", 50)
    await trust.open(KEY, "stdio", NOW, 0)
    for _ in range(130):
        after = await add(trust)
    assert after.steps == 130
    assert [found.seq for found in await trust.steps(KEY)] == list(range(81, 131))


async def test_texts_of_a_step_are_cut(trust):
    """However much a server writes, a bounded part of it is kept."""
    long = "long \ud800" * 10_000
    label = DataLabel(
        open_world=True,
        sensitivity=frozenset(f"org.{number}" + "x" * 500 for number in range(500)),
        sources=frozenset({long}),
        attribution=(long,) * 500,
        warnings=(long,) * 500,
    )
    traced = Traced(long, "text", "nowhere", True, long, tuple(range(1000)))
    big = step(
        long,
        server=long,
        rule=long,
        why=long,
        call=long,
        label=label,
        tool_label={long: long},
        provenance=(traced,) * 99,
    )
    await add(trust, step=big)
    (found,) = await trust.steps(KEY)
    assert len(keeping.packed(found)) < 10 * keeping.STEP_BYTES
    assert found.tool == long[: keeping.NAME_CHARS]
    assert "unknown" in found.label.sensitivity
    assert found.label.open_world
    assert len(found.provenance) == 32


async def test_a_step_that_brings_too_much_is_refused_whole(trust):
    """Dropping a taint would be trusting."""
    await trust.open(KEY, "stdio", NOW, 0)
    many = tuple(f"o{number}" for number in range(keeping.OBJECTS + 1))
    for wrong in (
        {"objects": many},
        {"endorsed": many},
        {"objects": ("nul \x00",)},
        {"endorsed": ("x" * 500,)},
        {"step": step(memory=b"x" * (keeping.MEMORY_BYTES + 1))},
    ):
        with pytest.raises(Refused):
            await add(trust, **wrong)
    assert await trust.steps(KEY) == []
    assert (await trust.session(KEY)).steps == 0


async def test_endorsed_values_are_of_their_session(trust):
    await add(trust, endorsed=("d1", "d2"))
    await add(trust, endorsed=("d2", "d3"))
    await add(trust, "another", endorsed=("d9",))
    assert await trust.endorsed(KEY) == {"d1", "d2", "d3"}


async def test_of_too_many_endorsed_values_the_newest_stay(trust, monkeypatch):
    monkeypatch.setattr(keeping, "ENDORSED", 3)
    for number in range(5):
        await add(trust, endorsed=(f"d{number}",))
    await add(trust, endorsed=("d2",))
    assert await trust.endorsed(KEY) == {"d2", "d3", "d4"}


async def test_things_stay_tainted_for_everybody_until_they_expire(trust):
    await add(trust, objects=("o1", "o2"), expires_at=NOW + 10)
    await add(trust, "another", objects=("o2",), expires_at=NOW + 20)
    await add(trust, "another", objects=("o2",), expires_at=NOW + 5)
    asked = ["o1", "o2", "o3"]
    assert await trust.tainted(asked, NOW) == {"o1", "o2"}
    assert await trust.tainted(asked, NOW + 10) == {"o2"}
    assert await trust.tainted(asked, NOW + 20) == frozenset()
    assert await trust.tainted([], NOW) == frozenset()
    assert await trust.tainted({f"x{number}" for number in range(3000)} | {"o1"}, NOW) == {"o1"}


async def test_what_has_expired_is_dropped(trust):
    await add(trust, endorsed=("d1",), objects=("o1",), expires_at=NOW + 10)
    await add(trust, endorsed=("d2",), objects=("o2",), expires_at=NOW + 20)
    await add(trust, step=step(memory=b""))
    assert await trust.prune(NOW + 9, sessions=10) == 0
    assert await trust.prune(NOW + 10, sessions=10) == 3
    assert [found.memory for found in await trust.steps(KEY)] == [b"", b"hashes", b""]
    assert await trust.endorsed(KEY) == {"d2"}
    assert await trust.tainted(["o1", "o2"], NOW) == {"o2"}
    assert await trust.prune(NOW + 10, sessions=10) == 0
    # Labels do not expire.
    assert all(found.label is not None for found in await trust.steps(KEY))


async def test_much_that_has_expired_is_dropped_in_one_go(trust):
    for _ in range(3):
        await add(trust, objects=tuple(f"{_}-{number}" for number in range(400)), expires_at=NOW)
    assert await trust.prune(NOW, sessions=10) == 1203


async def test_sessions_not_seen_for_longest_make_room(trust):
    for number in range(120):
        await add(trust, f"{number:03}", step=step(at=NOW + number), endorsed=("d",))
    assert await trust.prune(NOW, sessions=3) == 117
    assert [found.key for found in await trust.sessions()] == ["119", "118", "117"]
    assert await trust.steps("000") == []
    assert await trust.endorsed("000") == frozenset()
    assert len(await trust.steps("119")) == 1
    assert (await trust.open("000", "stdio", LATER, 0)).steps == 0

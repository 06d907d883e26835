"""A session takes in labels and loses none; only being idle or an operator's act takes some away."""

import pytest

from callgate.errors import Refused
from callgate.trust import keeping
from callgate.trust.model import SessionLabel
from support.table import rows
from support.trust_store import HOUSE, KEY, LATER, NOW, STRANGE, add, labels, step

HOUR = 3_600_000
HOSTILE = ["", "x" * 129, "a\x00b", "half \ud800", "größe", "two\nlines"]


async def test_a_session_is_made_once(trust):
    first = await trust.open(KEY, "stdio", NOW, 0)
    assert (first.key, first.agent, first.opened_at, first.seen_at, first.steps) == (KEY, "stdio", NOW, NOW, 0)
    assert first.label == SessionLabel()
    again = await trust.open(KEY, "stdio", NOW + 5, 0)
    assert (again.opened_at, again.seen_at, again.version) == (NOW, NOW + 5, first.version)
    assert await trust.session(KEY) == again
    assert await trust.version(KEY) == again.version > 0


async def test_one_that_nobody_opened_is_not_there(trust):
    assert await trust.session(KEY) is None
    assert await trust.version(KEY) == 0
    assert await trust.steps(KEY) == []
    assert await trust.endorsed(KEY) == frozenset()
    assert await trust.declassify(KEY, SessionLabel(), "ada", "", NOW) is None
    assert await trust.session(KEY) is None
    assert await trust.sessions() == []


async def test_labels_are_joined_and_never_less(trust):
    await trust.open(KEY, "stdio", NOW, 0)
    await add(trust, adds=labels("mcp://mail/1", sensitivity=frozenset({"pii"})))
    await add(trust, adds=SessionLabel(malicious=True, attribution=("mcp://web/2", "mcp://mail/1")))
    after = await add(trust, adds=SessionLabel(sensitivity=frozenset({"financial"})))
    assert after.label == SessionLabel(
        open_world=True,
        malicious=True,
        sensitivity=frozenset({"pii", "financial"}),
        attribution=("mcp://mail/1", "mcp://web/2"),
    )
    assert await trust.session(KEY) == after


async def test_each_step_moves_the_version_by_one(trust):
    before = await trust.open(KEY, "stdio", NOW, 0)
    for number in range(1, 4):
        after = await add(trust, step=step(at=NOW + number))
        assert (after.version, after.steps) == (before.version + number, number)
        assert await trust.version(KEY) == after.version
    assert (after.opened_at, after.seen_at) == (NOW, NOW + 3)


async def test_time_does_not_go_back(trust):
    await trust.open(KEY, "stdio", NOW, 0)
    await add(trust, step=step(at=NOW - 50))
    assert (await trust.open(KEY, "stdio", NOW - 100, HOUR)).seen_at == NOW


async def test_a_step_of_a_session_that_is_gone_makes_it_again(trust):
    """Its labels must be somewhere, even if the session was dropped while the call was under way."""
    after = await add(trust, adds=labels("mcp://mail/1"))
    assert (after.steps, after.label.open_world) == (1, True)
    assert await trust.session(KEY) == after


async def test_an_idle_session_starts_afresh(trust):
    first = await trust.open(KEY, "stdio", NOW, HOUR)
    await add(trust, adds=labels("mcp://mail/1"), endorsed=("d1",), objects=("o1",), expires_at=LATER * 2)
    before = await trust.open(KEY, "stdio", NOW + HOUR, HOUR)
    assert before.label.open_world
    after = await trust.open(KEY, "other agent", NOW + 2 * HOUR + 1, HOUR)
    assert (after.agent, after.label, after.steps) == ("other agent", SessionLabel(), 0)
    assert after.opened_at == NOW + 2 * HOUR + 1 > first.opened_at
    assert after.version > before.version
    assert await trust.steps(KEY) == []
    assert await trust.endorsed(KEY) == frozenset()
    # What was written elsewhere stays what it is.
    assert await trust.tainted(["o1"], NOW) == {"o1"}
    assert (await add(trust, step=step(at=NOW + 2 * HOUR + 2))).steps == 1
    assert [found.seq for found in await trust.steps(KEY)] == [1]


async def test_without_an_idle_time_no_session_ends(trust):
    await trust.open(KEY, "stdio", NOW, 0)
    await add(trust, adds=labels())
    assert (await trust.open(KEY, "stdio", NOW + 10_000 * HOUR, 0)).label.open_world


async def test_a_session_made_again_has_none_of_the_old_versions(trust):
    """Who had the old one at hand sees that it is another."""
    await trust.open(KEY, "stdio", NOW, 0)
    old = [(await add(trust)).version for _ in range(5)]
    await trust.prune(NOW, sessions=0)
    assert await trust.session(KEY) is None
    new = [(await trust.open(KEY, "stdio", NOW + HOUR, 0)).version]
    new += [(await add(trust)).version for _ in range(5)]
    assert not set(old) & set(new)


async def test_declassifying_takes_away_and_forgets_what_strangers_wrote(trust):
    await trust.open(KEY, "stdio", NOW, 0)
    await add(trust, step=step("inbox", label=STRANGE), adds=labels("mcp://mail/1", "mcp://web/2", malicious=True))
    await add(trust, step=step("drafts", label=HOUSE))
    await add(trust, step=step("odd", label=HOUSE.__class__(open_world=False, sources=frozenset({"made-up"}))))
    before = await add(trust, step=step("none", label=None), endorsed=("d1",))
    left = labels("mcp://mail/1", "mcp://never", sensitivity=frozenset({"pii"}))
    after = await trust.declassify(KEY, left, "ada", "looked at it", NOW + 1)
    # Less than it was: a wish for more is not followed.
    assert after.label == labels("mcp://mail/1")
    assert after.version > before.version
    assert await trust.session(KEY) == after
    *steps, act = await trust.steps(KEY)
    assert [(found.tool, found.memory) for found in steps] == [
        ("inbox", b""),
        ("drafts", b"hashes"),
        ("odd", b""),
        ("none", b"hashes"),
    ]
    assert steps[0].label == STRANGE
    assert (act.verdict, act.rule, act.why, act.at) == ("declassified", "ada", "looked at it", NOW + 1)
    assert act.seq == after.steps
    assert await trust.endorsed(KEY) == {"d1"}


async def test_what_is_read_after_declassifying_counts_again(trust):
    await trust.open(KEY, "stdio", NOW, 0)
    await add(trust, adds=labels())
    await trust.declassify(KEY, SessionLabel(), "ada", "", NOW)
    assert (await add(trust, adds=labels("mcp://web/1"))).label == labels("mcp://web/1")
    assert (await trust.steps(KEY))[-1].memory == b"hashes"


async def test_the_latest_seen_come_first(trust):
    for number in range(5):
        await trust.open(f"{number}", "stdio", NOW + number, 0)
    await add(trust, "1", step=step(at=NOW + 10))
    assert [found.key for found in await trust.sessions()] == ["1", "4", "3", "2", "0"]
    assert [found.key for found in await trust.sessions(limit=2)] == ["1", "4"]
    assert [found.key for found in await trust.sessions(before=NOW + 4, limit=2)] == ["3", "2"]
    assert await trust.sessions(limit=0) == []


@rows("key", HOSTILE)
async def test_a_key_that_no_database_takes_is_refused_or_unknown(trust, key):
    with pytest.raises(Refused):
        await trust.open(key, "stdio", NOW, 0)
    with pytest.raises(Refused):
        await add(trust, key)
    assert await trust.session(key) is None
    assert await trust.version(key) == 0
    assert not trust.peek(key)
    assert await trust.steps(key) == []
    assert await trust.endorsed(key) == frozenset()
    assert await trust.tainted([key], NOW) == frozenset()
    assert await trust.declassify(key, SessionLabel(), "ada", "", NOW) is None


async def test_names_may_be_anything_and_are_cut(trust):
    agent = "half \ud800 nul \x00 " + "long" * 1000
    opened = await trust.open(KEY, agent, NOW, 0)
    assert opened.agent == agent[: keeping.AGENT_CHARS]
    after = await add(trust, adds=labels("half \ud800", "nul \x00", sensitivity=frozenset({"odd \ud800"})))
    assert await trust.session(KEY) == after
    assert after.label.attribution == ("half \ud800", "nul \x00")
    assert "odd \ud800" in after.label.sensitivity


async def test_too_many_sources_are_told_by_their_origin(trust):
    """A long session of one server is not blamed for its length; and the row does not grow for ever."""
    await trust.open(KEY, "stdio", NOW, 0)
    for number in range(6):
        paths = [f"local://desk.example/notes/{number}-{one}" for one in range(50)]
        after = await add(trust, adds=SessionLabel(attribution=("urn:org:acme:hr:x", *paths)))
    assert "local://desk.example" in after.label.attribution
    assert "urn:org:acme" in after.label.attribution
    assert len(after.label.attribution) <= keeping.ATTRIBUTIONS
    assert not after.label.open_world
    assert after.label.sensitivity == frozenset()


async def test_more_origins_than_can_be_kept_make_it_unknown(trust):
    """Nobody hides where something came from behind many other sources."""
    await trust.open(KEY, "stdio", NOW, 0)
    many = tuple(f"https://{number}.example/" for number in range(300))
    after = await add(trust, adds=SessionLabel(attribution=many))
    assert len(after.label.attribution) == keeping.ATTRIBUTIONS
    assert after.label.open_world
    assert "unknown" in after.label.sensitivity


@rows("classes", [{f"org.example.{number}" for number in range(100)}, {"regulated:" + "x" * 1000}])
async def test_classes_that_cannot_be_kept_make_it_unknown(trust, classes):
    key = f"{len(classes)}"
    await trust.open(key, "stdio", NOW, 0)
    after = await add(trust, key, adds=SessionLabel(sensitivity=frozenset(classes)))
    assert "unknown" in after.label.sensitivity
    assert len(after.label.sensitivity) <= keeping.SENSITIVITIES
    assert await trust.session(key) == after

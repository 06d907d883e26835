"""Keys, agents and directories: bounded, the same for every process, and a change is noticed."""

import asyncio
from threading import Event

import pytest
from msgspec.structs import replace

from callgate.agents import storage
from callgate.agents.model import ApiKey
from callgate.agents.storage import Fetched, Listed
from callgate.errors import Refused
from callgate.store import SqlAgents, Store
from callgate.store.memory import MemoryAgents
from support.agents_race import NOW
from support.stores import opened
from support.table import rows

KEY = ApiKey("one", "crawler", b"d" * 32, NOW, "ada")
AGENT = Listed("crawler", "thumb", "https://a.example", name="Crawler", added_at=NOW, added_by="ada")
PAGE = Fetched("https://a.example", b'{"keys":[]}', NOW, NOW + 1000)


async def refused(awaitable, words):
    with pytest.raises(Refused, match=words) as found:
        await awaitable
    return found.value


# -- keys ------------------------------------------------------------------------------------------------------


async def test_a_key_is_kept_and_revoked_once(agents):
    await agents.add_key(KEY)
    await agents.add_key(replace(KEY, id="two", created_at=NOW - 1, expires_at=NOW + 5))
    assert await agents.key("one") == KEY
    assert [key.id for key in await agents.keys()] == ["two", "one"]
    assert await agents.revoke_key("one", NOW + 7)
    assert not await agents.revoke_key("one", NOW + 8)
    assert not await agents.revoke_key("none", NOW)
    assert (await agents.key("one")).revoked_at == NOW + 7
    assert (await agents.key("two")).revoked_at is None


async def test_a_key_is_never_replaced_not_even_a_revoked_one(agents):
    await agents.add_key(KEY)
    await refused(agents.add_key(replace(KEY, agent="thief")), "never replaced")
    await agents.revoke_key("one", NOW)
    await refused(agents.add_key(KEY), "never replaced")
    assert (await agents.key("one")).agent == "crawler"


async def test_no_key_is_found_by_an_odd_id(agents):
    await agents.add_key(KEY)
    for odd in ("", "\x00", "half \ud800", "x" * 5000, "naïve", "' OR 1=1 --"):
        assert await agents.key(odd) is None, odd
        assert not await agents.revoke_key(odd, NOW), odd


@rows(
    "change",
    [
        {"id": ""},
        {"id": "x" * 129},
        {"id": "nul\x00"},
        {"id": "naïve"},
        {"digest": b""},
        {"digest": b"x" * 65},
        {"agent": ""},
        {"agent": "x" * 3000},
        {"agent": "half \ud800"},
    ],
)
async def test_a_key_that_is_none_is_refused(agents, change):
    with pytest.raises(Refused):
        await agents.add_key(replace(KEY, **change))
    assert await agents.keys() == []


async def test_keys_are_bounded_and_the_longest_revoked_make_room(agents, monkeypatch):
    monkeypatch.setattr(storage, "KEYS", 3)
    for number in range(3):
        await agents.add_key(replace(KEY, id=f"k{number}"))
    await refused(agents.add_key(replace(KEY, id="k3")), "3 keys already")
    await agents.revoke_key("k2", NOW)
    await agents.revoke_key("k1", NOW + 1)
    await agents.add_key(replace(KEY, id="k3"))
    assert [key.id for key in await agents.keys()] == ["k0", "k1", "k3"]


# -- agents ----------------------------------------------------------------------------------------------------


async def test_agents_are_listed_and_removed_by_key_or_whole(agents):
    await agents.add_agent(AGENT)
    await agents.add_agent(replace(AGENT, thumbprint="other"))
    await agents.add_agent(replace(AGENT, agent="buyer", directory="static", jwk=b"{}"))
    assert [(one.agent, one.thumbprint) for one in await agents.agents()] == [
        ("buyer", "thumb"),
        ("crawler", "other"),
        ("crawler", "thumb"),
    ]
    assert await agents.remove_agent("crawler", "thumb") == 1
    assert await agents.remove_agent("crawler", "thumb") == 0
    assert await agents.remove_agent("crawler") == 1
    assert [one.agent for one in await agents.agents()] == ["buyer"]


async def test_a_key_of_a_directory_is_one_agents_only(agents):
    await agents.add_agent(AGENT)
    await refused(agents.add_agent(replace(AGENT, agent="thief")), "is agent crawler already")
    await agents.add_agent(replace(AGENT, name="Renamed"))
    # The same key from another directory is somebody else.
    await agents.add_agent(replace(AGENT, agent="thief", directory="https://b.example"))
    assert [(one.agent, one.name) for one in await agents.agents()] == [("crawler", "Renamed"), ("thief", "Crawler")]


@rows("change", [{"agent": ""}, {"directory": ""}, {"jwk": b"x" * 20_000}, {"name": "x" * 3000}, {"agent": "\ud800"}])
async def test_an_agent_that_is_none_is_refused(agents, change):
    with pytest.raises(Refused):
        await agents.add_agent(replace(AGENT, **change))
    assert await agents.agents() == []


async def test_agents_are_bounded(agents, monkeypatch):
    monkeypatch.setattr(storage, "AGENTS", 2)
    await agents.add_agent(AGENT)
    await agents.add_agent(replace(AGENT, thumbprint="2"))
    await refused(agents.add_agent(replace(AGENT, thumbprint="3")), "2 agents already")
    await agents.add_agent(replace(AGENT, name="changed"))


# -- directories -----------------------------------------------------------------------------------------------


async def test_a_failed_fetch_takes_nothing_away(agents):
    assert await agents.keep_directory(PAGE)
    assert await agents.keep_directory(Fetched(PAGE.url, b"", 0, 0, failed_at=NOW + 5))
    assert await agents.directory(PAGE.url) == replace(PAGE, failed_at=NOW + 5)
    fresh = replace(PAGE, body=b"new", fetched_at=NOW + 10)
    await agents.keep_directory(fresh)
    assert await agents.directory(PAGE.url) == fresh
    # Told late: it failed before the newest was fetched.
    await agents.keep_directory(Fetched(PAGE.url, b"", 0, 0, failed_at=NOW + 7))
    assert await agents.directory(PAGE.url) == fresh


async def test_what_was_fetched_later_stays(agents):
    await agents.keep_directory(replace(PAGE, body=b"new", fetched_at=NOW + 10))
    await agents.keep_directory(PAGE)
    assert (await agents.directory(PAGE.url)).body == b"new"


async def test_one_that_never_answered_is_known_as_such(agents):
    failed = Fetched("https://gone.example", b"", 0, 0, failed_at=NOW)
    await agents.keep_directory(failed)
    assert await agents.directory(failed.url) == failed
    assert await agents.directory("https://never.example") is None


async def test_a_flush_takes_it_away_and_with_it_every_fetch_under_way(agents):
    other = replace(PAGE, url="https://b.example")
    begun = await agents.directories_version()
    await agents.keep_directory(replace(PAGE, version=begun))
    await agents.keep_directory(replace(other, version=begun))
    assert await agents.flush_directory(PAGE.url, NOW) == 1
    assert await agents.directory(PAGE.url) is None
    assert await agents.directory(other.url) is not None
    # Fetched before the flush, told after it.
    assert not await agents.keep_directory(replace(PAGE, fetched_at=NOW + 5, version=begun))
    assert await agents.directory(PAGE.url) is None
    assert await agents.keep_directory(replace(PAGE, version=await agents.directories_version()))
    assert await agents.flush_directory(None, NOW) == 2
    assert await agents.directory(other.url) is None
    assert await agents.flush_directory("https://never.example", NOW) == 0


async def test_the_version_grows_with_what_others_have_to_notice_and_nothing_else(agents):
    seen = [await agents.directories_version()]

    async def grew(awaitable):
        await awaitable
        seen.append(await agents.directories_version())
        return seen[-1] > seen[-2]

    assert await grew(agents.add_key(KEY))
    assert await grew(agents.revoke_key("one", NOW))
    assert await grew(agents.add_agent(AGENT))
    assert await grew(agents.remove_agent("crawler"))
    assert await grew(agents.flush_directory(None, NOW))
    assert not await grew(agents.remove_agent("crawler"))
    assert not await grew(agents.revoke_key("one", NOW))
    assert not await grew(agents.keep_directory(replace(PAGE, version=seen[-1])))
    assert not await grew(agents.take_nonce("s", "n", NOW, NOW))
    assert not await grew(agents.spend("b", 1, 1, 1, NOW))


async def test_directories_are_bounded_and_the_least_useful_go(agents, monkeypatch):
    monkeypatch.setattr(storage, "DIRECTORIES", 3)
    good = [replace(PAGE, url=f"https://{number}.example", fetched_at=NOW + number) for number in range(3)]
    for one in good:
        await agents.keep_directory(one)
    for number in range(10):
        await agents.keep_directory(Fetched(f"https://flood-{number}.example", b"", 0, 0, failed_at=NOW + 100 + number))
    found = [await agents.directory(one.url) for one in good]
    assert found == [None, *good[1:]]
    assert await agents.directory("https://flood-9.example") is not None
    assert await agents.directory("https://flood-8.example") is None


@rows("change", [{"url": ""}, {"url": "x" * 3000}, {"body": b"x" * (storage.DIRECTORY_BYTES + 1)}])
async def test_a_directory_that_is_too_large_is_refused(agents, change):
    with pytest.raises(Refused):
        await agents.keep_directory(replace(PAGE, **change))


# -- several processes -----------------------------------------------------------------------------------------


async def watched(shelf, first, second, end):
    """Two are told of changes; one of them ends it and is not told any more."""

    async def tells(change):
        second.clear()
        await change
        assert await asyncio.to_thread(second.wait, 20)

    for change in (shelf.add_key(KEY), shelf.add_agent(AGENT), shelf.flush_directory(None, NOW)):
        await tells(change)
        assert first.is_set()
        first.clear()
    end()
    await tells(shelf.add_key(replace(KEY, id="two")))
    # What was on its way to the first has arrived.
    first.clear()
    await tells(shelf.add_key(replace(KEY, id="three")))
    assert not first.is_set()
    end()


async def test_who_watches_hears_of_every_change_and_not_after_the_end(url):
    async with opened(url) as store:
        shelf, first, second = SqlAgents(store), Event(), Event()
        end, _ = shelf.watch(first.set), shelf.watch(second.set)
        # A store's watcher tells once when it begins.
        await asyncio.to_thread(second.wait, 20)
        await watched(shelf, first, second, end)


async def test_who_watches_memory_hears_the_same():
    shelf, first, second = MemoryAgents(), Event(), Event()
    end, _ = shelf.watch(first.set), shelf.watch(second.set)
    await watched(shelf, first, second, end)


async def test_another_gateway_sees_a_revoked_key_at_once(shared_agents):
    shelf, url = shared_agents
    store = Store.open(url)
    other = SqlAgents(store)
    await shelf.add_key(KEY)
    assert await other.key("one") == KEY
    before = await other.directories_version()
    await shelf.revoke_key("one", NOW)
    assert (await other.key("one")).revoked_at == NOW
    assert await other.directories_version() > before
    await store.close()


async def test_of_two_who_list_one_key_for_different_agents_one_is_refused(shared_agents):
    shelf, url = shared_agents
    store = Store.open(url)
    other = SqlAgents(store)
    jobs = [(shelf if number % 2 else other).add_agent(replace(AGENT, agent=f"agent {number}")) for number in range(10)]
    ends = await asyncio.gather(*jobs, return_exceptions=True)
    assert sum(end is None for end in ends) == 1
    assert sum(isinstance(end, Refused) for end in ends) == 9
    assert len(await shelf.agents()) == 1
    await store.close()

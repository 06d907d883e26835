"""Copies of directories: how old they get, who fetches, what a failure changes (nothing), what a flush changes (all)."""

import asyncio
import json

import pytest

from callgate.agents.directories import Sources, Times
from callgate.agents.fetching import Caps
from callgate.agents.storage import Fetched
from callgate.errors import ConfigError
from callgate.store.memory import MemoryAgents
from support.agent_directories import Page, world
from support.registry import requirement
from support.table import rows


@pytest.fixture
async def ground():
    async with world() as made:
        yield made


async def settle(directories):
    """Wait for what goes on in the background."""
    while directories.published._all:
        await asyncio.gather(*directories.published._all)


@requirement("WB-012")
async def test_a_directory_that_goes_down_takes_no_key_with_it(ground):
    signer = ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", signer)
    directories = ground.directories()
    assert await directories.key(signer.keyid, url) is not None
    ground.server.take_down("a.example")
    for _ in range(5):
        ground.clock.now += 100_000
        assert await directories.key(signer.keyid, url) is not None
    assert ground.server.hits("a.example") == 6
    (shown,) = await directories.show(url)
    assert shown.failed_at == int(ground.clock.now * 1000)
    assert shown.failure.startswith("bad_status")


@requirement("WB-012")
@rows("document", [b"garbage", b'{"keys":{}}', b'{"keys":[' + b"1," * 200 + b"1]}"])
async def test_a_directory_that_turns_to_garbage_takes_no_key_with_it(ground, document):
    signer = ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", signer)
    directories = ground.directories()
    assert await directories.key(signer.keyid, url) is not None
    ground.server.put("a.example", document)
    ground.clock.now += 1000
    assert await directories.key(signer.keyid, url) is not None


@requirement("WB-012")
async def test_another_process_has_the_keys_of_a_directory_that_is_down(ground):
    shelf = MemoryAgents()
    signer = ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", signer)
    assert await ground.directories(shelf=shelf).key(signer.keyid, url) is not None
    ground.server.take_down("a.example")
    ground.clock.now += 1000
    assert await ground.directories(shelf=shelf).key(signer.keyid, url) is not None


async def test_a_fresh_copy_is_not_fetched_again(ground):
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    directories = ground.directories()
    for _ in range(4):
        assert await directories.key(signer.keyid, ground.server.url("a.example"))
        ground.clock.now += 29
    assert ground.server.hits("a.example") == 1


async def test_a_stale_copy_is_used_while_it_is_fetched_again(ground):
    signer = ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", signer)
    directories = ground.directories()
    assert await directories.key(signer.keyid, url)
    ground.clock.now += 200
    ground.server.gate.clear()
    # It answers although the server does not.
    assert await directories.key(signer.keyid, url)
    ground.server.gate.set()
    await settle(directories)
    assert ground.server.hits("a.example") == 2


@requirement("WB-091")
async def test_a_key_that_was_taken_out_is_gone_within_five_minutes(ground):
    old, new = ground.signer(), ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", old)
    directories = ground.directories()
    assert await directories.key(old.keyid, url)
    ground.server.publish("a.example", new)
    ground.clock.now += 300
    assert await directories.key(old.keyid, url) is None
    assert await directories.key(new.keyid, url)


@requirement("WB-091")
async def test_a_flush_takes_effect_in_all_processes_at_once(ground):
    shelf = MemoryAgents()
    old, new = ground.signer(), ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", old)
    processes = [ground.directories(shelf=shelf) for _ in range(4)]
    for one in processes:
        assert await one.key(old.keyid, url)
    assert ground.server.hits("a.example") == 1
    ground.server.publish("a.example", new)
    assert [await one.key(old.keyid, url) is not None for one in processes] == [True] * 4
    assert await processes[0].flush(url) == 1
    assert [await one.key(old.keyid, url) for one in processes] == [None] * 4
    assert [await one.key(new.keyid, url) is not None for one in processes] == [True] * 4


@requirement("WB-091")
async def test_a_flush_is_believed_even_if_the_directory_is_down(ground):
    signer = ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", signer)
    directories = ground.directories()
    assert await directories.key(signer.keyid, url)
    ground.server.take_down("a.example")
    await directories.flush()
    assert await directories.key(signer.keyid, url) is None


@requirement("WB-091")
async def test_a_fetch_that_a_flush_overtakes_is_done_again(ground):
    old = ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", old)
    directories = ground.directories()
    stored = ground.server.pages[("a.example", "/.well-known/http-message-signatures-directory")]
    answered = asyncio.Event()

    async def slowly(writer):
        await answered.wait()
        ground.server.publish("a.example")
        await ground.server._answer(stored, writer)

    ground.server.pages["a.example", "/.well-known/http-message-signatures-directory"] = Page(write=slowly)
    asking = asyncio.create_task(directories.key(old.keyid, url))
    while not ground.server.asked:
        await asyncio.sleep(0)
    await directories.flush(url)
    answered.set()
    assert await asking is None
    assert await directories.key(old.keyid, url) is None
    assert ground.server.hits("a.example") == 2


async def test_a_rotated_key_is_picked_up_before_the_copy_is_old(ground):
    old, new = ground.signer(), ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", old)
    directories = ground.directories()
    assert await directories.key(old.keyid, url)
    ground.server.publish("a.example", old, new)
    assert await directories.key(new.keyid, url) is None
    ground.clock.now += 30
    assert await directories.key(new.keyid, url)


async def test_keys_nobody_has_do_not_make_us_fetch_without_end(ground):
    ground.server.publish("a.example", ground.signer())
    directories = ground.directories()
    for number in range(50):
        assert await directories.key(f"{number:043}", ground.server.url("a.example")) is None
    assert ground.server.hits("a.example") == 1


async def test_many_requests_wait_for_one_fetch(ground):
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    ground.server.gate.clear()
    directories = ground.directories()
    waiting = [asyncio.create_task(directories.key(signer.keyid, ground.server.url("a.example"))) for _ in range(50)]
    while not ground.server.asked:
        await asyncio.sleep(0)
    ground.server.gate.set()
    assert all(await asyncio.gather(*waiting))
    assert ground.server.connections == 1


async def test_a_request_that_gives_up_does_not_end_the_fetch_of_others(ground):
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    ground.server.gate.clear()
    directories = ground.directories()
    first, second = (
        asyncio.create_task(directories.key(signer.keyid, ground.server.url("a.example"))) for _ in range(2)
    )
    while not ground.server.asked:
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    ground.server.gate.set()
    assert await second is not None


async def test_a_failure_is_remembered_for_a_while_and_not_longer(ground):
    signer = ground.signer()
    url = ground.server.url("a.example")
    directories = ground.directories()
    for _ in range(3):
        assert await directories.key(signer.keyid, url) is None
    assert ground.server.hits("a.example") == 1
    ground.server.publish("a.example", signer)
    ground.clock.now += 60
    assert await directories.key(signer.keyid, url)


@rows(
    "times",
    [{"negative": 301}, {"negative": 0}, {"stale": 301}, {"fresh": 10}, {"fresh": 200, "stale": 150}, {"miss": 0}],
)
def test_times_beyond_five_minutes_are_refused(times):
    with pytest.raises(ConfigError):
        Times(**times)


@rows(("asked", "fresh"), [("max-age=86400", 120), ("max-age=60", 60), ("no-store", 30), ("", 120)])
async def test_a_publisher_may_ask_for_less_and_not_for_more(ground, asked, fresh):
    signer = ground.signer()
    ground.server.put("a.example", {"keys": [dict(signer.jwk)]}, Cache_Control=asked)
    directories = ground.directories()
    await directories.key(signer.keyid, ground.server.url("a.example"))
    (shown,) = await directories.show(ground.server.url("a.example"))
    assert shown.fresh_until - shown.fetched_at == fresh * 1000


async def test_what_another_node_fetched_in_our_future_is_not_fresh(ground):
    signer = ground.signer()
    shelf = MemoryAgents()
    url = ground.server.directory("a.example")
    now = int(ground.clock.now * 1000)
    body = json.dumps({"keys": [dict(signer.jwk)]}).encode()
    await shelf.keep_directory(Fetched(url, body, now + 86_400_000, now + 86_500_000))
    ground.server.publish("a.example")
    await ground.directories(shelf=shelf).key(signer.keyid, ground.server.url("a.example"))
    assert ground.server.hits("a.example") == 1


async def test_what_another_process_fetched_is_not_fetched_again(ground):
    shelf = MemoryAgents()
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    for _ in range(3):
        assert await ground.directories(shelf=shelf).key(signer.keyid, ground.server.url("a.example"))
    assert ground.server.hits("a.example") == 1


async def test_names_of_nowhere_leave_nothing_in_the_store(ground):
    shelf = MemoryAgents()
    directories = ground.directories(shelf=shelf)
    for host in ("a.example", "b.example"):
        await directories.key("x" * 43, ground.server.url(host))
        assert await shelf.directory(ground.server.directory(host)) is None


async def test_a_refresh_counts_everywhere_at_once(ground):
    shelf = MemoryAgents()
    old, new = ground.signer(), ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", old)
    here, there = (ground.directories(shelf=shelf) for _ in range(2))
    assert await here.key(old.keyid, url)
    assert await there.key(old.keyid, url)
    ground.server.publish("a.example", new)
    done = await here.refresh(url)
    assert (done.ok, done.added, done.removed) == (True, (new.keyid,), (old.keyid,))
    assert await there.key(old.keyid, url) is None
    assert await there.key(new.keyid, url)


async def test_a_refresh_that_fails_changes_nothing(ground):
    signer = ground.signer()
    url = ground.server.url("a.example")
    ground.server.publish("a.example", signer)
    directories = ground.directories()
    assert await directories.key(signer.keyid, url)
    ground.server.take_down("a.example")
    done = await directories.refresh(url)
    assert (done.ok, done.failure) == (False, "bad_status")
    assert await directories.key(signer.keyid, url)


async def test_a_flood_of_names_does_not_keep_configured_directories_waiting(ground):
    signer = ground.signer()
    ground.server.publish("a.example", signer)
    patient = Caps(seconds=100)
    directories = ground.directories(Sources(jwks_urls=(ground.server.url("a.example"),), caps=patient))
    ground.server.gate.clear()
    flood = [
        asyncio.create_task(directories.published.get(f"{ground.server.url('eve.example')}/{number}"))
        for number in range(200)
    ]
    while ground.server.hits("eve.example") < 32:
        await asyncio.sleep(0.001)
    asking = asyncio.create_task(directories.key(signer.keyid))
    while not ground.server.hits("a.example"):
        await asyncio.sleep(0.001)
    ground.server.gate.set()
    assert await asking is not None
    await asyncio.gather(*flood)
    assert ground.server.hits("eve.example") <= 64


async def test_show_lists_what_is_held_of_the_directories_an_operator_named(ground):
    signer = ground.signer()
    ground.server.publish("a.example", signer, kid="one", exp=int(ground.clock.now) + 9)
    directories = ground.directories(Sources(jwks_urls=(ground.server.url("a.example"),)))
    (before,) = await directories.show()
    assert (before.source, before.keys, before.fetched_at) == ("configured", (), 0)
    assert ground.server.asked == []
    await directories.key(signer.keyid)
    (after,) = await directories.show()
    (key,) = after.keys
    assert (key.thumbprint, key.kid, key.usable, key.proven) == (signer.keyid, "one", True, False)


async def test_a_configured_directory_that_fails_is_logged_and_a_strangers_is_not(ground, caplog):
    caplog.set_level("INFO", "callgate.agents")
    directories = ground.directories(Sources(jwks_urls=(ground.server.url("a.example"),)))
    await directories.key("x" * 43, ground.server.url("eve.example"))
    told = [record.fields for record in caplog.records if record.message == "directory not fetched"]
    assert told == [{"url": ground.server.directory("a.example"), "reason": "bad_status"}]

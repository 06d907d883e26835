"""Whatever is done to sessions, in batches or one by one: a store and memory come to the same."""

import asyncio
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callgate.store import SqlTrust, Store
from callgate.trust.model import SessionLabel
from callgate.trust.storage import NewStep
from support.memory import MemoryTrust
from support.trust_store import HOUSE, NOW, STRANGE, step

sources = st.sampled_from(["mcp://mail/1", "mcp://mail/2", "https://web.example/", "half \ud800"])
classes = st.sampled_from(["pii", "financial", "credentials", "odd \x00"])
session_labels = st.builds(
    SessionLabel,
    open_world=st.booleans(),
    malicious=st.booleans(),
    sensitivity=st.frozensets(classes, max_size=3),
    attribution=st.lists(sources, max_size=3).map(tuple),
)
keys = st.sampled_from("ab")
times = st.integers(NOW, NOW + 30)
digests = st.lists(st.sampled_from(["x", "y", "z"]), max_size=2).map(tuple)
steps = st.builds(
    step,
    st.sampled_from(["read", "half \ud800"]),
    at=times,
    label=st.sampled_from([HOUSE, STRANGE, None]),
    memory=st.sampled_from([b"", b"hashes"]),
)
acts = st.one_of(
    st.tuples(st.just("open"), keys, times, st.sampled_from([0, 1, 5])),
    st.tuples(st.just("add"), keys, steps, session_labels, digests, digests, st.integers(0, 4), times),
    st.tuples(st.just("declassify"), keys, session_labels, times),
)
# What stands together is done at once; then what has expired is dropped, or not.
batches = st.lists(st.tuples(st.lists(acts, max_size=6), st.none() | times), max_size=6)
_examples = count()


async def act(shelf, prefix, kind, key, *rest):
    key = prefix + key
    if kind == "open":
        return await shelf.open(key, "agent", *rest)
    if kind == "declassify":
        label, now = rest
        return await shelf.declassify(key, label, "ada", "note", now)
    taken, adds, objects, endorsed, keep, expires_at = rest
    objects = tuple(prefix + one for one in objects)
    return await shelf.add(NewStep(key, taken, adds, objects, endorsed), keep=keep, expires_at=expires_at)


async def everything(shelf, prefix):
    found = {}
    for key in "ab":
        name = prefix + key
        found[key] = await shelf.session(name), await shelf.steps(name), await shelf.endorsed(name), shelf.peek(name)
    objects = [prefix + one for one in "xyz"]
    return found, [await shelf.tainted(objects, NOW + late) for late in (0, 10, 30)]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    store = Store.open(f"sqlite:///{tmp_path_factory.mktemp('alike') / 'store.db'}", durability="normal")
    loop = asyncio.new_event_loop()
    yield SqlTrust(store), loop
    loop.run_until_complete(store.close())
    loop.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches)
def test_a_store_and_memory_come_to_the_same(running, given_batches):
    stored, loop = running
    memory = MemoryTrust()
    prefix = f"{next(_examples)}-"

    async def compare():
        for batch, prune_at in given_batches:
            ends = await asyncio.gather(*(act(stored, prefix, *one) for one in batch))
            assert list(ends) == [await act(memory, prefix, *one) for one in batch]
            if prune_at is not None:
                await stored.prune(prune_at, sessions=10**6)
                await memory.prune(prune_at, sessions=10**6)
            assert await everything(stored, prefix) == await everything(memory, prefix)

    loop.run_until_complete(compare())

"""The same signed request, sent many times at once to several gateways: one of them passes."""

import asyncio

import pytest
from sqlalchemy import func, select

from callgate.store import Store
from callgate.store.memory import MemoryAgents
from callgate.store.schema import audit_record
from support.agents_race import NOW, SCOPE, rush
from support.registry import requirement
from support.stores import ready

PROCESSES = 4
COPIES = 200


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    with ready(request.param, tmp_path) as place:
        yield place


@requirement("WB-017", "WB-090")
async def test_of_200_copies_over_4_processes_one_passes(url):
    share = [{"do": "nonce", "nonce": "captured"}] * (COPIES // PROCESSES)
    ends = await asyncio.to_thread(rush, url, [share] * PROCESSES)
    told = [end for one in ends for end in one]
    assert len(told) == COPIES
    assert told.count(True) == 1
    assert told.count(False) == COPIES - 1


@requirement("WB-090")
async def test_of_every_one_of_many_captured_requests_one_copy_passes(url):
    """In other orders in each process, while what ran out is swept: nobody waits in a circle, nothing passes twice."""
    nonces = [f"captured {number}" for number in range(50)]

    def jobs(share):
        order = nonces[share * 7 :] + nonces[: share * 7]
        made = [{"do": "nonce", "nonce": nonce} for nonce in (order if share % 2 else order[::-1])]
        return [*made[:25], {"do": "prune", "now": NOW}, *made[25:]]

    ends = await asyncio.to_thread(rush, url, [jobs(share) for share in range(PROCESSES)])
    told = [end for one in ends for end in one]
    assert sum(end is True for end in told) == len(nonces)
    assert sum(end is False for end in told) == len(nonces) * (PROCESSES - 1)


@requirement("WB-017", "WB-023", "WB-090")
async def test_of_copies_that_are_decided_at_once_one_is_on_record_and_counted(url):
    """The nonce, the budget and the record are one transaction: who comes second leaves nothing, and counts nothing."""
    nonces = ["captured", "another", "a third"]
    share = [{"do": "decide", "nonce": nonce, "burst": 2} for nonce in nonces for _ in range(COPIES // PROCESSES // 4)]
    ends = await asyncio.to_thread(rush, url, [share, share[::-1], share, share[::-1]])
    told = [tuple(end) for one in ends for end in one]
    # Three requests were new, two of them were within the budget.
    assert (told.count((True, True)), told.count((True, False))) == (2, 1)
    assert told.count((False,)) == len(told) - 3
    store = Store.open(url)
    try:
        with store.reading() as conn:
            assert conn.execute(select(func.count()).select_from(audit_record)).scalar_one() == 2
    finally:
        await store.close()


@requirement("WB-090")
async def test_in_one_process_without_a_store_one_passes_too():
    shelf = MemoryAgents()
    told = await asyncio.gather(*(shelf.take_nonce(SCOPE, "captured", NOW, NOW) for _ in range(COPIES)))
    assert sorted(told) == [False] * (COPIES - 1) + [True]

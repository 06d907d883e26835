"""Several gateways write to the same sessions: no label is lost, no number is given twice, nobody waits in a circle."""

import asyncio
import os

import pytest

from callgate.errors import StoreUnavailable
from callgate.store import SqlTrust, Store
from callgate.store.trust import SessionChange
from callgate.trust.model import SessionLabel
from support.pin_store import witness
from support.racing import started
from support.trust_store import KEY, LATER, NOW, add, labels, race, result

PROCESSES = 2
SESSIONS = [f"{number}" * 32 for number in range(3)]


async def test_no_label_is_lost_and_no_number_given_twice(shared_trust):
    shelf, url = shared_trust

    def jobs(share):
        order = SESSIONS if share % 2 else SESSIONS[::-1]
        objects = [f"o{number}" for number in range(5)][:: 1 if share % 2 else -1]
        made = []
        for number in range(20):
            step = {"do": "add", "source": f"mcp://{share}/{number}", "objects": objects}
            made += [{**step, "key": key} for key in order]
            made.append({"do": "open", "key": order[number % 3]})
            if number % 5 == 0:
                made.append({"do": "prune"})
        return made

    ends = await asyncio.to_thread(race, url, [jobs(share) for share in range(PROCESSES)])
    assert all(isinstance(end, int) for share in ends for end in share)
    everything = {f"mcp://{share}/{number}" for share in range(PROCESSES) for number in range(20)}
    for key in SESSIONS:
        found = await shelf.session(key)
        assert set(found.label.attribution) == everything
        assert found.steps == len(everything)
        assert [step.seq for step in await shelf.steps(key)] == list(range(1, len(everything) + 1))
    assert len(await shelf.tainted([f"o{number}" for number in range(5)], NOW)) == 5


async def test_of_reviewers_in_several_processes_one_decides(shared_trust):
    shelf, url = shared_trust
    handles = [f"cgq_{number}" for number in range(10)]
    for handle in handles:
        await shelf.hold(result(handle), LATER)
    jobs = [
        [{"do": "settle", "handle": handle, "state": state, "by": f"person {share}"} for handle in handles]
        for share, state in enumerate(["released", "dropped"])
    ]
    ends = await asyncio.to_thread(race, url, jobs)
    for number, handle in enumerate(handles):
        told = [share[number] for share in ends]
        assert told.count("approval_decided") == PROCESSES - 1
        assert (await shelf.held(handle)).decided_by in told


async def test_everything_goes_into_one_batch(shared_trust):
    """Steps beside audit rows and other writes, in one transaction."""
    shelf, _ = shared_trust
    store = shelf._store
    await asyncio.gather(
        *(add(shelf, adds=labels(f"mcp://{number}")) for number in range(30)),
        *(store.append(witness(f"row {number}")) for number in range(30)),
        *(shelf.hold(result(f"cgq_{number}"), LATER) for number in range(5)),
        shelf.declassify(KEY, SessionLabel(), "ada", "", NOW, witness=witness("declassified")),
    )
    assert (await shelf.session(KEY)).steps == 31
    with store.audit_reading() as tables:
        assert len(list(tables.rows(0))) == 31
    assert len(await shelf.holding()) == 5


async def test_a_write_that_cannot_be_made_takes_no_other_with_it(shared_trust):
    shelf, _ = shared_trust

    def broken(_draft):
        raise TypeError("no such thing")

    wrong = shelf._store.run_together(shelf._write, SessionChange(KEY, broken))
    ends = await asyncio.gather(
        *(add(shelf) for _ in range(5)), wrong, *(add(shelf) for _ in range(5)), return_exceptions=True
    )
    assert isinstance(ends[5], StoreUnavailable)
    assert sorted(end.steps for number, end in enumerate(ends) if number != 5) == list(range(1, 11))
    assert [step.seq for step in await shelf.steps(KEY)] == list(range(1, 11))


WRITER = """
import asyncio, sys
from callgate.store import SqlTrust, Store
from support.trust_store import add, labels

async def main():
    shelf = SqlTrust(Store.open(sys.argv[1]))
    for number in range(10**9):
        after = await add(shelf, adds=labels(f"mcp://{number % 200}"))
        print(after.steps, flush=True)

asyncio.run(main())
"""


@pytest.mark.skipif(os.name == "nt", reason="kill -9")
async def test_a_step_that_was_told_outlives_kill_9(url, tmp_path):
    process = started(WRITER, tmp_path, url)
    told = [int(process.stdout.readline()) for _ in range(50)]
    process.kill()
    told += [int(line) for line in process.communicate()[0].splitlines() if line.strip()][:-1]
    store = Store.open(url)
    shelf = SqlTrust(store)
    found = await shelf.session(KEY)
    assert found.steps >= told[-1]
    assert {f"mcp://{number}" for number in range(min(200, told[-1]))} <= set(found.label.attribution)
    assert (await shelf.steps(KEY, limit=1))[0].seq == found.steps
    await store.close()

"""What is kept in memory as fresh as the store."""

import asyncio

from callgate.store.following import Follower


def test_who_reads_again_sees_what_was_written_before():
    async def play():
        store, known = ["first"], []
        gate = asyncio.Event()

        async def refresh():
            read = store[0]
            await gate.wait()
            known[:] = [read]

        gate.set()
        # Nobody ever says that something changed.
        follower = Follower(lambda _changed: lambda: None, refresh, "test")
        await follower.start()
        gate.clear()
        # A reading is under way, with what was there before.
        under_way = asyncio.create_task(follower.read_again())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        store[0] = "second"
        again = asyncio.create_task(follower.read_again())
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(under_way, again)
        assert known == ["second"]
        await follower.stop()

    asyncio.run(play())

"""A connection that is kept in a task of its own: where it breaks, the SDK cancels the task that opened it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from mcp import Client


@contextlib.asynccontextmanager
async def held_open(client: Client) -> AsyncIterator[None]:
    """The client, open for as long as the block lasts."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def hold() -> None:
        try:
            async with client:
                ready.set_result(None)
                await leave.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    task = asyncio.create_task(hold(), name="callgate-connection")
    try:
        await ready
        yield
    finally:
        leave.set()
        if not ready.done() or ready.cancelled():
            task.cancel()
        # A connection that broke was told of by the call that it broke.
        await asyncio.gather(task, return_exceptions=True)

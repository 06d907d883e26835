"""Work that blocks, in a thread that never keeps the program from ending."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


async def beside(work: Callable[[], Answer]) -> Answer:
    """Run it in a thread of its own. A question to a person cannot be called off: it may outlive the wait."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answer] = loop.create_future()

    def settle(answer: Any, failed: Exception | None) -> None:
        if future.done():
            return
        if failed is not None:
            future.set_exception(failed)
        else:
            future.set_result(answer)

    def run() -> None:
        answer: Answer | None = None
        failed: Exception | None = None
        try:
            answer = work()
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
            failed = error
        # The loop may be gone by now: then nobody waits any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, answer, failed)

    threading.Thread(target=run, name="callgate-beside", daemon=True).start()
    return await future

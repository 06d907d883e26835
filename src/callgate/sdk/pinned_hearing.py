"""Hearing that a server's tools changed, in both eras.

Up to 2025-11-25 the notification comes by itself and reaches the message handler. Since 2026-07-28 it comes only on a
stream that was asked for (`subscriptions/listen`); a server that has none is asked for its list every so often.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost

from callgate.sdk.pinned_line import Line

log = logging.getLogger("callgate.pinning")

_AGAIN_SECONDS: Final = 1.0
_AGAIN_MOST: Final = 60.0
_ACK_SECONDS: Final = 5.0


class Hearing:
    """One for each connection."""

    def __init__(self, client: Client, line: Line) -> None:
        self._client = client
        self._line = line
        self._settled = asyncio.Event()

    @contextlib.asynccontextmanager
    async def open(self, seconds: float) -> AsyncIterator[None]:
        """Listen while the block runs; it begins when the server has answered, or has taken long enough to."""
        if self._client.session.initialize_result is not None:
            yield
            return
        task = asyncio.create_task(self._listen(), name="callgate-hearing")
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(seconds, _ACK_SECONDS)):
                    await self._settled.wait()
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _listen(self) -> None:
        pause, heard = _AGAIN_SECONDS, False
        while True:
            try:
                async with self._client.listen(tools_list_changed=True) as subscription:
                    # What changed before the server heard of us, it tells nobody.
                    self._line.outdate()
                    self._settled.set()
                    pause, heard = _AGAIN_SECONDS, True
                    async for _event in subscription:
                        self._line.outdate()
            except (MCPError, SubscriptionLost, TimeoutError, RuntimeError, OSError, ValueError) as error:
                log.debug("no stream of changes: %s", type(error).__name__)
                if not heard and isinstance(error, MCPError):
                    # It has no such stream.
                    self._settled.set()
                    return
            if pause == _AGAIN_SECONDS and heard:
                # Whatever is missed from here on is found when the list is read again.
                self._line.outdate()
            self._settled.set()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _AGAIN_MOST)

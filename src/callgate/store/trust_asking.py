"""Questions to a database that takes its time, asked for several at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping


class Asking:
    """The version of each session that somebody asks for. Who comes while a question is under way goes with the next,
    so every answer is of after it was asked for."""

    def __init__(self, ask: Callable[[Collection[str]], Awaitable[Mapping[str, int]]]) -> None:
        self._ask = ask
        self._waiting: dict[str, asyncio.Future[int]] = {}
        self._task: asyncio.Task[None] | None = None

    async def version(self, key: str) -> int:
        """0 where there is no such session."""
        loop = asyncio.get_running_loop()
        answer = self._waiting.get(key)
        if answer is None or answer.get_loop() is not loop:
            answer = self._waiting[key] = loop.create_future()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._go_on(loop))
        # One that is given up takes no other with it.
        return await asyncio.shield(answer)

    async def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting, {}
            mine = {key: answer for key, answer in asked.items() if answer.get_loop() is loop}
            try:
                found = await self._ask(mine)
            except Exception as error:  # noqa: BLE001 - whoever asked hears of it
                for answer in mine.values():
                    answer.set_exception(error)
                    # Where nobody waits any more, nobody misses it.
                    answer.exception()
            except BaseException:
                for answer in mine.values():
                    answer.cancel()
                raise
            else:
                for key, answer in mine.items():
                    answer.set_result(found.get(key, 0))

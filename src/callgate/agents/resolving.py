"""Looking up the names that strangers give, on threads of their own.

A name server that never answers holds the system's resolver for half a minute, whatever we wait. On the threads that
everything else shares, a handful of such names would stop the gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from callgate.agents.reaching import FetchFailed

# Every address of a host, once.
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

MOST: Final = 32


class Lookups:
    """Every address of a host, by the system's resolver; never more than `most` names at once.

    Its threads do not keep the process from ending.
    """

    def __init__(self, most: int = MOST) -> None:
        # Given back when the resolver is done, not when whoever asked has gone.
        self._room = threading.Semaphore(most)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        if not self._room.acquire(blocking=False):
            raise FetchFailed("busy", "too many names are being looked up")
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Sequence[str]] = loop.create_future()
        try:
            threading.Thread(target=self._ask, args=(host, port, loop, found), daemon=True).start()
        except RuntimeError:
            self._room.release()
            raise FetchFailed("busy", "there is no thread to look the name up") from None
        return await found

    def _ask(self, host: str, port: int, loop: asyncio.AbstractEventLoop, found: asyncio.Future[Sequence[str]]) -> None:
        answer: Sequence[str] | Exception
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
            answer = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in rows))
        except (OSError, ValueError) as error:
            answer = error
        finally:
            self._room.release()
        # The loop may have ended meanwhile; then nobody waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, found, answer)


def _settle(found: asyncio.Future[Sequence[str]], answer: Sequence[str] | Exception) -> None:
    if found.done():
        return
    if isinstance(answer, Exception):
        found.set_exception(answer)
    else:
        found.set_result(answer)

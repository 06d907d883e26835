"""Calls that wait for their person: what they are told meanwhile, and what ends the wait."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from callgate.approval import ApprovalRepository, Request
from callgate.errors import Reason, Refused, StoreError
from callgate.jsonrpc import RequestId
from callgate.pipeline.context import Channel

_POLL_SECONDS: Final = 0.3
_TICK_SECONDS: Final = 0.5
_PROGRESS_SECONDS: Final = 5.0
_BREATH_SECONDS: Final = 10.0
_PLACES_MAX: Final = 1000
_PLACES_OF_ONE: Final = 20
_EARLY_SECONDS: Final = 10.0
# Progress has to grow (MCP, progress), and so has the server's own that follows: ours stays next to nothing.
_STEP: Final = 1e-6
_encode: Final = msgspec.json.Encoder().encode

Watch = Callable[[Callable[[], None]], Callable[[], None]]


class WaitEnd(Enum):
    """Why a wait is over without a decision."""

    TIME = "time"
    LEFT = "left"
    TAKEN_BACK = "taken back"
    ANSWERED = "answered"


class RequestDecisions:
    """What becomes of requests, asked of the store once for all who wait for the same one."""

    def __init__(self, shelf: ApprovalRepository, now: Callable[[], int], watch: Watch | None = None) -> None:
        self._repository = shelf
        self._now = now
        self._watch = watch
        self._unwatch: Callable[[], None] | None = None
        self._polls: dict[str, tuple[asyncio.Task[Request | None], int]] = {}
        self._news = asyncio.Event()

    async def of(self, request: Request) -> Request | None:
        """The request once it is decided or its time is over; None if it is gone."""
        task, waiting = self._polls.get(request.id) or (asyncio.create_task(self._poll(request)), 0)
        self._polls[request.id] = task, waiting + 1
        self._follow()
        try:
            return await asyncio.shield(task)
        finally:
            task, waiting = self._polls.pop(request.id)
            if waiting > 1:
                self._polls[request.id] = task, waiting - 1
            else:
                task.cancel()
            if not self._polls and self._unwatch is not None:
                self._unwatch()
                self._unwatch = None

    async def _poll(self, request: Request) -> Request | None:
        while True:
            # A store that cannot be read for long shows as the kill switch being unknown, which ends every wait.
            with contextlib.suppress(StoreError):
                found = await self._repository.request(request.id)
                if found is None or found.state != "waiting" or self._now() >= found.expires_at:
                    return found
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._news.wait()

    def _follow(self) -> None:
        if self._watch is not None and self._unwatch is None:
            loop = asyncio.get_running_loop()
            self._unwatch = self._watch(lambda: _tell(loop, self._news))


def _tell(loop: asyncio.AbstractEventLoop, news: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(news.set)


class PendingSlot:
    """One waiting call; `say` and `take_back` may come from another message of the same client."""

    def __init__(self, rpc_id: RequestId, until: float) -> None:
        self.rpc_id = rpc_id
        self.until = until
        self.taken_back = False
        self.answered: str | None = None
        self._signal: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take_back(self) -> None:
        self.taken_back = True
        self._wake()

    def answer(self, action: str) -> None:
        """What the client made of our question: accept, decline, cancel, or error."""
        self.answered = self.answered or action
        self._wake()

    def fall_back(self, seconds: float) -> None:
        """The question led nowhere: wait on without it, but not as long."""
        self.answered = "accept"
        self.until = min(self.until, time.monotonic() + seconds)

    def _wake(self) -> None:
        if not self._signal.done():
            self._signal.set_result(None)

    def next_signal(self) -> asyncio.Future[None]:
        if self._signal.done():
            self._signal = asyncio.get_running_loop().create_future()
        return self._signal


class PendingApprovals:
    """Every waiting call of this process, by whose it is and by the question its client was asked."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str, RequestId], PendingSlot] = {}
        # Two calls may have the same id: each takes a place.
        self._taken: Counter[str] = Counter()
        self._asked: dict[str, PendingSlot] = {}
        # A cancellation may overtake the call that it is for, where each comes over a connection of its own.
        self._early: OrderedDict[tuple[str, str, RequestId], float] = OrderedDict()

    def has_room(self, caller: str) -> bool:
        """Whether one more call of this caller may wait."""
        return self._taken[caller] < _PLACES_OF_ONE and self._taken.total() < _PLACES_MAX

    @contextlib.contextmanager
    def enter(self, server: str, caller: str, rpc_id: RequestId, seconds: float) -> Iterator[PendingSlot]:
        place = PendingSlot(rpc_id, time.monotonic() + seconds)
        key = (server, caller, rpc_id)
        self._places[key] = place
        self._taken[caller] += 1
        if self._early.pop(key, 0.0) > time.monotonic():
            place.take_back()
        try:
            yield place
        finally:
            self._taken[caller] -= 1
            if not self._taken[caller]:
                del self._taken[caller]
            if self._places.get(key) is place:
                del self._places[key]

    @contextlib.contextmanager
    def asking(self, question: str, place: PendingSlot) -> Iterator[None]:
        self._asked[question] = place
        try:
            yield
        finally:
            del self._asked[question]

    def take_back(self, server: str, caller: str, rpc_id: object) -> bool:
        """Whether a call of that id waits here; then it does no longer."""
        # 1, "1" and true are three things (JSON-RPC 2.0 §4).
        if type(rpc_id) is not int and type(rpc_id) is not str:
            return False
        key = (server, caller, rpc_id)
        place = self._places.get(key)
        if place is not None:
            place.take_back()
            return True
        self._early[key] = time.monotonic() + _EARLY_SECONDS
        while len(self._early) > _PLACES_MAX:
            self._early.popitem(last=False)
        return False

    def asked(self, question: str) -> PendingSlot | None:
        return self._asked.get(question)


class KeepAlive:
    """Keeps a client from giving up: progress where it asked for that, signs of life where the transport has them."""

    def __init__(self, line: Channel, token: object, text: str) -> None:
        self._line = line
        self._token = token if isinstance(token, (int, str)) and not isinstance(token, bool) else None
        self._text = text
        self._next = 0.0
        self._count = 0

    async def __call__(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        if self._token is None:
            self._next = now + _BREATH_SECONDS
            await self._line.breathe()
            return
        self._next = now + _PROGRESS_SECONDS
        self._count += 1
        progress = {"progressToken": self._token, "progress": self._count * _STEP, "message": self._text}
        await self._line.say(notification("notifications/progress", progress))


async def wait(
    decision: Awaitable[Request | None],
    line: Channel,
    place: PendingSlot,
    beat: KeepAlive,
    closed: Callable[[], Refused | None],
) -> Request | WaitEnd | None:
    """Until the request is decided, or something else ends it; Refused where the gate is closed meanwhile."""
    gone = asyncio.ensure_future(line.gone())
    decided = asyncio.ensure_future(decision)
    started = time.monotonic()
    try:
        with line.aside():
            while True:
                left = place.until - time.monotonic()
                if left <= 0:
                    return WaitEnd.TIME
                await beat()
                ends: set[asyncio.Future[Any]] = {gone, decided, place.next_signal()}
                await asyncio.wait(ends, timeout=min(left, _TICK_SECONDS), return_when=asyncio.FIRST_COMPLETED)
                if place.taken_back:
                    return WaitEnd.TAKEN_BACK
                if gone.done():
                    return WaitEnd.LEFT
                if line.stopping:
                    raise Refused(Reason.SHUTTING_DOWN)
                if (refused := closed()) is not None:
                    raise refused
                if decided.done():
                    return decided.result()
                if place.answered not in (None, "accept"):
                    return WaitEnd.ANSWERED
    finally:
        line.waited += time.monotonic() - started
        gone.cancel()
        decided.cancel()
        await asyncio.gather(gone, decided, return_exceptions=True)


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    return _encode({"jsonrpc": "2.0", "method": method, "params": params})

"""Fetched documents, kept: which copy is believed, and when it is fetched again.

All processes share what one of them fetched, through the store. A fetch that fails takes nothing away (WB-012), a flush
takes everything away at once (WB-091), and in between a copy is never older than five minutes while its publisher
answers. However many requests wait for a document, it is fetched once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from callgate.agents import storage
from callgate.agents.fetching import Fetcher, FetchFailed, FetchResponse
from callgate.agents.keys import BadKeys
from callgate.agents.storage import DirectoryStore, Fetched, Listed
from callgate.errors import ConfigError, Refused

T = TypeVar("T")
log = logging.getLogger("callgate.agents")

FIVE_MINUTES: Final = 300.0
# Of all documents of a kind in memory; read, they take some three times as much.
MOST_BYTES: Final = 16 * 1024 * 1024
# What an address begins with that holds its keys itself.
INLINE: Final = "data:"


class Times(msgspec.Struct, frozen=True):
    """How old copies may be, in seconds."""

    # Used without a thought; a publisher may ask for less, not for more, and never for less than `least`.
    fresh: float = 120.0
    least: float = 30.0
    # Used while it is fetched again; beyond that the fetch is waited for.
    stale: float = FIVE_MINUTES
    # How long a failure is believed.
    negative: float = 60.0
    # How soon a document is fetched again because it lacks what is looked for: a key may have been rotated.
    miss: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.fresh <= self.stale <= FIVE_MINUTES:
            raise ConfigError("directories: least, fresh and stale have to grow in this order, up to 300 s")
        if not 0 < self.negative <= FIVE_MINUTES or self.miss <= 0:
            raise ConfigError("directories: negative has to be above 0 and at most 300 s, miss above 0")


class CachedDocument(NamedTuple, Generic[T]):
    """A document in memory, as it is used and as it is kept."""

    value: T
    fetched: Fetched


class Failure(NamedTuple):
    """Why a document was not fetched the last time; `at` in milliseconds."""

    at: int
    reason: str
    text: str


class DocumentKind(NamedTuple, Generic[T]):
    """What a document is: what of an answer is kept, and what that means. Both raise `BadKeys` or `Refused`."""

    keep: Callable[[FetchResponse], bytes]
    read: Callable[[str, bytes], T]


class Documents(Generic[T]):
    """Documents of one kind by their URL."""

    def __init__(
        self,
        kind: DocumentKind[T],
        fetcher: Fetcher,
        repository: DirectoryStore,
        clock: Callable[[], float],
        times: Times,
        *,
        most: int = 1024,
        at_once: int = 32,
    ) -> None:
        self._kind = kind
        self._fetcher = fetcher
        self._known_fetcher = fetcher.apart()
        self._repository = repository
        self._clock = clock
        self._times = times
        self._most = most
        # Directories that an operator named: strangers' names do not stand in their way.
        self.known: frozenset[str] = frozenset()
        self._known_at_once = asyncio.Semaphore(at_once)
        self._at_once = asyncio.Semaphore(at_once)
        self._queue = 2 * at_once
        self._held: OrderedDict[str, CachedDocument[T]] = OrderedDict()
        # Bytes of what is held.
        self.size = 0
        self._failed: OrderedDict[str, Failure] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[CachedDocument[T] | None]] = {}
        self._all: set[asyncio.Task[CachedDocument[T] | None]] = set()
        self._epoch = 0

    async def get(self, url: str, wanted: Callable[[T], bool] | None = None) -> T | None:
        """A document as new as it has to be; `wanted` tells whether it has what is looked for."""
        held = self._held.get(url)
        if held is None:
            held = await self._load(url)
        else:
            self._held.move_to_end(url)
        now = self._now()
        failed = self._failed.get(url)
        lately = failed is not None and now - failed.at < self._times.negative * 1000
        if held is None:
            renewed = None if lately else await self._renewed(url)
            return None if renewed is None else renewed.value
        enough = wanted is None or wanted(held.value)
        age = now - held.fetched.fetched_at
        if enough and self._fresh(held.fetched, now):
            return held.value
        if lately:
            return held.value
        if enough and 0 <= age < self._times.stale * 1000:
            self._start(url)
            return held.value
        if not enough and 0 <= age < self._times.miss * 1000:
            return held.value
        return (await self._renewed(url) or held).value

    async def renew(self, url: str) -> CachedDocument[T] | None:
        """Fetch it now, whatever is held; None where that failed, and `failure` says why."""
        self._failed.pop(url, None)
        self._let_go(url)
        task = self._start(url, anyway=True)
        held = None if task is None else await asyncio.shield(task)
        return None if url in self._failed else held

    async def held(self, url: str) -> CachedDocument[T] | None:
        """What there is of it, without a fetch."""
        return self._held.get(url) or await self._load(url)

    def failure(self, url: str) -> Failure | None:
        return self._failed.get(url)

    def forget(self) -> None:
        """After a flush or a change elsewhere: nothing in memory is believed, nor what is on its way."""
        self._epoch += 1
        self._held.clear()
        self.size = 0
        self._failed.clear()
        self._under_way.clear()

    async def close(self) -> None:
        """End what is under way."""
        tasks = list(self._all)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _fresh(self, fetched: Fetched, now: int) -> bool:
        # Another node's clock may run ahead; what it fetched in our future has no age that could be believed.
        return fetched.fetched_at <= now + 5000 and now < min(
            fetched.fresh_until, fetched.fetched_at + int(self._times.fresh * 1000)
        )

    async def _load(self, url: str) -> CachedDocument[T] | None:
        epoch = self._epoch
        fetched = await self._repository.directory(url)
        if fetched is None or not fetched.body:
            return None
        try:
            held = CachedDocument(self._kind.read(url, fetched.body), fetched)
        except BadKeys:
            return None
        if epoch == self._epoch:
            self._hold(url, held)
        return held

    async def _renewed(self, url: str) -> CachedDocument[T] | None:
        task = self._start(url)
        return None if task is None else await asyncio.shield(task)

    def _start(self, url: str, *, anyway: bool = False) -> asyncio.Task[CachedDocument[T] | None] | None:
        task = self._under_way.get(url)
        if task is not None and not anyway:
            return task
        if len(self._all) >= self._queue and url not in self.known:
            # A flood of names: who is waited for already is served, others are told that nothing was found.
            self._note(url, FetchFailed("busy", "too many directories are being fetched"))
            return None
        task = asyncio.get_running_loop().create_task(self._fetch(url, anyway=anyway))
        self._under_way[url] = task
        self._all.add(task)
        task.add_done_callback(lambda done: self._ended(url, done))
        return task

    def _ended(self, url: str, task: asyncio.Task[CachedDocument[T] | None]) -> None:
        self._all.discard(task)
        if self._under_way.get(url) is task:
            del self._under_way[url]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("directory not kept", extra={"fields": {"url": url, "error": type(error).__name__}})

    async def _fetch(self, url: str, *, anyway: bool) -> CachedDocument[T] | None:
        held = self._held.get(url)
        for _ in range(3):
            if not anyway and (found := await self._newer(url, held)) is not None:
                return found
            version = await self._repository.directories_version()
            try:
                answer = await self._answer(url)
                body = self._kind.keep(answer)
                value = self._kind.read(url, body)
            except (FetchFailed, BadKeys, Refused) as why:
                return await self._without(url, why, version)
            fetched = self._dated(url, body, answer.max_age, version)
            # Not where a flush overtook the fetch: then what came may be what the flush was to get rid of.
            if await self._repository.keep_directory(fetched):
                self._failed.pop(url, None)
                self._hold(url, found := CachedDocument(value, fetched))
                return found
            held = None
        return await self._without(url, FetchFailed("flushed", "it was flushed while it was fetched"), 0)

    async def _answer(self, url: str) -> FetchResponse:
        known = url in self.known
        async with self._known_at_once if known else self._at_once:
            return await (self._known_fetcher if known else self._fetcher).fetch(url)

    async def _newer(self, url: str, held: CachedDocument[T] | None) -> CachedDocument[T] | None:
        """What another process fetched meanwhile."""
        found = await self._load(url)
        if found is None or not self._fresh(found.fetched, self._now()):
            return None
        return found if held is None or found.fetched.fetched_at > held.fetched.fetched_at else None

    async def _without(self, url: str, why: FetchFailed | BadKeys | Refused, version: int) -> CachedDocument[T] | None:
        """A failed try: noted for a while, and nothing that was fetched before is lost by it."""
        failure = self._note(url, why)
        held = self._held.get(url) or await self._load(url)
        if held is None:
            return None
        noted = held._replace(fetched=replace(held.fetched, failed_at=failure.at))
        self._hold(url, noted)
        await self._repository.keep_directory(Fetched(url, b"", 0, 0, failed_at=failure.at, version=version))
        return noted

    def _note(self, url: str, why: FetchFailed | BadKeys | Refused) -> Failure:
        reason = why.reason if isinstance(why, FetchFailed | Refused) else "document_invalid"
        failure = Failure(self._now(), str(reason), why.message)
        # Strangers can name as many directories as they like; only an operator's own are worth a line.
        level = logging.WARNING if url in self.known else logging.DEBUG
        log.log(level, "directory not fetched", extra={"fields": {"url": url, "reason": failure.reason}})
        if failure.reason == "busy":
            return failure  # nobody tried, and whoever comes next may
        self._failed[url] = failure
        self._failed.move_to_end(url)
        while len(self._failed) > self._most:
            self._failed.popitem(last=False)
        return failure

    def _dated(self, url: str, body: bytes, max_age: int | None, version: int) -> Fetched:
        now = self._now()
        asked = self._times.fresh if max_age is None else float(max_age)
        fresh = max(self._times.least, min(asked, self._times.fresh))
        return Fetched(url, body, now, now + int(fresh * 1000), version=version)

    def _hold(self, url: str, held: CachedDocument[T]) -> None:
        self._let_go(url)
        self._held[url] = held
        self.size += len(held.fetched.body)
        while len(self._held) > 1 and (len(self._held) > self._most or self.size > MOST_BYTES):
            self._let_go(next(iter(self._held)))

    def _let_go(self, url: str) -> None:
        if (held := self._held.pop(url, None)) is not None:
            self.size -= len(held.fetched.body)


class UnsharedDirectories:
    """What one process fetched, where there is no store to share it through."""

    def __init__(self) -> None:
        self._fetched: dict[str, Fetched] = {}
        self._version = 0

    async def agents(self) -> Sequence[Listed]:
        return ()

    async def directory(self, url: str) -> Fetched | None:
        return self._fetched.get(url)

    async def keep_directory(self, fetched: Fetched) -> bool:
        storage.demand_directory(fetched)
        if fetched.version < self._version:
            return False
        self._fetched[fetched.url] = storage.merged(self._fetched.get(fetched.url), fetched)
        while len(self._fetched) > storage.DIRECTORIES or self._size() > storage.MEMORY_BYTES:
            others = (one for one in self._fetched.values() if one.url != fetched.url)
            del self._fetched[min(others, key=storage.worth).url]
        return True

    def _size(self) -> int:
        return sum(len(one.body) for one in self._fetched.values())

    async def flush_directory(self, url: str | None, now: int) -> int:  # noqa: ARG002
        gone = [one for one in self._fetched if url in (None, one)]
        for one in gone:
            del self._fetched[one]
        self._version += 1
        return len(gone)

    async def directories_version(self) -> int:
        return self._version

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Nobody else changes anything."""
        return lambda: None

"""The tools on one connection of a pinned client: every page of the list as it came, and whether that still holds.

It holds from the moment its last page was read until the server says that it changed or the time to look again has
come. What is hashed is the unparsed result, so that members which the SDK's types do not know are seen as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeAlias

import msgspec
from mcp import Client, ClientSession, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import (
    SERVER_INFO_META_KEY,
    ListToolsResult,
    Tool,
)

from callgate.errors import Reason, Refused, UpstreamError
from callgate.pinning.identity import reported_as
from callgate.pinning.listing import EntryReader, ToolListing, bound
from callgate.pinning.model import ListedTool, PinningSettings, ServerIdentity
from callgate.sdk.connection import raw_pages
from callgate.sdk.outcome import shorten

# From what a server says of itself to who it is.
Identify: TypeAlias = Callable[[str], ServerIdentity]
_READ_BYTES: Final = 64 * 1024 * 1024
_TRIES: Final = 3
log = logging.getLogger("callgate.pinning")
_AGAIN_SECONDS: Final = 1.0
_AGAIN_MOST: Final = 60.0
_ACK_SECONDS: Final = 5.0


class VerifiedTools(msgspec.Struct, frozen=True):
    """A whole list under one identity, and its entries as the SDK has them; `fresh`: the first on this connection."""

    identity: ServerIdentity
    listing: ToolListing
    tools: tuple[Tool, ...]
    generation: int
    at: float
    fresh: bool


class _Reading:
    """A list while it is read, page by page, under one identity."""

    def __init__(self, identity: ServerIdentity, reader: EntryReader, settings: PinningSettings) -> None:
        self.identity = identity
        self.listed: list[ListedTool] = []
        self.tools: list[Tool] = []
        self.problem = ""
        self._reader = reader
        self._settings = settings

    def take(self, entries: list[bytes], tools: list[Tool]) -> None:
        self.listed += [self._reader.read(entry) for entry in entries]
        self.tools += tools
        self.problem = bound(self.listed, self._settings)


class ConnectionTools:
    """One for each connection: what was verified on one says nothing of another."""

    def __init__(
        self,
        session: Callable[[], ClientSession],
        identify: Identify,
        settings: PinningSettings,
        *,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._identify = identify
        self._settings = settings
        self._seconds = seconds
        self._clock = clock
        self._generation = 0
        self._turn = asyncio.Lock()
        self.last: VerifiedTools | None = None

    def invalidate(self) -> None:
        """Nothing that was read before counts any more."""
        self._generation += 1

    def current(self, *, whatever_age: bool = False) -> VerifiedTools | None:
        """The list that was verified; None where it has to be read first."""
        found = self.last
        if found is None or found.generation != self._generation:
            return None
        if not whatever_age and self._clock() - found.at > self._settings.recheck_seconds:
            return None
        return found

    async def verify(self, *, anew: bool = False) -> VerifiedTools:
        """The list, read where it has to be; Refused where that is not possible. `anew`: read in any case."""
        try:
            async with asyncio.timeout(self._seconds), self._turn:
                for _ in range(_TRIES):
                    # Whoever had the turn before may have read it.
                    if not anew and (found := self.current()) is not None:
                        return found
                    if (found := await self._read()) is not None:
                        self.last = found
                        return found
        except TimeoutError:
            text = "the server did not list its tools in time, so nothing can be called"
            raise Refused(Reason.TOOLSET_UNVERIFIED, text) from None
        except MCPError as error:
            text = f"the server did not list its tools: {shorten(error.message)}"
            raise Refused(Reason.TOOLSET_UNVERIFIED, text) from None
        except ValueError as error:
            text = f"the server's list of tools cannot be read ({type(error).__name__})"
            raise UpstreamError(Reason.UPSTREAM_GARBAGE, text) from None
        except (RuntimeError, OSError) as error:
            text = f"the server did not list its tools ({type(error).__name__})"
            raise Refused(Reason.TOOLSET_UNVERIFIED, text) from None
        raise Refused(Reason.TOOLSET_UNVERIFIED, "the server's list of tools changes while it is read")

    async def _read(self) -> VerifiedTools | None:
        """Every page; None where the server said meanwhile that its list changed, or that it is another server."""
        generation, size = self._generation, 0
        reported: str | None = None
        reader: _Reading | None = None
        async for page in raw_pages(self._session()):
            said = self._reported(page.raw)
            if reader is None:
                reported, reader = said, await self._begin(said)
            if said != reported:
                return None
            entries = [_bytes(entry) for entry in page.raw.get("tools", ())]
            await asyncio.to_thread(reader.take, entries, page.tools)
            size += sum(map(len, entries))
            # Beyond its bounds the list is not used, so the rest of it need not be read.
            if not page.next_cursor or reader.problem:
                if self._generation != generation:
                    return None
                listing = ToolListing(reader.listed, problem=reader.problem)
                kept = self._absorb(reader.tools)
                return VerifiedTools(reader.identity, listing, kept, generation, self._clock(), self.last is None)
            if size > _READ_BYTES:
                break
        raise UpstreamError(Reason.UPSTREAM_TOO_LARGE, "the server's list of tools does not end")

    def _reported(self, result: dict[str, Any]) -> str:
        """What the server says of itself: at its greeting, or, where there is none, in this very answer."""
        session = self._session()
        greeted = session.initialize_result
        if greeted is not None:
            return reported_as(greeted.server_info.name, greeted.server_info.version)
        found = session.discover_result
        for meta in (result.get("_meta"), found.meta if found is not None else None):
            stamp = meta.get(SERVER_INFO_META_KEY) if isinstance(meta, dict) else None
            if isinstance(stamp, dict):
                return reported_as(stamp.get("name"), stamp.get("version"))
        return ""

    async def _begin(self, reported: str) -> _Reading:
        identity = await asyncio.to_thread(self._identify, reported)
        before = self.last
        known = before.listing.known if before is not None and before.identity == identity else None
        return _Reading(identity, EntryReader(identity.server_id, self._settings, known), self._settings)

    def _absorb(self, tools: list[Tool]) -> tuple[Tool, ...]:
        """Let the session take in what it needs for calls: output schemas, and which arguments go into headers."""
        whole = ListToolsResult(tools=tools)
        absorb = getattr(self._session(), "_absorb_tool_listing", None)
        return tuple((whole if absorb is None else absorb(whole, complete=True)).tools)


def _bytes(entry: Any) -> bytes:
    """An entry as JSON again, with nothing lost: what has no JSON form is left for the reader to find unfit."""
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


@contextlib.asynccontextmanager
async def listening_for_changes(client: Client, tools: ConnectionTools, seconds: float) -> AsyncIterator[None]:
    """Hear while the block runs that the server's tools changed; it begins when the server has answered, or has taken
    long enough to.

    Up to 2025-11-25 the notification comes by itself and reaches the message handler. Since 2026-07-28 it comes only
    on a stream that was asked for (`subscriptions/listen`); a server that has none is asked for its list now and then.
    """
    if client.session.initialize_result is not None:
        yield
        return
    settled = asyncio.Event()
    task = asyncio.create_task(_listen(client, tools, settled), name="callgate-list-changes")
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, _ACK_SECONDS)):
                await settled.wait()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _listen(client: Client, tools: ConnectionTools, settled: asyncio.Event) -> None:
    pause, heard = _AGAIN_SECONDS, False
    while True:
        try:
            async with client.listen(tools_list_changed=True) as subscription:
                # What changed before the server heard of us, it tells nobody.
                tools.invalidate()
                settled.set()
                pause, heard = _AGAIN_SECONDS, True
                async for _event in subscription:
                    tools.invalidate()
        except (MCPError, SubscriptionLost, TimeoutError, RuntimeError, OSError, ValueError) as error:
            log.debug("no stream of changes: %s", type(error).__name__)
            if not heard and isinstance(error, MCPError):
                # It has no such stream.
                settled.set()
                return
        if pause == _AGAIN_SECONDS and heard:
            # Whatever is missed from here on is found when the list is read again.
            tools.invalidate()
        settled.set()
        await asyncio.sleep(pause)
        pause = min(2 * pause, _AGAIN_MOST)

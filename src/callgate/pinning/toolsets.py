"""The lists of tools and prompts that servers showed, and what they say of themselves, as they are judged by the
decisions in force."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from callgate.errors import CallgateError, Reason, Refused, UpstreamError, place
from callgate.gate import Context, Pass
from callgate.jsonrpc import parts, peek
from callgate.jsonrpc.reading import decode_leniently, result_of
from callgate.pinning.chain import DecisionChain, Keys
from callgate.pinning.identity import ServerRef, as_marked, is_named, reported_as
from callgate.pinning.judging import Toolset, judge
from callgate.pinning.listing import (
    PROMPTS,
    TOOLS,
    EntryReader,
    ListMethod,
    ListPage,
    ListSize,
    ToolListing,
    doubled,
    greeting_items,
    read_page,
)
from callgate.pinning.model import ItemKind, ListedTool, PinningSettings, ServerIdentity, ServerSeen
from callgate.pinning.storage import PinRepository
from callgate.pipeline.context import RequestContext, own_request
from callgate.pipeline.timeouts import pauses

log = logging.getLogger("callgate.pinning")

STALE_SECONDS: Final = 3.0
_REREAD_SECONDS: Final = 5.0


class Refresher(Protocol):
    """Calls what it was given whenever something in the store may have changed."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def next_reading(self) -> None: ...

    async def read_again(self) -> None: ...


class DecisionWatch:
    """Reads on in the chain whenever something was added. Not knowing for too long counts as knowing nothing."""

    def __init__(
        self,
        shelf: PinRepository,
        keys: Keys,
        follow: Callable[[Callable[[], Awaitable[None]]], Refresher],
        *,
        decided: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.book = DecisionChain(keys)
        # Told when something was decided, here or elsewhere.
        self._decided = decided
        self._shelf = shelf
        self._keys = keys
        self._clock = clock
        # Not read yet is as old as can be.
        self._read_at = float("-inf")
        self._broken_at = float("-inf")
        self._follower = follow(self.refresh)

    @property
    def stale(self) -> bool:
        return self.is_stale()

    def is_stale(self) -> bool:
        return self._clock() - self._read_at > STALE_SECONDS

    async def start(self) -> None:
        await self._follower.start()

    async def stop(self) -> None:
        await self._follower.stop()

    async def catch_up(self) -> None:
        """Wait until the decisions are not stale."""
        while self.stale:
            await self._follower.next_reading()

    async def read_again(self) -> None:
        """Wait for what was decided before this, here or elsewhere."""
        await self._follower.read_again()

    async def refresh(self) -> None:
        """Read what was added since. What cannot be read ages; what does not verify is believed by nobody."""
        before = self._clock()
        book = self.book
        if book.broken:
            if before - self._broken_at < _REREAD_SECONDS:
                self._read_at = before
                return
            book = DecisionChain(self._keys)
        known, was_broken = book.version, bool(self.book.broken)
        try:
            book.read(*await self._shelf.since(known))
        except CallgateError as error:
            log.warning("the decisions on tools could not be read", extra={"fields": {"error": str(error)}})
            return
        except Exception as error:  # noqa: BLE001 - not to be expected: the state ages into `stale`, and reading goes on
            log.error("the decisions on tools could not be read", extra={"fields": {"error": place(error)}})
            return
        if book.broken:
            self._broken_at = before
            if not was_broken:
                log.error("the decisions on tools were tampered with", extra={"fields": {"problem": book.broken}})
        self.book = book
        self._read_at = before
        if book.version != known or was_broken != bool(book.broken):
            self._decided()


class HeldTools(Protocol):
    """Tools that wait for their server to be reviewed with others.

    Under the decisions of a book: `version` moves with what `held` says of the same ones.
    """

    version: int

    @property
    def refusals(self) -> Mapping[str, str]:
        """Of servers that may not be used at all, why; by their keys."""

    def held(self, server_id: str, book: DecisionChain) -> Mapping[str, str]: ...

    def refused(self, place: ServerRef) -> str:
        """Why a server may not be used at all; empty where it may."""


class NoHeldTools:
    """Where no server is reviewed with others."""

    version = 0
    refusals: Mapping[str, str] = MappingProxyType({})

    def held(self, _server_id: str, _book: DecisionChain) -> Mapping[str, str]:
        return {}

    def refused(self, _place: ServerRef) -> str:
        return ""


class DecisionSource(Protocol):
    """Who has the decisions on tools, as they were read last."""

    @property
    def book(self) -> DecisionChain: ...


Key: TypeAlias = tuple[str, str]

# The generation of a line whose list has to be read first: no server's is ever this.
UNREAD: Final = -1
_LINES_MAX: Final = 20_000
# Of lists as they came; read, they take some times as much.
_LISTS_BYTES: Final = 64 * 1024 * 1024
# No digest of a session begins like this.
_CALLER: Final = "caller:"
# What differs from request to request, or says nothing to a server about whom it lists its tools to.
_SILENT: Final = frozenset(
    b"accept accept-encoding authorization b3 baggage cache-control connection content-digest content-length "
    b"content-type cookie date dnt expect forwarded host idempotency-key keep-alive last-event-id origin pragma "
    b"priority proxy-authorization proxy-connection referer request-id signature signature-input te trailer "
    b"transfer-encoding traceparent tracestate upgrade x-amzn-trace-id x-cloud-trace-context "
    b"x-correlation-id x-forwarded-for x-forwarded-host x-forwarded-proto "
    b"x-real-ip x-request-id".split()
)
_SILENT_STARTS: Final = (b"callgate", b"kyapay-", b"mcp-", b"sec-", b"x-b3-")
# What most callers send and nothing else: told at a glance.
_USUAL: Final = _SILENT | {b"mcp-method", b"mcp-name", b"mcp-protocol-version", b"mcp-session-id"}


class PartialList(msgspec.Struct):
    """A list that passes page by page: what was read so far, and the cursor that goes on with it."""

    cursor: str
    identity: ServerIdentity
    listed: list[ListedTool]
    arrays: list[bytes]
    generation: int
    measure: ListSize
    # The tools of it that the client was given.
    passed: set[str] = msgspec.field(default_factory=set)


class ToolList:
    """What is known of the tools on one line."""

    __slots__ = (
        "asking",
        "checked",
        "generation",
        "identity",
        "listing",
        "over",
        "partial",
        "passes",
        "reported",
        "shown",
        "told",
        "toolset",
    )

    def __init__(self) -> None:
        self.asking = asyncio.Lock()
        # What the server said of itself at its greeting; None until it did.
        self.reported: str | None = None
        self.identity: ServerIdentity | None = None
        self.listing: ToolListing | None = None
        self.toolset: Toolset | None = None
        # What was said of the tools in there that may be called; made anew with the toolset.
        self.passes: dict[str, Pass] = {}
        # What the client was given last.
        self.shown: Toolset | None = None
        # What that list came to: its version, and whether something waited.
        self.told: tuple[str, bool] | None = None
        self.partial: PartialList | None = None
        self.checked = float("-inf")
        self.generation = UNREAD
        # Whether it is forgotten: a list that is read on it yet comes too late.
        self.over = False


class ToolLists:
    """By server and session; the one that was used longest ago is forgotten first."""

    def __init__(self, most: int = _LINES_MAX, most_bytes: int = _LISTS_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._lines: OrderedDict[Key, ToolList] = OrderedDict()
        # At most so much has come since the lists were last weighed.
        self._since = 0
        # For every call: the mapping's own, without a step between. `touch` wants a line that is there.
        self.get: Callable[[Key], ToolList | None] = self._lines.get
        self.touch: Callable[[Key], None] = self._lines.move_to_end

    def at(self, key: Key) -> ToolList:
        """The line, made where there is none."""
        found = self._lines.get(key)
        if found is None:
            return self.put(key, ToolList())
        self._lines.move_to_end(key)
        return found

    def put(self, key: Key, line: ToolList) -> ToolList:
        self._end(key)
        self._lines[key] = line
        self._lines.move_to_end(key)
        while len(self._lines) > self._most:
            self._end(next(iter(self._lines)))
        return line

    def items(self) -> list[tuple[Key, ToolList]]:
        return list(self._lines.items())

    def shared(self, server: str) -> Iterable[ToolList]:
        """Those of callers without a session."""
        return [line for (name, known), line in self._lines.items() if name == server and is_shared(known)]

    def forget(self, server: str) -> None:
        for key in [key for key in self._lines if key[0] == server]:
            self._end(key)

    def _end(self, key: Key) -> None:
        """What was known on a line is over, also for a call that is on its way by it."""
        ended = self._lines.pop(key, None)
        if ended is not None:
            ended.over = True
            # A call may wait for a person and have the line for as long: its lists are not kept for that.
            ended.listing = ended.toolset = ended.shown = ended.partial = None

    def grown(self, size: int) -> None:
        """So many bytes of lists came: where they are too many, lines are forgotten until they are not."""
        self._since += size
        if self._since <= self._most_bytes // 2:
            return
        self._since = 0
        weighed: set[int] = set()
        room = self._most_bytes // 2
        # From the one that was used last; what lines share is counted once.
        for number, (key, line) in enumerate(reversed(self.items())):
            fresh = {mark: size for mark, size in _weights(line) if mark not in weighed}
            if number and sum(fresh.values()) > room:
                self._end(key)
                continue
            weighed.update(fresh)
            room -= sum(fresh.values())


def _weights(line: ToolList) -> Iterator[tuple[int, int]]:
    """Each list that a line holds on to, and how many bytes it came as."""
    toolsets = [one.listing for one in (line.toolset, line.shown) if one is not None]
    for listing in [*toolsets, *([line.listing] if line.listing is not None else [])]:
        yield id(listing), sum(map(len, listing.arrays))
    if line.partial is not None:
        yield id(line.partial), sum(map(len, line.partial.arrays))


def is_shared(session: str) -> bool:
    """Whether a line is that of callers whom no session tells apart."""
    return not session or session.startswith(_CALLER)


def caller(headers: Mapping[bytes, bytes], *, credentials: bool, agent: str = "") -> str:
    """Callers without a session, as far as the server can tell them apart: by what it is given of their headers.

    A server may show each of them another list: by their `credentials`, where it is given those, by the toolsets that a
    header asks for, by their language; and by the `agent` that the gateway tells it of.
    """
    told = [] if headers.keys() <= _USUAL else [pair for pair in headers.items() if _speaks(pair[0])]
    if credentials and b"authorization" in headers:
        told.append((b"authorization", headers[b"authorization"]))
    if agent:
        told.append((b"callgate-agent", agent.encode("utf-8", "surrogatepass")))
    return _digest(tuple(sorted(told))) if told else ""


@lru_cache(maxsize=1024)
def _speaks(name: bytes) -> bool:
    return name not in _SILENT and not name.startswith(_SILENT_STARTS)


@lru_cache(maxsize=4096)
def _digest(told: tuple[tuple[bytes, bytes], ...]) -> str:
    state = hashlib.sha256(b"callgate caller\x00")
    for part in (part for pair in told for part in pair):
        state.update(len(part).to_bytes(4) + part)
    return _CALLER + state.hexdigest()[:32]


DISCOVER: Final = "server/discover"
# A server that does not answer this is not worth the patience of a call: its list is asked for next.
_DISCOVER_SECONDS: Final = 8.0
SERVER_INFO_META: Final = "io.modelcontextprotocol/serverInfo"
_PAGES_MAX: Final = 200
_READ_BYTES: Final = 64 * 1024 * 1024
_RECALLED_MAX: Final = 64


class ListReading(msgspec.Struct, frozen=True):
    """A whole list that was read, for whoever keeps the books of what was met; `fresh`: on a line not met before."""

    place: ServerRef
    identity: ServerIdentity
    toolset: Toolset
    line: str
    fresh: bool
    kind: ItemKind = "tool"


class Introductions:
    """As whom servers have introduced themselves, by their configured names."""

    def __init__(self) -> None:
        self.reported: dict[str, str] = {}
        # By configured name, then by server_id: the last one first.
        self.recalled: dict[str, dict[str, ServerIdentity]] = {}
        # Servers that need not be asked who they are: their last list said it, or they do not say it when asked.
        self.stamping: set[str] = set()
        self.anonymous: set[str] = set()
        self.introducing: dict[str, asyncio.Lock] = {}
        # Servers that a client has discovered, since their list was asked for last.
        self.discovered: set[str] = set()
        # What they said of themselves last, for models to read, and as whom.
        self.said: dict[str, tuple[ServerIdentity, ToolListing]] = {}


class Toolsets:
    """Made once for a process; `settings` and `places` follow the configuration.

    `prompts` are the same servers' lists of prompts: each is read, judged and told of as a list of tools is, and who
    the servers are is known to both.
    """

    def __init__(
        self,
        books: DecisionSource,
        settings: PinningSettings,
        *,
        met: Callable[[ListReading], None],
        altered: Callable[[str, str | None, str], None] = lambda _server, _session, _changed: None,
        sets: HeldTools | None = None,
        clock: Callable[[], float] = time.monotonic,
        beside: Toolsets | None = None,
    ) -> None:
        self.settings = settings
        self.places: Mapping[str, ServerRef] = {}
        self.sets: HeldTools = sets or NoHeldTools()
        self.of: ListMethod = TOOLS if beside is None else PROMPTS
        # Told of a line whose client would see another list now than it was given.
        self._altered = altered
        self.ask_seconds = 5.0
        self._books = books
        self._met = met
        self._clock = clock
        self._lines = ToolLists()
        self._generations: dict[str, int] = {}
        # As whom each server was met last by any gateway, and with which list.
        self._elsewhere: dict[str, tuple[str, str]] = {}
        self._listings: weakref.WeakValueDictionary[tuple[str, str], ToolListing] = weakref.WeakValueDictionary()
        # The list that was read last of each identity, for as long as some line has it.
        self._latest: weakref.WeakValueDictionary[str, ToolListing] = weakref.WeakValueDictionary()
        # Moves with every configuration.
        self._changes = 0
        self.heard: Introductions = Introductions() if beside is None else beside.heard
        self.prompts: Toolsets | None = None
        if beside is None:
            self.prompts = Toolsets(books, settings, met=met, altered=altered, sets=sets, clock=clock, beside=self)

    def both(self) -> list[Toolsets]:
        """The lists of tools, and those of prompts."""
        return [self] if self.prompts is None else [self, self.prompts]

    def configure(self, settings: PinningSettings, places: Mapping[str, ServerRef], ask_seconds: float) -> None:
        """Follow a configuration."""
        self.settings, self.places, self.ask_seconds = settings, places, ask_seconds
        self._changes += 1
        # Other bounds may make another list of the same bytes.
        self._latest.clear()
        if self.prompts is not None:
            self.prompts.configure(settings, places, ask_seconds)

    def recall(self, server: str, identity: ServerIdentity) -> None:
        """Who a server was when it was met last: for sessions that go on without a new greeting.

        They may have begun before this gateway did, or under another configuration. To be told from the last to the
        first; the one that was met just now comes first by itself.
        """
        known = self.heard.recalled.setdefault(server, {})
        if len(known) < _RECALLED_MAX:
            known.setdefault(identity.server_id, identity)

    # ---- lines ----

    def _key(self, context: Context) -> tuple[str, str]:
        """A session; without one, whoever looks the same to the server."""
        if context.session is not None:
            return context.server, context.session
        # Worked out once for each message: it is asked for more than once.
        line = context.line if isinstance(context, RequestContext) else None
        if line is not None and line.caller is not None:
            return context.server, line.caller
        place, known = self.places.get(context.server), ""
        if place is not None and place.kind == "http":
            agent = "" if context.caller is None else context.caller.id
            known = caller(context.headers, credentials=place.by_caller, agent=agent)
        if line is not None:
            line.caller = known
        return context.server, known

    def line(self, context: Context) -> ToolList:
        return self._lines.at(self._key(context))

    def greeted(self, server: str, session: str | None, info: object) -> None:
        """A greeting of the server's: a line begins, whatever was known of it before."""
        about = info if isinstance(info, dict) else {}
        reported = reported_as(about.get("name"), about.get("version"))
        self.heard.reported[server] = reported
        if self.prompts is not None:
            self.prompts.greeted(server, session, info)
        if session is None:
            self.renewed(server)
            return
        line = ToolList()
        line.reported = reported
        self._lines.put((server, session), line)

    def said(self, context: Context, result: Mapping[str, Any], infos: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
        """Whether what a server says of itself, in its greeting, may be read by a model: by the name of each item."""
        server, first = context.server, infos[0] if infos else {}
        identity = self._identify(server, reported_as(first.get("name"), first.get("version")) if infos else None)
        listing = ToolListing(greeting_items(result, infos, identity.server_id, self.settings))
        self.heard.said[server] = identity, listing
        toolset = self._judged(identity, listing)
        line = context.session or ""
        self._met(ListReading(self.place(server), identity, toolset, line, fresh=False, kind="server"))
        return {name: name in toolset.open for name in listing.tools}

    def _judged(self, identity: ServerIdentity, listing: ToolListing) -> Toolset:
        book = self._books.book
        return Toolset(identity, listing, book, self.settings, self.sets.held(identity.server_id, book))

    def texts(self, context: Context) -> list[Toolset]:
        """What else a model would read of the server on this line, as it stands now: what it says of itself, and its
        prompts where somebody has asked for them."""
        return self._texts(*self._key(context))

    def _texts(self, server: str, session: str) -> list[Toolset]:
        said = self.heard.said.get(server)
        found = [] if said is None else [self._judged(*said)]
        return found if self.prompts is None else [*found, *self.prompts.known(server, session)]

    def known(self, server: str, session: str) -> list[Toolset]:
        """The list that was read on a line, if one was."""
        line = self._lines.get((server, session))
        if line is None or line.identity is None or line.listing is None:
            return []
        return [self._compile(line, line.identity, line.listing)]

    def waits(self, context: Context, toolset: Toolset) -> bool:
        """Whether there is something to say to a person of what a model would read on this line."""
        return toolset.waits or any(one.waits for one in self.texts(context))

    async def introduce(self, visit: RequestContext, meta: Mapping[str, Any]) -> None:
        """Ask a server who it is before its list is read, where nothing else says it: 2026-07-28 has no greeting, and
        a list need not have its name. Without it, one server would be two in the two eras."""
        server = visit.server
        if not visit.modern or self._is_introduced(server) or self.line(visit).reported is not None:
            return
        async with self.heard.introducing.setdefault(server, asyncio.Lock()):
            if self._is_introduced(server) or server in self.heard.discovered:
                self.heard.discovered.discard(server)
                return
            try:
                async with asyncio.timeout(min(self.ask_seconds, _DISCOVER_SECONDS)):
                    reply = await visit.line.ask(own_request(DISCOVER, {}, meta))
            except (TimeoutError, CallgateError):
                reply = b""
            if not self.discovered(server, reply):
                self.heard.anonymous.add(server)
            self.heard.discovered.discard(server)

    def _is_introduced(self, server: str) -> bool:
        return server in self.heard.stamping or server in self.heard.anonymous

    def discovered(self, server: str, reply: bytes) -> bool:
        """What a server says of itself where it is discovered; whether it says anything."""
        message = decode_leniently(reply)
        result = message.get("result") if isinstance(message, dict) else None
        meta = result.get("_meta") if isinstance(result, dict) else None
        stamp = meta.get(SERVER_INFO_META) if isinstance(meta, dict) else None
        if not isinstance(stamp, dict):
            return False
        self.heard.reported[server] = reported_as(stamp.get("name"), stamp.get("version"))
        self.heard.discovered.add(server)
        return True

    def renewed(self, server: str) -> None:
        """Nobody can tell callers without a session apart: what they share is looked at again."""
        for line in self._lines.shared(server):
            line.checked, line.generation = float("-inf"), UNREAD

    def forget(self, server: str) -> None:
        """The server of that name is another one now."""
        if self.prompts is not None:
            self.prompts.forget(server)
        self._lines.forget(server)
        self.heard.reported.pop(server, None)
        self.heard.said.pop(server, None)
        self.heard.stamping.discard(server)
        self.heard.anonymous.discard(server)

    def met_elsewhere(self, server: str, seen: ServerSeen) -> None:
        """A server was met, maybe by another gateway. Whatever is known here of it as another one is read again."""
        place, met = self.places.get(server), (seen.server_id, seen.digest)
        if place is None or place.kind != "http" or place.by_caller or seen.lineage != place.identify("").lineage:
            # A command starts a process for each gateway, and a list for each caller is nobody else's.
            return
        if self._elsewhere.get(server) == met:
            return
        self._elsewhere[server] = met
        known = [
            (line.identity.server_id, line.listing.digest)
            for (name, _), line in self._lines.items()
            if name == server and line.identity is not None and line.listing is not None
        ]
        if all(one == met for one in known):
            return
        self._generations[server] = self._generations.get(server, 0) + 1
        # One that did not say who it is may say it now. What it said here last stays: this may be older than that.
        self.heard.anonymous.discard(server)

    def hear(self, server: str, message: bytes) -> None:
        """A message of the server's own accord: what was verified may hold no longer."""
        for part in parts(message) or [message]:
            seen = peek(part)
            if seen is not None and seen.method == self.of.changed:
                self._generations[server] = self._generations.get(server, 0) + 1
        if self.prompts is not None:
            self.prompts.hear(server, message)

    def generation(self, server: str) -> int:
        """Moves on when the server's list changes, and when an argument is marked as data or bound again: a command may
        be another server then."""
        return self._generations.get(server, 0) + self._books.book.marks

    def refused(self, server: str) -> str:
        """Why a server may not be used at all; empty where it may."""
        place = self.places.get(server)
        return "" if place is None else self.sets.refused(place)

    # ---- what is in force ----

    def current(self, context: Context, *, whatever_age: bool = False) -> Toolset | None:
        """The verified tools of a line under the decisions of now; None where the list has to be read first."""
        line = self.in_force(context, whatever_age=whatever_age)
        return None if line is None else line.toolset

    def in_force(self, context: Context, *, whatever_age: bool = False) -> ToolList | None:
        """The line with those tools as its `toolset`, and with what else is known of it."""
        # For every call: written out, where a step less is worth it.
        session = context.session
        key = self._key(context) if session is None else (context.server, session)
        line = self._lines.get(key)
        if line is None or line.listing is None or line.identity is None:
            return None
        book = self._books.book
        if line.generation != self._generations.get(context.server, 0) + book.marks:
            return None
        if not whatever_age:
            if self._clock() - line.checked > self.settings.recheck_seconds:
                return None
            self._lines.touch(key)
        toolset = line.toolset
        if (
            toolset is None
            or toolset.listing is not line.listing
            or toolset.stamp != (book.version, book.broken, self.sets.version, self._changes)
        ):
            self._compile(line, line.identity, line.listing)
        return line

    def holds(self, line: ToolList, server: str) -> bool:
        """Whether the tools of a line that were in force a moment ago still are; where not, ask for them again."""
        book, toolset = self._books.book, line.toolset
        return (
            toolset is not None
            and not line.over
            and line.generation == self._generations.get(server, 0) + book.marks
            and toolset.listing is line.listing
            and toolset.stamp == (book.version, book.broken, self.sets.version, self._changes)
        )

    def _compile(self, line: ToolList, identity: ServerIdentity, listing: ToolListing) -> Toolset:
        """Held against the book again only when something was decided since."""
        book = self._books.book
        state = (book.version, book.broken, self.sets.version, self._changes)
        toolset = line.toolset
        if toolset is not None and toolset.listing is listing and toolset.stamp == state:
            return toolset
        # Lines that show the same list share what it comes to.
        shared = None if listing.compiled is None else listing.compiled()
        if not isinstance(shared, Toolset) or shared.stamp != state:
            held = self.sets.held(identity.server_id, book)
            shared = Toolset(identity, listing, book, self.settings, held, stamp=state)
            # Not the other way round too: megabytes in a circle stay until somebody looks for circles.
            listing.compiled = weakref.ref(shared)
        line.toolset, line.passes = shared, {}
        return shared

    def look_again(self) -> None:
        """Something was decided: whoever would see another list now is told."""
        for (server, session), line in self._lines.items():
            if line.told is not None and line.identity is not None and line.listing is not None:
                self._tell(server, session, line, self._compile(line, line.identity, line.listing))
        if self.prompts is not None:
            self.prompts.look_again()

    def waiting(self) -> dict[str, int]:
        """How many tools of each server wait for review, by the last list that was read of it."""
        return {name: len(line.toolset.pending) for (name, _), line in self._lines.items() if line.toolset is not None}

    def _tell(self, server: str, session: str, line: ToolList, toolset: Toolset) -> None:
        now = (toolset.version, toolset.waits or any(one.waits for one in self._texts(server, session)))
        if line.told is not None and line.told != now:
            line.told = now
            self._altered(server, None if is_shared(session) else session, self.of.changed)

    # ---- reading a list ----

    async def verify(self, visit: RequestContext, meta: Mapping[str, Any]) -> Toolset:
        """Read the whole list on this line, and hold it against the book; Refused where that is not possible.

        Servers that register their tools one by one say after each that the list changed: it is read until it rests.
        """
        # Before the turn at asking: whoever has that must not wait for a message behind another who wants it.
        await visit.line.turn()
        line = self.line(visit)
        try:
            async with asyncio.timeout(self.ask_seconds), line.asking:
                for pause in pauses(self.ask_seconds):
                    await asyncio.sleep(pause)
                    # Whoever had the turn before may have read it.
                    if (found := self.current(visit)) is not None:
                        return found
                    if (found := await self._read(visit, meta, line)) is not None:
                        return found
        except TimeoutError:
            text = f"the server did not list its {self.of.member} in time, so nothing can be called"
            raise Refused(Reason.TOOLSET_UNVERIFIED, text) from None
        raise Refused(Reason.TOOLSET_UNVERIFIED, f"the server's list of {self.of.member} changes while it is read")

    async def _read(self, visit: RequestContext, meta: Mapping[str, Any], line: ToolList) -> Toolset | None:
        """Every page; None where the server said meanwhile that its list changed."""
        await self.introduce(visit, meta)
        generation = self.generation(visit.server)
        await self.warm(visit)
        part: PartialList | None = None
        params: dict[str, Any] = {}
        size = 0
        for _ in range(_PAGES_MAX):
            reply = await visit.line.ask(own_request(self.of.method, params, meta if visit.modern else {}))
            page = self.page(reply)
            if page is None:
                _check_none(reply)
            identity = self.identity(visit.server, line, page)
            if part is not None and part.identity != identity:
                return None
            part = part or self._begin(identity, generation)
            size += len(reply)
            if page is not None:
                self._take(line, part, page)
            # Beyond its bounds the list is not used, so the rest of it need not be read.
            if page is None or page.cursor is None or size > _READ_BYTES or part.measure.problem:
                return self._settle(visit, line, part) if self.generation(visit.server) == generation else None
            params = {"cursor": page.cursor}
        raise UpstreamError(Reason.UPSTREAM_TOO_LARGE, f"the server's list of {self.of.member} does not end")

    def page(self, reply: bytes) -> ListPage | None:
        """The page in a reply, as far as it is read; UpstreamError where nobody can tell."""
        return read_page(reply, self.settings.list_bytes, self.of)

    def _begin(self, identity: ServerIdentity, generation: int, cursor: str = "") -> PartialList:
        return PartialList(cursor, identity, [], [], generation, ListSize(self.settings, self.of.member))

    def _take(self, line: ToolList, part: PartialList, page: ListPage) -> list[ListedTool]:
        """Read a page's entries; none of a list that is too large already."""
        if not part.measure.announce(len(page.entries), len(page.array)):
            return []
        listed = self._listed(line, part.identity, page)
        part.listed += listed
        part.arrays.append(page.array)
        part.measure.count(listed)
        self._lines.grown(len(page.array))
        return listed

    async def warm(self, context: Context) -> None:
        """Read a server's program where that has to be read, on a thread: from then on its identity is at hand."""
        await asyncio.to_thread(self._identify, context.server, self.line(context).reported)

    def expected(self, server: str) -> ServerIdentity:
        """Who the server was when it was heard last."""
        return self._identify(server, None)

    def _identify(self, server: str, reported: str | None) -> ServerIdentity:
        """By its word on this line, by the last one that was heard, or as it was met last."""
        place = self.place(server)
        if reported is None:
            reported = self.heard.reported.get(server)
        if reported is not None:
            return as_marked(place.identify(reported), self._books.book)
        unnamed = as_marked(place.identify(""), self._books.book)
        # Another server may have had the name: elsewhere, or on this store by another command.
        met = (one for one in self.heard.recalled.get(server, {}).values() if is_named(one, unnamed))
        return next(met, unnamed)

    def place(self, server: str) -> ServerRef:
        found = self.places.get(server)
        if found is None:
            raise Refused(Reason.SERVER_UNKNOWN)
        return found

    def identity(self, server: str, line: ToolList, page: ListPage | None) -> ServerIdentity:
        """Who the server is: by its word in this answer, at the greeting of this line, or at the last one heard."""
        stamp = None if page is None else page.meta.get(SERVER_INFO_META)
        if isinstance(stamp, dict) and line.reported is None:
            reported = reported_as(stamp.get("name"), stamp.get("version"))
            self.heard.reported[server] = reported
            self.heard.stamping.add(server)
            return as_marked(self.place(server).identify(reported), self._books.book)
        self.heard.stamping.discard(server)
        return self._identify(server, line.reported)

    def _listed(self, line: ToolList, identity: ServerIdentity, page: ListPage) -> list[ListedTool]:
        listing = line.listing if line.identity == identity else self._latest.get(identity.server_id)
        # What another line has read, byte for byte, need not be read again.
        known = None if listing is None else listing.known
        reader = EntryReader(identity.server_id, self.settings, known, self.of.kind)
        return reader.read_all(page.entries)

    def _settle(self, context: Context, line: ToolList, whole: PartialList) -> Toolset:
        """A list that was read to its end is what holds on this line from now on."""
        listing = self._listing(whole, line)
        fresh = line.identity is None
        line.identity, line.listing, line.partial = whole.identity, listing, None
        line.checked, line.generation = self._clock(), whole.generation
        self._remember(context.server, whole.identity)
        toolset = self._compile(line, whole.identity, listing)
        key = self._key(context)
        self._tell(*key, line, toolset)
        self._met(ListReading(self.place(context.server), whole.identity, toolset, key[1], fresh, self.of.kind))
        return toolset

    def _remember(self, server: str, identity: ServerIdentity) -> None:
        known = self.heard.recalled.get(server, {})
        if next(iter(known), None) != identity.server_id:
            others = [one for one in known.values() if one.server_id != identity.server_id]
            self.heard.recalled[server] = {one.server_id: one for one in [identity, *others][:_RECALLED_MAX]}

    def _listing(self, whole: PartialList, line: ToolList) -> ToolListing:
        identity, measure = whole.identity, whole.measure
        known = line.listing if line.identity == identity else self._latest.get(identity.server_id)
        if measure.problem:
            # Nothing of it is used, so nothing of it is kept.
            return ToolListing((), problem=measure.problem, count=measure.tools, size=measure.size)
        if known is not None and not known.problem and known.arrays == tuple(whole.arrays):
            return known
        made = ToolListing(whole.listed)
        made.arrays = tuple(whole.arrays)
        key = (identity.server_id, made.digest)
        shared = self._listings.get(key)
        if shared is None or shared.arrays != made.arrays:
            shared = self._listings[key] = made
        self._latest[identity.server_id] = shared
        return shared

    # ---- a list that passes ----

    def passing(self, context: Context, page: ListPage, cursor: str | None, asked: int = UNREAD) -> list[bytes]:
        """The entries of a page that the client may see; with the last page the list is whole, and counts as verified.

        `cursor` is what the page was asked for with, `asked` the server's generation before that.
        """
        line = self.line(context)
        identity = self.identity(context.server, line, page)
        part = self._follow(line, identity, cursor or "", asked)
        listed = self._take(line, part, page)
        kept: list[ListedTool] = []
        if not part.measure.problem:
            book = self._books.book
            hidden = {*self.sets.held(identity.server_id, book), *doubled(part.listed)}
            if page.cursor is not None and line.listing is not None and line.identity == identity:
                # The second text may stand on a page that is still to come, as it did on the last list.
                hidden |= line.listing.doubled
            kept = [
                tool for tool in listed if tool.name not in hidden and judge(tool, identity, book, self.settings).open
            ]
            part.passed.update(tool.name for tool in kept)
        if line.partial is part:
            self._gather(context, line, part, page.cursor)
        return [] if part.measure.problem else [tool.wire for tool in kept]

    def _follow(self, line: ToolList, identity: ServerIdentity, cursor: str, asked: int) -> PartialList:
        """What was read of a list so far; a page that does not follow the one before stands for itself."""
        part = line.partial
        if not cursor:
            part = line.partial = self._begin(identity, asked)
        elif part is None or part.cursor != cursor or part.identity != identity:
            line.partial = None
            return self._begin(identity, UNREAD, cursor)
        return part

    def _gather(self, context: Context, line: ToolList, part: PartialList, onward: str | None) -> None:
        """One page more; with the last one the list is whole."""
        if onward is not None and len(part.arrays) < _PAGES_MAX and not part.measure.problem:
            part.cursor = onward
            return
        line.partial = None
        if part.generation != self.generation(context.server):
            # Out of date before it was whole. The client goes by it all the same.
            held = self.sets.held(part.identity.server_id, self._books.book)
            line.shown = Toolset(part.identity, self._listing(part, line), self._books.book, self.settings, held)
            return
        # The client gets this very list: it needs no telling, but where a page showed what the whole list does not.
        line.told = None
        toolset = line.shown = self._settle(context, line, part)
        line.told = (toolset.version, self.waits(context, toolset))
        if part.passed != toolset.open:
            server, session = self._key(context)
            self._altered(server, None if is_shared(session) else session, self.of.changed)


def _check_none(reply: bytes) -> None:
    """A server without tools says that it has no such method; anything else is no answer."""
    try:
        result = result_of(reply)
    except UpstreamError:
        result = {}
    if result is not None:
        raise Refused(Reason.TOOLSET_UNVERIFIED, "the server did not list its tools, so nothing can be called")

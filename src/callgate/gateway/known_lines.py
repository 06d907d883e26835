"""The lines to servers that a gateway remembers: bounded in number, and in what the lists on them take.

A list is the server's to make, and a line often the client's: neither may fill the gateway. What is forgotten is asked
for again when it is needed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from callgate.gate import Pass
from callgate.pinning.judging import Toolset
from callgate.pinning.listing import Listing, Measure
from callgate.pinning.model import Identity, Listed

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


class Partial(msgspec.Struct):
    """A list that passes page by page: what was read so far, and the cursor that goes on with it."""

    cursor: str
    identity: Identity
    listed: list[Listed]
    arrays: list[bytes]
    generation: int
    measure: Measure


class Line:
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
        self.identity: Identity | None = None
        self.listing: Listing | None = None
        self.toolset: Toolset | None = None
        # What was said of the tools in there that may be called; made anew with the toolset.
        self.passes: dict[str, Pass] = {}
        # What the client was given last.
        self.shown: Toolset | None = None
        # What that list came to: its version, and whether something waited.
        self.told: tuple[str, bool] | None = None
        self.partial: Partial | None = None
        self.checked = float("-inf")
        self.generation = UNREAD
        # Whether it is forgotten: a list that is read on it yet comes too late.
        self.over = False


class Lines:
    """By server and session; the one that was used longest ago is forgotten first."""

    def __init__(self, most: int = _LINES_MAX, most_bytes: int = _LISTS_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._lines: OrderedDict[Key, Line] = OrderedDict()
        # At most so much has come since the lists were last weighed.
        self._since = 0
        # For every call: the mapping's own, without a step between. `touch` wants a line that is there.
        self.get: Callable[[Key], Line | None] = self._lines.get
        self.touch: Callable[[Key], None] = self._lines.move_to_end

    def at(self, key: Key) -> Line:
        """The line, made where there is none."""
        found = self._lines.get(key)
        if found is None:
            return self.put(key, Line())
        self._lines.move_to_end(key)
        return found

    def put(self, key: Key, line: Line) -> Line:
        self._end(key)
        self._lines[key] = line
        self._lines.move_to_end(key)
        while len(self._lines) > self._most:
            self._end(next(iter(self._lines)))
        return line

    def items(self) -> list[tuple[Key, Line]]:
        return list(self._lines.items())

    def shared(self, server: str) -> Iterable[Line]:
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


def _weights(line: Line) -> Iterator[tuple[int, int]]:
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

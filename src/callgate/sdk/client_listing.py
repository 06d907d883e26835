"""Which of a server's tools need an approval, as its `tools/list` says (SEP-2672 §4.2)."""

from __future__ import annotations

import asyncio
import difflib
import math
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
from mcp import ClientSession
from mcp_types import PaginatedRequestParams, Tool, ToolListChangedNotification

from callgate.pinning.model import PENDING_TOOL
from callgate.protocol import META, REQUIRED

TOOLS: Final = 10_000
PAGES: Final = 200
_LONGEST: Final = 3600.0


class TooLarge(ValueError):
    """A listing without an end."""


class Listed(msgspec.Struct, frozen=True):
    """A tool, and whether a person has to approve its calls; not `readable` where the mark says what is not known."""

    gated: bool
    readable: bool
    schema: dict[str, Any]


class Listing:
    """The tools of one server, read page by page and kept while they hold.

    They hold until the server says that they changed. Where that is not heard (`hears` is False) they are asked for
    each time; a modern server says itself for how long (`ttlMs`).
    """

    def __init__(
        self, session: Callable[[], ClientSession], *, hears: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._session = session
        self._hears = hears
        self._clock = clock
        self._tools: dict[str, Listed] = {}
        self._until = -math.inf
        self._generation = 0
        self._lock = asyncio.Lock()

    def forget(self) -> None:
        """Ask again before the next call."""
        self._generation += 1
        self._until = -math.inf

    async def heard(self, message: object) -> None:
        """A message handler for the SDK's client."""
        if isinstance(message, ToolListChangedNotification):
            self.forget()

    async def find(self, name: str) -> Listed | None:
        """The tool; asked for again where it is not known. Raises TooLarge, and what the session raises."""
        async with self._lock:
            if self._clock() >= self._until or name not in self._tools:
                await self._read()
            return self._tools.get(name)

    @property
    def withheld(self) -> bool:
        """Whether a gateway in between says that it hides tools until somebody has reviewed them."""
        return PENDING_TOOL in self._tools

    def similar(self, name: str) -> str | None:
        """The tool that was perhaps meant."""
        names = [known for known in self._tools if known != PENDING_TOOL]
        return next(iter(difflib.get_close_matches(name, names, 1)), None)

    async def _read(self) -> None:
        generation = self._generation
        tools: dict[str, Listed] = {}
        lifetime = _LONGEST
        cursor: str | None = None
        for _ in range(PAGES):
            page = await self._session().list_tools(params=PaginatedRequestParams(cursor=cursor))
            for tool in page.tools:
                tools[tool.name] = _read_tool(tool, tools.get(tool.name))
            if len(tools) > TOOLS:
                raise TooLarge(f"the server lists more than {TOOLS} tools")
            lifetime = min(lifetime, self._lifetime(page.ttl_ms))
            cursor = page.next_cursor
            if cursor is None:
                break
        else:
            raise TooLarge(f"the server's list of tools has more than {PAGES} pages")
        self._tools = tools
        if generation == self._generation:
            self._until = self._clock() + lifetime

    def _lifetime(self, ttl_ms: int) -> float:
        if self._session().initialize_result is not None:
            return math.inf if self._hears else 0.0
        return ttl_ms / 1000


def _read_tool(tool: Tool, before: Listed | None) -> Listed:
    gated = META in (tool.meta or {})
    mark = (tool.meta or {}).get(META)
    readable = not gated or (isinstance(mark, dict) and mark.get("required") == REQUIRED)
    if before is not None:
        # The same name twice: whoever lists it so may run either, so the stricter one holds.
        gated, readable = gated or before.gated, readable and before.readable
    return Listed(gated, readable, tool.input_schema)

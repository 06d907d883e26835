"""What a tracked client learns of its server: the labels in its list of tools, and its answers to `tools/resolve`.

The SDK's types leave out the members of annotations that they do not know, so the list is read as it came.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from mcp import ClientSession, MCPError
from mcp_types import (
    METHOD_NOT_FOUND,
    ListToolsRequest,
    PaginatedRequestParams,
    Request,
    ToolListChangedNotification,
)
from pydantic import BaseModel

from callgate.errors import place
from callgate.sdk.raw_page import RawPage
from callgate.trust.critical import guess
from callgate.trust.labels import Labels
from callgate.trust.model import Annotations, ToolLabel
from callgate.trust.resolving import narrowed
from callgate.trust.vocabulary import Vocabulary

log = logging.getLogger("callgate.trust")

RESOLVE: Final = "tools/resolve"
_PAGES: Final = 200
_TOOLS: Final = 10_000
_RESOLVE_SECONDS: Final = 5.0


class _Answer(BaseModel, extra="allow"):
    """Whatever the server answers to `tools/resolve`."""

    tool: Any = None


class Learning:
    """One for each connection."""

    def __init__(
        self,
        session: Callable[[], ClientSession],
        server: str,
        labels: Labels,
        vocabulary: Vocabulary,
        *,
        resolves: bool,
        seconds: float,
    ) -> None:
        self._session = session
        self._server = server
        self._labels = labels
        self._vocabulary = vocabulary
        self._resolves = resolves
        self._seconds = seconds
        self._known = False
        self._turn = asyncio.Lock()

    async def heard(self, message: object) -> None:
        """For the SDK's message handler."""
        if isinstance(message, ToolListChangedNotification):
            self._known = False

    async def label(self, tool: str, arguments: dict[str, Any]) -> ToolLabel:
        """The label of a call, as far as it can be told before it."""
        if not self._known:
            async with self._turn:
                if not self._known:
                    await self.learn()
        label = self._labels.of(self._server, tool, arguments)
        return await self._resolved(label, arguments) if self._resolves else label

    async def learn(self) -> None:
        """Read the list. What cannot be read stays unknown, which is the strictest there is."""
        self._known = True
        try:
            async with asyncio.timeout(self._seconds):
                entries = await self._entries()
        except (MCPError, ValueError, RuntimeError, OSError, TimeoutError) as error:
            log.warning("the labels of %s's tools were not read: %s", self._server, place(error))
            self._known = False
            return
        read = {name: self._vocabulary.tool(entry) for name, entry in entries.items()}
        for name, said in read.items():
            _tell_problems(self._server, name, said)
        self._labels.declare(self._server, read, {name: guess(one.get("inputSchema")) for name, one in entries.items()})

    async def _entries(self) -> dict[str, dict[str, Any]]:
        entries: dict[str, dict[str, Any]] = {}
        cursor: str | None = None
        for _ in range(_PAGES):
            request = ListToolsRequest(params=PaginatedRequestParams(cursor=cursor))
            try:
                page = await self._session().send_request(request, RawPage)
            except MCPError as error:
                if cursor is None and error.code == METHOD_NOT_FOUND:
                    return {}
                raise
            for entry in page.raw.get("tools") or ():
                if isinstance(entry, dict) and isinstance(entry.get("name"), str) and len(entries) < _TOOLS:
                    entries[entry["name"]] = entry
            cursor = page.next_cursor or None
            if cursor is None:
                break
        return entries

    async def _resolved(self, label: ToolLabel, arguments: dict[str, Any]) -> ToolLabel:
        """As the server's answer leaves it; as it was where there is no answer to read."""
        params = {"name": label.tool, "arguments": arguments}
        try:
            async with asyncio.timeout(_RESOLVE_SECONDS):
                answer = await self._session().send_request(
                    Request[dict[str, Any], str](method=RESOLVE, params=params), _Answer
                )
        except MCPError as error:
            self._resolves = self._resolves and error.code != METHOD_NOT_FOUND
            return label
        except (ValueError, RuntimeError, OSError, TimeoutError):
            return label
        tool = answer.tool
        if not isinstance(tool, dict) or tool.get("name") != label.tool:
            return label
        return narrowed(label, self._vocabulary.tool(tool), trusted=self._labels.trusted(self._server))


def _tell_problems(server: str, tool: str, said: Annotations) -> None:
    for problem in said.problems[:3]:
        log.warning("the labels of %s on %s: %s: %s", ascii(tool)[:100], server, problem.path, problem.text)

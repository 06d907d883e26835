"""What is known of a server: its tools, which of them it marks, and whether it verifies approvals by itself."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Final

import msgspec

from callgate.approval import ApprovalPolicy, UnreadableAnnotation, read_annotation
from callgate.canonical import canonical
from callgate.errors import MessageError
from callgate.jsonrpc import peek
from callgate.pipeline.replies import AskServer, ask_for_entries, listed_tools
from callgate.protocol import CAPABILITIES, CHANGED

_TOOLS_MAX: Final = 10_000
# What was heard is believed for this long. A process tells of changes on its pipe; over HTTP they may never pass here.
FRESH_SECONDS: Final = 300.0
FRESH_SECONDS_HTTP: Final = 15.0
_VERSION_DIGITS: Final = 16


class CatalogueTool(msgspec.Struct, frozen=True, dict=True):
    """One entry of a server's list; `policy` is what its mark asks for, `problem` says why nobody can tell."""

    name: str
    entry: dict[str, Any]
    policy: ApprovalPolicy | None = None
    problem: str = ""

    @property
    def marked(self) -> bool:
        return self.policy is not None or bool(self.problem)

    @property
    def title(self) -> str | None:
        annotations = self.entry.get("annotations")
        hinted = annotations.get("title") if isinstance(annotations, dict) else None
        title = self.entry.get("title") or hinted
        return title if isinstance(title, str) else None

    @cached_property
    def version(self) -> str:
        """Digits that change with anything in the entry: its RFC 8785 form, hashed."""
        try:
            text = canonical(self.entry)
        except MessageError:
            # A number or half a character that has no canonical form is still one entry and not another.
            text = json.dumps(self.entry, sort_keys=True).encode()
        return hashlib.sha256(text).hexdigest()[:_VERSION_DIGITS]


class ToolCatalogue:
    """One server's tools, as far as lists of them have passed or were asked for.

    A server may show different clients different lists, and nobody can tell under which a call will run: a tool that
    was marked in one of them stays marked while the gateway runs. That a name is on no list is never remembered: it
    holds for one client, and only until the next call.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, fresh: float = FRESH_SECONDS) -> None:
        # Whether the server declares the capability to everybody who has asked; None until somebody has.
        self.capable: bool | None = None
        self.asking = asyncio.Lock()
        # Moves on whenever the server says that its list has changed.
        self.generation = 0
        self._clock = clock
        self._fresh = fresh
        self._tools: dict[str, tuple[CatalogueTool, float]] = {}
        self._marks: dict[str, tuple[ApprovalPolicy | None, str]] = {}

    def tool(self, name: str) -> CatalogueTool | None:
        """What is known of a tool, if that is recent."""
        known = self._tools.get(name)
        return None if known is None or known[1] < self._clock() - self._fresh else known[0]

    def remembered(self, name: str) -> CatalogueTool | None:
        """A tool that was marked once and is on no list now."""
        mark = self._marks.get(name)
        return None if mark is None else CatalogueTool(name, {"name": name}, *mark)

    @property
    def names(self) -> Iterable[str]:
        """Every tool that is on a list, as far as lists were read."""
        return self._tools.keys()

    @property
    def marked_names(self) -> Iterable[str]:
        """Every tool that was ever marked."""
        return self._marks.keys()

    def greeted(self, *, capable: bool) -> None:
        """A greeting of the server's: once it does not declare the capability to somebody, the gateway verifies."""
        self.capable = capable and self.capable is not False

    def hear(self, message: bytes) -> None:
        """A message of the server that passes: it may say that what is known has changed."""
        seen = peek(message)
        if seen is not None and seen.method == CHANGED:
            self.generation += 1
            self._tools = {name: (tool, float("-inf")) for name, (tool, _) in self._tools.items()}

    def learn(self, tools: dict[str, CatalogueTool]) -> None:
        """A page of the list that passed."""
        now = self._clock()
        for name, tool in tools.items():
            if name in self._tools or len(self._tools) < _TOOLS_MAX:
                self._tools[name] = self._still_marked(tool), now

    def learn_all(self, tools: dict[str, CatalogueTool]) -> None:
        """The whole of the list."""
        now = self._clock()
        self._tools = {name: (self._still_marked(tool), now) for name, tool in tools.items()}

    def remember(self, entry: dict[str, Any]) -> None:
        """A tool as it was approved: a mark that it had then holds, even if the server has dropped it since."""
        tool = _tool(str(entry.get("name")), entry)
        if not tool.marked or tool.name in self._marks:
            return
        self._still_marked(tool)
        known = self._tools.get(tool.name)
        if known is not None:
            self._tools[tool.name] = self._still_marked(known[0]), known[1]

    def _still_marked(self, tool: CatalogueTool) -> CatalogueTool:
        mark = self._marks.get(tool.name)
        if tool.marked:
            if mark is not None or len(self._marks) < _TOOLS_MAX:
                self._marks[tool.name] = tool.policy, tool.problem
        elif mark is not None:
            return CatalogueTool(tool.name, tool.entry, *mark)
        elif len(self._marks) >= _TOOLS_MAX:
            return CatalogueTool(tool.name, tool.entry, None, "the server has marked more tools than can be remembered")
        return tool


def read_tools(result: object) -> dict[str, CatalogueTool]:
    """The tools in a result of `tools/list`; what has no name is none."""
    return {name: _tool(name, entry) for name, entry in listed_tools(result).items()}


def _tool(name: str, entry: dict[str, Any]) -> CatalogueTool:
    try:
        return CatalogueTool(name, entry, read_annotation(entry))
    except UnreadableAnnotation as error:
        return CatalogueTool(name, entry, None, str(error))


def declares(result: object) -> bool:
    """Whether a result of `initialize` or `server/discover` has the capability, under either name (§4.3)."""
    capabilities = result.get("capabilities") if isinstance(result, dict) else None
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return isinstance(extensions, dict) and any(isinstance(extensions.get(name), dict) for name in CAPABILITIES)


async def ask_for_tools(ask: AskServer) -> dict[str, CatalogueTool]:
    """Every tool that the server lists, each with what its mark asks for."""
    return {name: _tool(name, entry) for name, entry in (await ask_for_entries(ask)).items()}

"""Tool pinning for authors of MCP clients: the tool that a person approved is the tool that runs.

    async with PinnedClient(Client(url), pins="pins.db") as client:
        tools = await client.list_tools()

The same room, the same reasons and the same refusals as in the gateway, with the approvals in a file of the client's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import msgspec
from mcp import Client
from mcp.client.session import IncomingMessage, MessageHandlerFnT
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CallToolResult, ListToolsResult

from callgate.audit import ArgumentsPolicy
from callgate.errors import CallgateError, ConfigError, Reason, Refused
from callgate.gate import Context, Gate
from callgate.pinning.identity import library_identity
from callgate.pinning.judging import Toolset
from callgate.pinning.model import Action, Pin, PinningSettings, ServerIdentity
from callgate.pinning.review.views import Review, ToolView
from callgate.pinning.service import Choice
from callgate.sdk.holding import held_open
from callgate.sdk.pinned_books import Books
from callgate.sdk.pinned_calls import Calls, settle
from callgate.sdk.pinned_check import PinCheck, Place
from callgate.sdk.pinned_hearing import Hearing
from callgate.sdk.pinned_identity import ServerIs, known
from callgate.sdk.pinned_line import Line
from callgate.sdk.pinned_seat import Seat
from callgate.sdk.pinned_store import Desk, open_desk

log = logging.getLogger("callgate.pinning")

_STORE_SECONDS = 5.0
_USUAL = PinningSettings(on_behalf_of="whoever uses this client")


class PinnedClient:
    """An `mcp` client whose tools can be seen and called only as somebody approved them.

    `pins` is the client's own file, made where there is none; its keys are in the folder `keys` beside it. `server`
    says who the server is: `library_identity(NAME, version=VERSION)`, a URL or a command; by default what the client
    connects to. `name` is what reviewers know it by. Servers of one file and `group` are seen by one agent, and
    reviewed together. `arguments` says how much of a call's arguments goes on record, `request_seconds` how long the
    server may take to list its tools.

    Everything that is refused is `callgate.errors.Refused`, with its reason; nothing was sent then.
    """

    def __init__(
        self,
        client: Client,
        *,
        pins: str | Path,
        server: ServerIs = None,
        name: str | None = None,
        group: str = "",
        settings: PinningSettings | None = None,
        arguments: Literal["whole", "redacted", "hashed"] = "redacted",
        request_seconds: float = 30.0,
    ) -> None:
        self._settings = settings or _USUAL
        if self._settings.mode != "enforce":
            text = f"a pinned client enforces its pins; it has no mode {self._settings.mode!r}"
            raise ConfigError(text, advice="Leave `mode` out, or use the mcp client without PinnedClient.")
        if _is_open(client):
            text = "this client is open already: what its server said of its tools since went unheard"
            raise ConfigError(text, advice="Give PinnedClient a Client that is not open yet, and open PinnedClient.")
        self._client = client
        self._pins = pins
        self._known = known(server, client)
        self._place = Place(name or "", group, self._known.target)
        self._policy = ArgumentsPolicy(arguments)
        self._seconds = request_seconds
        self._line = Line(lambda: client.session, self._known.identify, self._settings, seconds=request_seconds)
        client.message_handler = _both(self._line, client.message_handler)
        self._open = contextlib.AsyncExitStack()
        self._desk_: Desk | None = None

    # ---- the connection ----

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            desk = await stack.enter_async_context(open_desk(self._pins, self._settings))
            await stack.enter_async_context(held_open(self._client))
            await stack.enter_async_context(Hearing(self._client, self._line).open(self._seconds))
            place = self._named(await self._who())
            holder = secrets.token_hex(6)
            seat = Seat(desk.pins, place.name, place.group, holder)
            stack.push_async_callback(seat.leave)
            keeping = asyncio.create_task(seat.keep(), name="callgate-seat")
            stack.push_async_callback(_ended, keeping)
            books = Books(
                desk.shelf,
                desk.audit,
                self._policy,
                process=holder,
                growth_percent=self._settings.growth_percent,
                review=desk.command("review"),
            )
            self._check = PinCheck(desk, self._line, seat, books, place)
            limit = self._seconds + _STORE_SECONDS
            gate = Gate(kill_switch=desk.closed, record=books.record, pinning=self._check, limit=limit)
            where = Context(place.name, self._known.transport, None, self._client.session.protocol_version)
            self._calls = Calls(self._client, gate, self._check, books=books, line=self._line, where=where)
            self._desk_ = desk
            await self._first_look(place)
            self._open = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._desk_ = None
        await self._open.aclose()

    @property
    def _desk(self) -> Desk:
        if self._desk_ is None:
            raise RuntimeError("open PinnedClient first, with `async with`")
        return self._desk_

    async def _who(self) -> ServerIdentity:
        return await asyncio.to_thread(self._known.identify, "")

    def _named(self, identity: ServerIdentity) -> Place:
        """A server without a name of the author's is known by what it is, never by what it calls itself."""
        return self._place if self._place.name else msgspec.structs.replace(self._place, name=identity.lineage)

    async def _first_look(self, place: Place) -> None:
        """The list is checked as soon as the server is there. What cannot be checked is refused when it is used."""
        try:
            await self._check.look()
        except CallgateError as error:
            log.warning("the tools of %s were not checked: %s", place.name, error)

    @property
    def client(self) -> Client:
        """The SDK's client underneath, for resources, prompts and the rest. Tools called through it pass no gate."""
        return self._client

    # ---- what an agent uses ----

    async def list_tools(self) -> ListToolsResult:
        """The tools that may be called, of every page; what was not approved is not among them."""
        with self._desk.telling():
            found, toolset = await self._check.look()
            self._usable(toolset)
        open_ = {tool.name: tool for tool in found.tools if toolset.standing(tool.name).open}
        self._check.shown = toolset.listing
        return ListToolsResult(tools=list(open_.values()))

    def _usable(self, toolset: Toolset) -> None:
        book = self._desk.pins.book
        if book.broken:
            raise Refused(Reason.PIN_TAMPERED, f"{Reason.PIN_TAMPERED.meaning} ({book.broken})")
        if toolset.listing.problem:
            raise Refused(Reason.TOOLSET_TOO_LARGE, toolset.listing.problem)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        read_timeout_seconds: float | None = None,
        progress_callback: ProgressFnT | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
    ) -> CallToolResult:
        """Call a tool that is approved, on a list that was verified on this connection; Refused otherwise."""
        with self._desk.telling():
            wanted = settle(name, arguments, meta)
            timed = msgspec.structs.replace(wanted, seconds=read_timeout_seconds, progress=progress_callback)
            return await self._calls.run(timed)

    # ---- what a reviewer uses ----

    async def review(self) -> Review:
        """What waits, of all servers on this file: whole texts, findings, and the difference to what was approved."""
        with self._desk.telling():
            await self._check.look(anew=True)
            return await self._desk.pins.review()

    async def approve(
        self,
        tool: str,
        approval_hash: str,
        *,
        by: str,
        note: str = "",
        override: bool = False,
        shown: Review | None = None,
    ) -> Pin:
        """Approve one tool as it was reviewed: Refused where it is another by now.

        `override` overrules hard findings, and is recorded. `shown` is the review that the person had before them,
        all of it: the servers on it count as reviewed together, the approval is for the whole entry that is on it, and
        no finding is overruled that is not.
        """
        with self._desk.telling():
            _, toolset = await self._check.look(anew=True)
            server_id = toolset.identity.server_id
            choice = Choice("approve", server_id, tool, approval_hash, note, override)
            beside = [] if shown is None else [server.seen.server_id for server in shown.servers]
            view = None if shown is None else _on(shown, server_id, tool)
            if view is not None:
                choice = msgspec.structs.replace(choice, entry=view.entry_digest, shown=view.hard)
            return await self._decide(choice, by, beside)

    async def block(self, tool: str, *, by: str, note: str) -> Pin:
        """Block one tool, whatever its text becomes, until somebody approves it or withdraws this. `note` says why."""
        return await self._put("block", tool, by, note)

    async def withdraw(self, tool: str, *, by: str, note: str = "") -> Pin:
        """Take back what was decided of a tool: it waits for review again."""
        return await self._put("withdraw", tool, by, note)

    async def _put(self, action: Action, tool: str, by: str, note: str) -> Pin:
        with self._desk.telling():
            # The server need not answer for this.
            last = self._line.last
            identity = last.identity if last is not None else (await self._check.look())[0].identity
            return await self._decide(Choice(action, identity.server_id, tool, note=note), by, ())

    async def _decide(self, choice: Choice, by: str, beside: Any) -> Pin:
        made = await self._desk.pins.decide([choice], by=by, together=(choice.server_id, *beside))
        return made[0]


def _on(review: Review, server_id: str, tool: str) -> ToolView | None:
    views = (view for server in review.servers for view in server.tools)
    return next((view for view in views if (view.server_id, view.tool) == (server_id, tool)), None)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _is_open(client: Client) -> bool:
    try:
        _ = client.session
    except RuntimeError:
        return False
    return True


def _both(line: Line, then: MessageHandlerFnT | None) -> MessageHandlerFnT:
    async def handler(message: IncomingMessage) -> None:
        await line.heard(message)
        if then is not None:
            await then(message)

    return handler


__all__ = ["PinnedClient", "PinningSettings", "Review", "ServerIdentity", "library_identity"]

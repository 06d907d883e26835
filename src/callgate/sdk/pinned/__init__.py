"""Tool pinning for authors of MCP clients: the tool that a person approved is the tool that runs.

    async with PinnedClient(Client(url), pins="pins.db") as client:
        tools = await client.list_tools()

The same room, the same reasons and the same refusals as in the gateway, with the approvals in a file of the client's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import unquote

import msgspec
from mcp import Client, StdioServerParameters
from mcp.client.stdio import get_default_environment
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CallToolResult, ListToolsResult

from callgate.audit import ArgumentsPolicy
from callgate.errors import CallgateError, ConfigError, Reason, Refused
from callgate.gate import Context, Gate
from callgate.pinning.identity import http_identity, library_identity, shown, stdio_identity
from callgate.pinning.judging import Toolset
from callgate.pinning.model import Action, Pin, PinningSettings, ServerIdentity
from callgate.pinning.review.views import Review, ToolView
from callgate.pinning.service import Choice
from callgate.sdk.connection import held_open, is_open, plain_copy, when_list_changes
from callgate.sdk.pinned.calls import (
    ConnectionTools,
    GatedCalls,
    Identify,
    PinCheck,
    PinnedCall,
    PinRecorder,
    PinStore,
    ResolvedServer,
    ServerLease,
    listening_for_changes,
    open_pin_store,
)

log = logging.getLogger("callgate.pinning")

_STORE_SECONDS = 5.0
_USUAL = PinningSettings(on_behalf_of="whoever uses this client")
# An identity, a URL, a command, or a function of what the server says of itself; None: as the client connects.
ServerIs: TypeAlias = ServerIdentity | str | Sequence[str] | Identify | None
_ADVICE = "Give PinnedClient a `server`: library_identity(NAME, version=VERSION), a URL, or the command as a list."


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
        if is_open(client):
            text = "this client is open already: what its server said of its tools since went unheard"
            raise ConfigError(text, advice="Give PinnedClient a Client that is not open yet, and open PinnedClient.")
        self._client = client
        self._pins = pins
        self._server = msgspec.structs.replace(resolve_server(server, client), name=name or "", group=group)
        self._policy = ArgumentsPolicy(arguments)
        self._seconds = request_seconds
        self._tools = ConnectionTools(
            lambda: client.session, self._server.identify, self._settings, seconds=request_seconds
        )
        when_list_changes(client, self._tools.invalidate)
        self._open = contextlib.AsyncExitStack()
        self._opened: GatedCalls | None = None

    # ---- the connection ----

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            store = await stack.enter_async_context(open_pin_store(self._pins, self._settings))
            await stack.enter_async_context(held_open(self._client))
            await stack.enter_async_context(listening_for_changes(self._client, self._tools, self._seconds))
            place = await self._named()
            holder = secrets.token_hex(6)
            lease = ServerLease(store.pins, place.name, place.group, holder)
            stack.push_async_callback(lease.leave)
            keeping = asyncio.create_task(lease.keep(), name="callgate-lease")
            stack.push_async_callback(_cancel, keeping)
            recorder = PinRecorder(
                store.repository,
                store.audit,
                self._policy,
                process=holder,
                growth_percent=self._settings.growth_percent,
                review=store.command("review"),
            )
            check = PinCheck(store, self._tools, lease, recorder, place)
            limit = self._seconds + _STORE_SECONDS
            gate = Gate(kill_switch=store.closed, record=recorder.record, pinning=check, limit=limit)
            where = Context(place.name, place.transport, None, self._client.session.protocol_version)
            self._opened = GatedCalls(self._client, gate, check, where)
            # What cannot be checked now is refused when it is used.
            try:
                await check.look()
            except CallgateError as error:
                log.warning("the tools of %s were not checked: %s", place.name, error)
            self._open = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened = None
        await self._open.aclose()

    @property
    def _calls(self) -> GatedCalls:
        if self._opened is None:
            raise RuntimeError("open PinnedClient first, with `async with`")
        return self._opened

    @property
    def _check(self) -> PinCheck:
        return self._calls.check

    @property
    def _store(self) -> PinStore:
        return self._check.store

    async def _named(self) -> ResolvedServer:
        """A server without a name of the author's is known by what it is, never by what it calls itself."""
        identity = await asyncio.to_thread(self._server.identify, "")
        return self._server if self._server.name else msgspec.structs.replace(self._server, name=identity.lineage)

    @property
    def client(self) -> Client:
        """The SDK's client underneath, for resources, prompts and the rest. Tools called through it pass no gate."""
        return self._client

    # ---- what an agent uses ----

    async def list_tools(self) -> ListToolsResult:
        """The tools that may be called, of every page; what was not approved is not among them."""
        with self._store.with_advice():
            found, toolset = await self._check.look()
            self._usable(toolset)
        open_ = {tool.name: tool for tool in found.tools if toolset.standing(tool.name).open}
        self._check.shown = toolset.listing
        return ListToolsResult(tools=list(open_.values()))

    def _usable(self, toolset: Toolset) -> None:
        book = self._store.pins.book
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
        with self._store.with_advice():
            copied, form = plain_copy(arguments or {})
            sent = dict(meta or {})
            return await self._calls.run(PinnedCall(name, copied, form, sent, read_timeout_seconds, progress_callback))

    # ---- what a reviewer uses ----

    async def review(self) -> Review:
        """What waits, of all servers on this file: whole texts, findings, and the difference to what was approved."""
        with self._store.with_advice():
            await self._check.look(anew=True)
            return await self._store.pins.review()

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
        with self._store.with_advice():
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
        with self._store.with_advice():
            # The server need not answer for this.
            last = self._tools.last
            identity = last.identity if last is not None else (await self._check.look())[0].identity
            return await self._decide(Choice(action, identity.server_id, tool, note=note), by, ())

    async def _decide(self, choice: Choice, by: str, beside: Any) -> Pin:
        made = await self._store.pins.decide([choice], by=by, together=(choice.server_id, *beside))
        return made[0]


def _on(review: Review, server_id: str, tool: str) -> ToolView | None:
    views = (view for server in review.servers for view in server.tools)
    return next((view for view in views if (view.server_id, view.tool) == (server_id, tool)), None)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# The names that client authors know.
Identity, Settings = ServerIdentity, PinningSettings

__all__ = [
    "Identity",
    "PinnedClient",
    "PinningSettings",
    "Review",
    "ServerIdentity",
    "Settings",
    "library_identity",
]


def resolve_server(server: ServerIs, client: Client) -> ResolvedServer:
    """Who the server is, by the author's word or by what the client connects to; ConfigError where neither tells."""
    transport = _transport(client.server)
    if isinstance(server, ServerIdentity):
        return ResolvedServer(_as_given(server), server.lineage, transport)
    if callable(server):
        return ResolvedServer(server, "", transport)
    if server is None and isinstance(client.server, StdioServerParameters):
        return _stdio_server(client.server)
    place = client.server if server is None else server
    if isinstance(place, str):
        return _http_server(place, transport)
    if isinstance(place, Sequence) and place and all(isinstance(word, str) for word in place):
        argv = list(place)
        return ResolvedServer(lambda reported: stdio_identity(argv, reported=reported), argv[0], transport)
    raise ConfigError("it cannot be told which server this client connects to", advice=_ADVICE)


def _http_server(url: str, transport: str) -> ResolvedServer:
    if not url.lower().startswith(("http://", "https://")):
        raise ConfigError(f"{shown(url)!r} is no http:// or https:// address of a server", advice=_ADVICE)
    return ResolvedServer(lambda reported: http_identity(url, reported=reported), http_identity(url).lineage, transport)


def _stdio_server(how: StdioServerParameters) -> ResolvedServer:
    """The command with the directory and the variables that the SDK starts it with."""
    argv = [how.command, *how.args]
    cwd = None if how.cwd is None else os.fspath(how.cwd)
    environ = {**get_default_environment(), **(how.env or {})}

    def identify(reported: str) -> ServerIdentity:
        return stdio_identity(argv, cwd=cwd, environ=environ, reported=reported)

    return ResolvedServer(identify, how.command, "stdio")


def _as_given(identity: ServerIdentity) -> Identify:
    """The author's word. Without a version the server's own is added: another version is another server."""

    def identify(reported: str) -> ServerIdentity:
        if identity.kind == "library" and not identity.chosen:
            name = unquote(identity.lineage.removeprefix("library:"), errors="surrogatepass")
            return library_identity(name, reported=reported)
        return msgspec.structs.replace(identity, reported=shown(reported))

    return identify


def _transport(server: object) -> str:
    if isinstance(server, StdioServerParameters):
        return "stdio"
    return "http" if isinstance(server, str) else "library"

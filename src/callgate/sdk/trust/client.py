"""An `mcp` client whose calls are traced, labelled and decided before they leave, and whose results are labelled."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from mcp import Client, ClientSession, MCPError
from mcp.client.session import IncomingMessage
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import (
    METHOD_NOT_FOUND,
    CallToolResult,
    GetPromptResult,
    ListToolsResult,
    ReadResourceResult,
    Request,
    RequestParamsMeta,
)
from pydantic import BaseModel

from callgate.errors import ConfigError, Reason, Refused, place
from callgate.sdk.connection import AnyModel, both_handlers, held_open, plain_copy, raw_pages, when_list_changes
from callgate.sdk.trust import Judged, LabelledResult, TrustTracker
from callgate.sdk.trust.results import ReadResult, read_error, read_notice, read_result, with_warning, without_secrets
from callgate.trust.critical import guess
from callgate.trust.labels import Labels, ServerWords
from callgate.trust.model import ANNOTATIONS_META, Annotations, ToolLabel
from callgate.trust.operator import annotations_of, read_annotations
from callgate.trust.propagation import Share, outgoing
from callgate.trust.resolving import narrowed
from callgate.trust.vocabulary import Vocabulary

if TYPE_CHECKING:
    from callgate.sdk.pinned import PinnedClient

R = TypeVar("R", bound=BaseModel)

_SERVER_CHARS: Final = 128
log = logging.getLogger("callgate.trust")
RESOLVE: Final = "tools/resolve"
_TOOLS: Final = 10_000
_RESOLVE_SECONDS: Final = 5.0


class TrackedClient:
    """One server of an agent: put it around an `mcp` Client, or a PinnedClient, that is not open yet.

    `server` is what it is called in questions, rules and attribution.

    `annotations` is what you know of its tools, in the form that servers use: `{TOOL: {"annotations": {...}}}`, a tool
    by name or glob, or a file of that. It counts before what the server says. `trusted` believes the server's own
    labels; otherwise they can only make things stricter. `hints` takes its four standard hints for a start.

    `share` says how much of where data came from the server is told: `share`, `minimise` (hosts without paths) or
    `withhold`; `propagate` off sends no labels at all. `resolve` asks a trusted server with `tools/resolve` what a call
    would do before it is decided; the server sees the arguments then.

    Everything that is refused is `callgate.errors.Refused`, with its reason.
    """

    def __init__(
        self,
        client: Client | PinnedClient,
        tracker: TrustTracker,
        *,
        server: str,
        trusted: bool = False,
        annotations: Mapping[str, Any] | str | Path | None = None,
        hints: bool = False,
        share: Share = "minimise",
        propagate: bool = True,
        resolve: bool = False,
        request_seconds: float = 30.0,
    ) -> None:
        if not server or len(server) > _SERVER_CHARS or not server.isprintable():
            raise ConfigError(f"{server!r} cannot be the name of a server", advice="Choose a short, printable one.")
        if resolve and not trusted:
            raise ConfigError(
                "tools/resolve would give the arguments to a server that is not trusted, before anybody has decided",
                advice="Give trusted=True as well, or leave resolve out.",
            )
        self._client = client
        self._tracker = tracker
        self._trusted = trusted
        self._share: Share = share
        self._propagate = propagate
        words = ServerWords(trusted=trusted, hints=hints, tools=_operator_words(annotations, tracker))
        self._server = server
        self._labels = Labels({server: words})
        self._learning = ServerLabels(
            lambda: self._sdk.session,
            server,
            self._labels,
            tracker.vocabulary,
            resolves=resolve,
            seconds=request_seconds,
        )
        self._open = AsyncExitStack()
        self._sdk.message_handler = both_handlers(self._heard, self._sdk.message_handler)
        when_list_changes(self._sdk, self._learning.forget)

    # ---- the connection ----

    async def __aenter__(self) -> Self:
        # A pinned client does the same by itself.
        inner = held_open(self._client) if isinstance(self._client, Client) else self._client
        await self._open.enter_async_context(inner)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    @property
    def client(self) -> Client | PinnedClient:
        """The client underneath. What is called or read through it is not tracked."""
        return self._client

    @property
    def _sdk(self) -> Client:
        return self._client if isinstance(self._client, Client) else self._client.client

    # ---- what an agent uses ----

    async def list_tools(self) -> ListToolsResult:
        """The tools, of every page; their labels are learnt on the way."""
        await self._learning.learn()
        if not isinstance(self._client, Client):
            return await self._client.list_tools()
        tools = []
        cursor: str | None = None
        while True:
            page = await self._client.list_tools(cursor=cursor)
            tools += page.tools
            cursor = page.next_cursor or None
            if cursor is None:
                return ListToolsResult(tools=tools)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        read_timeout_seconds: float | None = None,
        progress_callback: ProgressFnT | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
    ) -> CallToolResult:
        """Call a tool if the policy allows it, or a person agrees; Refused otherwise, and nothing was sent.

        A result that was flagged has a warning for the model in front.
        """
        settled, _ = plain_copy(arguments or {})
        label = await self._learning.label(name, settled)
        judged = await self._tracker.decide(label, settled, self._tracker.vocabulary.of_meta(meta))

        async def send() -> CallToolResult:
            return await self._client.call_tool(
                name,
                json.loads(json.dumps(settled)),
                read_timeout_seconds,
                progress_callback,
                meta=self._labelled(meta, judged),
            )

        return await self._tracked(judged, send)

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Read a resource. It is a stranger's, unless a server that is trusted labels it."""
        return await self._read("resources/read", {"uri": uri}, lambda: self._sdk.read_resource(uri))

    async def get_prompt(self, name: str, arguments: dict[str, str] | None = None) -> GetPromptResult:
        """A server's prompt: its text, and not the user's."""
        given = {"name": name, "arguments": arguments or {}}
        return await self._read("prompts/get", given, lambda: self._sdk.get_prompt(name, arguments))

    # ---- how it is tracked ----

    async def _read(self, method: str, given: dict[str, Any], send: Callable[[], Awaitable[R]]) -> R:
        label = self._labels.of(self._server, method, given)
        return await self._tracked(await self._tracker.note(label, plain_copy(given)[0]), send)

    async def _heard(self, message: IncomingMessage) -> None:
        if not isinstance(message, Exception) and message.params is not None:
            label = self._labels.of(self._server, message.method, {})
            self._tracker.overhear(label, read_notice(message.params))

    async def _tracked(self, judged: Judged, send: Callable[[], Awaitable[R]]) -> R:
        try:
            result = await send()
        except Refused:
            # Something before the wire: nothing was sent, nothing was read.
            raise
        except Exception as error:
            taken = await self._taken(judged, read_error(error))
            if taken.secrets:
                # Others show the error as it is.
                raise Refused(
                    Reason.RESULT_WITHHELD, f"the server's error holds {', '.join(taken.data.secrets)}"
                ) from None
            raise
        taken = await self._taken(judged, read_result(result))
        if taken.secrets:
            result = without_secrets(result, taken.secrets)
        warnings = taken.data.warnings or ((taken.ruling.say,) if taken.ruling.has("warn") else ())
        return cast("R", with_warning(result, warnings)) if warnings and isinstance(result, CallToolResult) else result

    async def _taken(self, judged: Judged, came: ReadResult) -> LabelledResult:
        taken = await self._tracker.take(judged, came, trusted=self._trusted)
        await self._tracker.release(judged, taken.data, taken.ruling)
        return taken

    def _labelled(self, meta: Mapping[str, Any] | None, judged: Judged) -> RequestParamsMeta | None:
        """The request's `_meta` with the session's labels in it."""
        sent = dict(meta or {})
        labels = outgoing(judged.session, share=self._share, propagate=self._propagate)
        if labels is not None:
            given = sent.get(ANNOTATIONS_META)
            sent[ANNOTATIONS_META] = {**(given if isinstance(given, Mapping) else {}), **labels}
        return cast("RequestParamsMeta", sent) if sent else None


def _operator_words(annotations: Mapping[str, Any] | str | Path | None, tracker: TrustTracker) -> Mapping[str, Any]:
    if annotations is None:
        return {}
    if isinstance(annotations, str | Path):
        return read_annotations(Path(annotations), None, tracker.vocabulary)
    return annotations_of(dict(annotations), "annotations", None, tracker.vocabulary)


class ServerLabels:
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

    def forget(self) -> None:
        """Read the list again before the next call."""
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
        async for page in raw_pages(self._session()):
            for entry in page.raw.get("tools") or ():
                if isinstance(entry, dict) and isinstance(entry.get("name"), str) and len(entries) < _TOOLS:
                    entries[entry["name"]] = entry
        return entries

    async def _resolved(self, label: ToolLabel, arguments: dict[str, Any]) -> ToolLabel:
        """As the server's answer leaves it; as it was where there is no answer to read."""
        params = {"name": label.tool, "arguments": arguments}
        try:
            async with asyncio.timeout(_RESOLVE_SECONDS):
                answer = await self._session().send_request(
                    Request[dict[str, Any], str](method=RESOLVE, params=params), AnyModel
                )
        except MCPError as error:
            self._resolves = self._resolves and error.code != METHOD_NOT_FOUND
            return label
        except (ValueError, RuntimeError, OSError, TimeoutError):
            return label
        tool = (answer.model_extra or {}).get("tool")
        if not isinstance(tool, dict) or tool.get("name") != label.tool:
            return label
        return narrowed(label, self._vocabulary.tool(tool), trusted=self._labels.trusted(self._server))


def _tell_problems(server: str, tool: str, said: Annotations) -> None:
    for problem in said.problems[:3]:
        log.warning("the labels of %s on %s: %s: %s", ascii(tool)[:100], server, problem.path, problem.text)

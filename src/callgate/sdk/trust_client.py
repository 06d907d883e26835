"""An `mcp` client whose calls are traced, labelled and decided before they leave, and whose results are labelled."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from mcp import Client
from mcp.client.session import IncomingMessage, MessageHandlerFnT
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CallToolResult, GetPromptResult, ListToolsResult, ReadResourceResult, RequestParamsMeta
from pydantic import BaseModel

from callgate.canonical import canonical
from callgate.errors import ConfigError, MessageError, Reason, Refused
from callgate.sdk.holding import held_open
from callgate.sdk.trust_line import Learning
from callgate.sdk.trust_results import Read, read, read_error, read_notice, warned, without_secrets
from callgate.sdk.trust_tracker import Judged, Taken, TrustTracker
from callgate.trust.labels import Labels, ServerWords
from callgate.trust.model import ANNOTATIONS_META
from callgate.trust.operator import annotations_of, read_annotations
from callgate.trust.propagation import Share, outgoing

if TYPE_CHECKING:
    from callgate.sdk.pinned import PinnedClient

R = TypeVar("R", bound=BaseModel)

_SERVER_CHARS: Final = 128


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
        words = ServerWords(trusted=trusted, hints=hints, tools=_said(annotations, tracker))
        self._server = server
        self._labels = Labels({server: words})
        self._learning = Learning(
            lambda: self._sdk.session,
            server,
            self._labels,
            tracker.vocabulary,
            resolves=resolve,
            seconds=request_seconds,
        )
        self._open = AsyncExitStack()
        self._sdk.message_handler = _both(self._heard, self._sdk.message_handler)

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
        settled = _settled(arguments)
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
        return await self._tracked(await self._tracker.note(label, _settled(given)), send)

    async def _heard(self, message: IncomingMessage) -> None:
        await self._learning.heard(message)
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
        taken = await self._taken(judged, read(result))
        if taken.secrets:
            result = without_secrets(result, taken.secrets)
        warnings = taken.data.warnings or ((taken.ruling.say,) if taken.ruling.has("warn") else ())
        return cast("R", warned(result, warnings)) if warnings and isinstance(result, CallToolResult) else result

    async def _taken(self, judged: Judged, came: Read) -> Taken:
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


def _said(annotations: Mapping[str, Any] | str | Path | None, tracker: TrustTracker) -> Mapping[str, Any]:
    if annotations is None:
        return {}
    if isinstance(annotations, str | Path):
        return read_annotations(Path(annotations), None, tracker.vocabulary)
    return annotations_of(dict(annotations), "annotations", None, tracker.vocabulary)


def _settled(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Values of our own, which nobody can change between the decision and the wire; Refused where they are not JSON."""
    try:
        canonical(arguments or {})
        settled: dict[str, Any] = json.loads(json.dumps(dict(arguments or {})))
    except (MessageError, TypeError, ValueError, RecursionError) as error:
        text = error.message if isinstance(error, MessageError) else "the arguments are not plain JSON"
        raise Refused(Reason.ARGUMENTS_INVALID, text, advice="Send arguments that are plain JSON.") from None
    return settled


def _both(first: MessageHandlerFnT, then: MessageHandlerFnT | None) -> MessageHandlerFnT:
    async def handler(message: IncomingMessage) -> None:
        await first(message)
        if then is not None:
            await then(message)

    return handler

"""The server as the approval client sees it: its tools, its capability, its challenges, its answers."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, cast

import msgspec
from mcp import Client, ClientSession, MCPError
from mcp_types import (
    CallToolResult,
    InputRequiredResult,
    InputResponses,
    PaginatedRequestParams,
    Request,
    RequestParamsMeta,
    Tool,
)
from msgspec import Meta

from callgate.approval.action import from_base64url
from callgate.pinning.model import PENDING_TOOL
from callgate.protocol import CAPABILITIES, CHALLENGE_CREATE, META, REQUIRED, WEBAUTHN
from callgate.sdk.connection import PAGES, AnyModel, answer_requests, is_open, when_list_changes
from callgate.sdk.outcome import (
    Failed,
    NotCalled,
    RefusedByServer,
    Stopped,
    failure,
    not_called,
    refusal,
    shorten,
    timed_out,
)

# Challenge ids are remembered so that none is sent twice, even if a server hands one out twice.
_REMEMBERED: Final = 4096
_CAPABILITIES: Final = frozenset(CAPABILITIES)
_ROUNDS: Final = 10
_WHAT_THE_SDK_RAISES: Final = (MCPError, RuntimeError, ValueError, OSError)
TOOLS: Final = 10_000
_LONGEST: Final = 3600.0
# More than any arguments a server takes would fill, and less than would drown the person's screen and memory.
DISPLAY_CHARS: Final = 4_000_000
CREDENTIALS: Final = 100


class PendingCall(msgspec.Struct, frozen=True):
    """A call on its way. §4.6: the arguments are the very ones that are shown, signed and sent."""

    tool: str
    arguments: dict[str, Any]
    seconds: float | None = None


class RemoteServer:
    """Every method raises Stopped with the outcome where the server's answer ends the call."""

    def __init__(self, client: Client | ClientSession, name: str | None, seconds: float) -> None:
        self._client = client
        self._name = name
        self._seconds = seconds
        closed = isinstance(client, Client) and not is_open(client)
        self._listing = RemoteTools(lambda: self.session, hears=closed)
        if isinstance(client, Client) and closed:
            when_list_changes(client, self._listing.forget)
        self._declared: bool | None = None
        self._issued: OrderedDict[str, None] = OrderedDict()

    @property
    def session(self) -> ClientSession:
        return self._client.session if isinstance(self._client, Client) else self._client

    @property
    def name(self) -> str:
        """What the person knows the server by; what it calls itself is only the second choice."""
        if self._name is not None:
            return self._name
        info = self.session.server_info
        return shorten(info.name) if info is not None else "a server without a name"

    @property
    def rounds(self) -> int:
        """How often the server may ask for further input."""
        return self._client.input_required_max_rounds if isinstance(self._client, Client) else _ROUNDS

    async def find(self, tool: str, *, anew: bool = False) -> RemoteTool:
        """The tool as it is listed."""
        if anew:
            self._listing.forget()
        async with self._asking(tool, self._seconds, sent=False):
            try:
                listed = await self._listing.find(tool)
            except ListTooLarge as error:
                raise Stopped(not_called(tool, "listing_too_large", str(error), "Ask who runs the server.")) from None
        if listed is None:
            meant = self._listing.similar(tool)
            if self._listing.withheld:
                text = "it is not on the server's list, and tools of that server wait for review"
                raise Stopped(not_called(tool, "tools_wait", text, "`callgate review` shows those that wait."))
            advice = f"Did you mean {meant!r}?" if meant else "tools/list shows those it has."
            raise Stopped(not_called(tool, "unknown_tool", "the server lists no tool of that name", advice))
        return listed

    async def declares(self) -> bool:
        """§4.3: whether the capability is declared, under either name and whatever is in it."""
        if self._declared is None:
            self._declared = await self._look_for_capability()
        return self._declared

    async def _look_for_capability(self) -> bool:
        session = self.session
        capabilities = session.server_capabilities
        if not _CAPABILITIES.isdisjoint((capabilities.extensions if capabilities else None) or ()):
            return True
        version = session.protocol_version
        if session.initialize_result is not None or version is None:
            return False
        # A connection made without asking the server (a pinned version) has no capabilities to look at: ask now.
        try:
            raw = await session.send_discover(version)
            return not _CAPABILITIES.isdisjoint(raw["capabilities"]["extensions"])
        except (*_WHAT_THE_SDK_RAISES, KeyError, TypeError):
            return False

    async def call_plainly(self, tool: str, arguments: dict[str, Any] | None, seconds: float | None) -> CallToolResult:
        """§4.2: a tool without the mark is called as any other."""
        async with self._asking(tool, seconds, sent=True):
            return await self._client.call_tool(tool, arguments)

    async def ask(self, what: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One of the methods of §4.4; its result as it came. `what` is what it is about, in the outcome."""
        request = Request[dict[str, Any], str](method=method, params=params)
        async with self._asking(what, self._seconds, sent=False, relist=True):
            return (await self.session.send_request(request, AnyModel)).model_extra or {}

    async def challenge(self, call: PendingCall, now: Callable[[], float]) -> ReceivedChallenge:
        """§4.4.3: a challenge for exactly this call, never seen before."""
        raw = await self.ask(call.tool, CHALLENGE_CREATE, {"toolName": call.tool, "arguments": call.arguments})
        try:
            challenge = read_challenge(raw, now())
        except MalformedChallenge as error:
            raise Stopped(_malformed_challenge(call.tool, shorten(error))) from None
        if challenge.challenge_id in self._issued:
            raise Stopped(_malformed_challenge(call.tool, "it gave out the same challenge twice"))
        self._issued[challenge.challenge_id] = None
        while len(self._issued) > _REMEMBERED:
            self._issued.popitem(last=False)
        return challenge

    async def call(
        self,
        call: PendingCall,
        challenge_id: str,
        response: dict[str, Any],
        answers: InputResponses | None,
        state: str | None,
    ) -> CallToolResult | InputRequiredResult:
        """§4.5: the call with its evidence, the authenticator's response as it is."""
        evidence = {"method": WEBAUTHN, "challengeId": challenge_id, "response": response}
        async with self._asking(call.tool, call.seconds, sent=True, relist=True):
            # The session's method, not the client's: that one sends the same evidence again in some cases.
            return await self.session.call_tool(
                call.tool,
                call.arguments,
                input_responses=answers,
                request_state=state,
                meta=cast("RequestParamsMeta", {META: evidence}),
                allow_input_required=True,
            )

    async def answer(self, call: PendingCall, wanted: InputRequiredResult) -> InputResponses:
        """What the server asks the client for in between, answered by the client's own callbacks."""
        if not wanted.input_requests:
            # Asking again without input would mean signing again and again.
            raise Stopped(failure(call.tool, "the server wants the same call again", sent=True))
        try:
            return await answer_requests(self.session, wanted)
        except MCPError as error:
            raise Stopped(failure(call.tool, error.message, sent=True, code=error.code)) from None

    @contextlib.asynccontextmanager
    async def _asking(
        self, what: str, seconds: float | None, *, sent: bool, relist: bool = False
    ) -> AsyncIterator[None]:
        """A request to the server; an error or no answer is the outcome. `relist`: the listing may be old then."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise Stopped(timed_out(what, "server", sent=sent)) from None
        except _WHAT_THE_SDK_RAISES as error:
            if relist:
                self._listing.forget()
            raise Stopped(_from_error(what, error, sent=sent)) from None


def _from_error(tool: str, error: Exception, *, sent: bool) -> RefusedByServer | Failed:
    if isinstance(error, MCPError):
        return refusal(tool, error.code, error.message, error.data, sent=sent)
    return failure(tool, f"the server's answer could not be used ({type(error).__name__})", sent=sent)


def _malformed_challenge(tool: str, text: str) -> NotCalled:
    return not_called(tool, "challenge_malformed", f"the server's challenge is none ({text})", "Tell who runs it.")


class ListTooLarge(ValueError):
    """A listing without an end."""


class RemoteTool(msgspec.Struct, frozen=True):
    """A tool, and whether a person has to approve its calls; not `readable` where the mark says what is not known."""

    gated: bool
    readable: bool
    schema: dict[str, Any]


class RemoteTools:
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
        self._tools: dict[str, RemoteTool] = {}
        self._until = -math.inf
        self._generation = 0
        self._lock = asyncio.Lock()

    def forget(self) -> None:
        """Ask again before the next call."""
        self._generation += 1
        self._until = -math.inf

    async def find(self, name: str) -> RemoteTool | None:
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
        tools: dict[str, RemoteTool] = {}
        lifetime = _LONGEST
        cursor: str | None = None
        for _ in range(PAGES):
            page = await self._session().list_tools(params=PaginatedRequestParams(cursor=cursor))
            for tool in page.tools:
                tools[tool.name] = _read_tool(tool, tools.get(tool.name))
            if len(tools) > TOOLS:
                raise ListTooLarge(f"the server lists more than {TOOLS} tools")
            lifetime = min(lifetime, self._lifetime(page.ttl_ms))
            cursor = page.next_cursor
            if cursor is None:
                break
        else:
            raise ListTooLarge(f"the server's list of tools has more than {PAGES} pages")
        self._tools = tools
        if generation == self._generation:
            self._until = self._clock() + lifetime

    def _lifetime(self, ttl_ms: int) -> float:
        if self._session().initialize_result is not None:
            return math.inf if self._hears else 0.0
        return ttl_ms / 1000


def _read_tool(tool: Tool, before: RemoteTool | None) -> RemoteTool:
    gated = META in (tool.meta or {})
    mark = (tool.meta or {}).get(META)
    readable = not gated or (isinstance(mark, dict) and mark.get("required") == REQUIRED)
    if before is not None:
        # The same name twice: whoever lists it so may run either, so the stricter one holds.
        gated, readable = gated or before.gated, readable and before.readable
    return RemoteTool(gated, readable, tool.input_schema)


class _Descriptor(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=1366)]
    type: str


class _RequestOptions(msgspec.Struct, frozen=True, rename="camel"):
    challenge: Annotated[str, Meta(min_length=22, max_length=1366)]
    rp_id: Annotated[str, Meta(max_length=253)] | None = None
    allow_credentials: Annotated[list[_Descriptor], Meta(max_length=CREDENTIALS)] = []
    timeout: Annotated[float, Meta(gt=0)] | None = None


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    challenge_id: Annotated[str, Meta(min_length=1, max_length=1024)]
    display_text: Annotated[str, Meta(min_length=1, max_length=DISPLAY_CHARS)]
    expires_at: Annotated[str, Meta(max_length=64)]
    request_options: dict[str, Any]


class _User(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=88)]
    name: Annotated[str, Meta(max_length=1024)]


class _CreationOptions(msgspec.Struct, frozen=True, rename="camel"):
    rp: dict[str, Any]
    user: _User
    challenge: Annotated[str, Meta(min_length=22, max_length=1366)]
    pub_key_cred_params: Annotated[list[dict[str, Any]], Meta(max_length=CREDENTIALS)]
    exclude_credentials: Annotated[list[_Descriptor], Meta(max_length=CREDENTIALS)] = []
    timeout: Annotated[float, Meta(gt=0)] | None = None


class MalformedChallenge(ValueError):
    """The server's answer is not what it has to be."""


class ReceivedChallenge(msgspec.Struct, frozen=True):
    """A challenge as it came; `seconds` is how long it can be used from now on."""

    challenge_id: str
    display_text: str
    request_options: dict[str, Any]
    seconds: float


def read_challenge(raw: object, now: float) -> ReceivedChallenge:
    """The challenge, its request options untouched; raises Malformed."""
    try:
        envelope = msgspec.convert(raw, _Envelope)
        options = msgspec.convert(envelope.request_options, _RequestOptions)
        from_base64url(options.challenge)
        expires_at = _moment(envelope.expires_at)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise MalformedChallenge(str(error)) from None
    left = expires_at - now
    if options.timeout is not None and not 0 < left <= options.timeout / 1000:
        # The clocks here and there differ: the span that the server gives beside the moment holds on both.
        left = options.timeout / 1000
    return ReceivedChallenge(envelope.challenge_id, envelope.display_text, envelope.request_options, left)


def read_creation(raw: object) -> tuple[dict[str, Any], str, float | None]:
    """The creation options of §4.4.1 untouched, the user they are for, and the seconds they last; raises Malformed."""
    try:
        whole = raw.get("options") if isinstance(raw, dict) else None
        options = msgspec.convert(whole, _CreationOptions)
        from_base64url(options.challenge)
    except (msgspec.ValidationError, ValueError) as error:
        raise MalformedChallenge(str(error)) from None
    return (
        cast("dict[str, Any]", whole),
        options.user.name,
        options.timeout / 1000 if options.timeout is not None else None,
    )


def _moment(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()

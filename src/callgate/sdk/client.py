"""Calling tools that a person has to approve, with the `mcp` SDK's client (SEP-2672 §4.9).

challenge → show → sign → call with the evidence. What comes back is an `Outcome`, never a half-done ceremony.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import difflib
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Annotated, Any, Final, Self, TypeAlias, cast

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
from callgate.caching import BoundedCache
from callgate.errors import ConfigError, Refused
from callgate.pinning.model import PENDING_TOOL
from callgate.protocol import (
    CAPABILITIES,
    CHALLENGE_CREATE,
    ENROLL_BEGIN,
    ENROLL_FINISH,
    META,
    REQUIRED,
    TICKET,
    WEBAUTHN,
)
from callgate.sdk import authenticators
from callgate.sdk.authenticators import CreationPrompt, PasskeyAuthenticator, Prompt
from callgate.sdk.connection import PAGES, AnyModel, answer_requests, held_open, is_open, plain_copy, when_list_changes
from callgate.sdk.outcome import (
    ApprovalReason,
    Cancelled,
    Done,
    Enrolled,
    EnrolmentOutcome,
    Failed,
    NotCalled,
    Outcome,
    RefusedByServer,
    Stopped,
    TimedOut,
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
        self._issued: BoundedCache[str, int] = BoundedCache(_REMEMBERED)

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
            listed = await self._listing.find(tool)
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
        except (msgspec.ValidationError, ValueError, OverflowError) as error:
            raise _malformed_challenge(call.tool, shorten(error)) from None
        if self._issued.get(challenge.challenge_id):
            raise _malformed_challenge(call.tool, "it gave out the same challenge twice")
        self._issued.put(challenge.challenge_id, 1)
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


def _malformed_challenge(tool: str, text: str) -> Stopped:
    text = f"the server's challenge is none ({text})"
    return Stopped(not_called(tool, "challenge_malformed", text, "Tell who runs it."))


def _too_large(tool: str, text: str) -> Stopped:
    return Stopped(not_called(tool, "listing_too_large", text, "Ask who runs the server."))


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
        """The tool; asked for again where it is not known. Raises Stopped, and what the session raises."""
        async with self._lock:
            if self._clock() >= self._until or name not in self._tools:
                await self._read(name)
            return self._tools.get(name)

    @property
    def withheld(self) -> bool:
        """Whether a gateway in between says that it hides tools until somebody has reviewed them."""
        return PENDING_TOOL in self._tools

    def similar(self, name: str) -> str | None:
        """The tool that was perhaps meant."""
        names = [known for known in self._tools if known != PENDING_TOOL]
        return next(iter(difflib.get_close_matches(name, names, 1)), None)

    async def _read(self, name: str) -> None:
        generation = self._generation
        tools: dict[str, RemoteTool] = {}
        lifetime = _LONGEST
        cursor: str | None = None
        for _ in range(PAGES):
            page = await self._session().list_tools(params=PaginatedRequestParams(cursor=cursor))
            for tool in page.tools:
                tools[tool.name] = _read_tool(tool, tools.get(tool.name))
            if len(tools) > TOOLS:
                raise _too_large(name, f"the server lists more than {TOOLS} tools")
            lifetime = min(lifetime, self._lifetime(page.ttl_ms))
            cursor = page.next_cursor
            if cursor is None:
                break
        else:
            raise _too_large(name, f"the server's list of tools has more than {PAGES} pages")
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


class ReceivedChallenge(msgspec.Struct, frozen=True):
    """A challenge as it came; `seconds` is how long it can be used from now on."""

    challenge_id: str
    display_text: str
    request_options: dict[str, Any]
    seconds: float


def read_challenge(raw: object, now: float) -> ReceivedChallenge:
    """The challenge, its request options untouched; raises ValueError, ValidationError or OverflowError."""
    envelope = msgspec.convert(raw, _Envelope)
    options = msgspec.convert(envelope.request_options, _RequestOptions)
    from_base64url(options.challenge)
    left = _moment(envelope.expires_at) - now
    if options.timeout is not None and not 0 < left <= options.timeout / 1000:
        # The clocks here and there differ: the span that the server gives beside the moment holds on both.
        left = options.timeout / 1000
    return ReceivedChallenge(envelope.challenge_id, envelope.display_text, envelope.request_options, left)


def read_creation(raw: object) -> tuple[dict[str, Any], str, float | None]:
    """The creation options of §4.4.1 untouched, the user they are for, and the seconds they last; raises ValueError or
    ValidationError."""
    whole = raw.get("options") if isinstance(raw, dict) else None
    options = msgspec.convert(whole, _CreationOptions)
    from_base64url(options.challenge)
    lasts = options.timeout / 1000 if options.timeout is not None else None
    return cast("dict[str, Any]", whole), options.user.name, lasts


def _moment(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


log = logging.getLogger("callgate.sdk")

Show: TypeAlias = Callable[[Prompt], Awaitable[None]]

_ENROLMENT: Final = "enrolment"
_DEPTH: Final = 32


class ApprovalClient:
    """An `mcp` client that has its calls approved where the server asks for it.

    `show` puts the prompt in front of the person and returns when they want to go on (raise
    `authenticators.Cancelled` if they do not); an authenticator that shows prompts itself needs none. `server` is the
    name that the person knows the server by. `strict` refuses tools that are marked by a server without the
    capability. `fill_defaults` writes the defaults of the tool's schema into the arguments, so that they are shown and
    signed. `timeout` bounds the wait for the person, `request_seconds` each request to the server but the call itself.

    Give it a `Client` that is not open yet and open this instead (`async with`): then it hears when the server's tools
    change. Around an open client or a session it lists the tools before each call.
    """

    def __init__(
        self,
        client: Client | ClientSession,
        authenticator: PasskeyAuthenticator,
        *,
        show: Show | None = None,
        server: str | None = None,
        strict: bool = False,
        fill_defaults: bool = False,
        timeout: float = 300.0,
        request_seconds: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if show is None and not authenticator.shows:
            raise ConfigError(
                "nobody would see what they approve: this authenticator shows nothing",
                advice="Give ApprovalClient a `show` function that displays prompt.display_text as it is.",
            )
        self._client = client
        self._server = RemoteServer(client, server, request_seconds)
        self._authenticator = authenticator
        self._show = show
        self._strict = strict
        self._fill_defaults = fill_defaults
        self._timeout = timeout
        self._clock = clock
        self._warned: set[str] = set()
        # One person reads and signs one thing at a time.
        self._person = asyncio.Lock()
        self._open = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(held_open(self._client))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    @property
    def session(self) -> ClientSession:
        """The SDK's session underneath."""
        return self._server.session

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, *, call_seconds: float | None = None
    ) -> Outcome:
        """Call a tool, with a person's approval if it needs one. `call_seconds` bounds the call itself."""
        try:
            listed = await self._server.find(name)
            if not listed.gated:
                try:
                    result = await self._server.call_plainly(name, arguments, call_seconds)
                    return Done(name, result, approved=False)
                except Stopped as stopped:
                    if not _wants_evidence(stopped.outcome):
                        raise
                    # It may have been marked since it was listed; nothing ran.
                    listed = await self._server.find(name, anew=True)
                    if not listed.gated:
                        raise
            return await self._call_approved(name, arguments or {}, listed, call_seconds)
        except Stopped as stopped:
            return stopped.outcome

    async def enrol(self, ticket: str | None = None) -> EnrolmentOutcome:
        """§4.4.1 and §4.4.2: make a passkey and give it to the server; `ticket` is what allows it there."""
        params = {} if ticket is None else {"_meta": {TICKET: ticket}}
        try:
            async with self._person:
                raw = await self._server.ask(_ENROLMENT, ENROLL_BEGIN, params)
                response = await self._create(raw)
                made = await self._server.ask(_ENROLMENT, ENROLL_FINISH, {"response": response})
        except Stopped as stopped:
            return stopped.outcome
        return Enrolled(shorten(made.get("credentialId", "")))

    async def _create(self, raw: dict[str, Any]) -> dict[str, Any]:
        try:
            options, user, lasts = read_creation(raw)
        except (msgspec.ValidationError, ValueError) as error:
            text = f"the server's options are none ({shorten(error)})"
            raise Stopped(not_called(_ENROLMENT, "challenge_malformed", text, "Tell who runs it.")) from None
        seconds = min(lasts or self._timeout, self._timeout)
        prompt = CreationPrompt(
            server=self._server.name, user=user, creation_options=options, expires_at=self._clock() + seconds
        )
        async with _ask_person(_ENROLMENT, seconds):
            return await self._authenticator.create(prompt)

    async def _call_approved(
        self, name: str, arguments: dict[str, Any], listed: RemoteTool, seconds: float | None
    ) -> Outcome:
        if not listed.readable:
            # §4.2: a value of `required` that a later revision may define never means that no approval is needed.
            text = "the server asks for an approval of a kind that is not known here"
            raise Stopped(not_called(name, "unknown_annotation", text, "Use a newer client."))
        await self._check_capability(name)
        call = PendingCall(name, self._settled(name, arguments, listed), seconds)
        result = await self._approve_and_call(call)
        for _ in range(self._server.rounds):
            if isinstance(result, CallToolResult):
                return Done(name, result, approved=True)
            answers = await self._server.answer(call, result)
            result = await self._approve_and_call(call, answers, result.request_state)
        return failure(name, "the server asked for further input too often", sent=True)

    async def _check_capability(self, name: str) -> None:
        """§4.3: a mark without the capability is the server's inconsistency: told of, and in strict mode refused."""
        if await self._server.declares():
            return
        if name not in self._warned:
            self._warned.add(name)
            log.warning(
                "the tool %r is marked for verified approval, but its server does not declare the capability",
                shorten(name),
                extra={"fields": {"tool": shorten(name), "server": self._server.name}},
            )
        if self._strict:
            text = "the server marks it for approval without declaring that it can verify one"
            raise Stopped(not_called(name, "capability_missing", text, "Ask who runs the server, or be less strict."))

    def _settled(self, name: str, arguments: dict[str, Any], listed: RemoteTool) -> dict[str, Any]:
        """§4.6: one value for the challenge and the call, which nobody can change in between."""
        try:
            return plain_copy(fill_defaults(listed.schema, arguments) if self._fill_defaults else arguments)[0]
        except Refused as refused:
            raise Stopped(not_called(name, "arguments_invalid", refused.message, refused.advice)) from None
        except RecursionError:
            text, advice = "the arguments are not plain JSON", "Send arguments that are plain JSON."
            raise Stopped(not_called(name, "arguments_invalid", text, advice)) from None

    async def _approve_and_call(
        self, call: PendingCall, answers: InputResponses | None = None, state: str | None = None
    ) -> CallToolResult | InputRequiredResult:
        """§4.9: each call has a challenge of its own, asked for directly before."""
        async with self._person:
            challenge = await self._server.challenge(call, self._clock)
            response = await self._sign(call, challenge)
        return await self._server.call(call, challenge.challenge_id, response, answers, state)

    async def _sign(self, call: PendingCall, challenge: ReceivedChallenge) -> dict[str, Any]:
        """Show, and only then sign."""
        seconds = max(min(challenge.seconds, self._timeout), 0.0)
        prompt = Prompt(
            display_text=challenge.display_text,
            tool=call.tool,
            server=self._server.name,
            request_options=challenge.request_options,
            expires_at=self._clock() + seconds,
            arguments=call.arguments,
        )
        async with _ask_person(call.tool, seconds):
            if self._show is not None:
                await self._show(prompt)
            return await self._authenticator.get(prompt)


@contextlib.asynccontextmanager
async def _ask_person(what: str, seconds: float) -> AsyncIterator[None]:
    """A question to the person, and the ways in which it can go without an answer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except (TimeoutError, authenticators.CeremonyTimedOut):
        raise Stopped(timed_out(what, "person", sent=False)) from None
    except authenticators.CeremonyCancelled as said:
        raise Stopped(Cancelled(what, f"{what}: {said.message}")) from None
    except authenticators.NoPasskey as said:
        raise Stopped(not_called(what, "no_passkey", said.message, said.advice)) from None


def _wants_evidence(outcome: Outcome) -> bool:
    return isinstance(outcome, RefusedByServer) and outcome.reason == "missing_evidence"


__all__ = [
    "ApprovalClient",
    "ApprovalReason",
    "Cancelled",
    "Done",
    "Enrolled",
    "EnrolmentOutcome",
    "Failed",
    "NotCalled",
    "Outcome",
    "RefusedByServer",
    "Show",
    "TimedOut",
]


def fill_defaults(schema: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with every default that the schema has for what is not there; what is there stays."""
    filled = _fill(schema, arguments, schema, _DEPTH)
    return filled if isinstance(filled, dict) else arguments


def _fill(schema: Any, value: Any, root: Any, depth: int) -> Any:
    schema = _resolve_ref(schema, root)
    if schema is None or depth == 0:
        return value
    if isinstance(value, dict):
        properties = schema.get("properties")
        whole = dict(value)
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            meant = _resolve_ref(inner, root)
            if name not in whole and meant is not None and "default" in meant:
                whole[name] = copy.deepcopy(meant["default"])
            if name in whole:
                whole[name] = _fill(inner, whole[name], root, depth - 1)
        return whole
    if isinstance(value, list) and "items" in schema:
        return [_fill(schema["items"], item, root, depth - 1) for item in value]
    return value


def _resolve_ref(schema: Any, root: Any) -> dict[str, Any] | None:
    """A schema, or the one in the same document that it refers to; its own members come first."""
    if not isinstance(schema, dict):
        return None
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema
    target = root
    for step in reference.removeprefix("#/").split("/"):
        target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
    return {**target, **schema} if isinstance(target, dict) else schema

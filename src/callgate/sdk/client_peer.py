"""The server as the approval client sees it: its tools, its capability, its challenges, its answers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import msgspec
from mcp import Client, ClientSession, MCPError
from mcp.client.session import ClientRequestContext, IncomingMessage, MessageHandlerFnT
from mcp_types import CallToolResult, ErrorData, InputRequiredResult, InputResponses, Request, RequestParamsMeta
from pydantic import BaseModel, ConfigDict

from callgate.protocol import CAPABILITIES, CHALLENGE_CREATE, META, WEBAUTHN
from callgate.sdk.client_challenge import Malformed, Received, read_challenge
from callgate.sdk.client_listing import Listed, Listing, TooLarge
from callgate.sdk.client_outcome import (
    Failed,
    NotCalled,
    RefusedByServer,
    Stopped,
    bounded,
    failure,
    late,
    not_called,
    refusal,
)

# Challenge ids are remembered so that none is sent twice, even if a server hands one out twice.
_REMEMBERED: Final = 4096
_CAPABILITIES: Final = frozenset(CAPABILITIES)
_ROUNDS: Final = 10
_WHAT_THE_SDK_RAISES: Final = (MCPError, RuntimeError, ValueError, OSError)


class _Reply(BaseModel):
    """Any result; what is in it is looked at later."""

    model_config = ConfigDict(extra="allow")


class Call(msgspec.Struct, frozen=True):
    """A call on its way. §4.6: the arguments are the very ones that are shown, signed and sent."""

    tool: str
    arguments: dict[str, Any]
    seconds: float | None = None


class Peer:
    """Every method raises Stopped with the outcome where the server's answer ends the call."""

    def __init__(self, client: Client | ClientSession, name: str | None, seconds: float) -> None:
        self._client = client
        self._name = name
        self._seconds = seconds
        closed = isinstance(client, Client) and not _is_open(client)
        self._listing = Listing(lambda: self.session, hears=closed)
        if isinstance(client, Client) and closed:
            client.message_handler = _both(self._listing.heard, client.message_handler)
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
        return bounded(info.name) if info is not None else "a server without a name"

    @property
    def rounds(self) -> int:
        """How often the server may ask for further input."""
        return self._client.input_required_max_rounds if isinstance(self._client, Client) else _ROUNDS

    async def find(self, tool: str, *, anew: bool = False) -> Listed:
        """The tool as it is listed."""
        if anew:
            self._listing.forget()
        try:
            async with asyncio.timeout(self._seconds):
                listed = await self._listing.find(tool)
        except TimeoutError:
            raise Stopped(late(tool, "server", sent=False)) from None
        except TooLarge as error:
            raise Stopped(not_called(tool, "listing_too_large", str(error), "Ask who runs the server.")) from None
        except _WHAT_THE_SDK_RAISES as error:
            raise Stopped(_from_error(tool, error, sent=False)) from None
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
        try:
            async with asyncio.timeout(seconds):
                return await self._client.call_tool(tool, arguments)
        except TimeoutError:
            raise Stopped(late(tool, "server", sent=True)) from None
        except _WHAT_THE_SDK_RAISES as error:
            raise Stopped(_from_error(tool, error, sent=True)) from None

    async def ask(self, what: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One of the methods of §4.4; its result as it came. `what` is what it is about, in the outcome."""
        request = Request[dict[str, Any], str](method=method, params=params)
        try:
            async with asyncio.timeout(self._seconds):
                return (await self.session.send_request(request, _Reply)).model_extra or {}
        except TimeoutError:
            raise Stopped(late(what, "server", sent=False)) from None
        except _WHAT_THE_SDK_RAISES as error:
            raise Stopped(self._refused(what, error, sent=False)) from None

    async def challenge(self, call: Call, now: Callable[[], float]) -> Received:
        """§4.4.3: a challenge for exactly this call, never seen before."""
        raw = await self.ask(call.tool, CHALLENGE_CREATE, {"toolName": call.tool, "arguments": call.arguments})
        try:
            challenge = read_challenge(raw, now())
        except Malformed as error:
            raise Stopped(_malformed(call.tool, bounded(error))) from None
        if challenge.challenge_id in self._issued:
            raise Stopped(_malformed(call.tool, "it gave out the same challenge twice"))
        self._issued[challenge.challenge_id] = None
        while len(self._issued) > _REMEMBERED:
            self._issued.popitem(last=False)
        return challenge

    async def call(
        self,
        call: Call,
        challenge_id: str,
        response: dict[str, Any],
        answers: InputResponses | None,
        state: str | None,
    ) -> CallToolResult | InputRequiredResult:
        """§4.5: the call with its evidence, the authenticator's response as it is."""
        evidence = {"method": WEBAUTHN, "challengeId": challenge_id, "response": response}
        try:
            # The session's method, not the client's: that one sends the same evidence again in some cases.
            async with asyncio.timeout(call.seconds):
                return await self.session.call_tool(
                    call.tool,
                    call.arguments,
                    input_responses=answers,
                    request_state=state,
                    meta=cast("RequestParamsMeta", {META: evidence}),
                    allow_input_required=True,
                )
        except TimeoutError:
            raise Stopped(late(call.tool, "server", sent=True)) from None
        except _WHAT_THE_SDK_RAISES as error:
            raise Stopped(self._refused(call.tool, error, sent=True)) from None

    async def answer(self, call: Call, wanted: InputRequiredResult) -> InputResponses:
        """What the server asks the client for in between, answered by the client's own callbacks."""
        if not wanted.input_requests:
            # Asking again without input would mean signing again and again.
            raise Stopped(failure(call.tool, "the server wants the same call again", sent=True))
        answers: InputResponses = {}
        for key, request in wanted.input_requests.items():
            meta = request.params.meta if request.params else None
            context = ClientRequestContext(session=self.session, request_id=key, meta=meta)
            answer = await self.session.dispatch_input_request(context, request)
            if isinstance(answer, ErrorData):
                raise Stopped(failure(call.tool, answer.message, sent=True, code=answer.code))
            answers[key] = answer
        return answers

    def _refused(self, tool: str, error: Exception, *, sent: bool) -> RefusedByServer | Failed:
        # The listing may be old: it is asked for again before the next call.
        self._listing.forget()
        return _from_error(tool, error, sent=sent)


def _is_open(client: Client) -> bool:
    try:
        _ = client.session
    except RuntimeError:
        return False
    return True


def _both(first: Callable[[object], Awaitable[None]], then: MessageHandlerFnT | None) -> MessageHandlerFnT:
    async def handler(message: IncomingMessage) -> None:
        await first(message)
        if then is not None:
            await then(message)

    return handler


def _from_error(tool: str, error: Exception, *, sent: bool) -> RefusedByServer | Failed:
    if isinstance(error, MCPError):
        return refusal(tool, error.code, error.message, error.data, sent=sent)
    return failure(tool, f"the server's answer could not be used ({type(error).__name__})", sent=sent)


def _malformed(tool: str, text: str) -> NotCalled:
    return not_called(tool, "challenge_malformed", f"the server's challenge is none ({text})", "Tell who runs it.")

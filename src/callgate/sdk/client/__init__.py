"""Calling tools that a person has to approve, with the `mcp` SDK's client (SEP-2672 §4.9).

challenge → show → sign → call with the evidence. What comes back is an `Outcome`, never a half-done ceremony.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from mcp import Client, ClientSession
from mcp_types import CallToolResult, InputRequiredResult, InputResponses

from callgate.errors import ConfigError, Refused
from callgate.protocol import ENROLL_BEGIN, ENROLL_FINISH, TICKET
from callgate.sdk import authenticators
from callgate.sdk.authenticators import CreationPrompt, PasskeyAuthenticator, Prompt
from callgate.sdk.client.remote import (
    MalformedChallenge,
    PendingCall,
    ReceivedChallenge,
    RemoteServer,
    RemoteTool,
    read_creation,
)
from callgate.sdk.connection import held_open, plain_copy
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
    shorten,
    timed_out,
)

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
        except MalformedChallenge as error:
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

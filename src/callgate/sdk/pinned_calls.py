"""Calls of a pinned client: each message that leaves passes the gate, also where a server asks for further input."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
from mcp import Client, InputRequiredRoundsExceededError, MCPError
from mcp.client.extension import UnexpectedClaimedResult
from mcp.client.session import ClientRequestContext
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import (
    HEADER_MISMATCH,
    CallToolResult,
    ErrorData,
    InputRequiredResult,
    InputResponses,
    RequestParamsMeta,
    Result,
)

from callgate.canonical import canonical
from callgate.errors import MessageError, Reason, Refused
from callgate.gate import Call, Context, Gate
from callgate.sdk.pinned_books import Books
from callgate.sdk.pinned_check import PinCheck
from callgate.sdk.pinned_line import Line

_PAUSE_SECONDS: Final = 0.05
_PAUSE_MOST: Final = 0.25


class Wanted(msgspec.Struct, frozen=True):
    """What the author calls: nobody can change it between the gate and the wire."""

    tool: str
    arguments: dict[str, Any]
    form: bytes
    meta: Mapping[str, Any]
    seconds: float | None = None
    progress: ProgressFnT | None = None


class Calls:
    """Puts calls before the gate, and sends those that pass."""

    def __init__(
        self, client: Client, gate: Gate, check: PinCheck, *, books: Books, line: Line, where: Context
    ) -> None:
        self._client = client
        self._gate = gate
        self._check = check
        self._books = books
        self._line = line
        self._where = where

    async def run(self, wanted: Wanted) -> CallToolResult:
        """The result, after as many rounds of further input as the SDK's client allows."""
        answers: InputResponses | None = None
        state: str | None = None
        pause = _PAUSE_SECONDS
        most = self._client.input_required_max_rounds
        for _ in range(most + 1):
            result = await self._send(wanted, answers, state)
            if isinstance(result, CallToolResult):
                return result
            if not isinstance(result, InputRequiredResult):
                raise UnexpectedClaimedResult(result)
            if result.input_requests:
                answers = await self._answer(result)
            else:
                await asyncio.sleep(pause)
                answers, pause = None, min(2 * pause, _PAUSE_MOST)
            state = result.request_state
        raise InputRequiredRoundsExceededError(most)

    async def _send(self, wanted: Wanted, answers: InputResponses | None, state: str | None) -> Result:
        try:
            return await self._once(wanted, answers, state)
        except MCPError as error:
            if error.code != HEADER_MISMATCH or self._client.session.initialize_result is not None:
                raise
            # 2026-07-28: the server goes by another schema than it listed. It has to list it first.
            self._line.outdate()
            return await self._once(wanted, answers, state)

    async def _once(self, wanted: Wanted, answers: InputResponses | None, state: str | None) -> Result:
        call = self._call(wanted)
        decision = await self._gate.decide(call)
        if decision.refused is not None:
            raise decision.refused
        late = self._gate.closed() or self._check.last_look(call)
        if late is not None:
            self._books.failed(call, "blocked", 0.0, late.code)
            raise late
        begun = time.monotonic()
        try:
            # The session's method, not the client's: that one sends again by itself, past the gate.
            result = await self._client.session.call_tool(
                wanted.tool,
                wanted.arguments,
                read_timeout_seconds=wanted.seconds,
                progress_callback=wanted.progress,
                input_responses=answers,
                request_state=state,
                meta=cast("RequestParamsMeta", dict(wanted.meta)) if wanted.meta else None,
                allow_input_required=True,
                allow_claimed=True,
            )
        except MCPError as error:
            self._books.failed(call, "error", time.monotonic() - begun, error.code)
            raise
        except BaseException as error:
            outcome = "cancelled" if isinstance(error, asyncio.CancelledError) else "lost"
            self._books.failed(call, outcome, time.monotonic() - begun)
            raise
        self._books.answered(call, result, time.monotonic() - begun)
        return result

    def _call(self, wanted: Wanted) -> Call:
        at = self._books.now()
        number = f"{at:012x}{secrets.token_hex(10)}"
        return Call(number, at, wanted.tool, wanted.arguments, wanted.form, b"", wanted.meta, self._where)

    async def _answer(self, wanted: InputRequiredResult) -> InputResponses:
        """What the server asks for in between, answered by the client's own callbacks."""
        session = self._client.session
        answers: InputResponses = {}
        for key, request in (wanted.input_requests or {}).items():
            meta = request.params.meta if request.params else None
            context = ClientRequestContext(session=session, request_id=key, meta=meta)
            answer = await session.dispatch_input_request(context, request)
            if isinstance(answer, ErrorData):
                raise MCPError.from_error_data(answer)
            answers[key] = answer
        return answers


def settle(tool: str, arguments: Mapping[str, Any] | None, meta: Mapping[str, Any] | None) -> Wanted:
    """A call with values of its own; Refused where the arguments are not plain JSON."""
    try:
        form = canonical(arguments or {})
        copied: dict[str, Any] = json.loads(json.dumps(arguments or {}))
    except (MessageError, TypeError, ValueError, RecursionError) as error:
        text = error.message if isinstance(error, MessageError) else "the arguments are not plain JSON"
        raise Refused(Reason.ARGUMENTS_INVALID, text, advice="Send arguments that are plain JSON.") from None
    return Wanted(tool, copied, form, dict(meta or {}))

"""What the clients here share: a connection in a task of its own, raw pages of a tool list, message handlers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from mcp import Client, ClientSession, MCPError
from mcp.client.session import ClientRequestContext, IncomingMessage, MessageHandlerFnT
from mcp_types import (
    METHOD_NOT_FOUND,
    ErrorData,
    InputRequiredResult,
    InputResponses,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
    ToolListChangedNotification,
)
from pydantic import BaseModel, ModelWrapValidatorHandler, PrivateAttr, model_validator

from callgate.canonical import canonical
from callgate.errors import MessageError, Reason, Refused

PAGES: Final = 200


@contextlib.asynccontextmanager
async def held_open(client: Client | ClientSession) -> AsyncIterator[None]:
    """The client, open for as long as the block lasts, in a task of its own.

    Where a connection breaks, the SDK cancels the task that opened it.
    """
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def hold() -> None:
        try:
            async with client:
                ready.set_result(None)
                await leave.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    task = asyncio.create_task(hold(), name="callgate-connection")
    try:
        await ready
        yield
    finally:
        leave.set()
        if not ready.done() or ready.cancelled():
            task.cancel()
        # A connection that broke was told of by the call that it broke.
        await asyncio.gather(task, return_exceptions=True)


class AnyModel(BaseModel, extra="allow"):
    """Whatever a peer sends: it is read as it came, not as a model would have it."""


class RawPage(ListToolsResult):
    """A page that remembers what it was made from."""

    _raw: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _remember(cls, data: Any, handler: ModelWrapValidatorHandler[RawPage]) -> RawPage:
        made = handler(data)
        made._raw = data if isinstance(data, dict) else {}  # noqa: SLF001 - its own
        return made

    @property
    def raw(self) -> dict[str, Any]:
        return self._raw


async def raw_pages(session: ClientSession, most: int = PAGES) -> AsyncIterator[RawPage]:
    """The list of tools page by page, at most so many pages; a server without tools has one empty page."""
    cursor: str | None = None
    for _ in range(most):
        request = ListToolsRequest(params=PaginatedRequestParams(cursor=cursor))
        try:
            page = await session.send_request(request, RawPage)
        except MCPError as error:
            if cursor is not None or error.code != METHOD_NOT_FOUND:
                raise
            page = RawPage(tools=[])
        yield page
        cursor = page.next_cursor or None
        if cursor is None:
            return


async def answer_requests(session: ClientSession, wanted: InputRequiredResult) -> InputResponses:
    """What a server asks for in between, answered by the client's own callbacks; MCPError where one of them fails."""
    answers: InputResponses = {}
    for key, request in (wanted.input_requests or {}).items():
        meta = request.params.meta if request.params else None
        context = ClientRequestContext(session=session, request_id=key, meta=meta)
        answer = await session.dispatch_input_request(context, request)
        if isinstance(answer, ErrorData):
            raise MCPError.from_error_data(answer)
        answers[key] = answer
    return answers


def is_open(client: Client) -> bool:
    try:
        _ = client.session
    except RuntimeError:
        return False
    return True


def both_handlers(first: Callable[[Any], Awaitable[None]], then: MessageHandlerFnT | None) -> MessageHandlerFnT:
    """A message handler of ours in front of the author's own."""

    async def handler(message: IncomingMessage) -> None:
        await first(message)
        if then is not None:
            await then(message)

    return handler


def when_list_changes(client: Client, changed: Callable[[], None]) -> None:
    """Call `changed` whenever the server says that its list of tools did; for a client that is not open yet."""

    async def heard(message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed()

    client.message_handler = both_handlers(heard, client.message_handler)


def plain_copy(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Values of our own, which nobody can change before they are sent, and their canonical form (SEP-2672 §4.6).

    Refused where the arguments are not plain JSON.
    """
    try:
        form = canonical(arguments)
        return json.loads(json.dumps(dict(arguments))), form
    except (MessageError, TypeError, ValueError, RecursionError) as error:
        text = error.message if isinstance(error, MessageError) else "the arguments are not plain JSON"
        raise Refused(Reason.ARGUMENTS_INVALID, text, advice="Send arguments that are plain JSON.") from None

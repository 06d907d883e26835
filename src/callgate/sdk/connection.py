"""What the clients here share: a connection in a task of its own, raw pages of a tool list, message handlers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from mcp import Client, ClientSession
from mcp.client.session import IncomingMessage, MessageHandlerFnT
from mcp_types import ListToolsResult
from pydantic import ModelWrapValidatorHandler, PrivateAttr, model_validator

from callgate.canonical import canonical
from callgate.errors import MessageError, Reason, Refused


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

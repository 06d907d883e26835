"""The `mcp` SDK's client on every way to the everything server: directly, and through the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client._transport import Transport
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.stdio import stdio_client
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

MODES: Final = ("auto", "legacy", LATEST_MODERN_VERSION)
PATIENCE: Final = 60.0


@dataclass
class Witness:
    """What the server told or asked the client besides answering it."""

    logs: list[types.LoggingMessageNotificationParams] = field(default_factory=list)
    messages: list[Any] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append(params)

    async def message(self, message: IncomingMessage) -> None:
        self.messages.append(message)

    async def elicit(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.questions.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Åsa"})

    async def sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        self.questions.append(str(params.max_tokens))
        return types.CreateMessageResult(
            role="assistant", model="small", content=types.TextContent(type="text", text="4")
        )

    def heard(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.messages if isinstance(message, kind)]


@dataclass
class Connection:
    """A connected client, the mode it connected in, and where the server marks what happens to it."""

    client: Client
    mode: str
    witness: Witness
    marks: Path

    @property
    def modern(self) -> bool:
        return self.mode != "legacy"

    @property
    def version(self) -> str:
        return LATEST_MODERN_VERSION if self.modern else LATEST_HANDSHAKE_VERSION


def over_stdio(argv: list[str], errors: Path) -> Transport:
    """A client's transport that starts a command; its stderr goes to a file."""
    parameters = StdioServerParameters(command=argv[0], args=argv[1:], env=dict(os.environ))

    @contextlib.asynccontextmanager
    async def transport() -> AsyncIterator[Any]:
        with errors.open("a", encoding="utf-8") as log:
            async with stdio_client(parameters, errlog=log) as streams:
                yield streams

    return transport()


@contextlib.asynccontextmanager
async def connected(server: str | Transport, mode: str, marks: Path) -> AsyncIterator[Connection]:
    """Hold a connection open in a task of its own: the SDK wants it closed by the task that opened it."""
    witness = Witness()
    ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hold() -> None:
        try:
            async with Client(
                server,
                mode=mode,
                read_timeout_seconds=PATIENCE,
                logging_callback=witness.log,
                message_handler=witness.message,
                elicitation_callback=witness.elicit,
                sampling_callback=witness.sample,
            ) as client:
                ready.set_result(client)
                await done.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    task = asyncio.create_task(hold())
    try:
        yield Connection(await ready, mode, witness, marks)
    finally:
        done.set()
        await task


async def until(true: Callable[[], object]) -> None:
    """Wait for something that another process brings about."""
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.01)

"""The approval client in tests: somebody who signs, and notes in which order things came about."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mcp import Client, StdioServerParameters

from callgate.protocol import ENROLL_BEGIN, ENROLL_FINISH
from callgate.sdk.authenticators import CreationPrompt, Prompt
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from callgate.sdk.client import ApprovalClient
from support.sep_server import Message, SepServer, serving, stdio_argv

MODES: Final = ("legacy", "auto", "2026-07-28")


@dataclass
class Person:
    """Reads, then signs with a software authenticator; `events` has what was shown and signed, in order."""

    software: SoftwareAuthenticator = field(default_factory=SoftwareAuthenticator)
    events: list[tuple[str, Any]] = field(default_factory=list)
    shows: bool = False

    async def show(self, prompt: Prompt) -> None:
        self.events.append(("shown", prompt))

    async def get(self, prompt: Prompt) -> dict[str, Any]:
        answer = self.software.get(prompt.request_options)
        # What a browser may add: the client has no business with it, and must not lose it.
        answer["clientExtensionResults"] = {"credProps": {"rk": None}, "n": 1.5}
        self.events.append(("signed", answer))
        return answer

    async def create(self, prompt: CreationPrompt) -> dict[str, Any]:
        return self.software.create(prompt.creation_options)

    @property
    def shown(self) -> list[Prompt]:
        return [what for kind, what in self.events if kind == "shown"]

    @property
    def signed(self) -> list[dict[str, Any]]:
        return [what for kind, what in self.events if kind == "signed"]


@contextlib.asynccontextmanager
async def talking(
    server: SepServer, mode: str = "auto", person: Person | None = None, **more: Any
) -> AsyncIterator[tuple[ApprovalClient, Person]]:
    """The approval client and an enrolled person, over HTTP to this server."""
    person = person or Person()
    await server.enrol(person.software)
    async with (
        serving(server) as url,
        ApprovalClient(Client(url, mode=mode), person, show=person.show, **more) as client,
    ):
        yield client, person


@contextlib.asynccontextmanager
async def talking_stdio(records: Path, mode: str) -> AsyncIterator[tuple[ApprovalClient, Person]]:
    """The same over stdio, enrolled over the wire; what the server got is in the file `records`."""
    person = Person()
    argv = stdio_argv(records)
    client = Client(StdioServerParameters(command=argv[0], args=argv[1:]), mode=mode)
    async with ApprovalClient(client, person, show=person.show) as approvals:
        await enrol_over_the_wire(approvals, person.software)
        yield approvals, person


async def enrol_over_the_wire(client: ApprovalClient, software: SoftwareAuthenticator) -> None:
    begun = await request(client, ENROLL_BEGIN, {})
    await request(client, ENROLL_FINISH, {"response": software.create(begun["options"])})


async def request(client: ApprovalClient, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Any request, its result as it is."""
    from mcp_types import Request
    from pydantic import BaseModel, ConfigDict

    class Anything(BaseModel):
        model_config = ConfigDict(extra="allow")

    asked = Request[dict[str, Any], str](method=method, params=params)
    return (await client.session.send_request(asked, Anything)).model_extra or {}


def read_records(path: Path) -> list[Message]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]

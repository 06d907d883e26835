"""The ceremony step by step, with a software authenticator in the place of a person: for reading, not for use.

`python walk_through.py` starts server.py itself, in a temporary folder. `python walk_through.py http://127.0.0.1:8000/mcp`
uses one that runs in this folder, and revokes the passkey that it made there.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import Request
from pydantic import BaseModel

from callgate.sdk.authenticators.software import SoftwareAuthenticator

APPROVAL = "io.modelcontextprotocol/verified-approval"
TICKET = "dev.callgate/enrolment-ticket"


class Answer(BaseModel, extra="allow"):
    """Whatever the server answers."""


async def ask(client: Client, method: str, params: dict[str, Any]) -> dict[str, Any]:
    answer = await client.session.send_request(Request[dict[str, Any], str](method=method, params=params), Answer)
    return answer.model_dump()


async def call(client: Client, tool: str, arguments: dict[str, Any], evidence: Any = None) -> str:
    """What the tool says, or the reason why it did not run."""
    try:
        result = await client.call_tool(tool, arguments, meta=None if evidence is None else {APPROVAL: evidence})
    except MCPError as error:
        return f"refused, {error.data['reason']}"
    return str(result.content[0].text)  # type: ignore[union-attr]


async def approve(client: Client, key: SoftwareAuthenticator, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A challenge for exactly this call; the person reads its text and signs."""
    challenge = await ask(client, "approval/challenge/create", {"toolName": tool, "arguments": arguments})
    print("alice reads:", *challenge["displayText"].splitlines(), sep="\n  ")
    return {
        "method": "webauthn",
        "challengeId": challenge["challengeId"],
        "response": key.get(challenge["requestOptions"]),
    }


def callgate(folder: Path, *words: str) -> str:
    """What the operator's command says, on the server's store."""
    command = [sys.executable, "-m", "callgate", *words, "--store", f"sqlite:///{folder.absolute()}/approvals.db"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextlib.asynccontextmanager
async def enrolled(client: Client, folder: Path) -> AsyncIterator[SoftwareAuthenticator]:
    """Alice's passkey, for as long as the block lasts. She needs a ticket, so that nobody enrols in her name."""
    ticket = json.loads(callgate(folder, "enroll", "alice", "--json"))["ticket"]
    key = SoftwareAuthenticator()
    begun = await ask(client, "approval/enroll/begin", {"_meta": {TICKET: ticket}})
    made = await ask(client, "approval/enroll/finish", {"response": key.create(begun["options"])})
    try:
        yield key
    finally:
        callgate(folder, "credentials", "revoke", made["credentialId"], "--yes")


async def walk_through(client: Client, folder: Path) -> None:
    tools = (await client.list_tools()).tools
    print("need a person:", ", ".join(tool.name for tool in tools if APPROVAL in (tool.meta or {})))
    print("without approval:", await call(client, "delete_resource", {"resourceId": "abc123"}))

    async with enrolled(client, folder) as key:
        evidence = await approve(client, key, "delete_resource", {"resourceId": "abc123"})
        print("approved:", await call(client, "delete_resource", {"resourceId": "abc123"}, evidence))
        print("once more:", await call(client, "delete_resource", {"resourceId": "abc123"}, evidence))

        order = {"symbol": "ACME", "quantity": 10, "side": "buy"}
        evidence = await approve(client, key, "place_trade", order)
        print("with a zero more:", await call(client, "place_trade", order | {"quantity": 100}, evidence))
        print("as approved:", await call(client, "place_trade", order, evidence))


async def main() -> None:
    if len(sys.argv) > 1:
        async with Client(sys.argv[1]) as client:
            await walk_through(client, Path())
        return
    program = Path(__file__).with_name("server.py").absolute()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w") as said:
        server = StdioServerParameters(command=sys.executable, args=[str(program)], cwd=folder)
        async with Client(stdio_client(server, errlog=said)) as client:
            await walk_through(client, Path(folder))


if __name__ == "__main__":
    asyncio.run(main())

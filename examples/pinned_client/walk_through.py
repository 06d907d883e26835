"""An MCP client whose tools a person approves first, and what it does when one of them changes."""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from mcp import Client, StdioServerParameters

from callgate.errors import Refused
from callgate.sdk import PinnedClient, library_identity

HERE = Path(__file__).resolve().parent
# We run this server ourselves, and know which one it is. Without `server` its command would say so.
NOTES = library_identity("notes", version="1.0.0")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def connect(pins: Path, *words: str) -> PinnedClient:
    command = StdioServerParameters(command=sys.executable, args=[str(HERE / "server.py"), *words])
    return PinnedClient(Client(command), pins=pins, server=NOTES, name="notes")


async def use(client: PinnedClient) -> None:
    """What an agent does: it is shown what was approved, and can call nothing else."""
    tools = await client.list_tools()
    say(f"the model sees: {', '.join(tool.name for tool in tools.tools) or 'nothing'}")
    try:
        result = await client.call_tool("read_note", {"name": "today"})
        say(f"read_note: {result.content[0].text}")
    except Refused as refused:
        say(f"read_note is refused: {refused.reason}")


async def main(pins: Path) -> None:
    async with connect(pins) as client:
        await use(client)
        review = await client.review()
        for tool in review.pending:
            # Show your user all of it: tool.description, tool.input_schema, tool.findings.
            say(f"waits: {tool.tool}: {tool.description!r} {tool.approval_hash[:17]}…")
        (wanted,) = [tool for tool in review.pending if tool.tool == "read_note"]
        await client.approve(wanted.tool, wanted.approval_hash, by="ada", shown=review)
        await client.block("delete_note", by="ada", note="nothing is deleted here")
        await use(client)

    say("-- the server is updated --")
    async with connect(pins, "later") as client:
        await use(client)
        for tool in (await client.review()).pending:
            words = [piece.text for piece in tool.difference.description if piece.op == "new"]
            say(f"waits: {tool.tool} is {tool.state}; new in it: {''.join(words)!r}")


if __name__ == "__main__":
    # What is refused is printed above; the log would say it once more.
    logging.getLogger("callgate").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "pins.db"))

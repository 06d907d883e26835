"""What a client sees of the labels: in the list of tools, before a call, on a result, and in a refusal."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from mcp import Client, MCPError, StdioServerParameters
from mcp_types import Request
from pydantic import BaseModel

HERE = Path(__file__).resolve().parent


class Answer(BaseModel, extra="allow"):
    """An answer as it came: the SDK's own types leave out what they do not know."""


def say(about: str, found: Any) -> None:
    sys.stdout.write(f"{about}: {json.dumps(found)}\n")


async def ask(client: Client, method: str, params: dict[str, Any]) -> dict[str, Any]:
    answer = await client.session.send_request(Request[dict[str, Any], str](method=method, params=params), Answer)
    return answer.model_dump()


async def main() -> None:
    command = StdioServerParameters(command=sys.executable, args=[str(HERE / "server.py")])
    async with Client(command) as client:
        tools = {tool["name"]: tool for tool in (await ask(client, "tools/list", {}))["tools"]}
        say("read_file may return", tools["read_file"]["annotations"]["returnMetadata"])
        for path in ("/hr/salaries.csv", "/downloads/page.html"):
            resolved = await ask(client, "tools/resolve", {"name": "read_file", "arguments": {"path": path}})
            say(f"before {path}", resolved["tool"]["annotations"]["returnMetadata"])
            result = await client.call_tool("read_file", {"path": path})
            say(f"after  {path}", (result.meta or {})["annotations"])

        tainted = {"annotations": {"openWorldHint": True}}
        for path in ("/home/ada/notes.txt", "/www/index.html"):
            try:
                result = await client.call_tool("write_file", {"path": path, "text": "x"}, meta=tainted)
                say("open-world data", result.content[0].text)  # type: ignore[union-attr]
            except MCPError as error:
                say(f"open-world data to {path} is refused", {"code": error.code, "rule": error.data["rule"]})


if __name__ == "__main__":
    asyncio.run(main())

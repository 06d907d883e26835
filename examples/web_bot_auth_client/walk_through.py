"""An agent that signs what it sends, with the `mcp` SDK, and a gateway that lets only that agent in."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp import Client, MCPError

from callgate import sign

HERE = Path(__file__).resolve().parent
CONFIG = """
[gateway]
listen = "127.0.0.1:0"
[store]
url = "sqlite:///callgate.db"
[pinning]
mode = "observe"
[trust]
mode = "observe"

[agents]
mode = "required"

[agents.known.reader]
jwk = {jwk}
allow_tools = ["read_*"]

[servers.notes]
command = {command}
"""


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


@contextmanager
def gateway(folder: Path, jwk: dict[str, str]) -> Iterator[str]:
    """`callgate serve` with one agent in its configuration; gives its address."""
    shown = "{ " + ", ".join(f'{name} = "{value}"' for name, value in jwk.items()) + " }"
    command = json.dumps([sys.executable, str(HERE / "server.py")])
    (folder / "callgate.toml").write_text(CONFIG.format(jwk=shown, command=command))
    argv = [str(Path(sys.executable).with_name("callgate")), "serve"]
    environ = {**os.environ, "CALLGATE_LISTEN": "127.0.0.1:0"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(argv, cwd=folder, env=environ, text=True, **quiet) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                    yield f"{found[0]}/servers/notes/mcp"
                    break
        finally:
            process.terminate()
            process.communicate()


async def main(folder: Path) -> None:
    # `callgate agents keygen` makes the same; an operator gets the public half, or finds it in your directory.
    key = sign.AgentKey.generate()
    key.write(folder / "agent.pem")
    signer = sign.AgentKey.read(folder / "agent.pem").signer("https://agent.example")
    with gateway(folder, dict(key.jwk)) as url:
        async with Client(sign.mcp_transport(url, signer)) as client:
            result = await client.call_tool("read_note", {"name": "today"})
            say(f"signed: {result.content[0].text}")  # type: ignore[union-attr]
            try:
                await client.call_tool("delete_note", {"name": "today"})
            except MCPError as error:
                say(f"signed, but not its tool: {error.error.data['reason']}")
        try:
            async with Client(url) as client:
                await client.call_tool("read_note", {"name": "today"})
        except (MCPError, ExceptionGroup):
            say("not signed: nothing is answered")


if __name__ == "__main__":
    # What is refused is printed above.
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))

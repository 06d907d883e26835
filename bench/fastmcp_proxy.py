"""The FastMCP proxy, as its documentation shows it. Runs in the environment that `environments.py` makes for it.

`--shared` passes an already connected client, which FastMCP reuses for all requests; without it each request opens a
session of its own to the upstream, which is FastMCP's default.
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import argparse
import logging
from typing import Any

import uvloop
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


async def serve(options: argparse.Namespace) -> None:
    target: Any = StdioTransport(options.command[0], options.command[1:]) if options.command else options.upstream
    run: dict[str, Any] = {"transport": "stdio", "show_banner": False}
    if options.port:
        run = {
            "transport": "http",
            "host": "127.0.0.1",
            "port": options.port,
            "show_banner": False,
            "log_level": "warning",
            "uvicorn_config": {"access_log": False},
        }
    if options.shared:
        async with Client(target) as client:
            await create_proxy(client, name="proxy").run_async(**run)
    else:
        await create_proxy(target, name="proxy").run_async(**run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="serve HTTP here; without it, stdio")
    parser.add_argument("--upstream", default="")
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("command", nargs="*", help="a stdio server to stand in front of, instead of --upstream")
    logging.disable(logging.INFO)
    # FastMCP would run on asyncio; it is given the same loop as every other subject.
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()

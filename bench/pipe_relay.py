"""The stdio baseline: starts a server and pumps bytes between it and our own stdin and stdout. No checks, no record."""

from __future__ import annotations

import asyncio
import sys

import uvloop

BLOCK = 1 << 16


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while block := await reader.read(BLOCK):
        writer.write(block)
        await writer.drain()
    writer.close()


async def own_stdio() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout.buffer)
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


async def relay(command: list[str]) -> None:
    reader, writer = await own_stdio()
    server = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdin is not None
    assert server.stdout is not None
    await asyncio.gather(pump(reader, server.stdin), pump(server.stdout, writer))
    await server.wait()


def main() -> None:
    uvloop.run(relay(sys.argv[1:]))


if __name__ == "__main__":
    main()

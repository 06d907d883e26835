"""A client's ends of two pipes: this process's own stdin and stdout, or those that a `wrap` has handed over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
import threading
from collections.abc import AsyncIterator
from typing import Final

from callgate.errors import Refused
from callgate.gateway.lines import LineCutter, LineWriter

_CHUNK: Final = 256 * 1024
# A client that writes a thousand requests before it reads a reply must not bring everything to a stop.
_PATIENT_BUFFER: Final = 64 * 1024 * 1024
_CHUNKS_AHEAD: Final = 16


class StdioFront:
    """Lines from a client, lines to a client."""

    def __init__(self, max_bytes: int, ends: tuple[int, int] | None = None) -> None:
        self._ends = ends
        self._cutter = LineCutter(max_bytes)
        self._reader: asyncio.StreamReader | Pump | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._lines: LineWriter | None = None
        self._reading: asyncio.ReadTransport | None = None
        self._writing = asyncio.Lock()
        self._blocking: list[int] = []
        self._in = self._out = -1

    async def open(self) -> None:
        """Take the pipes over. Where they are our own, stray prints of this process go to stderr from here on."""
        if self._ends is not None:
            self._in, self._out = self._ends
        else:
            self._in = os.dup(sys.stdin.fileno())
            self._out = os.dup(sys.stdout.fileno())
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        loop = asyncio.get_running_loop()
        if _can_wait_for(self._in):
            self._blocking.append(self._in)
            pipe = os.fdopen(os.dup(self._in), "rb", buffering=0)
            reader = asyncio.StreamReader(limit=_CHUNK)
            self._reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
            self._reader = reader
        else:
            self._reader = Pump(self._in, loop)
        if _can_wait_for(self._out):
            self._blocking.append(self._out)
            transport, protocol = await loop.connect_write_pipe(
                asyncio.streams.FlowControlMixin, os.fdopen(os.dup(self._out), "wb", buffering=0)
            )
            transport.set_write_buffer_limits(high=_PATIENT_BUFFER)
            self._writer = asyncio.StreamWriter(transport, protocol, None, loop)
            self._lines = LineWriter(self._writer)

    async def lines(self) -> AsyncIterator[bytes | Refused]:
        """The client's lines until it closes its end."""
        assert self._reader is not None
        while chunk := await self._reader.read(_CHUNK):
            for line in self._cutter.feed(chunk):
                yield line
        if rest := self._cutter.rest():
            yield rest

    async def write(self, line: bytes) -> None:
        """Write one line; waits while the client does not read. A client that is gone is not an error here."""
        if self._lines is not None:
            await self._lines.write(line + b"\n")
            return
        async with self._writing:
            await asyncio.to_thread(_write_all, self._out, line + b"\n")

    async def close(self) -> None:
        """Write out what is left and give the pipes back as they were."""
        if self._lines is not None:
            self._lines.flush()
        if self._writer is not None and not self._writer.transport.is_closing():
            self._writer.transport.set_write_buffer_limits(high=0)
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()
        for descriptor in self._blocking:
            # The flag belongs to the open file, which a shell or a sibling may share.
            os.set_blocking(descriptor, True)
        if self._ends is not None:
            # The client has to see that this is the end.
            if self._reading is not None:
                self._reading.close()
            if self._writer is not None:
                self._writer.close()
            for descriptor in self._ends:
                os.close(descriptor)


def _can_wait_for(descriptor: int) -> bool:
    """A loop can wait for pipes, sockets and terminals; not for files, nor for devices such as /dev/null."""
    if sys.platform == "win32":
        return False
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


class Pump:
    """A thread that reads what the loop cannot wait for, a few chunks ahead of whoever takes them."""

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(_CHUNKS_AHEAD)
        threading.Thread(target=self._run, args=(descriptor, loop), daemon=True).start()

    async def read(self, _most: int) -> bytes:
        chunk = await self._chunks.get()
        self._room.release()
        return chunk

    def _run(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        chunk = b"more"
        while chunk:
            self._room.acquire()
            chunk = os.read(descriptor, _CHUNK)
            try:
                loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:  # the loop is closed: nobody waits for the rest
                return


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]

"""A client's ends of two pipes: this process's own stdin and stdout, or those that a `wrap` has handed over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import stat
import sys
import threading
from collections.abc import AsyncIterator
from typing import Final

from callgate.errors import Refused
from callgate.transport.lines import LineCutter, LineWriter

_CHUNK: Final = 256 * 1024
# A client that writes a thousand requests before it reads a reply must not bring everything to a stop.
_PATIENT_BUFFER: Final = 64 * 1024 * 1024
# As much may wait for all clients of one process; beyond it, for each of them no more than that.
_ALL_PATIENT: Final = 256 * 1024 * 1024
_IMPATIENT_BUFFER: Final = 1024 * 1024
_CHUNKS_AHEAD: Final = 16
# So long a client may take to read the rest where nobody holds its server any more.
_ABANDONED_SECONDS: Final = 5.0


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
        self._written: asyncio.Future[None] | None = None
        # Whether nobody holds the server any more.
        self.abandoned = False

    async def open(self) -> None:
        """Take the pipes over. Where they are our own, stray prints of this process go to stderr from here on."""
        try:
            await self._open()
        except BaseException:
            self._let_go()
            raise
        _open.add(self)

    async def _open(self) -> None:
        if self._ends is not None:
            self._in, self._out = self._ends
        else:
            self._in = os.dup(sys.stdin.fileno())
            self._out = os.dup(sys.stdout.fileno())
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        loop = asyncio.get_running_loop()
        if _is_one_socket(self._in, self._out):
            # Who writes to it as to a pipe reads from it as well, to see its end, and would take what the client says.
            self._blocking.append(self._in)
            link = socket.socket(fileno=os.dup(self._in))
            opened = asyncio.open_unix_connection if link.family == socket.AF_UNIX else asyncio.open_connection
            self._reader, self._writer = await opened(sock=link, limit=_CHUNK)
            self._writer.transport.set_write_buffer_limits(high=_PATIENT_BUFFER)
            self._lines = LineWriter(self._writer)
            return
        if _can_wait_for(self._in):
            self._blocking.append(self._in)
            pipe = os.fdopen(os.dup(self._in), "rb", buffering=0)
            reader = asyncio.StreamReader(limit=_CHUNK)
            self._reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
            self._reader = reader
        else:
            self._reader = Pump(self._in, loop)
        # A terminal that is written to as to a pipe would be read from as well: what is typed would be lost.
        if _can_wait_for(self._out) and not os.isatty(self._out):
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

    async def write(self, *lines: bytes) -> None:
        """Write lines; waits while the client does not read. A client that is gone is not an error here."""
        data = b"\n".join((*lines, b""))
        if self._lines is None or self._writer is None:
            async with self._writing:
                # The thread goes on where nobody waits for it any more: the descriptor has to stay until it is done.
                self._written = asyncio.ensure_future(asyncio.to_thread(_write_all, self._out, data))
                await asyncio.shield(self._written)
            return
        if self.unread() > _IMPATIENT_BUFFER and sum(front.unread() for front in _open) > _ALL_PATIENT:
            self._writer.transport.set_write_buffer_limits(high=_IMPATIENT_BUFFER)
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()
            self._writer.transport.set_write_buffer_limits(high=_PATIENT_BUFFER)
        await self._lines.write(data)

    def unread(self) -> int:
        """How many bytes the client has not read."""
        return 0 if self._writer is None else self._writer.transport.get_write_buffer_size()

    async def close(self) -> None:
        """Write out what is left and give the pipes back as they were."""
        try:
            if self._written is not None:
                await asyncio.wait({self._written})
            if self._lines is not None:
                self._lines.flush()
            if self._writer is not None and not self._writer.transport.is_closing():
                self._writer.transport.set_write_buffer_limits(high=0)
                with contextlib.suppress(TimeoutError, ConnectionError):
                    async with asyncio.timeout(_ABANDONED_SECONDS if self.abandoned else None):
                        await self._writer.drain()
        finally:
            _open.discard(self)
            self._let_go()

    def _let_go(self) -> None:
        for descriptor in self._blocking:
            # The flag belongs to the open file, which a shell or a sibling may share.
            os.set_blocking(descriptor, True)
        if isinstance(self._reader, Pump):
            self._reader.stop()
        if self._ends is None:
            return
        # The client has to see that this is the end.
        if self._reading is not None:
            self._reading.close()
        if self._writer is not None:
            self._writer.transport.abort()
        if self._written is not None and not self._written.done():
            # The thread that writes still has it.
            self._written.add_done_callback(lambda _: os.close(self._out))
        else:
            os.close(self._ends[1])
        os.close(self._ends[0])


def _can_wait_for(descriptor: int) -> bool:
    """A loop can wait for pipes, sockets and terminals; not for files, nor for devices such as /dev/null."""
    if sys.platform == "win32":
        return False
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


# The fronts of this process that are open.
_open: Final[set[StdioFront]] = set()


def _is_one_socket(one: int, other: int) -> bool:
    """Whether a client reads and writes at one socket, as socat and inetd hand it on."""
    if sys.platform == "win32":
        return False
    return stat.S_ISSOCK(os.fstat(one).st_mode) and os.path.sameopenfile(one, other)


class Pump:
    """A thread that reads what the loop cannot wait for, a few chunks ahead of whoever takes them."""

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(_CHUNKS_AHEAD)
        self._stopped = False
        # A descriptor of its own: the number of the other may be another's by the time that it reads.
        own = os.dup(descriptor)
        threading.Thread(target=self._run, args=(own, loop), daemon=True).start()

    def stop(self) -> None:
        """Nobody takes what is left."""
        self._stopped = True
        self._room.release()

    async def read(self, _most: int) -> bytes:
        chunk = await self._chunks.get()
        self._room.release()
        return chunk

    def _run(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        chunk = b"more"
        try:
            while chunk:
                self._room.acquire()
                if self._stopped:
                    return
                try:
                    chunk = os.read(descriptor, _CHUNK)
                except OSError:  # what cannot be read has ended
                    chunk = b""
                loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
        except RuntimeError:  # the loop is closed: nobody waits for the rest
            return
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # a terminal that we read from as well
            select.select([], [descriptor], [])

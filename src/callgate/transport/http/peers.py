"""The other processes of one gateway, for a request that came to the wrong one of them.

A session lives in one process: its server's pipes, its stream and what waits for its client are there. Requests of it
may arrive on any connection, so a process that takes one of another's passes the connection on, with what it has read
of it. All of them hold the sending end of everybody's inbox; nobody else can write there.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import logging
import os
import socket
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from typing import IO, Final

from callgate.pipeline.dispatcher import session_digest

log = logging.getLogger("callgate.http")

_SESSIONS_MAX: Final = 200_000
_READ_MAX: Final = 1024
_FETCH_SECONDS: Final = 1.0
_SESSION, _CONNECTION, _FETCH, _ANEW = b"S", b"C", b"F", b"A"

Headers = list[tuple[bytes, bytes]]
# The home of a request that names no session; None where any process may take it.
Home = Callable[[bytes], int | None]


class Peers:
    """What one process of several knows of the others; `inboxes` has the sending end of each, also its own."""

    def __init__(self, own: int, inbox: socket.socket, inboxes: list[socket.socket]) -> None:
        self.own = own
        self._inbox = inbox
        self._inboxes = inboxes
        self._sessions: OrderedDict[bytes, int] = OrderedDict()
        self._adopt: Callable[[socket.socket, bytes], None] | None = None
        self._text: Callable[[], bytes] = bytes
        self.home: Home = lambda _url: None
        self._answering: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        return len(self._inboxes)

    def start(self, adopt: Callable[[socket.socket, bytes], None], text: Callable[[], bytes]) -> None:
        """Take connections from now on, and say `text` when asked; sessions of whoever was here before are gone."""
        self._adopt, self._text = adopt, text
        self._tell(_ANEW + bytes([self.own]))
        asyncio.get_running_loop().add_reader(self._inbox, self._read)

    def stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self._inbox)

    # ---- whose a request is ----

    def opened(self, session: str) -> None:
        """A session begins here; the others know before its client does."""
        digest = session_digest(session).encode()
        self._keep(digest, self.own)
        self._tell(_SESSION + bytes([self.own]) + digest)

    def owner(self, url: bytes, headers: Headers) -> int | None:
        """Which other process a request belongs to."""
        session = next((value for name, value in headers if name == b"mcp-session-id"), None)
        if session is None:
            home = self.home(url)
        else:
            # What the others have said counts, also where it was not read yet.
            self._read()
            home = self._sessions.get(session_digest(session.decode("latin-1")).encode())
        return None if home == self.own else home

    def pass_on(self, owner: int, connection: int, data: bytes) -> bool:
        """Give a connection to its owner, with what was read of it; False where the owner takes none now."""
        with contextlib.closing(_unnamed()) as held:
            held.write(data)
            held.flush()
            return self._send(owner, _CONNECTION + len(data).to_bytes(4), [connection, held.fileno()])

    # ---- what all of them have to say ----

    async def texts(self) -> list[tuple[int, bytes]]:
        """What each process says when asked, this one first; one that does not answer is left out."""
        others = [index for index in range(self.count) if index != self.own]
        answers = await asyncio.gather(*(self._fetch(index) for index in others))
        found = [(index, answer) for index, answer in zip(others, answers, strict=True) if answer is not None]
        return [(self.own, self._text()), *found]

    async def _fetch(self, index: int) -> bytes | None:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                if not self._send(index, _FETCH, [theirs.fileno()]):
                    return None
            ours.setblocking(False)  # noqa: FBT003
            parts: list[bytes] = []
            try:
                async with asyncio.timeout(_FETCH_SECONDS):
                    while part := await asyncio.get_running_loop().sock_recv(ours, 65536):
                        parts.append(part)
            except (TimeoutError, OSError):
                return None
        return b"".join(parts) or None

    async def _say(self, link: socket.socket) -> None:
        with link, contextlib.suppress(TimeoutError, OSError):
            link.setblocking(False)  # noqa: FBT003
            async with asyncio.timeout(_FETCH_SECONDS):
                await asyncio.get_running_loop().sock_sendall(link, self._text())

    # ---- the inbox ----

    def _tell(self, message: bytes) -> None:
        for index in range(self.count):
            if index != self.own and not self._send(index, message):
                log.warning("another process of this gateway does not read", extra={"fields": {"process": index}})

    def _send(self, index: int, message: bytes, descriptors: list[int] | None = None) -> bool:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        try:
            self._inboxes[index].sendmsg([message], rights)
        except OSError:
            return False
        return True

    def _read(self) -> None:
        while True:
            try:
                message, descriptors, _, _ = socket.recv_fds(self._inbox, _READ_MAX, 2)
            except OSError:
                return
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)  # noqa: FBT003
            self._take(message, descriptors)

    def _take(self, message: bytes, descriptors: list[int]) -> None:
        kind, rest = message[:1], message[1:]
        if kind == _SESSION and len(rest) > 1:
            self._keep(rest[1:], rest[0])
        elif kind == _ANEW and len(rest) == 1:
            self._sessions = OrderedDict((one, whose) for one, whose in self._sessions.items() if whose != rest[0])
        elif kind == _CONNECTION and len(descriptors) == 2 and self._adopt is not None:
            connection, held = descriptors
            try:
                data = os.pread(held, int.from_bytes(rest), 0)
            finally:
                os.close(held)
            link = socket.socket(fileno=connection)
            link.setblocking(False)  # noqa: FBT003
            self._adopt(link, data)
        elif kind == _FETCH and len(descriptors) == 1:
            task = asyncio.ensure_future(self._say(socket.socket(fileno=descriptors[0])))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        else:
            for descriptor in descriptors:
                os.close(descriptor)

    def _keep(self, session: bytes, index: int) -> None:
        self._sessions[session] = index
        while len(self._sessions) > _SESSIONS_MAX:
            self._sessions.popitem(last=False)


def _unnamed() -> IO[bytes]:
    """A file without a name, in memory where the system has such files: what was read may hold secrets."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("callgate", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile()

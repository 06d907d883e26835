"""Where a wrapped server's gateway hears prompts: a socket of its own, in a folder that only its user can enter."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from callgate.prompts.hook import PROMPT_CHARS, SUFFIX, address, folders
from callgate.prompts.origin import Client, Said, Sender, client_of, refusal
from callgate.prompts.processes import chain, snapshot, variables

log = logging.getLogger("callgate.prompts")

_MESSAGE_BYTES: Final = 2**20
_SECONDS: Final = 0.2
_WAITING: Final = 32
# <sys/un.h> of macOS, which Python does not name.
_SOL_LOCAL, _LOCAL_PEERPID = 0, 2


class Heard(NamedTuple):
    """A prompt of the user, in the pieces that the user wrote, and the conversation that it belongs to."""

    texts: tuple[str, ...]
    conversation: str = ""


@contextlib.contextmanager
def listening() -> Iterator[PromptListener | None]:
    """Hears prompts as long as the block lasts. None where that cannot be: without it, more is asked."""
    listener = PromptListener.open()
    try:
        yield listener
    finally:
        if listener is not None:
            listener.close()


class PromptListener:
    """Hears what hooks of this process's client send."""

    def __init__(self, client: Client, folder: Path, link: socket.socket) -> None:
        self._client = client
        self._folder = folder
        self._link = link
        self._lock = threading.Lock()
        self._waiting: deque[Heard] = deque(maxlen=_WAITING)
        self._tell: Callable[[Heard], None] | None = None
        self._ends, self._end = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="callgate-prompts", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls) -> PromptListener | None:
        """Listens from now on; None on a system without such sockets, and where the folder is not to be had."""
        if sys.platform not in ("linux", "darwin"):
            return None
        try:
            client, places = client_of(snapshot(), os.getpid(), Path.cwd()), folders()
            return cls(client, *_bound(Path(places[0]))) if client is not None and places else None
        except OSError as error:
            log.info("prompts are not heard", extra={"fields": {"error": error.strerror}})
            return None

    def attach(self, tell: Callable[[Heard], None]) -> None:
        """Tells each prompt from now on, and those that came before; from another thread."""
        with self._lock:
            self._tell = tell
            while self._waiting:
                tell(self._waiting.popleft())

    def close(self) -> None:
        with contextlib.suppress(OSError):
            (self._folder / f"{os.getpid()}{SUFFIX}").unlink()
        os.close(self._end)
        self._thread.join(2 * _SECONDS)
        self._link.close()

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        poll.register(self._ends, select.POLLIN)
        while all(number != self._ends for number, _ in poll.poll()):
            try:
                link, _ = self._link.accept()
            except OSError:
                continue
            with link:
                try:
                    self._take(link)
                except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
                    log.info("prompt not read", extra={"fields": {"error": type(error).__name__}})
        os.close(self._ends)

    def _take(self, link: socket.socket) -> None:
        look = snapshot()
        sender = Sender(chain(look, _peer(link)), self._gateways(), look, variables)
        heard, said = _read(json.loads(_received(link)))
        # The sender waits until this link is closed, so its processes are still there.
        why = refusal(sender, self._client, said)
        if why:
            log.info("prompt not taken for the user's", extra={"fields": {"why": why}})
            return
        with self._lock:
            if self._tell is None:
                self._waiting.append(heard)
            else:
                self._tell(heard)

    def _gateways(self) -> set[int]:
        names = [name.removesuffix(SUFFIX) for name in (path.name for path in self._folder.iterdir())]
        return {os.getpid(), *(int(name) for name in names if name.isdigit())}


def _bound(folder: Path) -> tuple[Path, socket.socket]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.geteuid():
        raise PermissionError(1, "the folder is another user's")
    folder.chmod(0o700)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _clear(folder, handle)
        own = f"{os.getpid()}{SUFFIX}"
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.bind(address(str(folder), own, handle))
            (folder / own).chmod(0o600)
            link.listen(16)
        except OSError:
            link.close()
            raise
    finally:
        os.close(handle)
    return folder, link


def _clear(folder: Path, handle: int) -> None:
    """Takes away the sockets of processes that are gone: nobody answers there."""
    for path in folder.glob(f"*{SUFFIX}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(0)
            try:
                link.connect(address(str(folder), path.name, handle))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except OSError:
                continue


def _peer(link: socket.socket) -> int:
    """The process at the other end, which is one of this user."""
    if sys.platform == "darwin":
        # The folder lets nobody else in.
        return int(link.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID))
    pid, uid, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if uid != os.geteuid():
        raise PermissionError(1, "another user")
    return int(pid)


def _received(link: socket.socket) -> bytes:
    deadline, size = time.monotonic() + _SECONDS, 0
    chunks: list[bytes] = []
    while size <= _MESSAGE_BYTES:
        link.settimeout(max(0.001, deadline - time.monotonic()))
        chunk = link.recv(65536)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        size += len(chunk)
    raise ValueError("too long")


def _read(message: object) -> tuple[Heard, Said]:
    if not isinstance(message, dict):
        raise TypeError("not a message")
    texts = [text for text in message["prompt"] if isinstance(text, str)]
    left, kept = PROMPT_CHARS, []
    for text in texts:
        kept.append(text[:left])
        left -= len(kept[-1])
    roots = [root for root in message.get("roots", []) if isinstance(root, str)]
    return Heard(tuple(filter(None, kept)), str(message.get("conversation", ""))[:256]), Said(
        roots, message.get("program") is True
    )

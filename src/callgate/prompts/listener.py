"""Where the gateway of wrapped servers hears prompts: a socket of its own, in a folder that only its user can enter."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from callgate.local.place import address, peer
from callgate.prompts.hook import PROMPT_CHARS, SUFFIX, folders
from callgate.prompts.origin import ANOTHER_CLIENT, Client, HookClaims, Sender, client_of, refusal
from callgate.prompts.processes import chain, snapshot, variables

log = logging.getLogger("callgate.prompts")

_MESSAGE_BYTES: Final = 2**20
_SECONDS: Final = 0.2
_WAITING: Final = 32
# A server that starts later than that has not been started for what the user wrote.
_RECENT_SECONDS: Final = 60.0


class Heard(NamedTuple):
    """A prompt of the user, in the pieces that the user wrote, and the conversation that it belongs to."""

    texts: tuple[str, ...]
    conversation: str = ""


@contextlib.contextmanager
def listening(name: str = "") -> Iterator[PromptListener | None]:
    """Hears prompts as long as the block lasts. None where that cannot be: without it, more is asked."""
    listener = PromptListener.open(name)
    try:
        yield listener
    finally:
        if listener is not None:
            listener.close()


class PromptRecipient(NamedTuple):
    """A wrapped server: the process that wraps it, the client that started that, and who is told its prompts."""

    pid: int
    client: Client
    tell: Callable[[Heard], None]


class _ReceivedPrompt(NamedTuple):
    """A prompt, with all that has to be known of its sender, who may be gone by the time that somebody asks."""

    at: float
    sender: Sender
    heard: Heard
    said: HookClaims


class PromptListener:
    """Hears what hooks send, and tells each wrapped server what hooks of its own client sent."""

    def __init__(self, folder: Path, name: str, link: socket.socket) -> None:
        self._folder = folder
        self._name = name
        self._link = link
        self._lock = threading.Lock()
        # A prompt may come before its server is there.
        self._recent: deque[_ReceivedPrompt] = deque(maxlen=_WAITING)
        self._recipients: set[PromptRecipient] = set()
        self._ends, self._end = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="callgate-prompts", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, name: str = "") -> PromptListener | None:
        """Listens from now on, `name` before the number of this process in the name of its socket; None on a system
        without such sockets, and where the folder is not to be had."""
        if sys.platform not in ("linux", "darwin"):
            return None
        try:
            places = folders()
            name = f"{name}{os.getpid()}{SUFFIX}"
            return cls(*_bound(Path(places[0]), name)) if places else None
        except OSError as error:
            log.info("prompts are not heard", extra={"fields": {"error": error.strerror}})
            return None

    def add(self, pid: int, folder: Path, tell: Callable[[Heard], None]) -> PromptRecipient | None:
        """Tells the prompts of the client that started a process, those of the last minute too, from another thread;
        None where nobody can say which client that is."""
        client = client_of(snapshot(), pid, folder)
        if client is None:
            return None
        recipient = PromptRecipient(pid, client, tell)
        with self._lock:
            self._recipients.add(recipient)
            for received in self._recent:
                if time.monotonic() - received.at <= _RECENT_SECONDS:
                    self._deliver(received, recipient)
        return recipient

    def remove(self, recipient: PromptRecipient) -> None:
        with self._lock:
            self._recipients.discard(recipient)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            (self._folder / self._name).unlink()
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
        line = chain(look, _peer(link))
        with self._lock:
            gateways = self._gateways() - {os.getpid()}
        if any(process.pid in gateways for process in line):
            # Not waited for: the prompts of all clients come here, one after the other.
            raise PermissionError(1, "a wrapped server")
        heard, said = _read(json.loads(_whole_message(link)))
        # The sender waits until this link is closed, so its processes are still there.
        known = {process.pid: variables(process.pid) for process in line}

        def named(pid: int) -> frozenset[str]:
            return known[pid] if pid in known else variables(pid)

        with self._lock:
            received = _ReceivedPrompt(time.monotonic(), Sender(line, self._gateways(), look, named), heard, said)
            self._recent.append(received)
            for recipient in self._recipients:
                self._deliver(received, recipient)

    def _deliver(self, received: _ReceivedPrompt, recipient: PromptRecipient) -> None:
        gateways = {*received.sender.gateways, *self._gateways()}
        why = refusal(received.sender._replace(gateways=gateways), recipient.client, received.said)
        if why == ANOTHER_CLIENT:
            log.debug("prompt of another client")
        elif why:
            log.info("prompt not taken for the user's", extra={"fields": {"why": why}})
        else:
            recipient.tell(received.heard)

    def _gateways(self) -> set[int]:
        """The processes that wrap servers, in this gateway or alone."""
        names = [name.removesuffix(SUFFIX) for name in (path.name for path in self._folder.iterdir())]
        return {
            os.getpid(),
            *(recipient.pid for recipient in self._recipients),
            *(int(name) for name in names if name.isdigit()),
        }


def _bound(folder: Path, own: str) -> tuple[Path, str, socket.socket]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.geteuid():
        raise PermissionError(1, "the folder is another user's")
    folder.chmod(0o700)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _clear(folder, handle)
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
    return folder, own, link


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
    pid, user = peer(link)
    if user != os.geteuid():
        raise PermissionError(1, "another user")
    return pid


def _whole_message(link: socket.socket) -> bytes:
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


def _read(message: object) -> tuple[Heard, HookClaims]:
    if not isinstance(message, dict):
        raise TypeError("not a message")
    texts = [text for text in message["prompt"] if isinstance(text, str)]
    left, kept = PROMPT_CHARS, []
    for text in texts:
        kept.append(text[:left])
        left -= len(kept[-1])
    roots = [root for root in message.get("roots", []) if isinstance(root, str)]
    return Heard(tuple(filter(None, kept)), str(message.get("conversation", ""))[:256]), HookClaims(
        roots, message.get("program") is True
    )

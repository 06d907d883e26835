"""`callgate serve --workers N`: several processes at one address, on one store, so that a gateway uses all cores.

The first process binds the address, starts the others and keeps them running; it serves nothing itself. Each worker is
a whole gateway: what has to hold for all of them is in the store, as with gateways on several machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from callgate.config import Config
from callgate.config.rules import Address
from callgate.errors import ConfigError, Refused
from callgate.transport.http.peers import Peers
from callgate.transport.http.server import bind

if TYPE_CHECKING:
    from callgate.app.serve import CurrentSite

log = logging.getLogger("callgate.gateway")

VARIABLE: Final = "CALLGATE_WORKER"
WORKERS_MAX: Final = 64
_START_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = (0.1, 5.0)
_KILL_SECONDS: Final = 5.0


class Worker(msgspec.Struct, frozen=True):
    """What a worker is given, as numbers of descriptors: it inherits them."""

    index: int
    listener: int
    inbox: int
    inboxes: tuple[int, ...]
    # Ends when the process that keeps the workers is gone; told when this one serves.
    alive: int
    ready: int

    @classmethod
    def given(cls) -> Worker | None:
        """What this process was started with, if it is a worker. What it starts itself is none."""
        told = os.environ.pop(VARIABLE, None)
        if told is None:
            return None
        worker = msgspec.json.decode(told, type=cls)
        for descriptor in worker.descriptors:
            os.set_inheritable(descriptor, False)  # noqa: FBT003
        return worker

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self.listener, self.inbox, *self.inboxes, self.alive, self.ready)

    def peers(self) -> Peers:
        inboxes = [_nonblocking(number) for number in self.inboxes]
        return Peers(self.index, _nonblocking(self.inbox), inboxes)

    def socket(self) -> socket.socket:
        return _nonblocking(self.listener)

    def serves(self) -> None:
        # For one that was started again, nobody waits.
        with contextlib.suppress(BrokenPipeError):
            os.write(self.ready, b"1")
        os.close(self.ready)

    def end_with_the_first(self, stop: Callable[[], None]) -> None:
        """Nobody would start this worker again, or stop it: it ends too."""
        loop = asyncio.get_running_loop()

        def gone() -> None:
            loop.remove_reader(self.alive)
            stop()

        loop.add_reader(self.alive, gone)


def home_of(current: CurrentSite, count: int) -> Callable[[bytes], int | None]:
    """Callers without a session share one process of a server on stdio: so all of them go to one worker."""

    def home(url: bytes) -> int | None:
        path = url.partition(b"?")[0].decode("latin-1")
        try:
            upstream = current.current.upstream(path)
        except Refused:
            return None
        return None if upstream.sees_headers else sum(upstream.name.encode()) % count

    return home


def _nonblocking(descriptor: int) -> socket.socket:
    made = socket.socket(fileno=descriptor)
    made.setblocking(False)  # noqa: FBT003
    return made


class _Slot:
    """The place of one worker: its sockets stay, whoever serves them."""

    def __init__(self, index: int, listener: socket.socket) -> None:
        self.index = index
        self.listener = listener
        self.inbox, self.outbox = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.process: subprocess.Popen[bytes] | None = None
        # One that was asked to end, and still finishes what is under way.
        self.leaving: list[subprocess.Popen[bytes]] = []
        self.began = 0.0
        self.pause = _PAUSE_SECONDS[0]
        self.due: float | None = None


class Workers:
    """Starts the workers, starts those again that end by themselves, and ends them all."""

    def __init__(self, config: Config, count: int) -> None:
        if not hasattr(socket, "SO_REUSEPORT"):
            raise ConfigError("several workers need a system that deals out connections", advice="Leave out --workers.")
        self._config = config
        self._slots = [_Slot(index, one) for index, one in enumerate(_listeners(config.gateway.address, count))]
        host, port = self._slots[0].listener.getsockname()[:2]
        self.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._alive, self._keep = os.pipe()
        self._signals: list[int] = []

    def run(self, listening: Callable[[str], None]) -> int:
        """Until SIGINT or SIGTERM; the exit status of a worker that cannot even start is that of all."""
        with self._heard() as wakeup:
            try:
                for slot in self._slots:
                    status = self._first(slot)
                    if status is not None:
                        return status
                listening(self.address)
                while not self._ending:
                    self._look_after()
                    select.select([wakeup], [], [], self._wait())
                    with contextlib.suppress(BlockingIOError):
                        wakeup.recv(4096)
                    self._obey()
                return 0
            finally:
                self._end()

    @property
    def _ending(self) -> bool:
        return signal.SIGTERM in self._signals or signal.SIGINT in self._signals

    def _first(self, slot: _Slot) -> int | None:
        """Start a worker and wait until it serves; the status of one that ends instead."""
        ready = self._start(slot)
        with os.fdopen(ready, "rb", buffering=0) as told:
            deadline = time.monotonic() + _START_SECONDS
            while not self._ending and time.monotonic() < deadline:
                if select.select([told], [], [], 0.1)[0]:
                    if told.read(1):
                        return None
                    break
        if self._ending:
            return 0
        assert slot.process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return slot.process.wait(_KILL_SECONDS) or 1
        return 1

    def _start(self, slot: _Slot) -> int:
        """The worker's own end of the pipe on which it says that it serves."""
        ready, told = os.pipe()
        worker = Worker(
            slot.index,
            slot.listener.fileno(),
            slot.inbox.fileno(),
            tuple(other.outbox.fileno() for other in self._slots),
            self._alive,
            told,
        )
        try:
            # -P: a folder here that happens to be called callgate is not taken for the program.
            slot.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "callgate", *sys.argv[1:]],
                stdin=subprocess.DEVNULL,
                pass_fds=worker.descriptors,
                env={**os.environ, VARIABLE: msgspec.json.encode(worker).decode()},
            )
        finally:
            os.close(told)
        slot.began, slot.due = time.monotonic(), None
        return ready

    def _look_after(self) -> None:
        now = time.monotonic()
        for slot in self._slots:
            slot.leaving = [one for one in slot.leaving if one.poll() is None]
            if slot.process is not None and (status := slot.process.poll()) is not None:
                log.error("worker ended", extra={"fields": {"worker": slot.index, "status": status}})
                least, most = _PAUSE_SECONDS
                slot.pause = least if now - slot.began > most else min(slot.pause * 2, most)
                slot.process, slot.due = None, now + slot.pause
            if slot.process is None and slot.due is not None and now >= slot.due:
                os.close(self._start(slot))

    def _wait(self) -> float | None:
        dues = [slot.due for slot in self._slots if slot.due is not None]
        if dues:
            return max(0.0, min(dues) - time.monotonic())
        return 1.0 if any(slot.leaving for slot in self._slots) else None

    def _obey(self) -> None:
        """SIGHUP reads the configuration again; SIGUSR2 puts new processes in the place of the workers, in turn."""
        heard, self._signals = self._signals, [one for one in self._signals if one in (signal.SIGTERM, signal.SIGINT)]
        if signal.SIGHUP in heard:
            self._send(signal.SIGHUP)
        if signal.SIGUSR2 in heard:
            for slot in self._slots:
                self._renew(slot)

    def _renew(self, slot: _Slot) -> None:
        """What comes meanwhile waits in the worker's own queue; what is under way is finished by the old one."""
        if slot.process is not None:
            slot.process.terminate()
            slot.leaving.append(slot.process)
            slot.process = None
        status = self._first(slot)
        log.log(
            logging.INFO if status is None else logging.ERROR,
            "worker renewed",
            extra={"fields": {"worker": slot.index}},
        )

    def _send(self, number: int) -> None:
        for slot in self._slots:
            for process in (slot.process, *slot.leaving):
                if process is not None and process.poll() is None:
                    process.send_signal(number)

    def _end(self) -> None:
        self._send(signal.SIGTERM)
        deadline = time.monotonic() + self._config.gateway.shutdown_seconds + _KILL_SECONDS
        for slot in self._slots:
            for process in (slot.process, *slot.leaving):
                if process is None:
                    continue
                try:
                    process.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        os.close(self._keep)

    @contextlib.contextmanager
    def _heard(self) -> Iterator[socket.socket]:
        """Signals wake the loop up and are looked at there."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)  # noqa: FBT003
        before = {}
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2, signal.SIGCHLD):
            before[number] = signal.signal(number, lambda one, _frame: self._signals.append(one))
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield ours
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
            ours.close()
            theirs.close()


def _listeners(address: Address, count: int) -> list[socket.socket]:
    """As many sockets at one address; first one alone, because several of this user's gateways could share it."""
    with bind(address) as alone:
        address = Address(address.host, alone.getsockname()[1])
    sockets = [bind(address, shared=True) for _ in range(count)]
    for one in sockets:
        one.listen(2048)
    return sockets

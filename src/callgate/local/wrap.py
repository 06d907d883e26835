"""`callgate wrap` as a client starts it: starts the server, hands its pipes to the person's gateway, and waits.

No byte of a message passes here. What is left is what only the parent of a process can do: pass signals on, end it in
bounded time, and return its exit code.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import sys
import time

from callgate._version import __version__
from callgate.code_variables import changes_code
from callgate.local import wire
from callgate.local.place import LocalError, Place
from callgate.local.starting import START_SECONDS, reach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

# After a signal that asks it to end, and after its gateway or its client is gone, the server has so much time.
GRACE_SECONDS = 2.0
SIGNAL_SECONDS = 5.0
_LOOK_SECONDS = 0.2
# A gateway that is about to end takes no new server: it is tried again with the next one.
_TRIES = 5
GATEWAY_GONE = 69
_NOT_FOUND = 127
FORWARDED = ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_ENDING = frozenset(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT") if hasattr(signal, name)
)
_PR_SET_PDEATHSIG = 1


class Options:
    """The command line of `callgate wrap`."""

    def __init__(
        self,
        name: str,
        command: list[str],
        *,
        url: str | None = None,
        url_env: str | None = None,
        header_env: list[str] | None = None,
        config: str | None = None,
        alone: bool = False,
    ) -> None:
        self.name = name
        self.command = command
        self.url = url
        self.url_env = url_env
        self.header_env = header_env or []
        self.config = config
        self.alone = alone


def parse(words: list[str]) -> Options | None:
    """The usual command lines; None for whatever the whole command line has to explain."""
    name, alone = "", False
    command: list[str] = []
    values: dict[str, Any] = {}
    if "--" in words:
        at = words.index("--")
        words, command = words[:at], words[at + 1 :]
        if not command:
            return None
    left = list(words)
    while left:
        word = left.pop(0)
        option, given, value = word.partition("=")
        if not word.startswith("-"):
            if name:
                return None
            name = word
        elif word == "--alone":
            alone = True
        elif option in ("--url", "--url-env", "--header-env", "--config", "-c"):
            if not given:
                if not left:
                    return None
                value = left.pop(0)
            key = {"-c": "config"}.get(option, option[2:].replace("-", "_"))
            values[key] = [*values.get(key, ()), value] if key == "header_env" else value
        else:
            return None
    return Options(name, command, alone=alone, **values) if name else None


def is_possible() -> bool:
    """Whether descriptors can be handed to another process here."""
    return sys.platform in ("linux", "darwin") and hasattr(socket, "SCM_RIGHTS")


def main(options: Options) -> NoReturn:
    """Run, and end as the server ends."""
    try:
        status = run(options)
    except LocalError as error:
        _say("\n".join(filter(None, (f"callgate: {error.message}", error.advice))))
        status = 1
    except KeyboardInterrupt:
        status = 130
    end_as(status)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode("utf-8", "backslashreplace"))


def run(options: Options) -> int:
    """The server's exit status; negative for the signal that ended it."""
    # Whoever started this may be gone before the server is there.
    client = os.getppid()
    _keep_three()
    order = _order(options)
    place = Place(options.config or os.environ.get("CALLGATE_CONFIG") or None)
    link, incoming, answer = _agreed(place, order, lambda: _is_there(client))
    if not _is_there(client):
        raise LocalError("the client that started this server has ended")
    start = answer.get("start")
    # From here on a signal is one for the server.
    signals = _hear_signals()
    child = Child.start(start) if isinstance(start, dict) else None
    ends = [0, 1] if child is None else [0, 1, child.stdin, child.stdout]
    # On a terminal, Ctrl-C reaches the whole foreground group: the command has it already.
    on_terminal = os.isatty(0)
    # Where the gateway is gone already, that is seen below.
    with contextlib.suppress(OSError):
        wire.send(link, {"started": None if child is None else child.pid}, ends)
    _let_go(ends)
    return Waiting(link, incoming, child, client, on_terminal=on_terminal).run(signals)


def _is_there(client: int) -> bool:
    """Whether a client may still want the server: it has not ended, nor closed both pipes before it said a word."""
    if os.getppid() != client:
        return False
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(1, 0)
    seen = dict(poll.poll(0))
    if not seen.get(0, 0) & select.POLLHUP or not seen.get(1, 0) & (select.POLLHUP | select.POLLERR):
        return True
    # A client that was gone before we looked may have left a message; whoever takes over orphans is no client then.
    return bool(seen[0] & select.POLLIN) and client != 1


def _keep_three() -> None:
    """What is closed from the start must not become something else."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003


def _order(options: Options) -> dict[str, Any]:
    """What the gateway is asked for, with no more of the environment than that takes, and than says what runs."""
    named = [options.url_env, *(pair.partition("=")[2] for pair in options.header_env)]
    wanted = {"PATH", "CALLGATE_SESSION", *(name for name in named if name)}
    configured = not options.command and options.url is None and options.url_env is None
    return {
        "protocol": wire.PROTOCOL,
        "version": __version__,
        "do": "wrap",
        "name": options.name,
        "command": options.command,
        "url": options.url,
        "url_env": options.url_env,
        "header_env": options.header_env,
        "environ": {
            name: value
            for name, value in os.environ.items()
            if configured or name in wanted or changes_code(name, value)
        },
        "folder": _folder(),
    }


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        text = f"the folder that this was started in cannot be used: {error.strerror}"
        raise LocalError(text, "Start it in a folder that is there.") from None


def _agreed(
    place: Place, order: dict[str, Any], wanted: Callable[[], bool]
) -> tuple[socket.socket, wire.Incoming, dict[str, Any]]:
    """A link to the gateway, and what it answered; LocalError where it refuses."""
    for _ in range(_TRIES):
        link, incoming = reach(place, wanted), wire.Incoming()
        link.settimeout(START_SECONDS)
        try:
            wire.send(link, order)
            answer = wire.receive(link, incoming)
        except TimeoutError:
            link.close()
            raise LocalError("your gateway does not answer", "Type `callgate restart`.") from None
        except (OSError, wire.WireError):
            answer = None
        if answer is not None and not answer.get("again"):
            if isinstance(text := answer.get("refused"), str):
                link.close()
                raise LocalError(text, str(answer.get("advice", "")))
            link.settimeout(None)
            return link, incoming, answer
        link.close()
        time.sleep(0.05)
    raise LocalError("your gateway ends as soon as it is asked", "Type `callgate logs` to see why.")


def _let_go(ends: list[int]) -> None:
    """From here on the pipes are the gateway's: who closes an end of them has to be heard at the other."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    for end in ends[2:]:
        os.close(end)


class Child:
    """The server's process, and our ends of its pipes."""

    def __init__(self, pid: int, stdin: int, stdout: int) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout

    @classmethod
    def start(cls, start: dict[str, Any]) -> Child:
        """Start it as a client would: with our folder, process group, terminal and stderr."""
        argv, env, folder = start["argv"], start["env"], start["folder"]
        environ = dict(os.environ) if env is None else env
        end_with_us = _parent_death()
        parent = os.getpid()
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        failed, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(theirs_in, 0)
                os.dup2(theirs_out, 1)
                # Python ignores them for itself.
                signal.signal(signal.SIGPIPE, signal.SIG_DFL)
                signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
                end_with_us(parent)
                if folder is not None:
                    os.chdir(folder)
                os.execvpe(argv[0], argv, environ)  # noqa: S606 - no shell, as a client would
            except OSError as error:
                os.write(tell, str(error.errno or errno.EIO).encode())
            except BaseException:  # noqa: BLE001 - a child of a fork must end here, whatever happens
                os.write(tell, str(errno.EIO).encode())
            finally:
                os._exit(_NOT_FOUND)
        for end in (theirs_in, theirs_out, tell):
            os.close(end)
        said = os.read(failed, 16)
        os.close(failed)
        if said:
            os.waitpid(pid, 0)
            why = os.strerror(int(said))
            raise LocalError(f"cannot start {argv[0]!r}: {why}", "Run the command by hand and read what it says.")
        return cls(pid, ours_in, ours_out)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)


def _parent_death() -> Any:
    """Linux: the kernel ends the server when this process is killed without a chance to do it."""
    if sys.platform != "linux":
        return lambda _parent: None
    import ctypes

    libc = ctypes.CDLL(None)

    def end_with(parent: int) -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return end_with


def _hear_signals() -> int:
    """Where the numbers of the signals arrive that come from now on."""
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for name in (*FORWARDED, "SIGCHLD"):
        number = getattr(signal, name, None)
        # What the client ignores, as nohup does, is not for the server either.
        if number is not None and (name == "SIGCHLD" or signal.getsignal(number) is not signal.SIG_IGN):
            signal.signal(number, lambda *_: None)
    return wake


class Waiting:
    """Waits for the gateway's last word, for the server's end, and for signals."""

    def __init__(
        self, link: socket.socket, incoming: wire.Incoming, child: Child | None, client: int, *, on_terminal: bool
    ) -> None:
        self._link = link
        self._incoming = incoming
        self._child = child
        self._on_terminal = on_terminal
        self._parent = client
        self._status: int | None = None
        # When the next step of ending the server is due, and which signal that is.
        self._due: list[tuple[float, int]] = []
        self._gone = False
        # Whether the client has closed its end.
        self._left = False
        self._poll = select.poll()

    def run(self, wake: int) -> int:
        self._poll.register(wake, select.POLLIN)
        self._poll.register(self._link, select.POLLIN)
        self._reap()
        while True:
            for number, _ in self._poll.poll(self._patience()):
                if number == wake:
                    for signalled in os.read(wake, 4096):
                        self._take(signalled)
                elif (done := self._hear()) is not None:
                    return done
            if self._left and os.getppid() != self._parent:
                # Its client is dead: nobody else asks the server to end.
                self._left = False
                self._end(GRACE_SECONDS, signal.SIGTERM, signal.SIGKILL)
            self._escalate()
            if self._gone and (self._child is None or self._status is not None):
                return GATEWAY_GONE

    def _patience(self) -> float | None:
        if self._due:
            return max(0.0, self._due[0][0] - time.monotonic()) * 1000 + 1
        # A client that dies closes its end first, and has not died yet.
        return _LOOK_SECONDS * 1000 if self._left else None

    def _take(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
            return
        if self._child is None:
            if number in _ENDING:
                end_as(-number)
            return
        shared = self._on_terminal and number in (signal.SIGINT, getattr(signal, "SIGQUIT", 0))
        if not shared:
            self._child.signal(number)
        if self._status is not None and number in _ENDING:
            # The server has ended; only its last words are on their way.
            end_as(self._status)
        if number in _ENDING:
            self._end(SIGNAL_SECONDS, signal.SIGKILL)

    def _end(self, seconds: float, *steps: int) -> None:
        if not self._due:
            now = time.monotonic()
            self._due = [(now + seconds * at, number) for at, number in enumerate(steps, len(steps) == 1)]

    def _escalate(self) -> None:
        while self._due and self._due[0][0] <= time.monotonic():
            _, number = self._due.pop(0)
            if self._child is not None and self._status is None:
                self._child.signal(number)

    def _reap(self) -> None:
        if self._child is None or self._status is not None:
            return
        pid, status = os.waitpid(self._child.pid, os.WNOHANG)
        if pid:
            self._status = os.waitstatus_to_exitcode(status)
            self._due = []
            with contextlib.suppress(OSError):
                wire.send(self._link, {"exited": self._status})

    def _hear(self) -> int | None:
        """The exit status, where the gateway says that all is done."""
        try:
            if not self._incoming.read(self._link):
                self._lost()
                return None
            while (found := self._incoming.take()) is not None:
                message = found[0]
                self._left = self._left or bool(message.get("left"))
                if isinstance(text := message.get("refused"), str):
                    _say("\n".join(filter(None, (f"callgate: {text}", str(message.get("advice", ""))))))
                    self._lost(said=True)
                    return None
                if "done" in message:
                    status = self._status if self._child is not None else message["done"]
                    if status is not None:
                        return int(status)
                    self._lost()
        except (OSError, wire.WireError):
            self._lost()
        return None

    def _lost(self, *, said: bool = False) -> None:
        """Without its gateway the server has nobody to speak to."""
        self._gone = True
        self._poll.unregister(self._link)
        if not said:
            _say("callgate: your gateway has ended, and this server with it; start the server again in your client")
        if self._child is not None:
            self._end(GRACE_SECONDS, signal.SIGTERM, signal.SIGKILL)


def end_as(status: int) -> NoReturn:
    """End with a command's exit status: a signal that ended it ends us too, so that the parent sees the same."""
    if status < 0:
        number = -status
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        status = 128 + number
    os._exit(status)

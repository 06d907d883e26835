"""Where a person's gateway is found: a folder that only its user can enter, with a socket, a lock and a log."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys

_PATH_BYTES = 100
_FOLDER_MODE = 0o700
# Named by the client for one wrapped server; the gateway itself is the same with any of them.
_NOT_SETTINGS = ("CALLGATE_CONFIG", "CALLGATE_SESSION")
# <sys/ucred.h> and <sys/un.h> of macOS, which Python does not name.
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2


class LocalError(Exception):
    """What is wrong, and what to do about it."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice


def state_folders(environ: os._Environ[str] | dict[str, str] = os.environ) -> list[str]:
    """Where this user's state is kept. A client may hand on less of its environment to servers than to hooks."""
    if sys.platform == "darwin":
        usual = os.path.expanduser("~/Library/Application Support")
    else:
        usual = os.path.expanduser("~/.local/state")
    named = environ.get("XDG_STATE_HOME", "").strip()
    bases = [named, usual] if os.path.isabs(named) and named != usual else [usual]
    return [os.path.join(base, "callgate") for base in bases if os.path.isabs(base)]


def own_config(environ: os._Environ[str] | dict[str, str] = os.environ) -> str:
    """The user's own configuration file, whether it is there or not."""
    if sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Application Support")
    else:
        named = environ.get("XDG_CONFIG_HOME", "").strip()
        base = named if os.path.isabs(named) else os.path.expanduser("~/.config")
    return os.path.join(base, "callgate", "callgate.toml")


class Place:
    """The gateway of one configuration. `config` is the file that was named; without one, the user's own.

    Who names another file, or sets CALLGATE_… otherwise, means another gateway; or `name` says which.
    """

    def __init__(
        self, config: str | None = None, environ: os._Environ[str] | dict[str, str] = os.environ, name: str = ""
    ) -> None:
        folders = state_folders(environ)
        if not folders:
            raise LocalError("there is no folder for the state of this user", "Set HOME to your home folder.")
        own = own_config(environ)
        self.config = os.path.realpath(config or own)
        self.folder = os.path.join(folders[0], "run")
        settings = sorted(
            f"{name}={value}"
            for name, value in environ.items()
            if name.startswith("CALLGATE_") and name not in _NOT_SETTINGS
        )
        named = [] if self.config == os.path.realpath(own) else [self.config]
        self.name = name or "gateway" + (f"-{_digest([*named, *settings])}" if named or settings else "")

    def open(self, kind: str, flags: int = os.O_RDWR) -> int:
        """A file beside the socket, made where there is none: the `lock` that the gateway holds for as long as it runs,
        `starting` for whoever starts one, its `log`. A link there is not followed."""
        handle = self.enter()
        try:
            name = f"{self.name}.{kind}"
            return os.open(name, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=handle)
        except OSError as error:
            text = f"{self.folder}/{name} cannot be used: {error.strerror}"
            raise LocalError(text, "Remove it: it has to be a file of your own, and no link.") from None
        finally:
            os.close(handle)

    @property
    def address(self) -> str:
        return f"{self.name}.sock"

    @property
    def log(self) -> str:
        return os.path.join(self.folder, f"{self.name}.log")

    def enter(self) -> int:
        """A handle on the folder, made where there is none; LocalError where it is another's, or a link."""
        try:
            os.makedirs(os.path.dirname(self.folder), mode=_FOLDER_MODE, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.folder, _FOLDER_MODE)
            handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise LocalError(
                f"{self.folder} cannot be used: {error.strerror}", "It has to be a folder of your own, and no link."
            ) from None
        found = os.fstat(handle)
        if found.st_uid != os.geteuid():
            os.close(handle)
            raise LocalError(f"{self.folder} belongs to another user", "Set XDG_STATE_HOME to a folder of your own.")
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(handle, _FOLDER_MODE)
        return handle

    def connect(self, seconds: float = 5.0) -> socket.socket | None:
        """A link to the gateway that runs; None where none does."""
        handle = self.enter()
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.settimeout(seconds)
            link.connect(address(self.folder, self.address, handle))
            if peer(link)[1] != os.geteuid():
                raise LocalError(
                    f"another user listens at {self.folder}/{self.address}", "Remove it, and look who put it there."
                )
        except (FileNotFoundError, ConnectionRefusedError):
            link.close()
            return None
        except OSError as error:
            link.close()
            raise LocalError(f"your gateway does not answer: {error}", "Type `callgate restart`.") from None
        except LocalError:
            link.close()
            raise
        finally:
            os.close(handle)
        return link


def peer(link: socket.socket) -> tuple[int, int]:
    """The process at the other end, and its user; -1 where the system does not say."""
    if sys.platform == "darwin":
        # struct xucred: version, then the user.
        user = int.from_bytes(link.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76)[4:8], sys.byteorder)
        return int(link.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)), user
    if sys.platform != "linux":
        return -1, -1
    raw = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(raw[:4], sys.byteorder), int.from_bytes(raw[4:8], sys.byteorder)


def address(folder: str, name: str, handle: int) -> str:
    """The address of a socket in a folder; by the folder's handle where the path is longer than an address may be."""
    path = os.path.join(folder, name)
    if len(os.fsencode(path)) <= _PATH_BYTES or sys.platform != "linux":
        return path
    return f"/proc/self/fd/{handle}/{name}"


def _digest(parts: list[str]) -> str:
    import hashlib

    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:12]

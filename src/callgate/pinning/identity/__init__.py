"""Who a server is: its identity, from its address or from the program that its command starts."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

import msgspec

from callgate.pinning.identity.launch import Launch, launched
from callgate.pinning.model import ServerIdentity

_CHUNK: Final = 1024 * 1024
# A program larger than this is not read: the identity says so.
_MOST: Final = 1024 * 1024 * 1024


class Disk(Protocol):
    """Where programs are looked for and read. It may block: call it on a thread."""

    def here(self) -> str:
        """The directory that commands start in where none is given."""

    def locate(self, name: str, base: str, path: str | None, *, script: bool) -> str:
        """The absolute path of a program or script, links not followed; empty where there is none."""

    def digest(self, path: str) -> tuple[str, str]:
        """The path with links followed, and SHA-256 of what is there; OSError, ValueError or RuntimeError where not."""


class _LocalDisk:
    def here(self) -> str:
        try:
            return str(Path.cwd())
        except OSError:
            return os.sep

    def locate(self, name: str, base: str, path: str | None, *, script: bool) -> str:
        try:
            if not name or "\0" in name:
                return ""
            if script or "/" in name or os.sep in name or (os.altsep and os.altsep in name):
                place = os.path.normpath(os.path.join(base, name))  # noqa: PTH118
                return place if os.path.lexists(place) else ""
            found = shutil.which(name, path=path)
            return os.path.normpath(os.path.join(base, found)) if found else ""  # noqa: PTH118
        except (OSError, ValueError):
            return ""

    def digest(self, path: str) -> tuple[str, str]:
        place = Path(path).resolve(strict=True)
        total = 0
        state = hashlib.sha256()
        # A pipe or a device in the program's place would never end.
        if not stat.S_ISREG(place.stat().st_mode):
            raise ValueError("it is not a plain file")
        with place.open("rb") as file:
            while chunk := file.read(_CHUNK):
                total += len(chunk)
                if total > _MOST:
                    raise ValueError(f"it is larger than {_MOST >> 20} MiB")
                state.update(chunk)
        return str(place), state.hexdigest()


DISK: Final[Disk] = _LocalDisk()


# As much of a reported name as an identity shows; the rest goes in as a digest.
_SHOWN: Final = 200
_NAME: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._+@/:=,")
_PATH: Final = _NAME | frozenset("\\~")
_WORDS: Final = _NAME | frozenset(" !$&'*?;")


def stdio_identity(
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    environ_path: str | None = None,
    reported: str = "",
    disk: Disk = DISK,
) -> ServerIdentity:
    """The identity of a server that this command starts. Reads a file where the command names no package; never raises.

    `cwd` and `environ_path` are the directory and the PATH that the command is started with. Arguments that are not
    the package or the script stay out, for they may be secrets.
    """
    start = launched(argv)
    base = os.path.join(cwd or disk.here(), start.directory)  # noqa: PTH118
    if start.scheme == "file":
        return _file_identity(start, base, environ_path, reported, disk)
    beside = [(word, _absolute(base, text) if word == "in" else text) for word, text in start.beside]
    if start.scheme == "module" and (cwd or start.directory):
        # A module of the same name in another directory is another program.
        beside.append(("in", _absolute(base, ".")))
    extras = "".join(f" {word} {_escape(text, _PATH)}" for word, text in beside)
    runner = f"{_escape(start.runner, _NAME - {'/', ':'})} " if start.runner else ""
    chosen = bool(start.version) and not any(word == "to" for word, _ in start.beside)
    if start.scheme in ("text", "line"):
        lineage = f"{runner}{start.scheme}#sha256:{start.name}{extras}"
        server_id = lineage
    else:
        name = _escape(start.name, _PATH)
        lineage = f"{runner}{start.scheme}:{name}{extras}"
        server_id = f"{runner}{start.scheme}:{name}@{_escape(start.version) or 'unpinned'}{extras}"
    return _identity(server_id, lineage, chosen=chosen, reported=reported, warnings=start.warnings)


def http_identity(url: str, *, authenticated: str | None = None, reported: str = "") -> ServerIdentity:
    """Origin and path, as whom the server is authenticated, and what it reports; no query, no credentials."""
    place, host, secure = _place(url)
    warnings: tuple[str, ...] = ()
    if authenticated:
        proven = authenticated
    elif secure:
        proven = f"tls:{host}"
    else:
        proven = "unauthenticated"
        if not _is_loopback(host):
            warning = f"{place} is reached without TLS: anybody on the way can answer in its place. Use https://."
            warnings = (warning,)
    server_id = f"{place} as {_escape(proven)}{_spoken(reported)}"
    return ServerIdentity(server_id, place, "http", chosen=False, reported=shown(reported), warnings=warnings)


def library_identity(name: str, *, version: str = "", reported: str = "") -> ServerIdentity:
    """For a client author who knows which server is at the other end; with a version that the author vouches for."""
    plain = _escape(name, _NAME - {"@"})
    if version:
        return ServerIdentity(
            f"library:{plain}@{_escape(version)}", f"library:{plain}", "library", chosen=True, reported=shown(reported)
        )
    return ServerIdentity(
        f"library:{plain}{_spoken(reported)}", f"library:{plain}", "library", chosen=False, reported=shown(reported)
    )


def reported_as(name: object, version: object) -> str:
    """What a server says of itself in its greeting, as one text; anything that is not a text counts as nothing.

    A blank in the version is escaped, so that "a b" in version "c" is not "a" in version "b c".
    """
    left = name if isinstance(name, str) else ""
    right = version if isinstance(version, str) else ""
    return f"{left} {right.replace('%', '%25').replace(' ', '%20')}" if left or right else ""


def is_named(one: ServerIdentity, unnamed: ServerIdentity) -> bool:
    """Whether a server is the same as one that has not said its name, or may be it under the name that it has."""
    return one.server_id == unnamed.server_id or (
        not unnamed.chosen and one.server_id.startswith(f"{unnamed.server_id} (") and one.server_id.endswith(")")
    )


def shown(text: str) -> str:
    """A peer's text for people: one line, cut, with nothing in it that does not print."""
    clean = "".join(letter if letter.isprintable() else "\ufffd" for letter in text[: _SHOWN + 1]).strip()
    return clean if len(text) <= _SHOWN else clean[:_SHOWN] + "…"


def _file_identity(start: Launch, base: str, path: str | None, reported: str, disk: Disk) -> ServerIdentity:
    found = disk.locate(start.name, base, path, script=bool(start.runner))
    runner = f"{_escape(start.runner, _NAME - {'/', ':'})} " if start.runner else ""
    warnings = list(start.warnings)
    if not found:
        place = _absolute(base, start.name) if start.runner or _has_directory(start.name) else start.name
        digest = "unreadable"
        warnings.append(f"{shown(start.name)} was not found, so this identity rests on its name alone; write its path.")
        head = lineage = f"{runner}file:{_escape(place, _PATH)}"
    else:
        lineage = f"{runner}file:{_escape(found, _PATH)}"
        try:
            resolved, digest = disk.digest(found)
            head = f"{runner}file:{_escape(resolved, _PATH)}"
            digest = f"sha256:{digest}"
        except (OSError, ValueError, RuntimeError) as error:
            head, digest = lineage, "unreadable"
            why = getattr(error, "strerror", None) or str(error)
            warnings.append(
                f"{shown(found)} could not be read ({why}), so a change of the program goes unnoticed; "
                "let Callgate read it."
            )
    return _identity(f"{head}#{digest}", lineage, chosen=False, reported=reported, warnings=tuple(warnings))


def _identity(
    server_id: str, lineage: str, *, chosen: bool, reported: str, warnings: tuple[str, ...]
) -> ServerIdentity:
    whole = server_id if chosen else server_id + _spoken(reported)
    return ServerIdentity(whole, lineage, "stdio", chosen=chosen, reported=shown(reported), warnings=warnings)


def _spoken(reported: str) -> str:
    """The server's own word, in brackets that it cannot close."""
    if not reported:
        return ""
    plain = _escape(reported[: _SHOWN + 1], _WORDS)
    if len(plain) > _SHOWN or len(reported) > _SHOWN:
        cut = plain[:_SHOWN].rsplit("%", 1)[0] if "%" in plain[_SHOWN - 2 : _SHOWN] else plain[:_SHOWN]
        plain = f"{cut}~sha256:{hashlib.sha256(reported.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return f" ({plain})"


def _escape(text: str, plain: frozenset[str] = _NAME) -> str:
    if plain.issuperset(text):
        return text
    return "".join(
        letter if letter in plain else "".join(f"%{byte:02X}" for byte in letter.encode("utf-8", "surrogatepass"))
        for letter in text
    )


def _place(url: str) -> tuple[str, str, bool]:
    """Origin and path, the host, and whether TLS guards it."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".").lower()
        port = parts.port
    except ValueError:
        return f"http-unreadable#sha256:{hashlib.sha256(url.encode('utf-8', 'surrogatepass')).hexdigest()}", "", False
    scheme = parts.scheme.lower()
    usual = {"http": 80, "https": 443}.get(scheme)
    name = f"[{_escape(host)}]" if ":" in host else _escape(host, _NAME - {":", "/", "@"})
    origin = f"{_escape(scheme)}://{name}" + (f":{port}" if port is not None and port != usual else "")
    # An existing percent-escape is part of the address: it stays as it is.
    return origin + _escape(parts.path or "/", _NAME | {"%", "~"}), host, scheme == "https"


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _has_directory(program: str) -> bool:
    return "/" in program or "\\" in program


def _absolute(base: str, path: str) -> str:
    return os.path.normpath(os.path.join(base, path))  # noqa: PTH118


_REMEMBERED: Final = 256


class ServerRef(msgspec.Struct, frozen=True):
    """A server as the operator names it. `identify` may read a program from the disk: call it on a thread first."""

    name: str
    group: str
    target: str
    identify: Callable[[str], ServerIdentity]
    # Whether the server is given the caller's own credentials, and may show each caller another list.
    by_caller: bool = False
    kind: Literal["http", "stdio"] = "stdio"
    # Tells apart wrapped servers of one name in one gateway.
    connection: str = ""

    @property
    def key(self) -> str:
        return f"{self.name} {self.connection}"


def command_identity(
    argv: Sequence[str], cwd: str | None, path: str | None, here: str = ""
) -> Callable[[str], ServerIdentity]:
    disk = CachedDisk(here=here)

    def identify(reported: str) -> ServerIdentity:
        return stdio_identity(argv, cwd=cwd, environ_path=path, reported=reported, disk=disk)

    return identify


class CachedDisk:
    """Reads a program again only when its size, time or inode is another."""

    def __init__(self, disk: Disk = DISK, here: str = "") -> None:
        self._disk = disk
        self._here = here
        self._read: dict[str, tuple[tuple[int, ...], tuple[str, str]]] = {}

    def here(self) -> str:
        return self._here or self._disk.here()

    def locate(self, name: str, base: str, path: str | None, *, script: bool) -> str:
        return self._disk.locate(name, base, path, script=script)

    def digest(self, path: str) -> tuple[str, str]:
        now = _signature(path)
        known = self._read.get(path)
        if known is not None and known[0] == now:
            return known[1]
        made = self._disk.digest(path)
        if len(self._read) < _REMEMBERED and _signature(path) == now:
            self._read[path] = now, made
        return made


def _signature(path: str) -> tuple[int, ...]:
    found = os.stat(path)  # noqa: PTH116 - links are followed, and a text may be foreign
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

"""Who a server is: its identity, from its address or from the program that its command starts."""

from __future__ import annotations

import hashlib
import ipaddress
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from callgate.pinning.chain import DecisionChain
from callgate.pinning.identity.disk import DISK, CachedDisk, Disk
from callgate.pinning.identity.launch import Launch, launched
from callgate.pinning.identity.running import StartedCommand, run_digest
from callgate.pinning.model import KINDS, BoundPart, ServerIdentity

# For a package, such as `npm:@org/pkg`: its options whose value is data, and `*` where folders that stand alone are.
DataOf: TypeAlias = Callable[[str], Collection[str]]

# As much of a reported name as an identity shows; the rest goes in as a digest.
_SHOWN: Final = 200
_NAME: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._+@/:=,")
_PATH: Final = _NAME | frozenset("\\~")
_WORDS: Final = _NAME | frozenset(" !$&'*?;")


def _no_data(_package: str) -> Collection[str]:
    return ()


def stdio_identity(
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    environ_path: str | None = None,
    environ: Mapping[str, str] | None = None,
    reported: str = "",
    disk: Disk = DISK,
    data_of: DataOf = _no_data,
) -> ServerIdentity:
    """The identity of a server that this command starts. Reads files that the command names; never raises.

    `cwd` and `environ` are the directory and the variables that the command is started with, `environ_path` the PATH
    where only that is known. Options, arguments and variables go in as a digest, for they may be secrets.
    """
    start = launched(argv)
    base = os.path.join(cwd or disk.here(), start.directory)  # noqa: PTH118
    path = environ_path if environ is None else environ.get("PATH")
    data = data_of(f"{start.scheme}:{start.name}")
    command = StartedCommand(argv, start, base=base, environ=environ or {}, path=path, disk=disk, data=data)
    if start.scheme == "file":
        return _file_identity(start, command, reported, disk)
    beside = [(word, _absolute(base, text) if word == "in" else text) for word, text in start.beside]
    if start.scheme == "module" and (cwd or start.directory):
        # A module of the same name in another directory is another program.
        beside.append(("in", _absolute(base, ".")))
    extras = "".join(f" {word} {_escape(text, _PATH)}" for word, text in beside)
    runner = f"{_escape(start.runner, _NAME - {'/', ':'})} " if start.runner else ""
    chosen = bool(start.version) and not any(word == "to" for word, _ in start.beside) and not command.is_copied
    if start.scheme in ("text", "line"):
        lineage = f"{runner}{start.scheme}#sha256:{start.name}{extras}"
        server_id = lineage
    else:
        name = _escape(start.name, _PATH)
        lineage = f"{runner}{start.scheme}:{name}{extras}"
        server_id = f"{runner}{start.scheme}:{name}@{_escape(start.version) or 'unpinned'}{extras}"
    return _identity(server_id, lineage, command, chosen=chosen, reported=reported, warnings=start.warnings)


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


def started_as(identity: ServerIdentity, before: Sequence[BoundPart]) -> ServerIdentity:
    """The same command, started by the launcher, in the folder and with the variables of another time."""
    own = [part for part in identity.bound if part.kind in ("option", "argument")]
    kept = [part for part in before if part.kind not in ("option", "argument")]
    return _with_parts(identity, tuple(sorted((*own, *kept), key=lambda part: KINDS.index(part.kind))))


def as_marked(identity: ServerIdentity, book: DecisionChain) -> ServerIdentity:
    """The identity that a command has where arguments of it are marked as data: that of the command as it was when they
    were marked, if everything else about it is the same and what stands in their places is of the same sort.

    What was decided on exactly this command goes first.
    """
    commands = book.varying(identity.lineage)
    bound = [part for part in identity.bound if not part.data]
    own = tuple(part.digest for part in bound)
    if not commands or (own not in commands and book.is_known(identity.server_id)):
        return identity
    for parts in sorted(commands, key=lambda parts: parts != own):
        places = {
            place: parts[place]
            for place, pin in commands[parts].items()
            if pin.argument is not None and place < len(bound) and pin.argument.varies == bound[place].varies
        }
        if tuple(places.get(place, one) for place, one in enumerate(own)) == parts:
            numbered = iter(range(len(bound)))
            return _with_parts(
                identity,
                tuple(
                    part
                    if part.data or (place := next(numbered)) not in places
                    else msgspec.structs.replace(part, digest=places[place], marked=True)
                    for part in identity.bound
                ),
            )
    return identity


def _with_parts(identity: ServerIdentity, parts: tuple[BoundPart, ...]) -> ServerIdentity:
    head, bracket, spoken = identity.server_id.partition(" (")
    run = run_digest(parts)
    server_id = head.partition(" with ")[0] + (f" with {run}" if run else "")
    return msgspec.structs.replace(identity, server_id=server_id + bracket + spoken, bound=parts)


def shown(text: str) -> str:
    """A peer's text for people: one line, cut, with nothing in it that does not print."""
    clean = "".join(letter if letter.isprintable() else "\ufffd" for letter in text[: _SHOWN + 1]).strip()
    return clean if len(text) <= _SHOWN else clean[:_SHOWN] + "…"


def _file_identity(start: Launch, command: StartedCommand, reported: str, disk: Disk) -> ServerIdentity:
    base, path = command.base, command.path
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
    return _identity(f"{head}#{digest}", lineage, command, chosen=False, reported=reported, warnings=tuple(warnings))


def _identity(
    server_id: str, lineage: str, command: StartedCommand, *, chosen: bool, reported: str, warnings: tuple[str, ...]
) -> ServerIdentity:
    run = run_digest(command.parts)
    whole = f"{server_id} with {run}" if run else server_id
    return ServerIdentity(
        whole if chosen else whole + _spoken(reported),
        lineage,
        "stdio",
        chosen=chosen,
        reported=shown(reported),
        warnings=(*warnings, *command.warnings),
        bound=command.parts,
    )


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


# As many names as one address may report before they are read again.
_REPORTED: Final = 256


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
    argv: Sequence[str],
    cwd: str | None,
    environ: Mapping[str, str],
    here: str = "",
    data_of: DataOf = _no_data,
) -> Callable[[str], ServerIdentity]:
    disk = CachedDisk(here=here)

    def identify(reported: str) -> ServerIdentity:
        return stdio_identity(argv, cwd=cwd, environ=environ, reported=reported, disk=disk, data_of=data_of)

    return identify


def url_identity(url: str, authenticated: str | None) -> Callable[[str], ServerIdentity]:
    return lru_cache(_REPORTED)(lambda reported: http_identity(url, authenticated=authenticated, reported=reported))

"""Who a server is: what its command starts or where it answers, never what it calls itself alone.

The parts that a peer can choose are percent-escaped, so that no reported name can imitate another identity: a
`server_id` reads back into its parts in one way only.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from callgate.pinning.commands import launched
from callgate.pinning.disk import DISK, Disk
from callgate.pinning.launch import Launch
from callgate.pinning.model import Identity

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
) -> Identity:
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


def http_identity(url: str, *, authenticated: str | None = None, reported: str = "") -> Identity:
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
    return Identity(server_id, place, "http", chosen=False, reported=shown(reported), warnings=warnings)


def library_identity(name: str, *, version: str = "", reported: str = "") -> Identity:
    """For a client author who knows which server is at the other end; with a version that the author vouches for."""
    plain = _escape(name, _NAME - {"@"})
    if version:
        return Identity(
            f"library:{plain}@{_escape(version)}", f"library:{plain}", "library", chosen=True, reported=shown(reported)
        )
    return Identity(
        f"library:{plain}{_spoken(reported)}", f"library:{plain}", "library", chosen=False, reported=shown(reported)
    )


def reported_as(name: object, version: object) -> str:
    """What a server says of itself in its greeting, as one text; anything that is not a text counts as nothing.

    A blank in the version is escaped, so that "a b" in version "c" is not "a" in version "b c".
    """
    left = name if isinstance(name, str) else ""
    right = version if isinstance(version, str) else ""
    return f"{left} {right.replace('%', '%25').replace(' ', '%20')}" if left or right else ""


def is_named(one: Identity, unnamed: Identity) -> bool:
    """Whether a server is the same as one that has not said its name, or may be it under the name that it has."""
    return one.server_id == unnamed.server_id or (
        not unnamed.chosen and one.server_id.startswith(f"{unnamed.server_id} (") and one.server_id.endswith(")")
    )


def shown(text: str) -> str:
    """A peer's text for people: one line, cut, with nothing in it that does not print."""
    clean = "".join(letter if letter.isprintable() else "\ufffd" for letter in text[: _SHOWN + 1]).strip()
    return clean if len(text) <= _SHOWN else clean[:_SHOWN] + "…"


def _file_identity(start: Launch, base: str, path: str | None, reported: str, disk: Disk) -> Identity:
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


def _identity(server_id: str, lineage: str, *, chosen: bool, reported: str, warnings: tuple[str, ...]) -> Identity:
    whole = server_id if chosen else server_id + _spoken(reported)
    return Identity(whole, lineage, "stdio", chosen=chosen, reported=shown(reported), warnings=warnings)


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

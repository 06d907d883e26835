"""What a command starts, and how its options are told from what it starts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

# What stands beside the name: the registry it comes `from`, where it forwards `to`, the directory it runs `in`.
Beside: TypeAlias = tuple[tuple[Literal["from", "to", "in"], str], ...]
Scheme: TypeAlias = Literal["npm", "pypi", "jsr", "go", "git", "oci", "file", "module", "project", "text", "line"]

_SUFFIX: Final = re.compile(r"\.(?:exe|cmd|bat|ps1)\Z", re.IGNORECASE)


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What is started: a package, an image, a file, a module. `version` only where it names exactly one thing."""

    scheme: Scheme
    name: str
    version: str = ""
    # The interpreter or launcher, where the thing started is not a program of its own.
    runner: str = ""
    beside: Beside = ()
    warnings: tuple[str, ...] = ()
    # Relative to the directory of the command, where an option changes it.
    directory: str = ""
    # The one package as the command spells it, who fetches it, and its options that decide which version that is.
    spec: str = ""
    fetcher: Literal["npm", "uv", "pip", ""] = ""
    options: tuple[tuple[str, str], ...] = ()


def program(path: str) -> str:
    """The name of a program without its directory and Windows' endings, in small letters."""
    return _SUFFIX.sub("", path.replace("\\", "/").rsplit("/", 1)[-1]).lower()


def options(args: Sequence[str], takes: frozenset[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The options up to the first argument that is none, and what follows; `takes` are those with a value."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(args):
        arg = args[at]
        if arg == "--":
            return found, list(args[at + 1 :])
        if not arg.startswith("-") or arg == "-":
            break
        at += 1
        name, equals, value = arg.partition("=")
        if equals and arg.startswith("--"):
            found.append((name, value))
        elif arg in takes:
            found.append((arg, args[at] if at < len(args) else ""))
            at += 1
        elif not arg.startswith("--") and arg[:2] in takes:
            found.append((arg[:2], arg[2:].removeprefix("=")))
        else:
            found.append((arg, ""))
    return found, list(args[at:])


def words(line: str) -> frozenset[str]:
    return frozenset(line.split())


def values(found: Sequence[tuple[str, str]], *names: str) -> list[str]:
    """What was given to any of these options."""
    return [value for name, value in found if name in names]


def address(url: str) -> str:
    """A URL without what may be secret in it: credentials, query and fragment."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return f"unreadable:{digest(url)}"
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme.lower()}://{name}" + (f":{port}" if port is not None else "") + (parts.path or "/")


def text(line: str, runner: str) -> Launch:
    """Code on the command line: known by its digest, for it may hold anything."""
    warning = (
        f"`{runner}` runs code from its command line, and what that starts cannot be told; "
        "write the program or the package itself as the command."
    )
    return Launch(scheme="text", name=digest(line), runner=runner, warnings=(warning,))


def whole_line(argv: Sequence[str]) -> Launch:
    """A command that we cannot read: known by the digest of all of it, so that no other command is taken for it."""
    runner = program(argv[0]) if argv else "nothing"
    warning = (
        f"It cannot be told which program `{runner}` starts here, so approvals hold for exactly this command; "
        "name a package with its version, an image with its digest, or a file."
    )
    return Launch(scheme="line", name=digest("\0".join(argv)), runner=runner, warnings=(warning,))


def digest(line: str) -> str:
    return hashlib.sha256(line.encode("utf-8", "surrogatepass")).hexdigest()

"""What the tools of well-known servers do, as it was checked: one file a package, read when it is first asked for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from callgate.canonical import canonical
from callgate.errors import MessageError
from callgate.trust.effects import Effects

_PACKAGE: Final = re.compile(r"(npm|pypi):(@?[^@\s]+)@")
_DIGITS: Final = 16


class _Tool(msgspec.Struct, frozen=True):
    effects: tuple[str, ...]
    critical: tuple[str, ...] | None = None
    # The beginning of the digest of the definition that was checked.
    text: str = ""


class _Package(msgspec.Struct, frozen=True):
    registry: str
    package: str
    versions: str
    checked: str
    tools: dict[str, _Tool]
    # Its options whose value is data, such as a folder to work in; `*` for folders that stand alone.
    data: tuple[str, ...] = ()


def checked(server_id: str, entry: Mapping[str, Any]) -> tuple[Effects, bool] | None:
    """What is known of a tool of the server with this identity, and whether its definition is the one that was checked;
    None where the catalogue does not have it."""
    package, name = _package(server_id), entry.get("name")
    tool = package.tools.get(name) if package is not None and isinstance(name, str) else None
    if tool is None:
        return None
    return Effects(tool.effects, tool.critical), bool(tool.text) and tool.text == digest(entry)


def data_of(package: str) -> tuple[str, ...]:
    """The options of a package, such as `npm:@org/pkg`, whose value is data; `*` for folders that stand alone."""
    known = _package(f"{package}@")
    return () if known is None else known.data


def _package(server_id: str) -> _Package | None:
    found = _PACKAGE.match(server_id)
    package = None if found is None else _read(file_name(found[1], found[2]))
    if package is None or found is None:
        return None
    return package if (package.registry, package.package.lower()) == (found[1], found[2].lower()) else None


def digest(entry: Mapping[str, Any]) -> str:
    """The beginning of the digest of a tool's definition; empty where that has no canonical form."""
    try:
        text = canonical([entry.get("name"), entry.get("description"), entry.get("inputSchema")])
    except (MessageError, RecursionError):
        return ""
    return hashlib.sha256(text).hexdigest()[:_DIGITS]


def file_name(registry: str, package: str) -> str:
    """The file of a package: `npm-modelcontextprotocol-server-filesystem.json`."""
    return f"{registry}-{re.sub(r'[^a-z0-9]+', '-', package.lower()).strip('-')}.json"


@lru_cache(256)
def _read(name: str) -> _Package | None:
    file = files("callgate.trust.catalogue").joinpath(name)
    return msgspec.json.decode(file.read_bytes(), type=_Package) if file.is_file() else None

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


def checked(server_id: str, entry: Mapping[str, Any]) -> tuple[Effects, bool] | None:
    """What is known of a tool of the server with this identity, and whether its definition is the one that was checked;
    None where the catalogue does not have it."""
    found = _PACKAGE.match(server_id)
    name = entry.get("name")
    if found is None or not isinstance(name, str):
        return None
    package = _read(file_name(found[1], found[2]))
    if package is None or (package.registry, package.package.lower()) != (found[1], found[2].lower()):
        return None
    tool = package.tools.get(name)
    if tool is None:
        return None
    return Effects(tool.effects, tool.critical), bool(tool.text) and tool.text == digest(entry)


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

"""The servers in a client's configuration: where they stand, and what kind each of them is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from callgate.clients.jsonc import JsonMember, JsonNode
from callgate.protocol import FIELD_NAME, FIELD_VALUE, fixed_header

# The way to a table of servers; `*` is any key.
Table = tuple[str, ...]
Pointer = tuple[str, ...]

_SIGNS_IN: Final = ("oauth", "auth", "authorization", "authProvider", "headersHelper")
_NO_HTTP: Final = frozenset({"sse", "ws", "websocket"})
_HTTP: Final = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http"})
_HEADER_CHARS: Final = 128
_ADDRESS: Final = re.compile(r"(?:https?://|\$\{)[\x21-\x7e]+\Z")


class ServerEntry(NamedTuple):
    """One server: the keys that lead to it, the last of which is its name, and what is written of it."""

    pointer: Pointer
    node: JsonNode

    @property
    def name(self) -> str:
        return self.pointer[-1]

    @property
    def scope(self) -> str:
        """The project that it is for, where one file holds the servers of many."""
        return self.pointer[1] if self.pointer[0] == "projects" else ""


@dataclass(frozen=True, slots=True)
class Command:
    """A server that is started: the object that says how, and the members of it that name the program and its words."""

    holder: JsonNode
    program: JsonMember
    args: JsonMember | None

    @property
    def words(self) -> list[str]:
        rest = None if self.args is None else self.args.value.strings
        return [self.program.value.string, *(rest or [])]

    @property
    def env(self) -> dict[str, str]:
        """The variables that it is started with, as far as they are texts."""
        env = self.holder.get("env")
        members = () if env is None else env.value.members
        return {one.key: one.value.string for one in members if one.value.kind == "string"}


@dataclass(frozen=True, slots=True)
class Remote:
    """A server at an address."""

    holder: JsonNode
    url: JsonMember
    headers: JsonMember | None
    kind: JsonMember | None


@dataclass(frozen=True, slots=True)
class Unfit:
    """A server that the gate cannot be put in front of: why, and what to do about it."""

    reason: str
    text: str
    advice: str = ""


def entries(tree: JsonNode, tables: tuple[Table, ...]) -> Iterator[ServerEntry]:
    """Every server in these tables."""
    for table in tables:
        yield from _below(tree, table, ())


def _below(node: JsonNode, way: Table, pointer: Pointer) -> Iterator[ServerEntry]:
    if not way:
        for member in node.members:
            yield ServerEntry((*pointer, member.key), member.value)
        return
    for member in node.members:
        if way[0] in ("*", member.key) and member.value.kind == "object":
            yield from _below(member.value, way[1:], (*pointer, member.key))


def read_server(node: JsonNode) -> Command | Remote | Unfit:
    """What kind of server an entry is."""
    if node.kind != "object":
        return Unfit("not_an_object", "its entry is not an object")
    command = node.get("command")
    address = node.get("url") or node.get("serverUrl")
    if command is not None and address is not None:
        return Unfit("command_and_url", "its entry has a command and an address", "Take one of the two away.")
    if command is not None:
        return _command(node, command)
    if address is not None:
        return _remote(node, address)
    if node.get("settings") is not None or _text(node, "source") == "extension":
        return Unfit(
            "extension",
            "an extension of the editor starts it, and the file has no command to put the gate in front of",
            "Write its command into the entry (`command` and `args`) if you want it behind the gate.",
        )
    return Unfit("no_command", "its entry has neither a command nor an address")


def _command(node: JsonNode, command: JsonMember) -> Command | Unfit:
    holder, program = node, command
    if command.value.kind == "object":
        # Zed up to the middle of 2025: {"command": {"path": …, "args": …, "env": …}}
        inner = command.value.get("path")
        if inner is None:
            return Unfit("no_command", "its command names no program")
        holder, program = command.value, inner
    if program.value.kind != "string" or not program.value.string.strip():
        return Unfit("no_command", "its command is not the name of a program")
    args = holder.get("args")
    if args is not None and args.value.strings is None:
        return Unfit("args_not_words", "its args are not a list of strings", "Write them as strings.")
    return Command(holder, program, args)


def _remote(node: JsonNode, address: JsonMember) -> Remote | Unfit:
    kind = node.get("type") or node.get("transport")
    word = "" if kind is None else kind.value.string
    url = address.value.string
    if address.value.kind != "string" or not _ADDRESS.match(url):
        return Unfit("no_address", "its address is not an http or https one")
    if word in _NO_HTTP or re.search(r"/sse/?(?:[?#]|$)", url):
        return Unfit(
            "old_transport",
            f"it speaks {word or 'sse'}, and the gate speaks Streamable HTTP",
            "Many such servers answer at /mcp too: write that address, then run `callgate install` again.",
        )
    if kind is not None and word not in _HTTP:
        return Unfit("unknown_type", "its type is none that the gate knows")
    if found := next((key for key in _SIGNS_IN if node.get(key) is not None), ""):
        return Unfit(
            "signs_in",
            f"the client signs in to it by itself ({found}), which the gate cannot do in its place",
            "Give it a token in `headers` instead, if its maker offers one.",
        )
    headers = node.get("headers")
    if node.get("env") is not None or node.get("args") is not None:
        return Unfit("mixed", "it has an address, and keys of a command beside it")
    if headers is not None and not _headers_fit(headers.value):
        return Unfit(
            "odd_headers",
            "its headers hold a name or a value that the gate does not send",
            "Take out empty ones and those that the connection sets by itself, such as Host.",
        )
    return Remote(node, address, headers, kind)


def _headers_fit(headers: JsonNode) -> bool:
    return headers.kind == "object" and all(
        len(member.key) <= _HEADER_CHARS
        and FIELD_NAME.fullmatch(member.key)
        and not fixed_header(member.key)
        and member.value.kind == "string"
        # None that is empty: `callgate wrap --header-env` takes no such value.
        and FIELD_VALUE.fullmatch(member.value.string)
        for member in headers.members
    )


def _text(node: JsonNode, key: str) -> str:
    member = node.get(key)
    return "" if member is None else member.value.string

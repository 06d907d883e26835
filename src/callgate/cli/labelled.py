"""The labels of tools as a gateway has them: what the configuration says, and what servers were seen to list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from callgate.cli.pinned import HOW_TOOLS_COME, Opened, reading, shown, word_to_type

if TYPE_CHECKING:
    from callgate.config import Config
    from callgate.trust.labels import Labels

FromOption = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="FILE", help="Read the list of tools from this JSON file, as `tools/list` answers it."
    ),
]

_BYTES: Final = 4 * 2**20
_SHOWN: Final = 10


class Known(NamedTuple):
    """The labels, the tools to speak of by server, and servers that nobody has met yet."""

    labels: Labels
    config: Config
    tools: dict[str, tuple[str, ...]]
    unmet: tuple[str, ...]
    options: tuple[str, ...]

    def command(self, *words: str) -> str:
        """A command for the person to type, on the same store."""
        return " ".join(["callgate", *(word_to_type(word) for word in (*words, *self.options))])

    def each(self) -> list[tuple[str, str]]:
        return [(server, tool) for server, names in self.tools.items() for tool in names]


def labelled(path: Path | None, url: str | None, server: str | None, file: Path | None) -> Known:
    """What is known of one server's tools, or of all. With `file`, its list comes from there and no store is read."""
    if file is not None:
        return _from_file(path, url, server, file)
    with reading(path, url) as opened:
        met = _met(opened)
        known = list(dict.fromkeys([*opened.config.servers, *met]))
        if server is not None and server not in known:
            raise _unknown(server, known)
        wanted = known if server is None else [server]
        found = _known(opened.config, {name: met[name] for name in wanted if name in met}, wanted, opened.options)
        for name, labels in _approved(opened).items():
            found.labels.approve(name, labels)
        return found


def _from_file(path: Path | None, url: str | None, server: str | None, file: Path) -> Known:
    from callgate.cli.common import configuration
    from callgate.cli.pinned import options_of
    from callgate.errors import ConfigError

    if server is None:
        raise ConfigError("whose list is this?", advice=f"Name the server: callgate labels show SERVER --from {file}")
    return _known(
        configuration(path, url), {server: read_list(file)}, [server], (*options_of(path, url), "--from", str(file))
    )


def _known(config: Config, met: dict[str, list[Any]], wanted: list[str], options: tuple[str, ...]) -> Known:
    from callgate.app.trust import make_labels
    from callgate.trust.tool_annotations import AnnotationObserver
    from callgate.trust.vocabulary import Vocabulary

    labels = make_labels(config)
    learning = AnnotationObserver(lambda *_: None)
    learning.teach(labels, Vocabulary(config.trust.labels))
    tools: dict[str, tuple[str, ...]] = {}
    for name in wanted:
        learning.listed(name, {"tools": met.get(name, [])})
        named = set(config.servers[name].trust.tools) if name in config.servers else set()
        own = {one for one in named if not set(one) & set("*?[")} if name not in met else set()
        tools[name] = tuple(sorted({*labels.declared(name), *own}))
    return Known(labels, config, tools, tuple(name for name in wanted if name not in met), options)


def _met(opened: Opened) -> dict[str, list[Any]]:
    """The newest entry of each tool that a server still lists; of several identities of a name, the one met last."""
    found: dict[str, list[Any]] = {}
    for server in opened.wait(opened.shelf.servers()):
        if server.name not in found:
            seen = opened.wait(opened.shelf.tools(server.server_id))
            found[server.name] = [_entry(one.raw) for one in seen if not one.gone]
    return found


def _approved(opened: Opened) -> dict[str, dict[str, str]]:
    """The labels that tools were approved with; of several identities of a name, those of the one met last."""
    opened.wait(opened.pins.refresh())
    found: dict[str, dict[str, str]] = {}
    for server in opened.wait(opened.shelf.servers()):
        if server.name not in found:
            pins = [pin for pin in opened.pins.book.pins() if pin.server_id == server.server_id]
            found[server.name] = {pin.tool: pin.label for pin in pins if pin.action == "approve" and pin.label}
    return found


def _entry(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def read_list(file: Path) -> list[Any]:
    """The tools in a file: a list, a result with `tools`, or a whole reply."""
    from callgate.errors import ConfigError

    try:
        with file.open("rb") as opened:
            text = opened.read(_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{file}: cannot be read: {error.strerror}", advice="Name a JSON file that is there."
        ) from None
    found = _entry(text) if len(text) <= _BYTES else None
    if isinstance(found, dict):
        found = found.get("result", found)
    if isinstance(found, dict):
        found = found.get("tools")
    if not isinstance(found, list):
        raise ConfigError(
            f"{file}: there is no list of tools in it",
            advice='Expected JSON of up to 4 MiB: what a server answers to tools/list, such as {"tools": [...]}.',
        )
    return found


def _unknown(server: str, known: list[str]) -> Exception:
    from callgate.errors import Reason, Refused

    names = ", ".join(shown(name) for name in known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
    advice = f"Those that are configured or were met: {names}." if known else HOW_TOOLS_COME
    return Refused(Reason.TOOL_UNKNOWN, f"no server {shown(server)!r} is configured, and none was met", advice=advice)

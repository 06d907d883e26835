"""`callgate labels`: what each tool does with data, who said so, and where a server says less than what holds here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    configuration,
    console,
    fields_of,
    print_json,
    say,
)
from callgate.cli.printing import Line, escaped, fact, heading, print_lines, print_table, text_line, word_to_type
from callgate.cli.services import WHERE_TOOLS_COME_FROM, OpenedStore, open_pins, options_of
from callgate.config import Config
from callgate.errors import ConfigError, Reason, Refused
from callgate.trust.hints import from_hints, starter_table
from callgate.trust.labels import Labels
from callgate.trust.model import DESTINATIONS, OUTCOMES, SOURCES, ToolLabel, class_rank
from callgate.trust.results import Understated, understated
from callgate.trust.said import Said
from callgate.trust.tool_annotations import AnnotationObserver
from callgate.trust.vocabulary import Vocabulary

ServerArgument = Annotated[str | None, typer.Argument(metavar="[SERVER]", help="Only this server's tools.")]
# Field of a label in the words of callgate.toml, and its attribute.
FIELDS: Final = {
    "destination": "destinations",
    "outcomes": "outcomes",
    "source": "sources",
    "sensitivity": "returns",
    "accepts": "accepts",
}
FLAGS: Final = ("read_only", "destructive", "open_world")
_WHO: Final = {
    "operator": "you said so",
    "review": "approved with the tool",
    "server": "the server says so",
    "hints": "by the server's hints",
    "default": "by default",
    "unknown": "nobody said so; the worst counts",
}
_WIDTH: Final = 12
FromOption = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="FILE", help="Read the list of tools from this JSON file, as `tools/list` answers it."
    ),
]
_BYTES: Final = 4 * 2**20
_SHOWN: Final = 10


def show(
    server: ServerArgument = None,
    tool: Annotated[
        str | None, typer.Argument(metavar="[TOOL]", help="Only this tool, with all that was said.")
    ] = None,
    *,
    file: FromOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the label that holds for each tool, and who said it: operator, server, hints, default, or nobody (unknown).

    The tools are those that servers were seen to list, each with its newest entry.
    """
    known = known_labels(config, store, server, file)
    if tool is not None:
        assert server is not None
        _require(known, server, tool)
        if as_json:
            print_json(row(known, server, tool))
        else:
            print_lines(console(), tool_lines(known, server, tool))
        return
    if as_json:
        print_json([row(known, *one) for one in known.each()])
        return
    if known.each():
        columns = [field for field in FIELDS if field != "accepts"]
        found = [(one, known.labels.listed(*one)) for one in known.each()]
        print_table(
            ("server", "tool", *columns),
            ((escaped(one[0]), escaped(one[1]), *(cell(label, field) for field in columns)) for one, label in found),
        )
    _what_next(known)


def report(
    server: ServerArgument = None,
    *,
    file: FromOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the tools whose label here is stricter than the one that their server declares, the riskiest first.

    A server that is not trusted is not believed when it says less than what holds here. Look at these before you trust
    one.
    """
    known = known_labels(config, store, server, file)
    found = _understated_by_risk(known)
    listed = {one: known.labels.listed(*one) for one in {(each.server, each.tool) for each in found}}
    if as_json:
        print_json(
            [
                {
                    **fields_of(one, "server tool field declared local"),
                    "who": who(listed[one.server, one.tool], one.field),
                }
                for one in found
            ]
        )
        return
    if not found:
        say("No tool declares less than what holds for it here." if known.each() else _no_tools_yet())
        return
    print_table(
        ("server", "tool", "field", "declared", "here", "by"),
        (
            (
                escaped(one.server),
                escaped(one.tool),
                one.field,
                escaped(one.declared),
                escaped(one.local),
                who(listed[one.server, one.tool], one.field),
            )
            for one in found
        ),
    )
    first = found[0]
    say(f"\nAll that was said of the first:  {known.command('labels', 'show', first.server, first.tool)}")


def starter(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="The server's name.")],
    *,
    file: FromOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print tables for callgate.toml to begin with: what the hints of a server's tools suggest, and what to decide."""
    known = known_labels(config, store, server, file)
    declared = known.labels.declared(server)
    if not declared:
        raise Refused(
            Reason.TOOL_UNKNOWN,
            f"no list of tools of {escaped(server)} was met yet",
            advice=f"{WHERE_TOOLS_COME_FROM} Or give its list with --from FILE.",
        )
    if as_json:
        print_json({tool: _builtins(from_hints(annotations)) for tool, annotations in sorted(declared.items())})
        return
    typer.echo(starter_table(server, declared), nl=False)
    where = (
        f"below [servers.{server}]" if server in known.config.servers else f"with a table [servers.{server}] before it"
    )
    say(f"\nPut it into callgate.toml, {where}; then read it, decide what is commented out, and run `callgate check`.")


def _understated_by_risk(known: KnownLabels) -> list[Understated]:
    """High-risk tools first: what cannot be undone, then what reaches far; each tool's own fields stay together."""

    def risk(one: Understated) -> tuple[int, int, str, str]:
        label = known.labels.listed(one.server, one.tool)
        gravest = max((OUTCOMES.index(word) for word in label.outcomes if word in OUTCOMES), default=len(OUTCOMES))
        farthest = DESTINATIONS.index(label.destination) if label.destination in DESTINATIONS else len(DESTINATIONS)
        return -gravest, -farthest, one.server, one.tool

    return sorted((one for server in known.tools for one in understated(known.labels, server)), key=risk)


def _require(known: KnownLabels, server: str, tool: str) -> None:
    if tool in known.tools[server]:
        return
    raise Refused(
        Reason.TOOL_UNKNOWN,
        f"{escaped(server)} was never seen to list a tool {escaped(tool)!r}",
        advice=f"`{known.command('labels', 'show', server)}` shows those that it lists.",
    )


def _no_tools_yet() -> str:
    return f"No server's tools were met yet. {WHERE_TOOLS_COME_FROM} Or give a server's list with --from FILE."


def _what_next(known: KnownLabels) -> None:
    if not known.each() and not known.unmet:
        say(_no_tools_yet())
    for server in known.unmet:
        say(
            f"{escaped(server)} was not met yet, so only what the configuration names is known of it. "
            f"{WHERE_TOOLS_COME_FROM}"
        )
    problems = [
        (server, tool)
        for server, tool in known.each()
        if (one := known.labels.declared(server).get(tool)) and one.problems
    ]
    for server, tool in problems[:10]:
        command = known.command("labels", "show", server, tool)
        say(f"{escaped(tool)} of {escaped(server)} declares what cannot be read, which counts as unknown: `{command}`")
    unknown = [
        server for server, tools in known.tools.items() if any(known.labels.listed(server, t).unknown for t in tools)
    ]
    if unknown and unknown[0] not in known.unmet:
        say(f"\nUnknown counts as the worst. A table to begin with:  {known.command('labels', 'starter', unknown[0])}")


def who(label: ToolLabel, field: str) -> str:
    """Who said a field: `operator`, `server`, `hints`, `default`, or `unknown` where nobody did."""
    return "unknown" if field in label.unknown else label.origins.get(field, "default")


def words(label: ToolLabel, field: str) -> list[str]:
    """The possible values, from the most harmless."""
    orders: dict[str, tuple[str, ...]] = {"destination": DESTINATIONS, "outcomes": OUTCOMES, "source": SOURCES}
    found: frozenset[str] = getattr(label, FIELDS[field])
    order = orders.get(field)
    if order is None:
        return sorted(found, key=lambda word: (class_rank(word), word))
    return sorted(found, key=lambda word: (order.index(word) if word in order else len(order), word))


def row(known: KnownLabels, server: str, tool: str) -> dict[str, Any]:
    """A tool's label for machines."""
    label = known.labels.listed(server, tool)
    declared = known.labels.declared(server).get(tool)
    return {
        "server": server,
        "tool": tool,
        "label": {field: words(label, field) for field in FIELDS}
        | {flag: getattr(label, flag) for flag in FLAGS}
        | {
            "malicious": label.malicious,
            "critical": list(label.critical),
            "critical_declared": label.critical_declared,
            "fields": dict(label.fields),
            "attribution": list(label.attribution),
        },
        "who": {field: who(label, field) for field in (*FIELDS, *(flag for flag in FLAGS if flag in label.origins))},
        "said": {layer.origin: _builtins(layer.said) for layer in known.labels.voices(server, tool)},
        "trusted": known.labels.trusted(server),
        "hints": known.labels.accepts_hints(server),
        "listed": declared is not None,
        "problems": [{"path": one.path, "text": one.text} for one in (declared.problems if declared else ())],
    }


def cell(label: ToolLabel, field: str) -> str:
    return f"{' or '.join(map(escaped, words(label, field))) or '-'} ({who(label, field)})"


def tool_lines(known: KnownLabels, server: str, tool: str) -> Iterator[Line]:
    """One tool's label, who said each part of it, and what was said without being believed."""
    label = known.labels.listed(server, tool)
    yield fact("tool", f"{escaped(tool)} on {escaped(server)}", "bold", width=_WIDTH)
    for field in FIELDS:
        values = " or ".join(map(escaped, words(label, field))) or "nothing"
        source = who(label, field)
        style = "yellow" if source == "unknown" else ""
        yield fact(field, f"{values}  ({_WHO[source]})", style, width=_WIDTH)
    for flag in FLAGS:
        said_by = f"  ({_WHO[label.origins[flag]]})" if flag in label.origins else ""
        yield fact(flag, ("yes" if getattr(label, flag) else "no") + said_by, width=_WIDTH)
    how = "declared" if label.critical_declared else "guessed from its schema"
    named = ", ".join(map(escaped, label.critical))
    yield fact("critical", f"{named}  ({how})" if named else "every value without blanks in it", width=_WIDTH)
    for path, source in sorted(label.fields.items()):
        yield fact("field", f"{escaped(path)}: {source}", width=_WIDTH)
    if label.malicious:
        yield fact("malicious", "yes", "red", width=_WIDTH)
    yield from _rules(known, server, tool)
    yield from _voices(known, server, tool)


def _rules(known: KnownLabels, server: str, tool: str) -> Iterator[Line]:
    section = known.config.servers[server].trust if server in known.config.servers else None
    fitting = [rule for rule in section.rules if fnmatchcase(tool, rule.tool)] if section else []
    if fitting:
        yield from heading("Depends on the arguments (the above has all that is possible)")
        for rule in fitting:
            yield text_line(" ".join(rule.when.split()), lead="  when ", rest="       ")


def _voices(known: KnownLabels, server: str, tool: str) -> Iterator[Line]:
    labels = known.labels
    aside = {
        "operator": "",
        "review": "",
        "server": "" if labels.trusted(server) else "  (not trusted: it can only make things stricter)",
        "hints": "" if labels.accepts_hints(server) else "  (not accepted: hints is false)",
    }
    yield from heading("Who said what")
    voices = labels.voices(server, tool)
    for layer in voices:
        yield fact(f"  {layer.origin}", _sentence(layer.said) + aside[layer.origin], width=_WIDTH)
    if not voices:
        yield text_line("  nobody said anything", "dim")
    declared = labels.declared(server).get(tool)
    for problem in declared.problems if declared else ():
        yield fact("  unreadable", f"{escaped(problem.path)}: {escaped(problem.text)}", "red", width=_WIDTH)


def _sentence(spoken: Said) -> str:
    parts = []
    for name, value in _builtins(spoken).items():
        text = (
            (" or " if name in FIELDS else ", ").join(map(escaped, value))
            if isinstance(value, list)
            else ", ".join(f"{escaped(key)}: {escaped(one)}" for key, one in value.items())
            if isinstance(value, dict)
            else ("yes" if value else "no")
        )
        parts.append(f"{name} {text or 'nothing'}")
    return ", ".join(parts)


def _builtins(spoken: Said) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in spoken.__struct_fields__:
        value = getattr(spoken, name)
        if value is not None:
            found[name] = (
                sorted(value) if isinstance(value, frozenset) else list(value) if isinstance(value, tuple) else value
            )
    return found


class KnownLabels(NamedTuple):
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


def known_labels(path: Path | None, url: str | None, server: str | None, file: Path | None) -> KnownLabels:
    """What is known of one server's tools, or of all. With `file`, its list comes from there and no store is read."""
    if file is not None:
        return _from_file(path, url, server, file)
    with open_pins(path, url) as opened:
        met = _observed_entries(opened)
        known = list(dict.fromkeys([*opened.config.servers, *met]))
        if server is not None and server not in known:
            raise _unknown(server, known)
        wanted = known if server is None else [server]
        found = _labels_of(opened.config, {name: met[name] for name in wanted if name in met}, wanted, opened.options)
        for name, labels in _approved_labels(opened).items():
            found.labels.approve(name, labels)
        return found


def _from_file(path: Path | None, url: str | None, server: str | None, file: Path) -> KnownLabels:
    if server is None:
        raise ConfigError("whose list is this?", advice=f"Name the server: callgate labels show SERVER --from {file}")
    return _labels_of(
        configuration(path, url), {server: read_list(file)}, [server], (*options_of(path, url), "--from", str(file))
    )


def _labels_of(config: Config, met: dict[str, list[Any]], wanted: list[str], options: tuple[str, ...]) -> KnownLabels:
    from callgate.app.trust import make_labels

    labels = make_labels(config)
    learning = AnnotationObserver(lambda *_: None)
    learning.teach(labels, Vocabulary(config.trust.labels))
    tools: dict[str, tuple[str, ...]] = {}
    for name in wanted:
        learning.listed(name, {"tools": met.get(name, [])})
        named = set(config.servers[name].trust.tools) if name in config.servers else set()
        own = {one for one in named if not set(one) & set("*?[")} if name not in met else set()
        tools[name] = tuple(sorted({*labels.declared(name), *own}))
    return KnownLabels(labels, config, tools, tuple(name for name in wanted if name not in met), options)


def _observed_entries(opened: OpenedStore) -> dict[str, list[Any]]:
    """The newest entry of each tool that a server still lists; of several identities of a name, the one met last."""
    found: dict[str, list[Any]] = {}
    for server in opened.wait(opened.pin_store.servers()):
        if server.name not in found:
            seen = opened.wait(opened.pin_store.tools(server.server_id))
            found[server.name] = [_entry(one.raw) for one in seen if not one.gone]
    return found


def _approved_labels(opened: OpenedStore) -> dict[str, dict[str, str]]:
    """The labels that tools were approved with; of several identities of a name, those of the one met last."""
    opened.wait(opened.pins.refresh())
    found: dict[str, dict[str, str]] = {}
    for server in opened.wait(opened.pin_store.servers()):
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
    names = ", ".join(escaped(name) for name in known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
    advice = f"Those that are configured or were met: {names}." if known else WHERE_TOOLS_COME_FROM
    return Refused(Reason.TOOL_UNKNOWN, f"no server {escaped(server)!r} is configured, and none was met", advice=advice)

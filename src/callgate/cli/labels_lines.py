"""Labels of tools for people: possible values, and who said them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from callgate.cli.pinned import shown
from callgate.cli.tools_lines import Line, fact, heading, said

if TYPE_CHECKING:
    from callgate.cli.labelled import Known
    from callgate.trust.model import ToolLabel
    from callgate.trust.said import Said

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


def who(label: ToolLabel, field: str) -> str:
    """Who said a field: `operator`, `server`, `hints`, `default`, or `unknown` where nobody did."""
    return "unknown" if field in label.unknown else label.origins.get(field, "default")


def words(label: ToolLabel, field: str) -> list[str]:
    """The possible values, from the most harmless."""
    from callgate.trust.model import DESTINATIONS, OUTCOMES, SOURCES, class_rank

    orders: dict[str, tuple[str, ...]] = {"destination": DESTINATIONS, "outcomes": OUTCOMES, "source": SOURCES}
    found: frozenset[str] = getattr(label, FIELDS[field])
    order = orders.get(field)
    if order is None:
        return sorted(found, key=lambda word: (class_rank(word), word))
    return sorted(found, key=lambda word: (order.index(word) if word in order else len(order), word))


def row(known: Known, server: str, tool: str) -> dict[str, Any]:
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
    return f"{' or '.join(map(shown, words(label, field))) or '-'} ({who(label, field)})"


def tool_lines(known: Known, server: str, tool: str) -> Iterator[Line]:
    """One tool's label, who said each part of it, and what was said without being believed."""
    label = known.labels.listed(server, tool)
    yield fact("tool", f"{shown(tool)} on {shown(server)}", "bold", width=_WIDTH)
    for field in FIELDS:
        values = " or ".join(map(shown, words(label, field))) or "nothing"
        source = who(label, field)
        style = "yellow" if source == "unknown" else ""
        yield fact(field, f"{values}  ({_WHO[source]})", style, width=_WIDTH)
    for flag in FLAGS:
        said_by = f"  ({_WHO[label.origins[flag]]})" if flag in label.origins else ""
        yield fact(flag, ("yes" if getattr(label, flag) else "no") + said_by, width=_WIDTH)
    how = "declared" if label.critical_declared else "guessed from its schema"
    named = ", ".join(map(shown, label.critical))
    yield fact("critical", f"{named}  ({how})" if named else "every value without blanks in it", width=_WIDTH)
    for path, source in sorted(label.fields.items()):
        yield fact("field", f"{shown(path)}: {source}", width=_WIDTH)
    if label.malicious:
        yield fact("malicious", "yes", "red", width=_WIDTH)
    yield from _rules(known, server, tool)
    yield from _voices(known, server, tool)


def _rules(known: Known, server: str, tool: str) -> Iterator[Line]:
    from fnmatch import fnmatchcase

    section = known.config.servers[server].trust if server in known.config.servers else None
    fitting = [rule for rule in section.rules if fnmatchcase(tool, rule.tool)] if section else []
    if fitting:
        yield from heading("Depends on the arguments (the above has all that is possible)")
        for rule in fitting:
            yield said(" ".join(rule.when.split()), lead="  when ", rest="       ")


def _voices(known: Known, server: str, tool: str) -> Iterator[Line]:
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
        yield said("  nobody said anything", "dim")
    declared = labels.declared(server).get(tool)
    for problem in declared.problems if declared else ():
        yield fact("  unreadable", f"{shown(problem.path)}: {shown(problem.text)}", "red", width=_WIDTH)


def _sentence(spoken: Said) -> str:
    parts = []
    for name, value in _builtins(spoken).items():
        text = (
            (" or " if name in FIELDS else ", ").join(map(shown, value))
            if isinstance(value, list)
            else ", ".join(f"{shown(key)}: {shown(one)}" for key, one in value.items())
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

"""A configuration for others: its JSON Schema for editors, and its values with every secret masked."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any, Final, get_type_hints

import msgspec

from callgate.config.model import Config, LimitsSection
from callgate.config.rules import Section, peel
from callgate.config.secret import Secret
from callgate.config.trust import ArgumentLabels, ToolLabels, TrustDefaults

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of the whole file, with every key's description and default."""
    # through JSON, so that defaults are what JSON has and not tuples
    made = msgspec.json.encode(msgspec.json.schema(Config, schema_hook=_custom))
    # The schema calls a section by the name of its table.
    whole: dict[str, Any] = msgspec.json.decode(made.replace(b'Section"', b'"'))
    kinds = {kind.__name__.removesuffix("Section"): kind for kind in _sections(Section)}
    for name, section in whole["$defs"].items():
        for key, text in descriptions(kinds[name]).items():
            section["properties"][key] = {"description": text} | section["properties"][key]
    whole["$defs"]["Config"]["properties"]["servers"]["propertyNames"] = {"pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"}
    whole["$defs"]["Server"]["oneOf"] = [{"required": ["url"]}, {"required": ["command"]}]
    whole["$defs"]["Server"]["properties"]["command"]["minItems"] = 1
    for key, kind in get_type_hints(LimitsSection, include_extras=True).items():
        rule = peel(kind)[1]
        if rule is not None and rule.read is not None:
            # also written as text, such as "32 MiB"
            whole["$defs"]["Limits"]["properties"][key]["type"] = ["integer", "string"]
    for labels in (ToolLabels, ArgumentLabels, TrustDefaults):
        properties = whole["$defs"][labels.__name__]["properties"]
        for key, kind in get_type_hints(labels, include_extras=True).items():
            if (rule := peel(kind)[1]) is not None and rule.single:
                _or_single(properties[key])
    return {"$schema": DIALECT, "title": "callgate.toml"} | whole


def descriptions(kind: type[Section]) -> dict[str, str]:
    """What is written under each key of a section in its class; nothing where the source is not there to be read."""
    found: dict[str, str] = {}
    for owner in (one for one in reversed(kind.__mro__) if issubclass(one, Section)):
        try:
            (written,) = ast.parse(dedent(inspect.getsource(owner))).body
        except OSError:
            continue
        assert isinstance(written, ast.ClassDef)
        for key, below in pairwise(written.body):
            match key, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
    return found


def _sections(kind: type[Section]) -> Iterator[type[Section]]:
    for one in kind.__subclasses__():
        yield one
        yield from _sections(one)


def _or_single(written: dict[str, Any]) -> None:
    """One value may be written for a list of it."""
    many = next(part for part in written["anyOf"] if part.get("type") == "array")
    written["anyOf"].append(dict(many["items"]))


def _custom(kind: type) -> dict[str, Any]:
    # Secrets and paths are written as plain strings in the file.
    if kind is Path or kind.__name__ == "Secret":
        return {"type": "string"}
    raise NotImplementedError


def show(config: Config) -> dict[str, Any]:
    """The effective configuration, as JSON values."""
    shown = _plain(config)
    assert isinstance(shown, dict)
    return shown


def _plain(value: object) -> Any:
    match value:
        case Section():
            return {name: _plain(getattr(value, name)) for name in msgspec.structs.asdict(value)}
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case tuple():
            return [_plain(item) for item in value]
        case Secret() | Path():
            return str(value)
        case _:
            return value

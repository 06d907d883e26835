"""Finding, reading and checking callgate.toml, with every problem of the file and not only the first."""

from __future__ import annotations

import datetime as dt
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import msgspec
import platformdirs
from msgspec import inspect

from callgate.config.model import Config
from callgate.config.rules import KeyRule, Section, peel, read_size, read_switch
from callgate.config.secret import Secret
from callgate.errors import ConfigError, Problem
from callgate.places import toml_places

FILE_NAME: Final = "callgate.toml"
MAX_BYTES: Final = 2**20
ADVICE: Final = "Put these right, then run `callgate check`."

# Each overrides one key of the file.
OVERRIDES: Final[dict[str, tuple[tuple[str, str], Callable[[str], Any]]]] = {
    "CALLGATE_LISTEN": (("gateway", "listen"), str),
    "CALLGATE_STORE_URL": (("store", "url"), str),
    "CALLGATE_BLOCK_ALL": (("policy", "block_all"), read_switch),
    "CALLGATE_LOG_LEVEL": (("logging", "level"), str.lower),
    "CALLGATE_LOG_FORMAT": (("logging", "format"), str.lower),
}

_POSITION: Final = re.compile(r"(?P<text>.*?) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")
KeyPath = tuple[str | int, ...]
Report = Callable[[KeyPath, str], None]
_PIECE: Final = re.compile(r"\$\$\{|\$\{(?P<body>[^}]*)(?P<end>\}?)")
_BODY: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-.*)?", re.DOTALL)
_NAMES: dict[type, str] = {bool: "a boolean", str: "a string", list: "a list", dict: "a table"}


def find(path: Path | None = None, *, environ: Mapping[str, str] | None = None) -> Path | None:
    """The file to read: the one given, CALLGATE_CONFIG, ./callgate.toml or the user's; None if there is none."""
    if path is not None:
        return path
    if named := (os.environ if environ is None else environ).get("CALLGATE_CONFIG"):
        return Path(named)
    for candidate in (Path(FILE_NAME), platformdirs.user_config_path("callgate", appauthor=False) / FILE_NAME):
        if candidate.exists():
            return candidate
    return None


def load(path: Path | None = None, *, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration in force. Without any file: the defaults, and no servers."""
    chosen = find(path, environ=environ)
    if chosen is None:
        return parse("", source="defaults", environ=environ)
    return parse(read(chosen), source=str(chosen), base=chosen.absolute().parent, environ=environ)


def read(path: Path) -> str:
    """The text of a configuration file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: there is no such file", advice="Name another file with --config, or write this one."
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", advice="Make the file readable.") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: the file is larger than {MAX_BYTES} bytes", advice="Is this the right file?")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _failure([Problem(str(path), line, "", "this is not UTF-8 text")]) from None


def parse(
    text: str,
    *,
    source: str = FILE_NAME,
    base: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """The configuration that a text says. Relative paths in it start at `base`, or the working directory."""
    environ = os.environ if environ is None else environ
    try:
        data, places = tomllib.loads(text), toml_places(source, text)
    except tomllib.TOMLDecodeError as error:
        raise _failure([_syntax(text, str(error), source)]) from None
    except RecursionError:
        raise _failure([Problem(source, None, "", "the file is nested too deeply")]) from None
    problems: list[Problem] = []
    overridden = _override(data, environ, problems)

    def report(path: KeyPath, text: str) -> None:
        if name := overridden.get(path):
            problems.append(Problem("environment", None, name, text))
        else:
            problems.append(Problem(source, places.line(path), dotted_key(path), text))

    def base_of(path: KeyPath) -> Path:
        return Path.cwd() if base is None or path in overridden else base

    config = ConfigReader(report, environ, base_of).config(data)
    if problems:
        raise _failure(problems)
    return config


def dotted_key(path: KeyPath) -> str:
    """A key path as it is written in TOML, with list positions in brackets."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part if re.fullmatch(r"[A-Za-z0-9_-]{1,128}", part) else ascii(part[:128]).replace("'", '"')
            text += f".{shown}" if text else shown
    return text


def _override(data: dict[str, Any], environ: Mapping[str, str], problems: list[Problem]) -> dict[KeyPath, str]:
    overridden: dict[KeyPath, str] = {}
    for name, ((section, key), convert) in OVERRIDES.items():
        if not (text := environ.get(name)):
            continue
        table = data.setdefault(section, {})
        if not isinstance(table, dict):
            continue  # the file's own problem, told by the reader
        try:
            value = convert(text)
        except ValueError as error:
            problems.append(Problem("environment", None, name, str(error)))
            continue
        # The file can be changed while the gateway runs, its environment cannot: false must not hold the switch down.
        if value is not False:
            table[key] = value
            overridden[section, key] = name
    return overridden


def _syntax(text: str, message: str, source: str) -> Problem:
    match = _POSITION.fullmatch(message)
    if match is None:
        return Problem(source, None, "", f"not valid TOML: {message}")
    if match["line"] is None:
        return Problem(source, text.count("\n") + 1, "", f"not valid TOML: {match['text']} at the end of the file")
    return Problem(source, int(match["line"]), "", f"not valid TOML: {match['text']}, at column {match['column']}")


def _failure(problems: list[Problem]) -> ConfigError:
    ordered = sorted(problems, key=lambda problem: (problem.line or 0, problem.key))
    return ConfigError(problems=tuple(ordered), advice=ADVICE)


class _Invalid(Exception):
    """A single value that does not do; already worded."""


class ConfigReader:
    """Reads one file. `report` is told of each problem; a value with a problem is replaced by its default."""

    def __init__(self, report: Report, environ: Mapping[str, str], base: Callable[[KeyPath], Path]) -> None:
        self._report = report
        self._environ = environ
        self._base = base
        self._problems = 0

    def config(self, data: dict[str, Any]) -> Config:
        config = self._section(Config, data, ())
        assert isinstance(config, Config)
        return config

    def _problem(self, path: KeyPath, text: str) -> None:
        self._problems += 1
        self._report(path, text)

    def _section(self, kind: type[Section], data: object, path: KeyPath) -> Section:
        if not isinstance(data, dict):
            self._problem(path, f"expected a table, found {found_value(data)}")
            return kind()
        fields = _fields(kind)
        values: dict[str, Any] = {}
        wrong: set[str] = set()
        for name, value in data.items():
            before = self._problems
            if name not in fields:
                wrong.update(get_close_matches(name, fields, n=1))
                self._problem((*path, name), _unknown(name, list(fields), path))
                continue
            try:
                values[name] = self._value(fields[name].type, KeyRule(), value, (*path, name))
            except _Invalid as problem:
                self._problem((*path, name), str(problem))
            if self._problems != before:
                wrong.add(name)
        section = kind(**values)
        for clash in section.clashes():
            if wrong.isdisjoint(clash.between):
                inner = clash.key if isinstance(clash.key, tuple) else (clash.key,) if clash.key else ()
                self._problem((*path, *inner), clash.text)
        return section

    def _value(self, kind: Any, rule: KeyRule, value: object, path: KeyPath) -> Any:
        bare, found_rule = peel(kind)
        rule = found_rule or rule
        origin = get_origin(bare)
        if isinstance(bare, type) and issubclass(bare, Section):
            return self._section(bare, value, path)
        if origin is tuple:
            return self._list(kind, get_args(bare)[0], rule, value, path)
        if origin is dict:
            return self._table(get_args(bare)[1], rule, value, path)
        return self._leaf(kind, bare, rule, value, path)

    def _list(self, kind: Any, item: Any, rule: KeyRule, value: object, path: KeyPath) -> tuple[Any, ...]:
        if rule.single and isinstance(value, str):
            return (self._value(item, rule, value, path),)
        if not isinstance(value, list):
            raise _Invalid(f"expected {expected_type(kind)}, found {found_value(value)}")
        items: list[Any] = []
        for index, entry in enumerate(value):
            try:
                items.append(self._value(item, rule, entry, (*path, index)))
            except _Invalid as wrong:
                self._problem((*path, index), str(wrong))
        if item is Secret and len(items) == len(value):
            shown = rule.shown(value)
            items = [Secret(secret.reveal(), text) for secret, text in zip(items, shown, strict=True)]
        return tuple(items)

    def _table(self, item: Any, rule: KeyRule, value: object, path: KeyPath) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _Invalid(f"expected a table, found {found_value(value)}")
        table: dict[str, Any] = {}
        for name, entry in value.items():
            if rule.name and (wrong := rule.name(name)):
                self._problem((*path, name), wrong)
            try:
                table[name] = self._value(item, rule, entry, (*path, name))
            except _Invalid as error:
                self._problem((*path, name), str(error))
        return table

    def _leaf(self, kind: Any, bare: Any, rule: KeyRule, value: Any, path: KeyPath) -> Any:
        written = value
        textual = bare is Secret or bare is Path
        if textual and not isinstance(value, str):
            raise _Invalid(f"expected {expected_type(kind)}, found {found_value(value)}")
        if isinstance(value, str):
            value = self._text(rule, value, path)
        if bare is Secret:
            return Secret(value, rule.shown([written])[0])
        if bare is Path:
            return Path(value)
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            raise _Invalid(_mismatch(kind, bare, value)) from None

    def _text(self, rule: KeyRule, text: str, path: KeyPath) -> Any:
        try:
            if rule.expand:
                text = expand(text, self._environ)
            if rule.read:
                return rule.read(text)
            if rule.check and (wrong := rule.check(text)):
                raise _Invalid(wrong)
            return rule.place(text, self._base(path)) if rule.place else text
        except ValueError as error:
            raise _Invalid(str(error)) from None
        except RuntimeError:  # pathlib's word for a home directory that it cannot find
            raise _Invalid('the home directory that "~" stands for is not known; write the whole path') from None


@cache
def _fields(kind: type[Section]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def _mismatch(kind: Any, bare: Any, value: object) -> str:
    if get_origin(bare) is Literal and isinstance(value, str):
        near = get_close_matches(value, get_args(bare), n=1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        return f"expected {expected_type(kind)}, found {found_value(value, show=True)}{hint}"
    return f"expected {expected_type(kind)}, found {found_value(value, show=not isinstance(value, str))}"


def _unknown(name: str, valid: list[str], path: KeyPath) -> str:
    if near := get_close_matches(name, valid, n=1):
        return f'unknown key; did you mean "{near[0]}"?'
    homes = [
        section.encode_name
        for section in msgspec.structs.fields(Config)
        if isinstance(part := peel(section.type)[0], type)
        and issubclass(part, Section)
        and name in part.__struct_fields__
        and (section.encode_name,) != path
    ]
    if homes:
        return f'unknown key here; did you mean "{homes[0]}.{name}", in the table [{homes[0]}]?'
    return f"unknown key; the keys here are {', '.join(valid)}"


def expand(text: str, environ: Mapping[str, str]) -> str:
    """The text with its references replaced; ValueError says why one cannot be. What a variable holds is not expanded
    again."""

    def replace(match: re.Match[str]) -> str:
        if match["body"] is None:
            return "${"
        if not match["end"]:
            raise ValueError('"${" is never closed by "}"; write "$${" for a plain "${"')
        body = _BODY.fullmatch(match["body"])
        if body is None:
            raise ValueError(
                "a reference is ${NAME} or ${NAME:-default}, with a name of letters, digits and _; "
                'write "$${" for a plain "${"'
            )
        name, default = body["name"], body["default"]
        value = environ.get(name)
        if default is not None:
            return value or default[2:]
        if value is None:
            raise ValueError(
                f"the environment variable {name} is not set; set it, or give a default with ${{{name}:-...}}"
            )
        return value

    return _PIECE.sub(replace, text)


def expected_type(kind: Any) -> str:
    """A type of the model, as a person would say it."""
    bare, rule = peel(kind)
    if get_origin(bare) is Literal:
        return "one of " + ", ".join(f'"{value}"' for value in get_args(bare))
    text = _info(inspect.type_info(kind))
    if rule and rule.single:
        return f"a string or {text}"
    return f'{text}, or a size such as "32 MiB"' if rule and rule.read is read_size else text


def found_value(value: object, *, show: bool = False) -> str:
    """A decoded TOML value. Strings are named but not repeated unless asked for: they may be secret."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str) and show and len(value) <= 64:
        return msgspec.json.encode(value).decode()
    if isinstance(value, int):
        return f"the integer {value}" if abs(value) < 10**18 else "a huge integer"
    if isinstance(value, float):
        return f"the number {value}" if math.isfinite(value) else f"{value}"
    if isinstance(value, dt.date | dt.time):
        return "a date or time"
    return _NAMES.get(type(value), "something else")


def number(value: float) -> str:
    """A number without a needless fraction."""
    return str(int(value)) if float(value).is_integer() else str(value)


def _info(info: inspect.Type) -> str:  # noqa: PLR0911 - one answer a type
    match info:
        case inspect.Metadata():
            return _info(info.type)
        case inspect.UnionType():
            return " or ".join(_info(part) for part in info.types if not isinstance(part, inspect.NoneType))
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"an integer{_range(info.ge, info.le)}"
        case inspect.FloatType():
            return f"a number{_range(info.ge, info.le)}"
        case inspect.VarTupleType():
            return f"a list of {_plural(_info(info.item_type))}"
        case inspect.DictType():
            return f"a table of {_plural(_info(info.value_type))}"
        case inspect.CustomType() if info.cls in {Secret, Path}:
            return "a string" if info.cls is Secret else "a path"
        case inspect.StructType():
            return "a table"
        case _:
            return "a string"


def _range(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" from {number(low)} to {number(high)}"


def _plural(text: str) -> str:
    return text.removeprefix("a ") + "s"

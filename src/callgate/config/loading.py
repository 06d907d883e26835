"""Finding, reading and checking callgate.toml, and the environment variables that override it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import platformdirs

from callgate.config.locate import Lines
from callgate.config.model import Config
from callgate.config.reading import KeyPath, Reader
from callgate.config.rules import read_switch
from callgate.errors import ConfigError, Problem

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
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _failure([_syntax(text, str(error), source)]) from None
    except RecursionError:
        raise _failure([Problem(source, None, "", "the file is nested too deeply")]) from None
    lines = Lines(text)
    problems: list[Problem] = []
    overridden = _override(data, environ, problems)

    def report(path: KeyPath, text: str) -> None:
        if name := overridden.get(path):
            problems.append(Problem("environment", None, name, text))
        else:
            problems.append(Problem(source, lines.line(path), dotted(path), text))

    def base_of(path: KeyPath) -> Path:
        return Path.cwd() if base is None or path in overridden else base

    config = Reader(report, environ, base_of).config(data)
    if problems:
        raise _failure(problems)
    return config


def dotted(path: KeyPath) -> str:
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

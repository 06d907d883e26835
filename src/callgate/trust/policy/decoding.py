"""A text that people write, TOML or JSON, as values with their places; what is neither is told with its place too."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, Final, NamedTuple

from callgate.errors import Problem
from callgate.places import Path as Keys
from callgate.places import Places, json_places, toml_places

_POSITION: Final = re.compile(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_LONG_NUMBER: Final = re.compile(r"[0-9][0-9_]{4000,}")


class Decoded(NamedTuple):
    """What a text holds; `value` is None where it could not be read."""

    value: Any
    places: Places
    json: bool
    problems: tuple[Problem, ...] = ()


def decode(source: str, text: str) -> Decoded:
    """The text's value. Of two keys of one name, which JSON lets pass, the second is a problem."""
    text = unix(text)
    places = Places(source, text)
    as_json = _is_json(text)
    try:
        if as_json:
            value = json.loads(text)
            places = json_places(source, text)
            json.dumps(value, ensure_ascii=False).encode()
        else:
            value = tomllib.loads(text)
            places = toml_places(source, text)
    except json.JSONDecodeError as error:
        problem = _json_syntax(places, error)
    except tomllib.TOMLDecodeError as error:
        meant = _json_mistake(text) if source.endswith(".json") else None
        problem = _toml_syntax(places, str(error)) if meant is None else _json_syntax(places, meant)
    except UnicodeEncodeError:
        problem = places.problem(_at(_SURROGATE, text), "", "half of a surrogate pair is no character")
    except ValueError:  # the only one left: Python reads no number of so many digits
        problem = places.problem(_at(_LONG_NUMBER, text), "", "this number has more digits than anybody reads")
    except RecursionError:
        problem = Problem(source, None, "", "the file is nested too deeply")
    else:
        again = [places.problem(at, dotted(path), "this key is there already") for path, at in places.again]
        return Decoded(value, places, as_json, tuple(again))
    return Decoded(None, places, as_json, (problem,))


def unix(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def dotted(path: Keys) -> str:
    """Where something stands, as people write it."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part[:64]}"
    return text


def _is_json(text: str) -> bool:
    # No TOML that says anything reads as JSON in whole.
    return text.lstrip().startswith("{") or _json_mistake(text) is None


def _json_mistake(text: str) -> json.JSONDecodeError | None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error
    except (ValueError, RecursionError):
        pass
    return None


def _at(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return match.start() if match else 0


def _json_syntax(places: Places, error: json.JSONDecodeError) -> Problem:
    return places.problem(error.pos, "", f"not valid JSON: {error.msg}")


def _toml_syntax(places: Places, message: str) -> Problem:
    text = places.text
    match = _POSITION.fullmatch(message)
    if match is None or match[2] is None:
        what = match[1] if match else message
        return places.problem(len(text.rstrip()), "", f"not valid TOML: {what}")
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    at = starts[int(match[2]) - 1] + int(match[3]) - 1
    return places.problem(min(at, len(text)), "", f"not valid TOML: {match[1]}")

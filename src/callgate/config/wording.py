"""Types and values in words: what a key takes, and what was found instead. Errors and the reference share them."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import inspect

from callgate.config.rules import peel, read_size
from callgate.config.secret import Secret

_NAMES: dict[type, str] = {bool: "a boolean", str: "a string", list: "a list", dict: "a table"}


def expected(kind: Any) -> str:
    """A type of the model, as a person would say it."""
    bare, rule = peel(kind)
    if get_origin(bare) is Literal:
        return "one of " + ", ".join(f'"{value}"' for value in get_args(bare))
    text = _info(inspect.type_info(kind))
    if rule and rule.single:
        return f"a string or {text}"
    return f'{text}, or a size such as "32 MiB"' if rule and rule.read is read_size else text


def found(value: object, *, show: bool = False) -> str:
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

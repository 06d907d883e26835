"""The page of the Python API: what `callgate` and its public modules export, from signatures and docstrings."""
# ruff: noqa: INP001

from __future__ import annotations

import enum
import inspect
import re
import types
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

import msgspec

# In the order of the page.
MODULES: Final = ("callgate", "callgate.sdk", "callgate.sdk.sign", "callgate.sdk.web_bot_auth")
INTRODUCTION: Final = """\
# Python API

What may be relied on: the names that these modules export. Everything else may change without notice. What needs the
`mcp` SDK is loaded when it is first used, and says so if it is missing: `pip install 'callgate[sdk]'`.

"""

_WIDTH: Final = 96


def page() -> str:
    """Every module with every name it exports."""
    lines: list[str] = []
    told: dict[int, str] = {}
    for name in MODULES:
        module = import_module(name)
        lines += [f"## {name}", "", _doc(module), ""]
        for exported in module.__all__:
            if exported != "__version__":
                lines += _entry(name, exported, getattr(module, exported), told)
    return INTRODUCTION + "\n".join(lines).rstrip() + "\n"


def _entry(home: str, name: str, value: Any, told: dict[int, str]) -> list[str]:
    """One name; what was told under another module is only referred to."""
    lines = [f"### {name}", ""]
    if inspect.ismodule(value):
        return [*lines, f"The module `{value.__name__}`, described below.", ""]
    if id(value) in told:
        return [*lines, f"The same as `{told[id(value)]}.{name}`.", ""]
    told[id(value)] = home
    if isinstance(value, types.UnionType):
        return [*lines, "One of " + ", ".join(f"`{_type(one)}`" for one in value.__args__) + ".", ""]
    if not inspect.isclass(value) and not inspect.isroutine(value):
        return [*lines, f"    {name} = {_type(value)}", ""]
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return [*lines, _doc(value), "", "Its members are [the reasons](reasons.md).", ""]
    lines += [*_signature(name, value), _doc(value), ""]
    members = [f"- {line}" for line in _members(value)] if inspect.isclass(value) else []
    return [*lines, *members, ""] if members else lines


def _members(kind: type) -> Iterator[str]:
    """Public methods and properties that are ours, also inherited ones; fields are in the signature."""
    for name in sorted(dir(kind)):
        owner = next((base for base in kind.__mro__ if name in vars(base)), None)
        if name.startswith("_") or owner is None or not owner.__module__.startswith("callgate"):
            continue
        value = inspect.getattr_static(kind, name)
        if isinstance(value, property):
            yield f"`{name}`{_short(value)}"
        elif isinstance(value, staticmethod | classmethod) or inspect.isroutine(value):
            bound = getattr(kind, name)
            waits = "await " if inspect.iscoroutinefunction(bound) else ""
            skip = not isinstance(value, staticmethod | classmethod)
            yield f"`{waits}{name}({', '.join(_parameters(bound, skip_first=skip))}){_returns(bound)}`{_short(bound)}"


def _signature(name: str, value: Callable[..., Any]) -> list[str]:
    parameters = list(_parameters(value))
    waits = "await " if inspect.iscoroutinefunction(value) else ""
    line = f"    {waits}{name}({', '.join(parameters)}){_returns(value)}"
    if len(line) <= _WIDTH:
        return [line, ""]
    return [f"    {waits}{name}(", *(f"        {one}," for one in parameters), f"    ){_returns(value)}", ""]


def _parameters(value: Callable[..., Any], *, skip_first: bool = False) -> Iterator[str]:
    """As they are written, with a star where only names are taken."""
    found = (
        _fields(value) if isinstance(value, msgspec.StructMeta) else list(inspect.signature(value).parameters.values())
    )
    keyword_only = False
    for one in found[1:] if skip_first else found:
        if one.kind is one.VAR_POSITIONAL or (one.kind is one.KEYWORD_ONLY and not keyword_only):
            keyword_only = True
            if one.kind is one.KEYWORD_ONLY:
                yield "*"
        stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        typed = "" if one.annotation is one.empty else f": {_type(one.annotation)}"
        equals = " = " if typed else "="
        default = "" if one.default is one.empty else f"{equals}{_default(one.default)}"
        yield f"{stars}{one.name}{typed}{default}"


def _returns(value: Callable[..., Any]) -> str:
    found = "" if inspect.isclass(value) else inspect.signature(value).return_annotation
    return "" if found in ("", "None", None, inspect.Signature.empty) else f" -> {_type(found)}"


def _default(value: Any) -> str:
    """Plain values as they are written. Everything else may hold what is true of one machine only, and is left out."""
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}({'…' if value != _bare(type(value)) else ''})"
    if isinstance(value, types.MappingProxyType | dict):
        return "…" if value else "{}"
    if isinstance(value, tuple):
        parts = [_default(one) for one in value]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    return repr(value) if value is None or isinstance(value, str | bytes | int | float) else "…"


def _bare(kind: type[msgspec.Struct]) -> object:
    """The struct with nothing said, if that is possible."""
    try:
        return kind()
    except TypeError:
        return None


def _fields(kind: Any) -> list[inspect.Parameter]:
    """A struct's fields with their types as written: some are known to type checkers only, and cannot be looked up."""
    written: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        written |= vars(base).get("__annotations__", {})
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return [_field(kind, name, written[name], given.get(name, msgspec.NODEFAULT)) for name in names]


def _field(kind: Any, name: str, typed: Any, default: Any) -> inspect.Parameter:
    """One field, which may be given by place unless the struct says otherwise."""
    shown = inspect.Parameter.empty if default is msgspec.NODEFAULT else default
    shown = shown.factory() if hasattr(shown, "factory") else shown
    by_name = name not in kind.__match_args__
    how = inspect.Parameter.KEYWORD_ONLY if by_name else inspect.Parameter.POSITIONAL_OR_KEYWORD
    # Fields without a default may follow others in a struct; a page has no quarrel with that.
    return inspect.Parameter(name, how, annotation=typed, default=shown)


def _type(kind: Any) -> str:
    text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    return re.sub(r"\b(?:callgate|collections|typing|types|msgspec)(?:\.[a-z_0-9]+)*\.(?=[A-Z])", "", text)


def _doc(value: Any) -> str:
    text = inspect.getdoc(value) or ""
    # A drawn tree or an example stays as it is; plain text is left to the page's own line breaks.
    return text.replace("|", "\\|") if text else ""


def _short(value: Any) -> str:
    """The first paragraph of the docstring, as the end of a line."""
    first = _doc(value).split("\n\n")[0].replace("\n", " ")
    return f": {first}" if first else ""

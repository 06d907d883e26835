"""From a decoded TOML table to a Config, with every problem of the file and not only the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from callgate.config.expand import ExpansionError, expand
from callgate.config.model import Config
from callgate.config.rules import Rule, peel
from callgate.config.secret import Secret
from callgate.config.section import Section
from callgate.config.wording import expected, found

KeyPath = tuple[str | int, ...]
Report = Callable[[KeyPath, str], None]


class _Wrong(Exception):
    """A single value that does not do; already worded."""


class Reader:
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
            self._problem(path, f"expected a table, found {found(data)}")
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
                values[name] = self._value(fields[name].type, Rule(), value, (*path, name))
            except _Wrong as problem:
                self._problem((*path, name), str(problem))
            if self._problems != before:
                wrong.add(name)
        section = kind(**values)
        for clash in section.clashes():
            if wrong.isdisjoint(clash.between):
                inner = clash.key if isinstance(clash.key, tuple) else (clash.key,) if clash.key else ()
                self._problem((*path, *inner), clash.text)
        return section

    def _value(self, kind: Any, rule: Rule, value: object, path: KeyPath) -> Any:
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

    def _list(self, kind: Any, item: Any, rule: Rule, value: object, path: KeyPath) -> tuple[Any, ...]:
        if rule.single and isinstance(value, str):
            return (self._value(item, rule, value, path),)
        if not isinstance(value, list):
            raise _Wrong(f"expected {expected(kind)}, found {found(value)}")
        items: list[Any] = []
        for index, entry in enumerate(value):
            try:
                items.append(self._value(item, rule, entry, (*path, index)))
            except _Wrong as wrong:
                self._problem((*path, index), str(wrong))
        if item is Secret and len(items) == len(value):
            shown = rule.shown(value)
            items = [Secret(secret.reveal(), text) for secret, text in zip(items, shown, strict=True)]
        return tuple(items)

    def _table(self, item: Any, rule: Rule, value: object, path: KeyPath) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _Wrong(f"expected a table, found {found(value)}")
        table: dict[str, Any] = {}
        for name, entry in value.items():
            if rule.name and (wrong := rule.name(name)):
                self._problem((*path, name), wrong)
            try:
                table[name] = self._value(item, rule, entry, (*path, name))
            except _Wrong as error:
                self._problem((*path, name), str(error))
        return table

    def _leaf(self, kind: Any, bare: Any, rule: Rule, value: Any, path: KeyPath) -> Any:
        written = value
        textual = bare is Secret or bare is Path
        if textual and not isinstance(value, str):
            raise _Wrong(f"expected {expected(kind)}, found {found(value)}")
        if isinstance(value, str):
            value = self._text(rule, value, path)
        if bare is Secret:
            return Secret(value, rule.shown([written])[0])
        if bare is Path:
            return Path(value)
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            raise _Wrong(_mismatch(kind, bare, value)) from None

    def _text(self, rule: Rule, text: str, path: KeyPath) -> Any:
        try:
            if rule.expand:
                text = expand(text, self._environ)
            if rule.read:
                return rule.read(text)
            if rule.check and (wrong := rule.check(text)):
                raise _Wrong(wrong)
            return rule.place(text, self._base(path)) if rule.place else text
        except (ExpansionError, ValueError) as error:
            raise _Wrong(str(error)) from None
        except RuntimeError:  # pathlib's word for a home directory that it cannot find
            raise _Wrong('the home directory that "~" stands for is not known; write the whole path') from None


@cache
def _fields(kind: type[Section]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def _mismatch(kind: Any, bare: Any, value: object) -> str:
    if get_origin(bare) is Literal and isinstance(value, str):
        near = get_close_matches(value, get_args(bare), n=1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        return f"expected {expected(kind)}, found {found(value, show=True)}{hint}"
    return f"expected {expected(kind)}, found {found(value, show=not isinstance(value, str))}"


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

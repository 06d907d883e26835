"""A matrix as a table inside one test: `@rows` runs the test for every row and reports each one that fails.

    @rows(("text", "wanted"), [("1", 1), ("x", None)])
    def test_numbers(text, wanted): ...

Two tables above one test are multiplied. Fixtures are made once for all rows, so a test belongs here only where one row
cannot disturb the next. The built-in ones that remember something are fresh in every row: `tmp_path` is a folder of
the row's own, `monkeypatch` is undone after it, `capsys` and `caplog` begin empty. So is one of ours that has a method
`begin_row`, which is called ahead of each.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class _Row:
    label: str
    values: Mapping[str, Any]


def rows(
    names: str | Sequence[str],
    values: Iterable[Any],
    ids: Callable[[Any], object] | Iterable[object] | None = None,
) -> Callable[[Test], Test]:
    """The arguments are those of pytest's `parametrize`, but for what it says of fixtures and marks."""
    listed = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
    labels = ids if ids is None or callable(ids) else list(ids)
    axis = [_row(listed, at, one, labels) for at, one in enumerate(values)]
    if not axis:
        raise ValueError("a table without rows tests nothing")

    def decorate(test: Test) -> Test:
        inner: Callable[..., Any] = getattr(test, "_test", test)
        axes: list[list[_Row]] = [*getattr(test, "_axes", []), axis]
        made: Test = _table(inner, axes, getattr(test, "pytestmark", []))
        return made

    return decorate


def _row(names: Sequence[str], at: int, given: Any, ids: Any) -> _Row:
    label: object = None
    if hasattr(given, "marks") and hasattr(given, "values") and hasattr(given, "id"):
        if any(one.name != "requirement" for one in given.marks):
            raise ValueError("a row cannot be marked by itself: mark the test")
        label, given = given.id, given.values if len(names) > 1 else given.values[0]
    parts = [given] if len(names) == 1 else list(given)
    if len(parts) != len(names):
        raise ValueError(f"{names} in row {at}: {given!r}")
    if label is None and ids is not None:
        label = "-".join(str(ids(one)) for one in parts) if callable(ids) else ids[at]
    return _Row(str(label) if label is not None else repr(given), dict(zip(names, parts, strict=True)))


def _table(test: Callable[..., Any], axes: list[list[_Row]], marks: list[Any]) -> Any:
    taken = {name for axis in axes for name in axis[0].values}
    signature = inspect.signature(test)
    fixtures = [one for name, one in signature.parameters.items() if name not in taken]

    def each(given: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        for at, chosen in enumerate(itertools.product(*axes)):
            values = {name: value for row in chosen for name, value in row.values.items()}
            yield f"row {at}: " + " | ".join(row.label[:300] for row in chosen), _fresh(given, at) | values

    if inspect.iscoroutinefunction(test):

        @functools.wraps(test)
        async def table(*own: Any, **given: Any) -> None:
            failed = _Failures()
            for label, values in each(given):
                with failed.noting(label), _undone(values):
                    await test(*own, **values)
            failed.tell()
    else:

        @functools.wraps(test)
        def table(*own: Any, **given: Any) -> None:
            failed = _Failures()
            for label, values in each(given):
                with failed.noting(label), _undone(values):
                    test(*own, **values)
            failed.tell()

    made: Any = table
    del made.__wrapped__
    made.__signature__ = signature.replace(parameters=fixtures)
    made._test, made._axes, made.pytestmark = test, axes, list(marks)
    return made


def _fresh(given: Mapping[str, Any], at: int) -> dict[str, Any]:
    fresh = dict(given)
    if "tmp_path" in fresh:
        fresh["tmp_path"] = given["tmp_path"] / f"row-{at}"
        fresh["tmp_path"].mkdir()
    if "capsys" in fresh:
        fresh["capsys"].readouterr()
    if "caplog" in fresh:
        fresh["caplog"].clear()
    for value in given.values():
        if hasattr(value, "begin_row"):
            value.begin_row()
    return fresh


@contextlib.contextmanager
def _undone(values: dict[str, Any]) -> Iterator[None]:
    if "monkeypatch" not in values:
        yield
        return
    with values["monkeypatch"].context() as patch:
        values["monkeypatch"] = patch
        yield


class _Failures:
    def __init__(self) -> None:
        self._found: list[BaseException] = []
        self._rows = 0

    @contextlib.contextmanager
    def noting(self, label: str) -> Iterator[None]:
        self._rows += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(label)
            self._found.append(error)

    def tell(self) -> None:
        if self._found:
            raise BaseExceptionGroup(f"{len(self._found)} of {self._rows} rows failed", self._found)

"""A matrix as a table inside one test: `@rows` runs the test for every row and reports each one that fails.

    @rows(("text", "wanted"), [("1", 1), ("x", None)])
    def test_numbers(text, wanted): ...

Two tables above one test are multiplied. Fixtures are made once for all rows, so a test belongs here only where one row
cannot disturb the next. The built-in ones that remember something are fresh in every row: `tmp_path` is a folder of
the row's own, `monkeypatch` is undone after it, `capsys` and `caplog` begin empty. So is one of ours that has a method
`begin_row`, which is called ahead of each.

A table of ways (transports and eras of the protocol, nothing else) has two tests: `[one]` goes one way, always the same
but another one for each test, so that all ways are taken by some; `[all]` goes all of them, in `make verify`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])

# Eras of the protocol, and how a client and a server are connected.
_WAYS: Final = frozenset(
    [
        "legacy",
        "handshake",
        "modern",
        "auto",
        "2025-11-25",
        "2026-07-28",
        "http",
        "stdio",
        "web",
        "pipe",
        "serve",
        "wrap",
        "wrap-web",
        "wrap-pipe",
        "direct-http",
        "direct-stdio",
        "http-http",
        "http-stdio",
        "stdio-http",
        "stdio-stdio",
    ]
)
_ONE: Final = pytest.mark.parametrize("which_ways", ["one", pytest.param("all", marks=pytest.mark.verify)])


@dataclass(frozen=True)
class _Axis:
    """A table as it was written; its rows are read when the test runs."""

    names: Sequence[str]
    rows: Sequence[Any]
    ids: Any

    def values(self, given: Any) -> dict[str, Any]:
        if _is_param(given):
            if any(one.name != "requirement" for one in given.marks):
                raise ValueError("a row cannot be marked by itself: mark the test")
            given = given.values if len(self.names) > 1 else given.values[0]
        parts = [given] if len(self.names) == 1 else list(given)
        if len(parts) != len(self.names):
            raise ValueError(f"{self.names}: {given!r}")
        return dict(zip(self.names, parts, strict=True))

    @property
    def of_ways(self) -> bool:
        return len(self.rows) > 1 and all(map(_is_way, self.rows))

    def label(self, at: int) -> str:
        given = self.rows[at]
        if _is_param(given) and given.id is not None:
            return str(given.id)
        if callable(self.ids):
            return "-".join(str(self.ids(one)) for one in self.values(given).values())
        return repr(given.values if _is_param(given) else given) if self.ids is None else str(self.ids[at])


def _is_way(given: Any) -> bool:
    if isinstance(given, tuple):
        return bool(given) and all(map(_is_way, given))
    return isinstance(given, str) and given in _WAYS


def _is_param(given: Any) -> bool:
    return hasattr(given, "marks") and hasattr(given, "values") and hasattr(given, "id")


def rows(
    names: str | Sequence[str],
    values: Iterable[Any],
    ids: Callable[[Any], object] | Iterable[object] | None = None,
) -> Callable[[Test], Test]:
    """The arguments are those of pytest's `parametrize`, but for what it says of fixtures and marks."""
    listed = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
    axis = _Axis(listed, list(values), ids if ids is None or callable(ids) else list(ids))
    if not axis.rows:
        raise ValueError("a table without rows tests nothing")

    def decorate(test: Test) -> Test:
        inner: Callable[..., Any] = getattr(test, "_test", test)
        axes: list[_Axis] = [*getattr(test, "_axes", []), axis]
        marks = [one for one in getattr(test, "pytestmark", []) if one != _ONE.mark]
        made: Test = _table(inner, axes, marks)
        return made

    return decorate


def _table(test: Callable[..., Any], axes: list[_Axis], marks: list[Any]) -> Any:
    taken = {name for axis in axes for name in axis.names}
    signature = inspect.signature(test)
    fixtures = [one for name, one in signature.parameters.items() if name not in taken]

    if any(axis.of_ways for axis in axes):
        fixtures.append(inspect.Parameter("which_ways", inspect.Parameter.KEYWORD_ONLY))
        marks = [*marks, _ONE.mark]

    def each(given: dict[str, Any]) -> Iterator[tuple[Callable[[], str], dict[str, Any]]]:
        one = given.pop("which_ways", "all") == "one"
        turn = zlib.crc32(f"{test.__module__}.{test.__qualname__}".encode())
        taken: list[Sequence[int]] = []
        for axis in axes:
            count = len(axis.rows)
            taken.append([turn % count] if one and axis.of_ways else range(count))
            turn //= count
        for at, chosen in enumerate(itertools.product(*taken)):
            values = _fresh(given, at)
            for axis, row in zip(axes, chosen, strict=True):
                values |= axis.values(axis.rows[row])
            yield functools.partial(_label, at, axes, chosen), values

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
    made._test, made._axes, made.pytestmark = test, axes, marks
    return made


def _label(at: int, axes: Sequence[_Axis], chosen: Sequence[int]) -> str:
    return f"row {at}: " + " | ".join(axis.label(row)[:300] for axis, row in zip(axes, chosen, strict=True))


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
    def noting(self, label: Callable[[], str]) -> Iterator[None]:
        self._rows += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(label())
            self._found.append(error)

    def tell(self) -> None:
        if self._found:
            raise BaseExceptionGroup(f"{len(self._found)} of {self._rows} rows failed", self._found)

"""The word lists of trust: data files of ours, read once."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def word_lists(name: str) -> Mapping[str, frozenset[str]]:
    """The lists of a file by their paths (`git.reads`): the words of a text, or the phrases of an array."""
    return dict(_lists(tomllib.loads(files("callgate.trust").joinpath(f"{name}.toml").read_text("utf-8")), ""))


def _lists(table: Mapping[str, Any], path: str) -> Iterator[tuple[str, frozenset[str]]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _lists(value, f"{path}{name}.")
        else:
            yield path + name, frozenset(value.split() if isinstance(value, str) else value)

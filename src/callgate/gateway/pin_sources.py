"""What lists of tools are held against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from callgate.pinning.book import Book


class Sets(Protocol):
    """Tools that wait for their server to be reviewed with others.

    Under the decisions of a book: `version` moves with what `held` says of the same ones.
    """

    version: int

    def held(self, server_id: str, book: Book) -> Mapping[str, str]: ...


class NoSets:
    """Where no server is reviewed with others."""

    version = 0

    def held(self, _server_id: str, _book: Book) -> Mapping[str, str]:
        return {}


class Decisions(Protocol):
    """Who has the decisions on tools, as they were read last."""

    @property
    def book(self) -> Book: ...

"""What a lookup did, told step by step: for `callgate agents why` and `show`, as data."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import msgspec

from callgate.agents.directories.listing import Identity

Outcome: TypeAlias = Literal["found", "absent", "outside_its_time", "refused", "failed", "ignored"]


class Step(NamedTuple):
    """One place that was looked at (a URL, `static`, `self`, `data:`), and what came of it."""

    where: str
    outcome: Outcome
    text: str = ""


class Explained(msgspec.Struct, frozen=True):
    """Why a key counts or not, and whose it is."""

    keyid: str
    # As the request named it; empty where it named none.
    named: str
    steps: tuple[Step, ...]
    # Where the key was found; empty where it was not.
    directory: str = ""
    thumbprint: str = ""
    agent: Identity | None = None
    # Machine-readable, as a request would be refused; empty where it would go on.
    reason: str = ""


class KeyShown(msgspec.Struct, frozen=True):
    """A key of a directory."""

    thumbprint: str
    kid: str
    algorithms: tuple[str, ...]
    not_before: int | None
    not_after: int | None
    proven: bool
    usable: bool


class DirectoryShown(msgspec.Struct, frozen=True):
    """A directory as it is held; times in milliseconds, 0 for never."""

    url: str
    # Why it is asked: `configured`, `listed` or `discovered`.
    source: str
    fetched_at: int = 0
    fresh_until: int = 0
    failed_at: int = 0
    failure: str = ""
    keys: tuple[KeyShown, ...] = ()
    left_out: tuple[str, ...] = ()


class Refreshed(msgspec.Struct, frozen=True):
    """What a refresh brought: keys that came and went, or why nothing was fetched (then what was held stays)."""

    url: str
    ok: bool
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    failure: str = ""
    text: str = ""

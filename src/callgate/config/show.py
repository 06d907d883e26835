"""A configuration as plain values, fit to be shown: every secret is masked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from callgate.config.model import Config
from callgate.config.secret import Secret
from callgate.config.section import Section


def show(config: Config) -> dict[str, Any]:
    """The effective configuration, as JSON values."""
    shown = _plain(config)
    assert isinstance(shown, dict)
    return shown


def _plain(value: object) -> Any:
    match value:
        case Section():
            return {name: _plain(getattr(value, name)) for name in msgspec.structs.asdict(value)}
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case tuple():
            return [_plain(item) for item in value]
        case Secret() | Path():
            return str(value)
        case _:
            return value

"""What a server knows: a JSON file, read anew for each call, so that a run can put another world under it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_FILE = Path(sys.argv[1])


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return found


@contextmanager
def changing() -> Iterator[dict[str, Any]]:
    """The state, written back when the caller is done with it."""
    found = read()
    yield found
    spare = _FILE.with_suffix(".new")
    spare.write_text(json.dumps(found, ensure_ascii=False, indent=1), encoding="utf-8")
    spare.replace(_FILE)


def new_id(known: dict[str, Any], prefix: str) -> str:
    """An id that the state has not given out yet."""
    known["issued"] = known.get("issued", 0) + 1
    return f"{prefix}{known['issued']:04x}"

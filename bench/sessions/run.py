"""Whole conversations with real servers: `python bench/sessions/run.py [--honest | --attacks] [--only NAME ...]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    # As a program it stands one folder below the modules that it shares with the others.
    sys.path[:1] = [str(HERE.parent)]

from rich.console import Console  # noqa: E402

from environments import Say  # noqa: E402
from processes import Unavailable  # noqa: E402
from sessions import honest, install, tables, world  # noqa: E402
from sessions.gate import Person, reviewed  # noqa: E402

WORKERS = 2


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="callgate-sessions-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


def measure_honest(say: Say, only: list[str] | None = None) -> dict[str, Any]:
    """Every honest session, with and without the user's words."""
    try:
        install.ensure(say)
        return {"status": "ok", **_honest(say, only or [])}
    except Unavailable as why:
        return {"status": "unavailable", "reason": str(why)}


def _honest(say: Say, only: list[str]) -> dict[str, Any]:
    began = time.monotonic()
    chosen = [one for one in honest.sessions() if not only or one.name in only]
    servers = list(dict.fromkeys(name for one in chosen for name in one.servers))
    with scratch() as folder, world.pages(world.SEED / "pages") as web:
        person = Person()
        say(f"reviewing the tools of {len(servers)} servers")
        home = reviewed(folder / "reviewed", world.make(folder / "review", web), servers, person)

        def play(number: int, session: honest.Session, *, prompt: bool) -> honest.Ran:
            say(f"{session.name}, {'with' if prompt else 'without'} the user's words")
            # Paths must not have words of the session in them: they are values that the gate follows.
            place = world.make(folder / f"w{number}", web)
            return honest.run(session, home.copy(folder / f"h{number}"), place, person, prompt=prompt)

        plays = [(one, prompt) for one in chosen for prompt in (True, False)]
        with ThreadPoolExecutor(WORKERS) as pool:
            runs = [pool.submit(play, number, one, prompt=prompt) for number, (one, prompt) in enumerate(plays)]
            ran = [one.result() for one in runs]
    return {"seconds": round(time.monotonic() - began), "runs": [asdict(one) for one in ran]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--honest", action="store_true", help="only the honest sessions")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="sessions by name")
    options = parser.parse_args()
    console = Console()
    tables.show_honest(measure_honest(console.print, options.only), console)


if __name__ == "__main__":
    main()

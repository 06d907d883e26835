"""Whole conversations with real servers: `python bench/sessions/run.py [--set NAME] [--honest | --attacks]`."""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
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
from sessions import attacks, honest, install, replay, tables, world  # noqa: E402
from sessions.gate import MOST_SERVERS, Person, connected, reviewed  # noqa: E402
from sessions.sets import DEFAULT, NAMES, SessionSet, named  # noqa: E402

WORKERS = 2
TABLE_WIDTH = 132


@contextmanager
def scratch(of: SessionSet) -> Iterator[Path]:
    """A folder of this run's own. Paths are values that the gate follows, so its name is not a random one."""
    for number in itertools.count(1):
        folder = Path(tempfile.gettempdir()).resolve() / f"{of.person}{number}"
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            break
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_honest(
    say: Say, only: list[str] | None = None, of: SessionSet = DEFAULT, *, quick: bool = False
) -> dict[str, Any]:
    """Every honest session, with and without the user's words; of a quick run only the first three."""
    try:
        install.ensure(say, of)
        chosen = [one for one in honest.sessions(of) if not only or one.name in only]
        return {"status": "ok", **_honest(say, chosen[: 3 if quick and not only else None], of)}
    except Unavailable as why:
        return {"status": "unavailable", "reason": str(why)}


def _honest(say: Say, chosen: list[honest.Session], of: SessionSet) -> dict[str, Any]:
    began = time.monotonic()
    with scratch(of) as folder, world.pages(of.world / "pages") as web:

        def play(number: int, session: honest.Session, *, prompt: bool) -> honest.Ran:
            say(f"{session.name}, {'with' if prompt else 'without'} the user's words")
            # Paths must not have words of the session in them: they are values that the gate follows.
            place = world.make(folder / f"w{number}", web, of)
            # A server is known by its folders and variables too, so it is reviewed where it runs.
            person = Person()
            home = reviewed(folder / f"h{number}", place, session.servers, person)
            return honest.run(session, home, place, person, prompt=prompt)

        plays = [(one, prompt) for one in chosen for prompt in (True, False)]
        with ThreadPoolExecutor(WORKERS) as pool:
            runs = [pool.submit(play, number, one, prompt=prompt) for number, (one, prompt) in enumerate(plays)]
            ran = [asdict(one.result()) for one in runs if one.exception() is None]
            broken = [str(error) for one in runs if (error := one.exception()) is not None]
    return {"seconds": round(time.monotonic() - began), "runs": ran, "broken": broken}


def measure_attacks(
    say: Say, only: list[str] | None = None, of: SessionSet = DEFAULT, *, quick: bool = False
) -> dict[str, Any]:
    """Every attack, with and without the user's words; of a quick run only those that are written plainly."""
    try:
        install.ensure(say, of)
        return {"status": "ok", **_attacks(say, only or (["plain"] if quick else []), of)}
    except Unavailable as why:
        return {"status": "unavailable", "reason": str(why)}


def _attacks(say: Say, only: list[str], of: SessionSet) -> dict[str, Any]:
    began = time.monotonic()
    chosen = [one for one in attacks.cases(of) if not only or one.effect in only or one.spelling in only]
    servers = attacks.servers_of(chosen)
    with scratch(of) as folder, ExitStack() as stack:
        (folder / "pages").mkdir()
        web = stack.enter_context(world.pages(folder / "pages"))
        # The servers of ours look for their state when they are called, not when they start.

        def play(prompt: bool) -> list[attacks.Played]:
            name = "with" if prompt else "without"
            place = world.make(folder / name, web, of)
            say(f"reviewing the tools of {len(servers)} servers")
            person = Person()
            home = reviewed(folder / f"{name}-home", place, servers, person)
            stage = attacks.Stage(place, folder / "pages", person.browser())
            played: list[attacks.Played] = []
            for group in attacks.groups(chosen, MOST_SERVERS):
                with connected(home, place, attacks.servers_of(group)) as running:
                    for case in group:
                        played.append(stage.play(case, running, prompt=prompt))
                        if len(played) % 100 == 0:
                            say(f"{len(played)} attacks, {name} the user's words")
            return played

        with ThreadPoolExecutor(WORKERS) as pool:
            played = [one for some in pool.map(play, (True, False)) for one in some]
    return {"seconds": round(time.monotonic() - began), "cases": [asdict(one) for one in played]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=NAMES, default=DEFAULT.name, help="the servers, world, sessions and attacks")
    parser.add_argument("--honest", action="store_true", help="only the honest sessions")
    parser.add_argument("--attacks", action="store_true", help="only the attacks")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="sessions, effects or spellings by name")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was found to a file")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write down what the servers answer")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="play a file of --record, without the servers")
    options = parser.parse_args()
    chosen = named(options.set)
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, TABLE_WIDTH)
    which = "honest" if options.honest else "attacks" if options.attacks else ""
    if options.record:
        with scratch(chosen) as folder:
            made = replay.record(console.print, chosen, folder, only=options.only, which=which)
        options.record.write_text(json.dumps(made, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    found: dict[str, Any] = {}
    if options.replay:
        found = replay.replay(json.loads(options.replay.read_text(encoding="utf-8")), options.only)
    elif options.honest or not options.attacks:
        found["honest"] = measure_honest(console.print, options.only, chosen)
    if not options.replay and (options.attacks or not options.honest):
        found["attacks"] = measure_attacks(console.print, options.only, chosen)
    tables.show(found, console)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

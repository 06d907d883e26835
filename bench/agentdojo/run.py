"""AgentDojo through the real gate: `python bench/agentdojo/run.py [TRACES.json] [--cases]`.

The benchmark's package lives in an environment of its own, which records the calls once; they are then decided here.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    # As a program it stands one folder below the modules that it shares with the others.
    sys.path[:1] = [str(HERE.parent)]

from agentdojo.gated import Outcome, Way, run_all, tally  # noqa: E402
from environments import AGENTDOJO, Say, ensure  # noqa: E402
from processes import CACHE, Unavailable  # noqa: E402

TRACES = CACHE / "agentdojo-v1.2.2.json"
RECORD_SECONDS = 300
WAYS = {
    "prompt": Way(prompt=True),
    "no_prompt": Way(prompt=False),
    "prompt_without_detectors": Way(prompt=True, detectors=False),
    "no_prompt_without_detectors": Way(prompt=False, detectors=False),
    "prompt_bare_order": Way(prompt=True, detectors=False, bare=True),
    "no_prompt_bare_order": Way(prompt=False, detectors=False, bare=True),
    "prompt_text_only": Way(prompt=True, detectors=False, structured=False),
    "no_prompt_text_only": Way(prompt=False, detectors=False, structured=False),
    "prompt_proposed": Way(prompt=True, proposed=True),
    "no_prompt_proposed": Way(prompt=False, proposed=True),
    "prompt_proposed_bare_order": Way(prompt=True, detectors=False, bare=True, proposed=True),
}


def measure(say: Say) -> dict[str, Any]:
    """The figures of every way to run."""
    try:
        traces = recorded(say)
    except Unavailable as why:
        return {"status": "unavailable", "reason": str(why)}
    return {"status": "ok", "ways": {name: tally(run_all(way, traces)) for name, way in WAYS.items()}}


def recorded(say: Say) -> dict[str, Any]:
    """The benchmark's calls, recorded when they are first wanted."""
    if not TRACES.is_file():
        ensure(AGENTDOJO, say)
        say("recording AgentDojo's calls (once)")
        partly = TRACES.with_suffix(".part")
        command = [str(AGENTDOJO.program("python")), str(HERE / "traces.py"), str(partly)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=RECORD_SECONDS)
        except (subprocess.SubprocessError, OSError) as error:
            raise Unavailable(f"its calls cannot be recorded: {str(error)[:200]}") from None
        partly.replace(TRACES)
    found: dict[str, Any] = json.loads(TRACES.read_text(encoding="utf-8"))
    return found


def cases(outcomes: list[Outcome]) -> None:
    """Each user task that needed a person, and each order that got through."""
    for one in outcomes:
        if one.injection_task is None and (one.asked or one.blocked):
            print(f"  {one.suite} {one.user_task}: {'; '.join(' '.join(why.split()) for why in one.asked)}")
        elif one.injection_task is not None and one.injected and not one.injected_stopped:
            print(f"  {one.suite} {one.user_task} GAVE WAY TO {one.injection_task}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path, nargs="?", help="recorded calls; made if none are given")
    parser.add_argument("--way", choices=WAYS, action="append", help="this way only; may be given several times")
    parser.add_argument("--cases", action="store_true", help="list each task that needed a person")
    options = parser.parse_args()
    traces = json.loads(options.traces.read_text(encoding="utf-8")) if options.traces else recorded(print)
    for name in options.way or WAYS:
        outcomes = run_all(WAYS[name], traces)
        for suite, figures in sorted(tally(outcomes).items()):
            print(f"{name} {suite}: " + ", ".join(f"{key} {value}" for key, value in figures.items()))
        if options.cases:
            cases(outcomes)


if __name__ == "__main__":
    main()

"""How well the inspection tells poisoned tool definitions from honest ones, and what it costs.

`tests/data/tool-descriptions` is other people's text, `tests/data/inspection` our own; the READMEs there say more.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from callgate.inspection import InspectionContext, ToolDefinition, ToolFinding, family, inspect, suspicious

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
SHARED = DATA / "tool-descriptions"
OWN = DATA / "inspection"
# Tools of well-known packages as they list them, and published attacks; see the READMEs there.
LIVE = OWN / "live.json"
PUBLISHED = OWN / "published"
# Corpora whose licence is unclear stay outside the repository, and are only judged.
OUTSIDE = os.environ.get("CALLGATE_BENCH_CORPORA")
# Kept to judge by: nothing is learned from these.
JUDGED = ("fifth", "sixth")
LATER = ("second", "third", "independent", "fourth", *JUDGED)
LIST = 500
MEMBERS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled tool; `half` is settled by its id, so that rules can be tuned on one and tried on the other."""

    id: str
    corpus: str
    category: str
    poisoned: bool
    entry: dict[str, Any]
    around: InspectionContext
    only_judged: bool = False

    @property
    def half(self) -> str:
        return "tuned" if hashlib.sha256(self.id.encode()).digest()[0] % 2 == 0 else "kept"


def rows() -> list[Row]:
    """Every labelled tool. Pairs of a tool before and after a change are no rows: see `drifts`."""
    paths = [*sorted(SHARED.glob("*/*.json")), *sorted(OWN.glob("*.json")), *sorted(PUBLISHED.glob("*.json"))]
    paths += sorted(Path(OUTSIDE).glob("*.json")) if OUTSIDE else []
    return [row for path in paths if "drift" not in path.name and path != LIVE for row in _rows(path)]


def live_rows() -> list[Row]:
    """Tools of well-known packages, as each listed them when it was started."""
    return [
        Row(
            f"{one['package']}#{tool['name']}",
            "live",
            "live",
            poisoned=False,
            entry=tool,
            around=InspectionContext(one["package"]),
        )
        for one in json.loads(LIVE.read_text(encoding="utf-8"))
        for tool in one["tools"]
    ]


def drifts() -> list[dict[str, Any]]:
    """Tools that changed after somebody approved them."""
    found: list[dict[str, Any]] = json.loads((SHARED / "poisoned" / "getmcpm-cli-drift-pairs.json").read_text())
    return found


def _rows(path: Path) -> Iterator[Row]:
    for raw in json.loads(path.read_text(encoding="utf-8")):
        others: dict[str, set[str]] = {}
        for peer in raw.get("peers") or ():
            server, name = ("peer", peer) if isinstance(peer, str) else (peer["server"], peer["tool"]["name"])
            if server != raw["server"]:
                others.setdefault(server, set()).add(name)
        yield Row(
            id=raw.get("id") or f"{raw['server']}/{raw['name']}",
            corpus=_corpus(path),
            category=raw.get("category") or "published",
            poisoned=raw.get("label") == "poisoned",
            entry={name: raw[name] for name in MEMBERS if raw.get(name) is not None},
            around=InspectionContext(raw["server"], {server: frozenset(names) for server, names in others.items()}),
            only_judged=_corpus(path) in JUDGED or (bool(OUTSIDE) and path.is_relative_to(str(OUTSIDE))),
        )


def _corpus(path: Path) -> str:
    if path.is_relative_to(SHARED):
        return "shared"
    return "own" if path.parent == OWN and path.stem not in LATER else path.stem


def look(row: Row) -> tuple[ToolFinding, ...]:
    return inspect(ToolDefinition.of(row.entry), row.around)


def score(chosen: Iterable[Row]) -> dict[str, Any]:
    """Recall over the poisoned, and how many of the benign are flagged or have a hard finding."""
    counts = dict.fromkeys(("poisoned", "flagged", "hard", "benign", "benign_flagged", "benign_hard"), 0)
    for row in chosen:
        found = look(row)
        prefix = "" if row.poisoned else "benign_"
        counts["poisoned" if row.poisoned else "benign"] += 1
        counts[f"{prefix}flagged"] += suspicious(found)
        counts[f"{prefix}hard"] += any(one.tier == "hard" for one in found)
    flagged = counts["flagged"] + counts["benign_flagged"]
    return {
        **counts,
        "recall": _share(counts["flagged"], counts["poisoned"]),
        "precision": _share(counts["flagged"], flagged),
        "false_positives": _share(counts["benign_flagged"], counts["benign"]),
        "hard_false_positives": _share(counts["benign_hard"], counts["benign"]),
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def by_family(chosen: list[Row]) -> dict[str, dict[str, Any]]:
    """For each family of rules: which share of what it flags is poisoned, and of the poisoned what it finds."""
    hits: dict[str, list[int]] = {}
    poisoned = sum(row.poisoned for row in chosen)
    for row in chosen:
        for name in {family(one.rule) for one in look(row) if suspicious([one])}:
            hits.setdefault(name, [0, 0])[row.poisoned] += 1
    return {
        name: {"precision": _share(bad, bad + good), "recall": _share(bad, poisoned), "poisoned": bad, "benign": good}
        for name, (good, bad) in sorted(hits.items())
    }


def _micros(tools: list[ToolDefinition], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        for tool in tools:
            inspect(tool)
        taken.append((time.process_time() - began) / len(tools) * 1e6)
    return round(median(taken), 1)


def left_out(say: Callable[[str], None]) -> dict[str, dict[str, int]]:
    """Each corpus by weights that were learned without it, and by Cisco's YARA rules, as far as these install."""

    # Not where tests import this: they have nothing of the other benchmarks at hand.
    import environments
    from processes import Unavailable

    here = Path(__file__).resolve().parent
    counts: dict[str, dict[str, int]] = {}
    try:
        environments.ensure(environments.LEARNING, say)
        path = os.pathsep.join((str(here.parent), str(here.parents[1] / "src")))
        python = environments.LEARNING.program("python")
        with tempfile.TemporaryDirectory() as folder:
            found = Path(folder) / "counts.json"
            _run([python, here / "train.py", "--json", found], {**os.environ, "PYTHONPATH": path})
            counts = json.loads(found.read_text(encoding="utf-8"))
        chosen = [row for row in (*rows(), *live_rows()) if row.corpus in counts]
        environments.ensure(environments.YARA, say)
        python = environments.YARA.program("python")
        matched = json.loads(_run([python, here / "yara_rules.py"], given=[row.entry for row in chosen]))
    except (Unavailable, subprocess.CalledProcessError) as why:
        say(f"not measured: {why}")
        return counts
    for row, yes in zip(chosen, matched, strict=True):
        key = "yara" if row.poisoned else "benign_yara"
        counts[row.corpus][key] = counts[row.corpus].get(key, 0) + yes
    return counts


def _run(words: list[Path | str], env: dict[str, str] | None = None, given: Any = None) -> str:
    """What a command prints that is given some JSON."""
    text = json.dumps(given)
    done = subprocess.run([*map(str, words)], input=text, env=env, capture_output=True, text=True, check=True)
    return done.stdout


def measure(step: Callable[[str], None], *, quick: bool) -> dict[str, Any]:
    step("inspection, corpora")
    all_rows = rows()
    shared = [row for row in all_rows if row.corpus == "shared"]
    groups = {
        "shared": shared,
        "shared, half tuned on first": [row for row in shared if row.half == "tuned"],
        "shared, half kept apart at first": [row for row in shared if row.half == "kept"],
        **{name: [row for row in all_rows if row.corpus == name] for name in ("own", *LATER)},
        **{
            f"{corpus}, half {half}": [row for row in all_rows if row.corpus == corpus and row.half == name]
            for corpus in ("independent", "fourth")
            for half, name in (("A", "tuned"), ("B", "kept"))
        },
    }
    categories = sorted({row.category for row in shared})
    published = [ToolDefinition.of(row.entry) for row in shared if row.category == "published"]
    long_list = [published[at % len(published)] for at in range(LIST)]
    step("inspection, corpora left out")
    apart = {} if quick else left_out(step)
    step("inspection, cost")
    return {
        "left_out": apart,
        "groups": {name: score(chosen) for name, chosen in groups.items()},
        "categories": {name: score(row for row in shared if row.category == name) for name in categories},
        "families": by_family(all_rows),
        "us_per_tool": _micros(published, 1 if quick else 5),
        "ms_per_list": round(_micros(long_list, 1 if quick else 3) * LIST / 1000, 1),
    }


if __name__ == "__main__":
    print(json.dumps(measure(print, quick="--quick" in sys.argv), indent=1))

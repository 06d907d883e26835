"""How well the inspection tells poisoned tool definitions from honest ones, and what it costs.

`tests/data/tool-descriptions` is other people's text, `tests/data/inspection` our own; the READMEs there say more.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from callgate.inspection import InspectionContext, ToolDefinition, ToolFinding, family, inspect, suspicious

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
SHARED = DATA / "tool-descriptions"
OWN = DATA / "inspection"
LATER = ("second", "third", "independent", "fourth")
LIST = 500
MEMBERS = ("name", "title", "description", "inputSchema", "annotations")


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled tool; `half` is settled by its id, so that rules can be tuned on one and tried on the other."""

    id: str
    corpus: str
    category: str
    poisoned: bool
    entry: dict[str, Any]
    around: InspectionContext

    @property
    def half(self) -> str:
        return "tuned" if hashlib.sha256(self.id.encode()).digest()[0] % 2 == 0 else "kept"


def rows() -> list[Row]:
    """Every labelled tool. Pairs of a tool before and after a change are no rows: see `drifts`."""
    paths = [*sorted(SHARED.glob("*/*.json")), *sorted(OWN.glob("*.json"))]
    return [row for path in paths if "drift" not in path.name for row in _rows(path)]


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
            corpus="shared" if path.is_relative_to(SHARED) else path.stem if path.stem in LATER else "own",
            category=raw.get("category") or "published",
            poisoned=raw.get("label") == "poisoned",
            entry={name: raw[name] for name in MEMBERS if raw.get(name) is not None},
            around=InspectionContext(raw["server"], {server: frozenset(names) for server, names in others.items()}),
        )


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
    step("inspection, cost")
    return {
        "groups": {name: score(chosen) for name, chosen in groups.items()},
        "categories": {name: score(row for row in shared if row.category == name) for name in categories},
        "families": by_family(all_rows),
        "us_per_tool": _micros(published, 1 if quick else 5),
        "ms_per_list": round(_micros(long_list, 1 if quick else 3) * LIST / 1000, 1),
    }


if __name__ == "__main__":
    print(json.dumps(measure(print, quick=True), indent=1))

"""Learns the weights of the inspection's scorer, and says how they do on texts that they were not learned from.

    python bench/inspection/train.py            # prints each corpus, left out of the training
    python bench/inspection/train.py --write    # and writes src/callgate/inspection/data/scorer.json

It runs itself in an environment that has numpy and scipy. A tool is known to be poisoned, but not by which of its
sentences: at first all count that no honest tool has, then those that score best. The honest tools that were listed
live are judged by weights that were learned without their package.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    BENCH = Path(__file__).resolve().parents[1]
    sys.path.insert(0, str(BENCH))
    if importlib.util.find_spec("scipy") is None:
        import environments

        environments.ensure(environments.LEARNING, print)
        path = os.pathsep.join((str(BENCH), str(BENCH.parent / "src")))
        program = str(environments.LEARNING.program("python"))
        os.execve(program, [program, *sys.argv], {**os.environ, "PYTHONPATH": path})

import msgspec
import numpy as np
from scipy.optimize import fmin_l_bfgs_b
from scipy.sparse import csr_matrix

from callgate.inspection import ADVISORY, NO_CONTEXT, ToolDefinition, family
from callgate.inspection.data_files import FOLDER
from callgate.inspection.engine import all_rules, by_place, rule_hits, rules_on
from callgate.inspection.scorer import ScorerFile, Sentence, grouped, sentences
from callgate.inspection.tool_texts import ToolTexts
from inspection import JUDGED, Row, live_rows, rows
from inspection.variants import Variants

FILE = FOLDER / "scorer.json"
# How strongly weights are held back, in how many sources a feature has to be, and how a poisoned tool counts.
HELD_BACK = 1 / 3.0
SOURCES = 4
POISONED = 4.0
# The catalogue's examples are few, and say best what is meant.
EXAMPLES = 4.0
ROUNDS = 4
STEPS = 60
FOLDS = 4
EACH = 60
HONEST = 400
# Tools that hide their text are found by that, and say nothing of words.
HIDDEN = ("unicode.", "encoded.")
# Where findings begin, in hundredths: chosen by the live tools, of which few may have one and none a hard one.
LEVELS = {"near": -400, "agrees": 150, "soft": 240, "hard": 650}
CONSENT = {rule.id for rule in all_rules() if rule.takes_consent}
Floats = Any


@dataclass(frozen=True, slots=True)
class Bag:
    """A tool's sentences, each with the rules that found something in it, and what is found without the scorer."""

    corpus: str
    source: str
    poisoned: bool
    hidden: bool
    only_judged: bool
    sentences: tuple[tuple[Sentence, tuple[str, ...]], ...]
    flagged: bool
    hard: bool


def bag(row: Row, groups: dict[str, str]) -> Bag:
    tool = ToolTexts(ToolDefinition.of(row.entry), row.around)
    found = list(sentences(tool, groups))
    hits = rule_hits(tool, {text.where for text in tool.prose})
    spots = by_place(hits)
    hidden = any(name.startswith(HIDDEN) for name in hits)
    places = {one.text.where for one in found if one.text.kind != "key"}
    alone = [
        rule
        for rule in all_rules()
        if family(rule.id) not in ADVISORY
        and any(not rule.takes_consent or hit.where not in places for hit in hits.get(rule.id, ()))
    ]
    return Bag(
        row.corpus,
        row.id.split("#")[0],
        row.poisoned,
        hidden,
        row.only_judged,
        tuple((one, tuple(rules_on(one, spots))) for one in found),
        bool(alone),
        any(rule.tier == "hard" for rule in alone),
    )


def examples() -> Iterable[Row]:
    """What the rules must find and leave alone, from their catalogue."""
    for rule in all_rules():
        for poisoned, cases in ((True, rule.bad), (False, rule.good)):
            if rule.id.startswith(("schema.", "size.", "mention.", "lookalike.")):
                continue
            for number, case in enumerate(cases):
                row = f"{rule.id}-{poisoned}-{number}"
                yield Row(row, "rules", rule.id, poisoned, dict(case.definition), case.context)


def variants(carriers: list[dict[str, Any]]) -> Iterable[Row]:
    made = Variants(7)
    for number, (group, entry) in enumerate(made.attacks(carriers, EACH)):
        yield Row(f"variant-{number}", "variants", group, poisoned=True, entry=entry, around=NO_CONTEXT)
    for number, entry in enumerate(made.honest(carriers, HONEST)):
        yield Row(f"honest-{number}", "variants", "honest", poisoned=False, entry=entry, around=NO_CONTEXT)


class Training:
    """All sentences as one matrix, and weights for any part of them."""

    def __init__(self, bags: list[Bag]) -> None:
        self.bags = bags
        self.corpus = np.array([one.corpus for one in bags])
        self.poisoned = np.array([one.poisoned for one in bags])
        self.fold = np.array([hashlib.sha256(one.source.encode()).digest()[0] % FOLDS for one in bags])
        self.owner = np.repeat(np.arange(len(bags)), [len(one.sentences) for one in bags])
        every = [each for one in bags for each in one.sentences]
        self.opening = np.array([one.text.where == "description" and one.match[0] == 0 for one, _ in every])
        honest = {_text(each) for one in bags if one.corpus == "live" for each, _ in one.sentences}
        self.shared = np.array([_text(one) in honest for one, _ in every])
        self.by_rule = np.array([any(name in CONSENT for name in rules) for _, rules in every])
        self.hidden = np.array([one.hidden for one in bags])
        self.flagged = np.array([one.flagged for one in bags])
        self.hard = np.array([one.hard for one in bags])
        self.names = self._names()
        self.matrix = self._matrix()

    def _names(self) -> dict[tuple[str, ...], int]:
        sources: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for one in self.bags:
            for sentence, rules in () if one.only_judged else one.sentences:
                for name in _features(sentence, rules):
                    if len(sources[name]) < SOURCES:
                        sources[name].add(one.source)
        kept = sorted(name for name, found in sources.items() if len(found) >= SOURCES)
        return {name: number for number, name in enumerate(kept)}

    def _matrix(self) -> Any:
        starts, columns, values = [0], [], []
        for one in self.bags:
            for sentence, rules in one.sentences:
                scale = sentence.scale
                for name in sorted(_features(sentence, rules)):
                    number = self.names.get(name)
                    if number is not None:
                        columns.append(number)
                        values.append(1.0 if name[0] == "mark" else scale)
                starts.append(len(columns))
        return csr_matrix((values, columns, starts), shape=(len(starts) - 1, len(self.names)))

    def learn(self, wanted: Floats, start: Floats | None = None) -> Floats:
        """Weights from the bags that are wanted; the last one stands for every sentence."""
        inside = wanted[self.owner]
        label = self.poisoned[self.owner]
        negative = inside & ~label
        possible = inside & label & ~self.shared & ~self.hidden[self.owner]
        lone = np.bincount(self.owner[possible & ~self.opening], minlength=len(self.bags)) == 0
        # What was planted is known.
        sure = possible & (self.corpus[self.owner] == "variants")
        positive = sure | (possible & (~self.opening | lone[self.owner]))
        found = np.zeros(len(self.names) + 1) if start is None else start
        for _ in range(ROUNDS):
            used = negative | positive
            target = np.where(positive[used], 1.0, -1.0)
            count = np.bincount(self.owner[positive], minlength=len(self.bags)).astype(float)
            importance = np.where(positive[used], POISONED / np.maximum(1, count[self.owner[used]]), 1.0)
            importance *= np.where(self.corpus[self.owner[used]] == "rules", EXAMPLES, 1.0)
            found = _solve(self.matrix[used], target, importance, found)
            # A description opens with what the tool does: it takes more to count as the poison.
            score = self.sentence_scores(found) - 1.5 * self.opening
            best = np.full(len(self.bags), -np.inf)
            np.maximum.at(best, self.owner[possible], score[possible])
            positive = sure | possible & ((score >= best[self.owner] - 1e-9) | (score > 1.0))
        return found

    def sentence_scores(self, found: Floats) -> Floats:
        return self.matrix @ found[:-1] + found[-1]

    def scores(self, found: Floats) -> tuple[Floats, Floats]:
        """Of each tool, its most telling sentence, and the most telling one that a rule speaks of."""
        score = self.sentence_scores(found)
        best, agreed = np.full(len(self.bags), -99.0), np.full(len(self.bags), -99.0)
        np.maximum.at(best, self.owner, score)
        np.maximum.at(agreed, self.owner[self.by_rule], score[self.by_rule])
        return best, agreed

    def verdict(self, best: Floats, agreed: Floats, levels: dict[str, int]) -> tuple[Floats, Floats]:
        """Which tools are flagged, and which have a hard finding, as `inspect` would say."""
        hard = self.hard | (best >= levels["hard"] / 100)
        return hard | self.flagged | (best >= levels["soft"] / 100) | (agreed >= levels["agrees"] / 100), hard

    def file(self, found: Floats, groups: list[str], levels: dict[str, int]) -> ScorerFile:
        marks: dict[str, int] = {}
        single: dict[str, int] = {}
        pairs: dict[str, dict[str, int]] = {}
        for name, number in self.names.items():
            weight = round(100 * float(found[number]))
            if abs(weight) < 4:
                continue
            if name[0] == "mark":
                marks[name[1]] = weight
            elif name[0] == "pair":
                pairs.setdefault(name[1], {})[name[2]] = weight
            else:
                single[name[1]] = weight
        return ScorerFile(
            **levels, bias=round(100 * float(found[-1])), groups=groups, marks=marks, single=single, pairs=pairs
        )


def _text(sentence: Sentence) -> str:
    return sentence.text.raw[slice(*sentence.span)]


def _features(sentence: Sentence, rules: tuple[str, ...]) -> set[tuple[str, ...]]:
    return {
        *(("mark", name) for name in (*sentence.marks, *rules)),
        *(("single", name) for name in sentence.single),
        *(("pair", one, two) for one, two in sentence.pairs),
    }


def _solve(matrix: Any, target: Floats, importance: Floats, start: Floats) -> Floats:
    """Logistic regression with weights held back, by L-BFGS."""
    turned = matrix.T.tocsr()
    size = matrix.shape[1]

    def loss(found: Floats) -> tuple[float, Floats]:
        margin = (matrix @ found[:size] + found[size]) * target
        slope = -importance * target / (1 + np.exp(np.clip(margin, -40, 40)))
        value = float(np.sum(importance * np.logaddexp(0, -margin)) + HELD_BACK / 2 * found[:size] @ found[:size])
        return value, np.append(turned @ slope + HELD_BACK * found[:size], slope.sum())

    solved, _, _ = fmin_l_bfgs_b(loss, start, maxiter=STEPS)
    return solved


def _counts(out: Floats, poisoned: Floats, flagged: Floats, hard: Floats) -> dict[str, int]:
    bad, good = out & poisoned, out & ~poisoned
    found = {"poisoned": bad, "flagged": bad & flagged, "hard": bad & hard}
    found |= {"benign": good, "benign_flagged": good & flagged, "benign_hard": good & hard}
    return {name: int(which.sum()) for name, which in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--json", type=Path, help="where to write the counts")
    parser.add_argument("--groups", type=Path, help="a JSON list of groups of words, else those of before")
    wanted = parser.parse_args()
    groups = json.loads((wanted.groups or FILE).read_text(encoding="utf-8"))
    groups = groups if isinstance(groups, list) else groups["groups"]
    known = grouped(groups)
    live = live_rows()
    carriers = [row.entry for row in live if len(json.dumps(row.entry)) < 6000]
    found = [*rows(), *live, *examples(), *variants(carriers)]
    print(f"{len(found)} tools", flush=True)
    training = Training([bag(row, known) for row in found])
    print(f"{len(training.owner)} sentences, {len(training.names)} features", flush=True)
    corpora = sorted({row.corpus for row in found if row.poisoned} - {"rules", "variants"})
    everything = np.ones(len(found), dtype=bool)
    only_judged = np.array([row.only_judged for row in found])
    whole = training.learn(everything & ~only_judged)
    # Live tools, each by weights that were learned without its package.
    is_live = training.corpus == "live"
    best, agreed = training.scores(whole)
    for fold in range(FOLDS):
        out = is_live & (training.fold == fold)
        held_out = training.scores(training.learn(~out & ~only_judged, whole * 0.5))
        best[out], agreed[out] = held_out[0][out], held_out[1][out]
    levels = LEVELS
    flagged, hard = training.verdict(best, agreed, levels)
    packages = len({one.source for one in training.bags if one.corpus == "live"})
    print(
        f"live: {is_live.sum()} tools of {packages} packages, "
        f"{flagged[is_live].sum()} flagged, {hard[is_live].sum()} hard"
    )
    highest = np.round(np.sort(best[is_live])[::-1][:12], 2).tolist()
    print(levels, "highest", highest, "by rules alone", training.flagged[is_live].sum(), flush=True)
    counts = {"live": _counts(is_live, training.poisoned, flagged, hard)}
    for name in corpora:
        out = training.corpus == name
        flagged, hard = training.verdict(*training.scores(training.learn(~out & ~only_judged, whole * 0.5)), levels)
        bad, good = out & training.poisoned, out & ~training.poisoned
        counts[name] = _counts(out, training.poisoned, flagged, hard)
        print(
            f"{name}: of {bad.sum()} poisoned {flagged[bad].sum()} flagged ({flagged[bad].mean():.1%}), "
            f"{hard[bad].sum()} hard ({hard[bad].mean():.1%}); "
            f"of {good.sum()} honest {flagged[good].sum()}, {hard[good].sum()}",
            flush=True,
        )
    known_bad, found_bad, hard_bad = (
        sum(row[key] for name, row in counts.items() if name not in JUDGED) for key in ("poisoned", "flagged", "hard")
    )
    print(f"all: of {known_bad} flagged {found_bad / known_bad:.1%}, hard {hard_bad / known_bad:.1%}")
    if wanted.json:
        wanted.json.write_text(json.dumps(counts), encoding="utf-8")
    if wanted.write:
        made = msgspec.json.encode(training.file(whole, groups, levels), order="sorted")
        FILE.write_bytes(msgspec.json.format(made, indent=0) + b"\n")


if __name__ == "__main__":
    main()

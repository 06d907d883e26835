"""The inspection against labelled corpora, other people's and our own; `bench/README.md` has them left out one by one."""

from bench import inspection

from callgate.inspection import InspectionContext, ToolDefinition, inspect, suspicious
from support.registry import requirement
from support.table import rows

ROWS = inspection.rows()
SHARED = [row for row in ROWS if row.corpus == "shared"]


def test_the_corpora_are_all_there():
    published = [row for row in SHARED if row.category == "published"]
    assert len(published) == 287
    assert sum(row.poisoned for row in SHARED) == 50
    assert len([row for row in ROWS if row.corpus == "own" and row.poisoned]) >= 60
    assert len([row for row in ROWS if row.corpus == "own" and not row.poisoned]) >= 60
    assert len({row.id for row in ROWS}) == len(ROWS)


@requirement("TP-034")
def test_poisoned_descriptions_are_flagged_and_honest_ones_seldom():
    found = inspection.score(SHARED)
    assert found["recall"] >= 0.85
    assert found["false_positives"] <= 0.02
    assert found["hard_false_positives"] <= 0.003


def test_published_tools_are_hardly_ever_flagged():
    found = inspection.score(row for row in SHARED if row.category == "published")
    assert found["false_positives"] <= 0.01
    assert found["benign_hard"] == 0


@rows("corpus", ["own", "second", "third"])
def test_our_own_texts_are_told_apart(corpus):
    found = inspection.score(row for row in ROWS if row.corpus == corpus)
    assert found["recall"] >= 0.85
    assert found["false_positives"] <= 0.03
    assert found["benign_hard"] == 0


@rows(
    ("corpus", "half", "recall", "false_positives", "hard"),
    [
        ("independent", "tuned", 0.85, 0.02, 0),
        ("independent", "kept", 0.8, 0.1, 0),
        ("fourth", "tuned", 0.85, 0.08, 0),
        ("fourth", "kept", 0.7, 0.16, 1),
    ],
)
def test_other_authors_texts_are_told_apart(corpus, half, recall, false_positives, hard):
    """No rule was tuned on the halves kept apart, so their bounds are what was measured and no target."""
    found = inspection.score(row for row in ROWS if row.corpus == corpus and row.half == half)
    assert found["recall"] >= recall
    assert found["false_positives"] <= false_positives
    assert found["benign_hard"] <= hard


@rows("pair", inspection.drifts(), ids=lambda pair: pair["id"])
def test_growth_after_approval_is_told(pair):
    around = InspectionContext(pair["server"], before=pair["before"])
    findings = inspect(ToolDefinition.of(pair["after"]), around)
    assert "size.growth" in {finding.rule for finding in findings}
    # Whether a changed tool may run is for its hash to say; the inspection tells the honest change from the others.
    assert suspicious(findings) == ("legitimate" not in pair["id"])

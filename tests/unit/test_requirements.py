import subprocess
import sys

import pytest

from support import registry
from support.registry import Excuses, Named, Requirement
from support.table import rows

KNOWN = {one: Requirement(one, "MUST", f"text of {one}", "how") for one in ("VA-001", "VA-002", "VA-003", "WB-001")}


def test_every_requirement_has_a_test_or_a_reason_and_every_name_is_known():
    known = registry.read_registry()
    assert registry.review(known, registry.read_tests(), registry.read_excuses(known)) == []


def test_no_entry_of_the_registry_is_missing():
    ids = list(registry.read_registry())
    counts = {"VA": 186, "TP": 84, "TA": 76, "WB": 94}
    assert ids == [f"{prefix}-{number:03}" for prefix, last in counts.items() for number in range(1, last + 1)]


def test_every_check_that_a_test_switches_off_has_a_reason():
    for one in registry.read_off():
        assert one.check in ("pinning", "trust"), one
        assert len(one.reason.split()) >= 4, one


@rows(
    ("text", "found"),
    [
        ("serving(x, off={'trust': 'because'})", [("trust", "because")]),
        (
            "WHY = 'because'\nserving(x, off={'trust': WHY, 'pinning': 'too'})",
            [("trust", "because"), ("pinning", "too")],
        ),
        ("OFF = {'trust': 'because'}\nserving(x, off=OFF)", [("trust", "because")]),
        ("OFF: Final = {'trust': 'because'}\nserving(x, off=OFF)", [("trust", "because")]),
        ("def f():\n    off = {'trust': 'because'}\n    serving(x, off=off)", [("trust", "because")]),
        ("serving(x, off={'trust': f'{y}'})", [("trust", "")]),
        ("def site(off): serving(x, off=off)", []),
    ],
)
def test_checks_that_are_off_are_found(tmp_path, text, found):
    (tmp_path / "test_planted.py").write_text(text)
    assert [(one.check, one.reason) for one in registry.read_off(tmp_path)] == found


def scan(tmp_path, text):
    (tmp_path / "test_planted.py").write_text(text)
    return registry.read_tests(tmp_path)


@rows(
    "text",
    [
        "@requirement('VA-001')\ndef test_x(): ...",
        "@pytest.mark.requirement('VA-001')\ndef test_x(): ...",
        "@registry.requirement('VA-001')\nasync def test_x(): ...",
        "pytestmark = [requirement('VA-001')]",
        "pytest.param(1, marks=requirement('VA-001'))",
        "class TestX:\n    @requirement('VA-001')\n    def test_x(self): ...",
    ],
)
def test_ids_are_found_wherever_a_test_names_them(tmp_path, text):
    assert list(scan(tmp_path, text).places) == ["VA-001"]


def test_a_place_is_a_file_and_a_line(tmp_path):
    named = scan(tmp_path, "\n@requirement('VA-001', 'VA-002')\ndef test_x(): ...\n")
    assert named.places == {"VA-001": ("test_planted.py:2",), "VA-002": ("test_planted.py:2",)}


def test_an_id_that_is_computed_is_a_problem(tmp_path):
    named = scan(tmp_path, "@requirement(f'VA-{n}')\ndef test_x(): ...")
    assert named.problems == ("test_planted.py:1: an id of requirement(...) is not written out",)
    assert registry.review({}, named, Excuses()) == list(named.problems)


def excuses(tmp_path, text):
    path = tmp_path / "not_yet.toml"
    path.write_text(text)
    return registry.read_excuses(KNOWN, path)


def test_reasons_are_for_ids_ranges_and_prefixes(tmp_path):
    found = excuses(
        tmp_path,
        """
        [[not_yet]]
        ids = ["VA-001..VA-002", "WB-*"]
        reason = "later"
        [[not_yet]]
        ids = ["VA-003"]
        reason = "hard"
        """,
    )
    assert found == Excuses({"VA-003": "hard"}, {"VA-001": "later", "VA-002": "later", "WB-001": "later"})


@rows("spec", ["VA-009", "VA-001..VA-009", "VA-001..WB-001", "VA-002..VA-001", "XX-*", "VA", "*", 5])
def test_a_reason_for_nothing_is_a_problem(tmp_path, spec):
    found = excuses(tmp_path, f"[[not_yet]]\nids = [{spec!r}]\nreason = 'later'")
    assert found.problems == (f"not_yet.toml: {spec} is no id, range or prefix of the registry",)


def test_an_empty_reason_is_a_problem(tmp_path):
    assert "has no reason" in excuses(tmp_path, "[[not_yet]]\nids = ['VA-001']\nreason = ' '").problems[0]


def test_an_id_with_neither_test_nor_reason_is_a_problem():
    (problem,) = registry.review(KNOWN, Named({"VA-001": ("a:1",)}), Excuses({"VA-002": "r"}, {"VA-003": "r"}))
    assert problem.startswith("WB-001 has neither a test nor a reason")


def test_a_test_naming_an_unknown_id_is_a_problem():
    (problem,) = registry.review({}, Named({"VA-999": ("a.py:1",)}), Excuses())
    assert problem == "a.py:1: VA-999 is not in the registry"


def test_a_single_reason_is_stale_once_there_is_a_test_but_a_range_gives_way():
    named = Named({"VA-001": ("a.py:1",)})
    known = {"VA-001": KNOWN["VA-001"]}
    assert registry.review(known, named, Excuses(ranges={"VA-001": "later"})) == []
    (problem,) = registry.review(known, named, Excuses(single={"VA-001": "later"}))
    assert problem.startswith("not_yet.toml: VA-001 has a test now (a.py:1)")


def test_an_id_that_is_there_twice_is_refused(tmp_path):
    path = tmp_path / "requirements.toml"
    path.write_text('[[requirement]]\nid = "VA-001"\nlevel = "MUST"\ntext = "t"\nverify = "v"\n' * 2)
    with pytest.raises(ValueError, match="VA-001"):
        registry.read_registry(path)


def test_naming_no_id_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        registry.requirement()


def test_the_coverage_counts_by_prefix():
    table = registry.coverage(KNOWN, Named({"VA-001": ("a:1",), "WB-001": ("a:1",)})).splitlines()
    assert table[1].split() == ["VA", "verified", "approval", "3", "1", "2", "33.3%"]
    assert table[2].split() == ["WB", "Web", "Bot", "Auth", "gate", "1", "1", "0", "100.0%"]
    assert table[3].split() == ["all", "4", "2", "2", "50.0%"]


def test_the_script_prints_the_table():
    done = subprocess.run(
        [sys.executable, str(registry.TESTS / "support" / "registry.py")], capture_output=True, text=True, check=True
    )
    assert ["all", "440"] in [line.split()[:2] for line in done.stdout.splitlines()]

"""One public class name means one thing in the whole project."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "callgate"


def used_twice(source):
    """Names of public classes that are defined more than once, with the files."""
    places = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path.relative_to(source).as_posix())
    return {name: files for name, files in places.items() if len(files) > 1}


def test_a_public_class_name_exists_once():
    found = used_twice(SOURCE)
    assert found == {}, "these class names are taken already: choose another one, or start it with an underscore"


def test_a_name_that_exists_twice_is_found(tmp_path):
    (tmp_path / "a.py").write_text("class Once: pass\nclass Twice: pass\nclass _Own: pass\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.py").write_text("def make():\n    class Twice: pass\nclass _Own: pass\n")
    assert used_twice(tmp_path) == {"Twice": ["a.py", "deep/b.py"]}

"""examples/library: the script prints what its page says, and its check fails closed like any other."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "library"


def test_the_script_prints_what_the_page_says():
    done = subprocess.run(
        [sys.executable, "-W", "error", str(FOLDER / "own_check.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert f"```text\n{done.stdout}```" in (FOLDER / "README.md").read_text()

"""examples/pinned_client: the walk prints what its page says."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.verify

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "pinned_client"


def test_the_walk_prints_what_the_page_says():
    argv = [sys.executable, "-W", "error", str(FOLDER / "walk_through.py")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert f"```text\n{done.stdout}```" in (FOLDER / "README.md").read_text()

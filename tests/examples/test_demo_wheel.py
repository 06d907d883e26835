"""examples/demo: a wheel carries what `callgate demo` runs, so the command needs no clone."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300


@pytest.mark.verify
def test_the_demo_runs_from_a_wheel_without_the_clone(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=SECONDS)
    (wheel,) = tmp_path.glob("*.whl")
    installed, state = tmp_path / "installed", tmp_path / "state"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    done = subprocess.run(
        [sys.executable, "-m", "callgate", "demo", "--auto", "--dir", str(state)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        check=False,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("Every step happened.\n")
    servers = tomllib.loads((state / "callgate.toml").read_text())["servers"]
    script = str(installed / "callgate_demo" / "__main__.py")
    assert [server["command"][1] for server in servers.values()] == [script] * 3

"""Packages of npm, and a node new enough for them, installed once at exact versions.

They go into the folder that CALLGATE_NODE_TOOLS names, or into .cache/conformance of the repository.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
NODE_VERSION = "22.23.3"
INSTALL_SECONDS = 300


class NodeError(Exception):
    """The packages could not be installed; says nothing about what they were to test."""


def tools_folder() -> Path:
    configured = os.environ.get("CALLGATE_NODE_TOOLS")
    return Path(configured) if configured else REPOSITORY / ".cache" / "conformance"


def install(label: str, packages: Sequence[str], folder: Path | None = None) -> Path:
    """The folder with these packages and node in its node_modules, fetched if this label is not there yet."""
    root = (folder or tools_folder()).absolute()
    target = root / f"{label}-node-{NODE_VERSION}"
    if not target.exists():
        root.mkdir(parents=True, exist_ok=True)
        # Built aside and renamed, so that an interrupted or a simultaneous installation leaves nothing half done.
        with tempfile.TemporaryDirectory(dir=root, prefix="installing-") as scratch:
            _npm_install(Path(scratch) / "new", packages)
            node_in(Path(scratch) / "new")
            with contextlib.suppress(OSError):
                (Path(scratch) / "new").rename(target)
    return target


def node_in(prefix: Path) -> Path:
    """The node that was installed there."""
    return present(prefix, Path("node") / "bin" / ("node.exe" if os.name == "nt" else "node"))


def present(prefix: Path, inside: Path) -> Path:
    """A file inside node_modules that has to be there."""
    wanted = prefix / "node_modules" / inside
    if not wanted.is_file():
        raise NodeError(f"npm installed no {wanted.name} at {wanted}; remove {prefix} and try again")
    return wanted


def _npm_install(prefix: Path, packages: Sequence[str]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NodeError("npm is not on PATH; it is needed once, to install what the tests run against")
    flags = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund"]
    prefix.mkdir()
    try:
        result = subprocess.run(
            [npm, "install", "--prefix", str(prefix), *flags, *packages, f"node@{NODE_VERSION}"],
            cwd=prefix,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NodeError(f"npm install did not finish in {INSTALL_SECONDS} s") from None
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines()
        raise NodeError(f"npm install failed: {lines[-1] if lines else 'no word why'}")

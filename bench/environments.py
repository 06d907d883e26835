"""Virtual environments of the subjects that must not share ours, made once and kept under `.cache/bench/`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from processes import CACHE, Unavailable

SETUP_SECONDS = 300
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Environment:
    name: str
    requirements: tuple[str, ...]
    overrides: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return CACHE / self.name

    def program(self, name: str) -> Path:
        if os.name == "nt":
            return self.folder / "Scripts" / f"{name}.exe"
        return self.folder / "bin" / name

    @property
    def wanted(self) -> str:
        return "\n".join((sys.version, *self.requirements, *self.overrides))


FASTMCP = Environment(
    name="fastmcp",
    requirements=("fastmcp==4.1.4", "uvloop==0.23.0"),
    # fastmcp 4.1.4 asks for a certifi newer than any on the index; nothing here speaks TLS, so an older one is as good.
    overrides=("certifi==2026.10.18",),
)
# Only to record calls with: what it asks for is not installed beside ours.
AGENTDOJO = Environment(name="agentdojo", requirements=("agentdojo==0.1.35",))
# Only to learn the weights of the inspection's scorer with.
LEARNING = Environment(name="learning", requirements=("scikit-learn==1.9.1", "msgspec==0.22.0"))
# Only the rules of the scanner: what else it asks for is not needed to match them.
YARA = Environment(name="yara", requirements=("--no-deps", "cisco-ai-mcp-scanner==4.8.7", "yara-python==4.5.4"))
CONTEXTFORGE = Environment(name="contextforge", requirements=("mcp-contextforge-gateway==1.0.7.post20260921",))


# What failed once in this run is not tried again: set-up is bounded as a whole.
_failures: dict[str, str] = {}


def ensure(environment: Environment, say: Say) -> None:
    """Makes the environment unless a finished one for the same requirements is there."""
    if reason := _failures.get(environment.name):
        raise Unavailable(reason)
    stamp = environment.folder / "bench-stamp.txt"
    if stamp.is_file() and stamp.read_text() == environment.wanted:
        return
    try:
        _make(environment, stamp, say)
    except Unavailable as why:
        _failures[environment.name] = str(why)
        raise


def _make(environment: Environment, stamp: Path, say: Say) -> None:
    say(f"setting up {environment.name} (once; at most {SETUP_SECONDS} s)")
    shutil.rmtree(environment.folder, ignore_errors=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    uv = _uv(say)
    _run([uv, "venv", "--quiet", "--python", sys.executable, str(environment.folder)])
    command = [uv, "pip", "install", "--quiet", "--python", str(environment.program("python"))]
    if environment.overrides:
        overrides = environment.folder / "overrides.txt"
        overrides.write_text("\n".join(environment.overrides) + "\n")
        command += ["--override", str(overrides)]
    _run([*command, *environment.requirements])
    stamp.write_text(environment.wanted)


def _uv(say: Say) -> str:
    """uv, which alone knows override files: from the PATH, or installed beside the environments."""
    if found := shutil.which("uv"):
        return found
    own = Environment(name="uv", requirements=("uv",))
    if not own.program("uv").is_file():
        say("setting up uv")
        _run([sys.executable, "-m", "venv", str(own.folder)])
        _run([str(own.program("python")), "-m", "pip", "install", "--quiet", *own.requirements])
    return str(own.program("uv"))


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=SETUP_SECONDS)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"set-up took more than {SETUP_SECONDS} s") from None
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.strip()]
        raise Unavailable(f"does not install: {' '.join(lines)[:200]}") from None
